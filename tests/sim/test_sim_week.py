"""The week of the examples: what its tenants do, and the report of its first day."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from worlds import simulate

EXAMPLE = Path(__file__).parents[2] / "examples" / "simulate" / "week.py"
HOUR, DAY = 3600, 24 * 3600


@pytest.fixture(scope="module")
def week() -> ModuleType:
    spec = importlib.util.spec_from_file_location("week_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrivals(items: list[dict[str, Any]], tenant: str) -> list[int]:
    """Seconds since Monday at midnight."""
    found = [each["metadata"] for each in items if each["kind"] == "Job" and each["metadata"]["namespace"] == tenant]
    return [int(each["annotations"]["sim.usher.dev/arrives"].removesuffix("s")) for each in found]


def asked(items: list[dict[str, Any]]) -> dict[str, float]:
    """CPU seconds of each tenant."""
    total: dict[str, float] = {}
    for each in items:
        if each["kind"] == "Job":
            requests = each["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
            runs = int(each["metadata"]["annotations"]["sim.usher.dev/runs-for"].removesuffix("s"))
            tenant = each["metadata"]["namespace"]
            total[tenant] = total.get(tenant, 0) + float(requests["cpu"]) * each["spec"]["parallelism"] * runs
    return total


def test_the_same_seed_is_the_same_week(week: ModuleType) -> None:
    assert week.manifests(3) == week.manifests(3)
    assert week.manifests(3) != week.manifests(4)


def test_tenants_come_and_go(week: ModuleType) -> None:
    items = week.manifests(1)

    research = arrivals(items, "research")
    assert min(research) >= 9 * HOUR
    assert not [at for at in research if 2 * DAY <= at < 4 * DAY + 9 * HOUR], "away"
    assert sum(at >= 4 * DAY + 9 * HOUR for at in research) > 100, "and back"
    assert all(at % DAY // HOUR == 1 for at in arrivals(items, "nightly"))
    weekend = [at for at in arrivals(items, "analytics") if at >= 5 * DAY]
    assert len(weekend) < len(arrivals(items, "analytics")) / 5, "office hours"
    assert max(max(arrivals(items, tenant)) for tenant in week.TENANTS) < 7 * DAY


def test_in_pieces_it_is_the_same_work(week: ModuleType) -> None:
    whole, small = week.manifests(1), week.manifests(1, small=True)

    assert asked(small) == pytest.approx(asked(whole))
    assert len(small) > 2 * len(whole)
    assert {each["spec"]["parallelism"] for each in small if each["kind"] == "Job"} == {1}


@pytest.fixture(scope="module")
def first_day(week: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """JSON and page of Monday, under drf and under none."""
    folder = tmp_path_factory.mktemp("week")
    path, page = folder / "week.json", folder / "week.html"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": week.manifests(1)}))
    done = simulate(path, "--until", "1d", "--share", "drf,none", "-o", "json", "--html", page)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout), page.read_text()


def test_drf_is_nearer_to_exact_drf_than_first_come_first_served(first_day: tuple[dict[str, Any], str]) -> None:
    drf, none = (each["summary"] for each in first_day[0]["runs"])

    assert 1 / 7 <= none["jain"] <= drf["jain"] <= 1
    assert drf["drf_gap"] < 0.06 < none["drf_gap"]
    assert drf["evictions_per_hour"] == round(drf["evictions"] / 24, 4)
    assert none["evictions_per_hour"] == 0


def test_exact_shares_are_never_more_than_there_is(first_day: tuple[dict[str, Any], str]) -> None:
    """Three resources: if everybody's largest share were of another one, they would add up to three at most."""
    for run in first_day[0]["runs"]:
        columns = [each["exact"] for each in run["shares"]["tenants"]]
        assert all(sum(share or 0 for share in moment) <= 3 for moment in zip(*columns, strict=True))
        assert len(run["shares"]["at_s"]) == len(columns[0]) > 200


def test_the_page_draws_every_tenant_beside_exact_drf(first_day: tuple[dict[str, Any], str]) -> None:
    run, page = first_day

    names = [each["name"] for each in run["runs"][0]["shares"]["tenants"]]
    assert set(names) == {"analytics", "genomics", "vision", "support", "nightly", "research", "render"}
    for name in names:
        assert page.count(f'aria-label="dominant share of {name} beside exact DRF"') == 2, "under drf and under none"
    assert page.count('aria-label="Jain&#x27;s index over time"') == 2
    assert page.count('aria-label="evictions per hour over time"') == 1, "none evicts nobody"
    assert len(page) < 2_000_000
