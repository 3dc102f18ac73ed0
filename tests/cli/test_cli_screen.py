"""The picture of `usher top`: what fits, and what is said of what does not."""

from __future__ import annotations

from typing import Any

import pytest

from usher.cli.screen import Shown, bar, frame

NOW_MS = 1_700_000_000_000


def quota(used: dict[str, str], deserved: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": "q"}, "spec": {}, "status": {"used": used, "deserved": deserved}}


BARS = {
    "nothing used": (quota({}, {"cpu": "4"}), "[............]"),
    "a half": (quota({"cpu": "2"}, {"cpu": "4"}), "[||||||......]"),
    "a little is not nothing": (quota({"cpu": "1"}, {"cpu": "100"}), "[|...........]"),
    "all of it": (quota({"cpu": "4"}, {"cpu": "4"}), "[||||||||||||]"),
    "more than it deserves": (quota({"cpu": "5"}, {"cpu": "4"}), "[|||||||||||+]"),
    "nothing deserved": (quota({"cpu": "5"}, {}), "[|||||||||||+]"),
    "the resource of which most is used": (
        quota({"cpu": "1", "memory": "3Gi"}, {"cpu": "4", "memory": "4Gi"}),
        "[|||||||||...]",
    ),
}


@pytest.mark.parametrize("given", BARS)
def test_a_bar_shows_how_much_of_what_is_deserved_is_used(given: str) -> None:
    found, want = BARS[given]

    assert bar(found) == want


def unit(name: str, phase: str = "Enqueued") -> dict[str, Any]:
    held = "True" if phase in ("Running", "Dequeued") else "False"
    return {
        "metadata": {"name": f"job-{name}", "namespace": "ns", "creationTimestamp": "2023-11-14T22:13:10Z"},
        "spec": {"queue": "main", "consumerRef": {"name": name, "kind": "Job"}},
        "status": {"phase": phase, "conditions": [{"type": "QuotaReserved", "status": held}]},
    }


def queue(waiting: list[str]) -> dict[str, Any]:
    items = [
        {"name": f"job-{name}", "namespace": "ns", "position": place} for place, name in enumerate(waiting, start=1)
    ]
    return {"metadata": {"name": "main", "namespace": "ns"}, "status": {"queueItemDetails": {"active": items}}}


def test_those_that_run_come_first_then_those_that_wait_in_their_order() -> None:
    units = [unit("c"), unit("b"), unit("a", "Running"), unit("d", "Succeed"), unit("e", "Dequeued")]

    lines = frame(Shown(NOW_MS, (), [queue(["b", "c"])], units))

    assert lines[0] == "1 running, 1 starting, 2 waiting, 1 ended"
    jobs = lines[lines.index(next(line for line in lines if line.startswith("JOB "))) + 1 :]
    assert [line.split()[0] for line in jobs] == ["ns/a", "ns/e", "ns/b", "ns/c"]


@pytest.mark.parametrize("height", [8, 12, 24, 60])
@pytest.mark.parametrize("width", [20, 80, 200])
def test_the_picture_never_exceeds_the_terminal(height: int, width: int) -> None:
    shown = Shown(
        NOW_MS,
        [quota({"cpu": "1"}, {"cpu": "1"}) | {"metadata": {"name": f"q{i}"}} for i in range(30)],
        [queue([]) | {"metadata": {"name": f"q{i}", "namespace": "ns"}} for i in range(30)],
        [unit(f"j{i}") for i in range(30)],
    )

    lines = frame(shown, width, height)

    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width


def test_what_does_not_fit_is_counted_and_a_short_table_is_whole() -> None:
    shown = Shown(NOW_MS, [quota({}, {})], [queue([])], [unit(f"j{i:02}") for i in range(30)])

    lines = frame(shown, 200, 20)

    assert sum(line.startswith("q ") for line in lines) == 1
    assert sum(line.startswith("ns/main ") for line in lines) == 1
    jobs = sum(line.startswith("ns/j") for line in lines)
    assert lines[-1] == f"… and {30 - jobs} more"
    assert len(lines) == 20


def test_what_one_may_not_list_and_what_there_is_not_are_told_apart() -> None:
    lines = frame(Shown(NOW_MS, None, (), ()))

    assert "QUOTAS: you may not list them" in lines
    assert "QUEUES: none" in lines


def test_problems_of_the_connection_are_on_the_screen() -> None:
    assert "queues: no answer" in frame(Shown(NOW_MS, problems=["queues: no answer"]), 80, 24)
