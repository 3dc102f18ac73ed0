"""A Queue's own request in a run: allocated, taken back, and gone while something is queued there."""

from pathlib import Path
from typing import Any

from worlds import job, node, queue, report, simulate, write


def queues(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["namespace"]: each for each in run["queues"]}


def test_a_queue_without_jobs_gets_its_own_request(tmp_path: Path) -> None:
    path = write(tmp_path, node(cpu="10"), queue(namespace="a", request={"cpu": "4"}))

    run = report(path, "--until", "1m")

    found = queues(run)["a"]
    assert (found["allocated"], found["deserved"]) == ({"cpu": "4"}, {"cpu": "4"})
    assert (found["used"], found["waiting"], found["holding"]) == ({}, 0, 0), "it has no units"
    assert run["summary"]["units"] == 0
    assert run["summary"]["utilisation"] == {"cpu": 0.4}


def test_requests_are_shared_like_everything_else(tmp_path: Path) -> None:
    """The three Queues of seed 002: one weighs twice as much, and none gets all that it asks for."""
    asking = [
        queue(namespace=name, weight=weight, request={"cpu": "8"}) for name, weight in (("a", 2), ("b", 1), ("c", 1))
    ]

    run = report(write(tmp_path, node(cpu="8"), *asking), "--until", "1m")

    allocated = {name: each["allocated"] for name, each in queues(run).items()}
    assert allocated == {"a": {"cpu": "4"}, "b": {"cpu": "2"}, "c": {"cpu": "2"}}
    assert (run["summary"]["jain"], run["summary"]["drf_gap"]) == (1.0, 0.0)


def test_it_gives_back_what_another_comes_for(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        node(cpu="8"),
        queue(namespace="a", request={"cpu": "8"}),
        queue(namespace="b"),
        *(job(f"j{number}", namespace="b", at="10s", runs="1m") for number in range(6)),
    )

    before, meanwhile, after = (queues(report(path, "--until", until)) for until in ("9s", "11s", "3m"))

    assert (before["a"]["allocated"], before["b"]["allocated"]) == ({"cpu": "8"}, {})
    assert (meanwhile["a"]["allocated"], meanwhile["b"]["allocated"]) == ({"cpu": "4"}, {"cpu": "4"})
    assert (after["a"]["allocated"], after["b"]["allocated"]) == ({"cpu": "8"}, {})


def test_it_goes_while_something_is_queued_there_and_comes_back(tmp_path: Path) -> None:
    path = write(tmp_path, node(cpu="8"), queue(request={"cpu": "8"}), job("j", cpu="2", at="10s", runs="1m"))

    meanwhile, after = (report(path, "--until", until) for until in ("30s", "100s"))

    found = queues(meanwhile)["default"]
    assert (found["allocated"], found["used"], found["holding"]) == ({"cpu": "2"}, {"cpu": "2"}, 1)
    assert meanwhile["units"][0]["admitted_s"] == 10
    assert queues(after)["default"]["allocated"] == {"cpu": "8"}
    assert after["summary"]["utilisation"] == {"cpu": (8 * 40 + 2 * 60) / (8 * 100)}


def test_a_changed_request_is_allocated_anew(tmp_path: Path) -> None:
    path = write(
        tmp_path, node(cpu="8"), queue(request={"cpu": "8"}), queue(at="10s", request={"cpu": "3"}), queue(at="20s")
    )

    at_9, at_11, at_21 = (queues(report(path, "--until", until))["default"] for until in ("9s", "11s", "21s"))

    assert [each["allocated"] for each in (at_9, at_11, at_21)] == [{"cpu": "8"}, {"cpu": "3"}, {}]


def test_text_shows_what_is_allocated(tmp_path: Path) -> None:
    path = write(tmp_path, node(cpu="10"), queue(namespace="a", request={"cpu": "4"}))

    text = simulate(path, "--until", "1m").stdout

    assert "ALLOCATED" in text
    assert "a/q    Priority        0        0  cpu 4" in text
