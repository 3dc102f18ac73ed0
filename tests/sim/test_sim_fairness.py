"""How fairly a run shared, on runs that can be done by hand: shares, exact shares, Jain's index, evictions per hour."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import job, node, queue, quota, report, simulate, write

from usher.sim.fairness import jain


def tenants(*names: str, **weights: int) -> list[dict[str, Any]]:
    """A queue and a quota each."""
    return [
        made for name in names for made in (queue(namespace=name, quota=name), quota(name, weight=weights.get(name, 1)))
    ]


def jobs(tenant: str, count: int, **more: Any) -> list[dict[str, Any]]:
    return [job(f"j{number}", namespace=tenant, **more) for number in range(count)]


def shares(run: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {each["name"]: each["dominant_share"] for each in run["tenants"]}


def test_first_come_first_served_is_measured_against_exact_shares(tmp_path: Path) -> None:
    """For the first minute a has all 10 cpus and b waits; for the second b is alone and has them."""
    path = write(tmp_path, node(cpu="10"), *tenants("a", "b"), *jobs("a", 10), *jobs("b", 10))

    run = report(path, "--share", "none")

    assert shares(run) == {
        "a": {"mean": 1.0, "exact": 0.5, "below": 0.0, "above": 0.5, "asking_s": 60},
        "b": {"mean": 0.5, "exact": 0.75, "below": 0.25, "above": 0.0, "asking_s": 120},
    }
    assert (run["summary"]["jain"], run["summary"]["jain_exact"]) == (0.5, 1.0)
    assert run["summary"]["drf_gap"] == 0.3333, "half of the cluster in 60 of 60 seconds of a, and in 60 of 120 of b"
    assert run["shares"] == {
        "at_s": [0, 60, 120],
        "jain": [0.5, None, None],
        "jain_exact": [1.0, None, None],
        "tenants": [
            {"name": "a", "share": [1.0, None, None], "exact": [0.5, None, None]},
            {"name": "b", "share": [0.0, 1.0, None], "exact": [0.5, 1.0, None]},
        ],
    }


def test_drf_shares_exactly_where_jobs_are_small(tmp_path: Path) -> None:
    path = write(tmp_path, node(cpu="10"), *tenants("a", "b"), *jobs("a", 10), *jobs("b", 10))

    run = report(path)

    assert (run["summary"]["jain"], run["summary"]["jain_exact"], run["summary"]["drf_gap"]) == (1.0, 1.0, 0.0)
    assert {name: each["mean"] for name, each in shares(run).items()} == {"a": 0.5, "b": 0.5}


def test_shares_are_divided_by_weight_before_they_are_compared(tmp_path: Path) -> None:
    path = write(tmp_path, node(cpu="8"), *tenants("a", "b", a=3), *jobs("a", 12), *jobs("b", 4))

    run = report(path)

    assert {name: each["mean"] for name, each in shares(run).items()} == {"a": 0.75, "b": 0.25}
    assert run["summary"]["jain"] == 1.0


def test_the_dominant_resource_is_what_counts(tmp_path: Path) -> None:
    """3 of 9 cpus and 12 of 18 GiB are two thirds, and so are 6 cpus and 2 GiB."""
    example = Path(__file__).parents[2] / "examples" / "simulate" / "two-tenants.yaml"

    run = report(example, "--until", "5m")

    last = {each["name"]: (each["share"][-2], each["exact"][-2]) for each in run["shares"]["tenants"]}
    assert last == {"team-a/tasks": (0.6667, 0.6667), "team-b/tasks": (0.6667, 0.6667)}


def test_a_job_that_cannot_be_divided_leaves_a_gap(tmp_path: Path) -> None:
    """One job of 6 out of 10 cpus each: exact DRF would give both 5."""
    path = write(tmp_path, node(cpu="10"), *tenants("a", "b"), *jobs("a", 1, cpu="6"), *jobs("b", 1, cpu="6"))

    run = report(path, "--until", "30s")

    assert run["summary"]["jain"] == 0.5
    assert run["summary"]["jain_exact"] == 1.0
    assert {name: (each["mean"], each["exact"]) for name, each in shares(run).items()} == {
        "a": (0.6, 0.5),
        "b": (0.0, 0.5),
    }


def test_below_a_parent_weights_are_parts_of_the_parents_part(tmp_path: Path) -> None:
    """half and its sibling have 4 cpus each; half's children share them 3 to 1: all alike by weight."""
    path = write(
        tmp_path,
        node(cpu="8"),
        quota("half"),
        quota("x", parent="half", weight=3),
        quota("y", parent="half"),
        *(queue(namespace=name, quota=name) for name in "xy"),
        *tenants("z"),
        *(each for name in "xyz" for each in jobs(name, 8)),
    )

    run = report(path, "--until", "30s")

    assert {name: (each["mean"], each["exact"]) for name, each in shares(run).items()} == {
        "x": (0.375, 0.375),
        "y": (0.125, 0.125),
        "z": (0.5, 0.5),
    }
    assert run["summary"]["jain"] == 1.0


