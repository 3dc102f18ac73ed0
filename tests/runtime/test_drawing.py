"""Which of the jobs that draw on a QueueJob may run: a pure function of what it has and what they ask for."""

from __future__ import annotations

import pytest
from made import job, pod
from msgspec import structs
from msgspec.structs import replace as changed

from usher.api.names import QUEUE_JOB
from usher.runtime.drawing import Drawer, Room, plan
from usher.runtime.marks import ADMISSION_ANNOTATION

LEAVES = {"startTime": None}
HELD = {"conditions": [{"type": "Suspended", "status": "True"}]}
RUNS = {"startTime": "t", "active": 1}


def drawer(
    name: str, cpu: str, born: int, *, on: str = "", runs: bool = False, pods: int = 0, seen: bool = True
) -> Drawer:
    """A job of one pod; `on`: the uid of the QueueJob that it was let start on; `seen`: its controller knows."""
    facts = job(
        RUNS if runs else HELD if seen else {},
        labels={QUEUE_JOB: "mine"},
        annotations={ADMISSION_ANNOTATION: on} if on else {},
        queue="",
        cpu=cpu,
        suspend=not runs,
        parallelism=1,
        completions=1,
    )
    found = changed(facts.found, metadata=changed(facts.found.metadata, name=name))
    alive = {f"{name}-{i}": pod(f"{name}-{i}") for i in range(pods)}
    return Drawer(structs.replace(facts, found=found, created_ms=born), alive)


def room(keeps: int, starts: int | None = None) -> Room:
    return Room("uid", {"cpu": keeps * 1000}, {"cpu": (keeps if starts is None else starts) * 1000})


OLD = drawer("old", "2", 1, on="uid", runs=True)
YOUNG = drawer("young", "2", 2, on="uid", runs=True)
WAITING = drawer("waiting", "2", 3)
SMALL = drawer("small", "1", 4)
LEFT = drawer("left", "0", 5)
LEFT.job = structs.replace(LEFT.job, progress=structs.replace(LEFT.job.progress, leaves=LEAVES))
"""It asks for nothing, so nothing else keeps it from starting."""

PLANS: dict[str, tuple[Room | None, list[Drawer], list[str], list[str]]] = {
    "what fits starts, the oldest first": (room(3), [SMALL, WAITING], [], ["waiting", "small"]),
    "what does not fit is passed over": (room(3), [OLD, WAITING, SMALL], [], ["small"]),
    "what runs goes on while it fits": (room(4), [OLD, YOUNG, SMALL], [], []),
    "the youngest is held when it does not": (room(3), [OLD, YOUNG], ["young"], []),
    "all are held where nothing is left": (room(0), [OLD, YOUNG], ["old", "young"], []),
    "nothing starts in the place of one that still stops": (
        room(2),
        [drawer("stops", "2", 1, pods=1), WAITING, SMALL],
        [],
        ["small"],
    ),
    "nor of one whose controller may not know yet": (
        room(2),
        [drawer("stops", "2", 1, seen=False), WAITING],
        [],
        [],
    ),
    "nor one itself before what its controller left is cleared": (room(2), [LEFT], [], []),
    "nothing starts on what must be given back": (room(4, starts=2), [OLD, WAITING], [], []),
    "which goes on until then": (room(4, starts=2), [OLD, YOUNG], [], []),
    "one that nobody let start is held": (room(9), [drawer("bold", "1", 0, runs=True), OLD], ["bold"], []),
    "it displaces nobody": (room(2), [drawer("bold", "2", 0, runs=True), OLD], ["bold"], []),
    "one that was started on another of that name is held": (
        room(9),
        [drawer("before", "1", 0, on="gone", runs=True)],
        ["before"],
        [],
    ),
    "one that its owner holds is left alone": (room(9), [drawer("paused", "1", 0, on="uid")], [], []),
    "without a QueueJob all are held": (None, [OLD, WAITING], ["old"], []),
}


@pytest.mark.parametrize("what", PLANS)
def test_which_jobs_run_follows_from_what_there_is(what: str) -> None:
    given, drawers, holds, starts = PLANS[what]
    held, started = plan(given, drawers)
    assert [each.job.found.metadata.name for each in held] == holds
    assert [each.job.found.metadata.name for each in started] == starts


def test_what_its_controller_left_is_cleared_when_its_pods_are_gone() -> None:
    def left(pods: int = 0, **more: object) -> Drawer:
        found = drawer("left", "1", 1, pods=pods)
        found.job = structs.replace(
            found.job, progress=structs.replace(found.job.progress, **{"leaves": LEAVES, **more})
        )
        return found

    assert left().clears
    assert not left(pods=1).clears
    assert not left(alive=1).clears, "by its controller's count"
    assert not left(succeeded=False).clears, "it is over"
    assert not left(leaves={}).clears


def test_a_job_of_many_pods_asks_for_all_of_them() -> None:
    many = job(HELD, labels={QUEUE_JOB: "mine"}, queue="", cpu="500m")
    assert many.asks == {"cpu": 2000}
    assert many.draws_on == "mine"
    assert many.digest is None, "it has no unit"
