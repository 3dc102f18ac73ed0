"""The metrics, as a scraper reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from served import watched

from usher.runtime.numbers import WAIT_SECONDS, Numbers
from usher.server.metrics import Collected, UsherCollector, Watched, gatherer

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def samples(families: Iterable[Metric]) -> dict[str, float]:
    """Every sample by its name and labels, as text gives them."""
    text = generate_latest(Collected(list(families))).decode()  # type: ignore[arg-type]
    return {
        f"{each.name}{{{','.join(f'{k}={v}' for k, v in sorted(each.labels.items()))}}}": each.value
        for family in parse(text)
        for each in family.samples
    }


def ours(given: Watched) -> list[Metric]:
    return list(UsherCollector(given).collect())


WANT = {
    "usher_info{share=drf,version=1.2.3}": 1,
    "usher_quota_min{quota=red,resource=cpu}": 4,
    "usher_quota_max{quota=red,resource=cpu}": 5,
    "usher_quota_max{quota=root,resource=cpu}": 9,
    "usher_quota_max{quota=root,resource=memory}": 2**30,
    "usher_quota_deserved{quota=red,resource=cpu}": 5,
    "usher_quota_used{quota=red,resource=cpu}": 1.5,
    "usher_quota_used{quota=root,resource=cpu}": 1.5,
    "usher_quota_demand{quota=red,resource=cpu}": 5,
    "usher_quota_weight{quota=red}": 3,
    "usher_quota_active{quota=red}": 1,
    "usher_quota_active{quota=lost}": 0,
    "usher_queue_waiting_units{queue=team/jobs}": 1,
    "usher_queue_holding_units{queue=team/jobs}": 1,
    "usher_queue_deserved{queue=team/jobs,resource=cpu}": 5,
    "usher_queue_used{queue=team/jobs,resource=cpu}": 1.5,
    "usher_admissions_total{queue=team/jobs}": 2,
    "usher_evictions_total{cause=Reclaimed,queue=team/jobs}": 1,
    "usher_finished_total{phase=Succeed,queue=team/jobs}": 1,
    "usher_commands_total{command=Admit}": 2,
    "usher_admission_wait_seconds_bucket{le=1.0,queue=team/jobs}": 0,
    "usher_admission_wait_seconds_bucket{le=5.0,queue=team/jobs}": 1,
    "usher_admission_wait_seconds_bucket{le=36000.0,queue=team/jobs}": 1,
    "usher_admission_wait_seconds_bucket{le=+Inf,queue=team/jobs}": 2,
    "usher_admission_wait_seconds_count{queue=team/jobs}": 2,
    "usher_admission_wait_seconds_sum{queue=team/jobs}": 50_003,
    "usher_start_wait_seconds_sum{queue=team/jobs}": 0.5,
    "usher_decision_duration_seconds_count{}": 1,
    "usher_decision_events_sum{}": 12,
    "rest_client_requests_total{code=200,method=PATCH,resource=queueunits/status}": 1,
    "rest_client_requests_total{code=<error>,method=PATCH,resource=queueunits/status}": 1,
    "rest_client_request_duration_seconds_count{verb=PATCH}": 2,
    "usher_reviews_total{answer=refused,question=validate,resource=jobs}": 1,
    "usher_review_duration_seconds_sum{question=validate}": 0.25,
    "usher_writes_waiting{urgency=DECISION}": 4,
    "usher_writes_in_flight{}": 3,
    "usher_events_dropped_total{}": 2,
    "usher_loop_lag_seconds_count{}": 1,
    "usher_watch_age_seconds{resource=jobs.batch}": 1.5,
    "leader_election_master_status{name=usher-manager}": 1,
    "usher_engine_problems{}": 1,
}


@pytest.mark.parametrize(("name", "want"), WANT.items(), ids=WANT)
def test_a_scrape_shows_what_is_counted_and_how_things_stand(name: str, want: float) -> None:
    assert samples(ours(watched())).get(name) == want


def test_the_table_above_has_every_metric() -> None:
    shown = {re.sub(r"_(bucket|count|sum)?\{.*|\{.*", "", name) for name in WANT}
    names = {re.sub(r"_(bucket|count|sum)?\{.*|\{.*", "", name) for name in samples(ours(watched()))}

    assert names <= shown


def test_a_scrape_reads_what_is_true_at_that_moment() -> None:
    numbers = Numbers()
    gather = gatherer(watched(numbers))
    assert "usher_admissions_total{queue=team/jobs}" not in samples(gather())

    numbers.admitted("team/jobs", 1)
    assert samples(gather())["usher_admissions_total{queue=team/jobs}"] == 1


def test_nothing_counted_and_no_engine_is_a_good_scrape() -> None:
    idle = Watched(numbers=Numbers(), quotas=tuple, queues=tuple, leading=lambda: False, lease="usher-manager")

    found = samples(ours(idle))
    assert found["leader_election_master_status{name=usher-manager}"] == 0
    assert found["usher_decision_duration_seconds_count{}"] == 0


def test_metrics_follow_the_conventions_in_both_formats() -> None:
    families = ours(watched())
    text = generate_openmetrics(Collected(families)).decode()  # type: ignore[no-untyped-call]

    parsed = {family.name: family for family in parse_openmetrics(text)}  # type: ignore[no-untyped-call]
    assert set(parsed) == {family.name for family in families}
    for family in parsed.values():
        assert family.documentation
        assert re.fullmatch(r"(usher|rest_client|leader_election)(_[a-z]+)*", family.name)
        assert family.type in ("gauge", "counter", "histogram", "info")
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket"))
        labels = {label for sample in family.samples for label in sample.labels}
        assert not labels & {"unit", "job", "pod", "namespace", "name"} or family.name.startswith("leader_election")


def test_process_and_python_are_there_under_their_usual_names() -> None:
    names = {family.name for family in gatherer(watched())()}

    assert {"process_resident_memory_bytes", "process_cpu_seconds", "python_info", "python_gc_collections"} <= names


def test_waits_reach_from_a_second_to_ten_hours() -> None:
    assert (WAIT_SECONDS[0], WAIT_SECONDS[-1]) == (1, 36_000)
    assert list(WAIT_SECONDS) == sorted(set(WAIT_SECONDS))


def test_the_page_has_every_metric_with_its_type_and_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)(?:\{(.*?)\})?` \| (\w+) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    want = []
    for family in ours(watched()):
        name = f"{family.name}{'_total' if family.type == 'counter' else '_info' if family.type == 'info' else ''}"
        labels = ", ".join(family._labelnames) if family.type != "info" else ""  # type: ignore[attr-defined]
        want.append((name, labels, family.type, family.documentation))

    assert rows == want