def test_evictions_are_counted_per_hour(tmp_path: Path) -> None:
    path = write(
        tmp_path, node(cpu="2"), *tenants("a", "b"), *jobs("a", 2, runs="20m"), *jobs("b", 1, runs="10m", at="5m")
    )

    run = report(path)

    assert (run["summary"]["evictions"], run["summary"]["end_s"]) == (1, 35 * 60)
    assert run["summary"]["evictions_per_hour"] == round(60 / 35, 4)


def test_who_is_alone_is_compared_with_nobody(tmp_path: Path) -> None:
    run = report(write(tmp_path, node(cpu="2"), *tenants("a"), *jobs("a", 1)))

    assert run["summary"]["jain"] is None
    assert run["summary"]["drf_gap"] == 0.0
    assert shares(run)["a"]["mean"] == 0.5


def test_a_unit_that_can_never_run_asks_for_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, node(cpu="2"), *tenants("a", "b"), *jobs("a", 1), *jobs("b", 1, cpu="3"))

    run = report(path)

    assert shares(run)["b"] is None
    assert run["summary"]["jain"] is None


@pytest.mark.parametrize(("minutes", "seconds"), [(900, 30), (900, 10), (900, 50), (2100, 10)])
def test_a_long_run_is_measured_at_fewer_moments_that_say_the_same(minutes: int, seconds: int, tmp_path: Path) -> None:
    """a has one cpu of four all the time; b has two, and one more for some seconds of every minute."""
    short = [job(f"m{i}", namespace="b", at=f"{i}m5s", runs=f"{seconds}s") for i in range(minutes)]
    always = [job("j", namespace="a", runs=f"{minutes}m"), job("j", cpu="2", namespace="b", runs=f"{minutes}m")]

    run = report(write(tmp_path, node(cpu="4"), *tenants("a", "b"), *always, *short))

    assert run["summary"]["end_s"] == minutes * 60
    assert 400 < len(run["shares"]["at_s"]) <= 1000, "of 1,802 instants or more"
    assert shares(run)["a"]["mean"] == 0.25
    assert shares(run)["b"]["mean"] == pytest.approx(0.5 + 0.25 * seconds / 60, abs=0.015)
    assert run["summary"]["drf_gap"] == 0.0


def test_a_long_wait_at_the_end_counts_in_full(tmp_path: Path) -> None:
    """For 20 minutes b has a cpu for half of the time, then a is alone for nine times as long."""
    short = [job(f"m{i}", namespace="b", at=f"{i}s", runs="500ms") for i in range(1200)]

    run = report(write(tmp_path, node(cpu="4"), *tenants("a", "b"), *jobs("a", 1, runs="200m"), *short))

    assert run["summary"]["end_s"] == 200 * 60
    assert shares(run)["a"]["asking_s"] == 200 * 60
    assert shares(run)["b"]["asking_s"] == pytest.approx(600, abs=60)


def test_too_many_quotas_are_not_measured(tmp_path: Path) -> None:
    many = [f"t{i}" for i in range(200)]
    path = write(tmp_path, node(cpu="4"), *tenants(*many), *jobs("t1", 2), *jobs("t2", 2))

    run, text = report(path), simulate(path).stdout

    assert (run["summary"]["jain"], run["summary"]["jain_exact"], run["summary"]["drf_gap"]) == (None, None, None)
    assert run["shares"] == {"at_s": [], "jain": [], "jain_exact": [], "tenants": []}
    assert {each["dominant_share"] for each in run["tenants"]} == {None}
    assert re.search(r"shares +-\n", text)


@given(values=st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_jains_index_is_between_one_nth_and_one(values: list[float]) -> None:
    assert 1 / len(values) - 1e-9 <= jain(values) <= 1 + 1e-9


@given(value=st.floats(1e-6, 1e6), count=st.integers(1, 50))
def test_jains_index_is_one_for_all_alike_and_one_nth_for_one_that_has_all(value: float, count: int) -> None:
    assert jain([value] * count) == pytest.approx(1)
    assert jain([value, *[0.0] * (count - 1)]) == pytest.approx(1 / count)


def test_text_and_page_show_shares_beside_exact_drf(tmp_path: Path) -> None:
    late = jobs("b", 2, runs="10m", at="5m")
    path = write(tmp_path, node(cpu="2"), *tenants("a", "b"), *jobs("a", 3, runs="20m"), *late)
    page = tmp_path / "page.html"

    text = simulate(path, "--html", page).stdout
    compared = simulate(path, "--share", "drf,none").stdout

    assert "of the cluster off exact DRF" in text
    assert "per hour" in text
    assert re.search(r"SERVED +SHARE +EXACT +USED", text)
    for want in ("Jain of shares", "Jain of exact DRF", "evictions per hour", "DOMINANT SHARE / EXACT DRF"):
        assert want in compared
    drawn = page.read_text()
    for label in ("dominant share of a beside exact DRF", "dominant share of b beside exact DRF"):
        assert f'aria-label="{label}"' in drawn
    assert 'aria-label="Jain&#x27;s index over time"' in drawn
    assert 'aria-label="evictions per hour over time"' in drawn
    assert "1 from 5m to 6m" in drawn, "the one eviction is in the bar of its minute"
