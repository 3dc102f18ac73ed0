"""What a QueueJob is told beside its unit, and what the engine hears of it: pure functions of the objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made import READING, held

from usher.api.conditions import with_condition
from usher.api.queueunit import Admission, QueueUnit, QueueUnitStatus, ReclaimState
from usher.core import events as ev
from usher.core.model import Grant, Stored
from usher.core.phases import Cause, Phase
from usher.jobkinds.base import Allocation
from usher.jobkinds.queuejob import QueueJobs
from usher.runtime.entry import PAUSED, Entry, Step, allocation, holds, next_step, observe
from usher.runtime.facts import JobFacts, UnitFacts, draft, read_job, read_unit
from usher.runtime.objects import JobObject

KIND = QueueJobs()
NOW_MS, NOTICE_MS = 100_000, 30_000
LATER = "1970-01-01T00:02:10Z"
SOONER = "1970-01-01T00:01:00Z"
SAYS = [{"type": "QuotaReserved", "status": "True", "reason": "Allocated", "lastTransitionTime": SOONER}]


def asks(
    units: int = 5, has: int = 0, *, cpu: str = "1", labels: dict[str, str] | None = None, **status: Any
) -> JobFacts:
    """A QueueJob that wants so many units and has so many."""
    body = {
        "metadata": {"name": "qj", "namespace": "ns", "uid": "qj-uid", "resourceVersion": "5", "labels": labels or {}},
        "spec": {"queue": "main", "priority": 7, "resourceunit": {"cpu": cpu}, "resourceno": units},
        "status": {"allocatedno": has, "conditions": SAYS if has else [], **status},
    }
    return read_job(KIND, msgspec.json.decode(msgspec.json.encode(body), type=JobObject), READING)


def unit_of(facts: JobFacts, stored: Stored | None = None, reclaim: int | None = None) -> UnitFacts:
    said = draft(KIND, facts.decoded(), facts.found, READING)
    assert said is not None
    body = {**said.body, "metadata": {**said.body["metadata"], "uid": "unit-uid", "generation": 1}}
    found = read_unit(msgspec.json.decode(msgspec.json.encode(body), type=QueueUnit))
    if stored is None:
        return found
    state = None if reclaim is None else ReclaimState(replicas=reclaim)
    holds = with_condition((), "QuotaReserved", bool(stored.grants), "Blocked", "No room.", now_ms=NOW_MS)
    admissions = tuple(Admission(name=each.pod_set, replicas=each.count, reclaim_state=state) for each in stored.grants)
    return msgspec.structs.replace(
        found, stored=stored, status=QueueUnitStatus(admissions=admissions, conditions=holds)
    )


def entry(facts: JobFacts, unit: UnitFacts, notice_ms: int = NOTICE_MS, drawn: dict[str, int] | None = None) -> Entry:
    made = Entry("ns/qj", unit, facts, notice_ms=notice_ms, looked_ms=NOW_MS, drawn=drawn or {})
    made.remember()
    return made


FIVE = held(Phase.RUNNING, 5)
EVICTED = held(Phase.RUNNING, 5, evicting="Reclaimed")
WAITS = Stored(Phase.ENQUEUED)


def has(units: int, shrink_to: int | None = None, at_ms: int = 0) -> Allocation:
    return Allocation(units, shrink_to, at_ms, held=True, reason="Allocated")


def hasnt(reason: str, message: str = "") -> Allocation:
    return Allocation(reason=reason, message=message)


TOLD: dict[str, tuple[Entry, Allocation | None, Step | None]] = {
    "what it was granted": (
        entry(asks(), unit_of(asks(), held(Phase.DEQUEUED, 3))),
        has(3),
        Step.ALLOCATE,
    ),
    "nothing more once it is told": (entry(asks(5, 5), unit_of(asks(), FIVE)), has(5), None),
    "more when it grew": (entry(asks(5, 3), unit_of(asks(), FIVE)), has(5), Step.ALLOCATE),
    "nothing while checks are asked": (
        entry(asks(), unit_of(asks(), held(Phase.RESERVED, 5))),
        hasnt("Waiting"),
        Step.ALLOCATE,
    ),
    "why it waits": (entry(asks(), unit_of(asks(), WAITS)), hasnt("Blocked", "No room."), Step.ALLOCATE),
    "first that it must give back, and when": (
        entry(asks(5, 5), unit_of(asks(), FIVE, reclaim=2)),
        has(5, 2, NOW_MS + NOTICE_MS),
        Step.ALLOCATE,
    ),
    "nothing new before that": (
        entry(asks(5, 5, shrinkTo=2, shrinkAt=LATER), unit_of(asks(), FIVE, reclaim=2)),
        has(5, 2, 130_000),
        None,
    ),
    "less when the time has come": (
        entry(asks(5, 5, shrinkTo=2, shrinkAt=SOONER), unit_of(asks(), FIVE, reclaim=2)),
        has(2),
        Step.ALLOCATE,
    ),
    "less at once where no notice is set": (
        entry(asks(5, 5), unit_of(asks(), FIVE, reclaim=2), notice_ms=0),
        has(2),
        Step.ALLOCATE,
    ),
    "that it keeps more, at the same time": (
        entry(asks(5, 5, shrinkTo=2, shrinkAt=LATER), unit_of(asks(), FIVE, reclaim=3)),
        has(5, 3, 130_000),
        Step.ALLOCATE,
    ),
    "that it keeps less, with a new notice": (
        entry(asks(5, 5, shrinkTo=2, shrinkAt=SOONER), unit_of(asks(), FIVE, reclaim=1)),
        has(5, 1, NOW_MS + NOTICE_MS),
        Step.ALLOCATE,
    ),
    "that it keeps all after all": (
        entry(asks(5, 5, shrinkTo=2, shrinkAt=LATER), unit_of(asks(), FIVE)),
        has(5),
        Step.ALLOCATE,
    ),
    "that all must go when it is evicted": (
        entry(asks(5, 5), unit_of(asks(), EVICTED)),
        has(5, 0, NOW_MS + NOTICE_MS),
        Step.ALLOCATE,
    ),
    "that it is gone after that": (
        entry(asks(5, 5, shrinkTo=0, shrinkAt=SOONER), unit_of(asks(), EVICTED)),
        hasnt("Reclaimed"),
        Step.ALLOCATE,
    ),
    "at once what its owner does not want any more": (
        entry(asks(3, 5), unit_of(asks(), FIVE)),
        has(3),
        Step.ALLOCATE,
    ),
    "and the rest in time": (
        entry(asks(3, 5, shrinkTo=2, shrinkAt=LATER), unit_of(asks(), FIVE, reclaim=2)),
        has(3, 2, 130_000),
        Step.ALLOCATE,
    ),
    "nothing of what he wants no more in this form": (
        entry(asks(5, 5, cpu="2"), unit_of(asks(), FIVE)),
        hasnt("Allocated"),
        Step.ALLOCATE,
    ),
}


@pytest.mark.parametrize("what", TOLD)
def test_a_queue_job_is_told(what: str) -> None:
    found, want, step = TOLD[what]
    assert allocation(found) == want
    assert next_step(found) is step


HOLDS: dict[str, tuple[Entry, int, Step | None]] = {
    "all while it is told nothing else": (entry(asks(5, 5), unit_of(asks(), FIVE)), 5, None),
    "what it grew to, before it is told": (entry(asks(5, 3), unit_of(asks(), FIVE)), 5, Step.ALLOCATE),
    "all until its notice ends": (
        entry(asks(5, 5, shrinkTo=2, shrinkAt=LATER), unit_of(asks(), FIVE, reclaim=2)),
        5,
        None,
    ),
    "less when it has less": (entry(asks(5, 2), unit_of(asks(), FIVE, reclaim=2)), 2, Step.GIVE_BACK),
    "not less than draws on it": (
        entry(asks(5, 2), unit_of(asks(), FIVE, reclaim=2), drawn={"cpu": 3500}),
        4,
        Step.GIVE_BACK,
    ),
    "all if something else draws on it": (
        entry(asks(5, 2), unit_of(asks(), FIVE, reclaim=2), drawn={"memory": 1}),
        5,
        None,
    ),
    "what its owner lowered it to, once its unit says so": (
        entry(asks(3, 3), unit_of(asks(3), FIVE)),
        3,
        Step.GIVE_BACK,
    ),
    "which comes first": (entry(asks(3, 3), unit_of(asks(), FIVE)), 5, Step.FOLLOW),
}


@pytest.mark.parametrize("what", HOLDS)
def test_a_queue_job_holds(what: str) -> None:
    found, units, step = HOLDS[what]
    assert holds(found) == (Grant("main", units),)
    assert next_step(found) is step


HEARD: dict[str, tuple[Entry, list[ev.Event]]] = {
    "nothing before it is told": (entry(asks(), unit_of(asks(), held(Phase.DEQUEUED, 5))), []),
    "that it is ready then": (entry(asks(5, 5), unit_of(asks(), FIVE)), [ev.UnitReady("ns/qj")]),
    "that it asks for nothing": (entry(asks(0, 5), unit_of(asks(), FIVE)), [ev.UnitPaused("ns/qj")]),
    "that it asks for something else": (
        entry(asks(5, 5, cpu="2"), unit_of(asks(), FIVE)),
        [ev.UnitPaused("ns/qj", Cause.CHANGED)],
    ),
    "that it asks again": (
        entry(asks(2), unit_of(asks(0), Stored(Phase.ENQUEUED, inactive=PAUSED))),
        [ev.UnitReactivated("ns/qj")],
    ),
    "nothing while it does not": (entry(asks(0), unit_of(asks(0), Stored(Phase.ENQUEUED, inactive=PAUSED))), []),
    "that it has stopped": (entry(asks(5, 0), unit_of(asks(), EVICTED)), [ev.UnitStopped("ns/qj", 0)]),
    "not while it has something": (entry(asks(5, 5), unit_of(asks(), EVICTED)), []),
    "nor while something draws on it": (entry(asks(5, 0), unit_of(asks(), EVICTED), drawn={"cpu": 1}), []),
}


@pytest.mark.parametrize("what", HEARD)
def test_the_engine_hears(what: str) -> None:
    found, want = HEARD[what]
    assert observe(found, NOW_MS, 0) == want


def test_a_unit_of_a_queue_job_is_elastic_and_needs_one_unit_to_begin() -> None:
    unit = unit_of(asks(5, labels={"scheduling.x-k8s.io/priority": "3"})).unit
    (pods,) = unit.pod_sets
    assert (pods.name, pods.count, pods.min_count, pods.request) == ("main", 5, 1, {"cpu": 1000})
    assert (unit.elastic, unit.queue, unit.priority) == (True, "main", 7)
    assert unit_of(asks(0)).unit.pod_sets[0].min_count == 0


def test_a_queue_job_whose_unit_is_right_follows_nothing() -> None:
    waits = entry(asks(), unit_of(asks(), WAITS))
    assert waits.unit is not None
    assert waits.job is not None
    assert waits.unit.digest == waits.job.digest


def test_a_queue_job_that_is_gone_keeps_its_unit_while_something_draws_on_it() -> None:
    for drawn, step in (({"cpu": 1000}, None), ({}, Step.DROP)):
        gone = Entry("ns/qj", unit_of(asks(), FIVE), None, job_gone=True, drawn=drawn)
        assert next_step(gone) is step
