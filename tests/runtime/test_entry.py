"""What the engine hears of a unit and its job, and what is done next: pure functions of the objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from made import ELASTIC, entry, held, job, pod, unit
from msgspec import structs

from usher.api.queueunit import Admission, QueueUnitStatus, ReclaimState
from usher.core import events as ev
from usher.core.model import Grant, Stored
from usher.core.phases import Cause, Phase
from usher.runtime.entry import PAUSED, Entry, Step, holds, next_step, observe, outdated, targets
from usher.runtime.facts import PodFacts

SETTLE_MS = 3_000
STARTED: dict[str, Any] = {"startTime": "t", "active": 4, "ready": 4}
STOPPED: dict[str, Any] = {"conditions": [{"type": "Suspended", "status": "True"}]}
LEFT = {**STOPPED, "startTime": "t"}
"""As the controller of a Kubernetes before 1.36 leaves it."""
WAITS = Stored(Phase.ENQUEUED)
MARK = {"scheduling.x-k8s.io/admission": "3.unit-uid"}
REDUCED = {**MARK, "scheduling.x-k8s.io/reduced": "main=2/4"}


def _loose(**spec: Any) -> Entry:
    facts = job(STARTED, suspend=False, **spec)
    return entry(facts, unit(job(), held(Phase.RUNNING)))


def _elastic(*pods: PodFacts, grants: int = 4, reclaim: int | None = None, **spec: Any) -> Entry:
    facts = job({**STARTED, "active": len(pods)}, suspend=False, labels=ELASTIC, **spec)
    found = unit(job(labels=ELASTIC), held(Phase.RUNNING, grants))
    state = None if reclaim is None else ReclaimState(replicas=reclaim)
    status = QueueUnitStatus(admissions=(Admission(name="main", replicas=grants, reclaim_state=state),))
    return entry(facts, structs.replace(found, status=status), *pods)


def _deleted(status: dict[str, Any], *pods: PodFacts, phase: Phase = Phase.RUNNING) -> Entry:
    """One that is evicted and being deleted, and that something keeps."""
    return entry(job(status, suspend=False, deleting=True), unit(job(), held(phase, evicting="Reclaimed")), *pods)


FOUR = [pod(f"p{i}", born=i) for i in range(4)]
STEPS: dict[str, tuple[Callable[[], Entry], Step | None]] = {
    "a job that is held gets its unit": (lambda: entry(job()), Step.CREATE),
    "one that runs without a unit is held": (lambda: entry(job(STARTED, suspend=False)), Step.HOLD),
    "and gets its unit when nothing of it runs any more": (
        lambda: entry(job(STOPPED), None, pod("old", deleting=True), held_ms=1),
        None,
    ),
    "also by its controller's count": (lambda: entry(job({**STOPPED, "terminating": 1}), held_ms=1), None),
    "which is when": (lambda: entry(job(STOPPED), held_ms=1), Step.CREATE),
    "one whose controller leaves when it began is cleared of that first": (
        lambda: entry(job(LEFT), held_ms=1),
        Step.CLEAR,
    ),
    "but only once its pods are gone": (lambda: entry(job(LEFT), None, pod("old", deleting=True), held_ms=1), None),
    "by its controller's count, too": (lambda: entry(job({**LEFT, "terminating": 1}), held_ms=1), None),
    "also when its owner paused it": (lambda: entry(job(LEFT), unit(job(), held(Phase.RUNNING))), Step.CLEAR),
    "and when it takes no part any more, while it still holds something": (
        lambda: entry(job(LEFT, queue=""), unit(job(), held(Phase.RUNNING))),
        Step.CLEAR,
    ),
    "and when it is being deleted and something keeps it, or its quota stayed as long": (
        lambda: entry(job(LEFT, deleting=True), unit(job(), held(Phase.RUNNING, evicting="Reclaimed"))),
        Step.CLEAR,
    ),
    "which does not matter where it holds nothing": (
        lambda: entry(job(LEFT, deleting=True), unit(job(), WAITS)),
        Step.DROP,
    ),
    "but not one that is none of ours": (lambda: entry(job(LEFT, queue="")), None),
    "one that ran when we came gets its unit as it runs": (
        lambda: entry(job(STARTED, suspend=False), adopted=True),
        Step.CREATE,
    ),
    "and is not held before that says so": (
        lambda: entry(job(STARTED, suspend=False), unit(job(), Stored()), adopted=True),
        None,
    ),
    "or is left alone": (lambda: entry(job(STARTED, suspend=False), left=True), None),
    "one that names no queue is none of ours": (lambda: entry(job(queue="", suspend=False)), None),
    "and its unit goes when its label does": (lambda: entry(job(queue=""), unit(job(), WAITS)), Step.DROP),
    "but not while it holds quota": (lambda: entry(job(queue=""), unit(job(), held(Phase.RUNNING))), None),
    "a unit follows its job while it waits": (lambda: entry(job(cpu="2"), unit(job(), WAITS)), Step.FOLLOW),
    "not while quota is reserved": (lambda: entry(job(cpu="2"), unit(job(), held(Phase.RESERVED))), None),
    "a waiting job is held": (lambda: entry(job(suspend=False), unit(job(), WAITS)), Step.HOLD),
    "one that may start is resumed": (lambda: entry(job(), unit(job(), held(Phase.DEQUEUED))), Step.RELEASE),
    "not if it says something else now": (lambda: entry(job(cpu="2"), unit(job(), held(Phase.DEQUEUED))), None),
    "not if it was, and its owner held it": (
        lambda: entry(job(annotations=MARK), unit(job(), held(Phase.DEQUEUED))),
        None,
    ),
    "nor if it ran": (lambda: entry(job(), unit(job(), held(Phase.RUNNING))), None),
    "one that is evicted is held": (
        lambda: entry(job(suspend=False), unit(job(), held(Phase.RUNNING, evicting="Reclaimed"))),
        Step.HOLD,
    ),
    "and gets its own size back though its owner held it": (
        lambda: entry(job(annotations=REDUCED, parallelism=2), unit(job(), held(Phase.RUNNING, 2, evicting="Paused"))),
        Step.HOLD,
    ),
    "nothing is done with one that ended": (
        lambda: entry(job({"conditions": [{"type": "Complete", "status": "True"}]}, suspend=False), unit(job(), WAITS)),
        None,
    ),
    "nor with one that is being deleted": (lambda: entry(job(deleting=True), unit(job(), held(Phase.DEQUEUED))), None),
    "but if it waits, its place is given up": (lambda: entry(job(deleting=True), unit(job(), WAITS)), Step.DROP),
    "and if it is evicted, its pods are, for nobody else stops them": (
        lambda: _deleted({**STARTED, "active": 1}, pod("p")),
        Step.TAKE_BACK,
    ),
    "once": (lambda: _deleted({**STARTED, "active": 1}, pod("p", deleting=True)), None),
    "the unit of a job that is gone goes": (lambda: entry(None, unit(job(), WAITS), job_gone=True), Step.DROP),
    "once its pods are gone": (lambda: entry(None, unit(job(), held(Phase.RUNNING)), pod("p"), job_gone=True), None),
    "a job that does not grow runs": (lambda: _loose(), None),
    "one that does is brought back": (lambda: _loose(parallelism=6), Step.RESIZE),
    "one that cannot use more pods may say so": (
        lambda: entry(job({**STARTED, "succeeded": 5}, suspend=False, parallelism=6), unit(job(), held(Phase.RUNNING))),
        None,
    ),
    "one whose owner lowered it gives back": (
        lambda: entry(job({**STARTED, "active": 2}, suspend=False, parallelism=2), unit(job(), held(Phase.RUNNING))),
        Step.GIVE_BACK,
    ),
    "but not before the pods are gone": (lambda: _loose(parallelism=2), None),
    "an elastic job that grows is followed": (lambda: _elastic(*FOUR, parallelism=6), Step.FOLLOW),
    "and one that shrinks": (lambda: _elastic(*FOUR, parallelism=2), Step.FOLLOW),
    "its pods are let in as granted": (
        lambda: _elastic(*FOUR[:2], pod("x", gated=True), pod("y", gated=True), grants=3),
        Step.LET_IN,
    ),
    "and no further": (lambda: _elastic(*FOUR[:2], pod("x", gated=True), pod("y", gated=True), grants=2), None),
    "what it must give back is taken": (lambda: _elastic(*FOUR, reclaim=2), Step.TAKE_BACK),
    "not twice": (lambda: _elastic(*FOUR[:2], pod("x", deleting=True), pod("y", deleting=True), reclaim=2), None),
    "and recorded once it is gone, before others come in": (
        lambda: _elastic(*FOUR[:2], pod("x", gated=True), pod("y", gated=True), reclaim=2),
        Step.GIVE_BACK,
    ),
}


@pytest.mark.parametrize("what", STEPS)
def test_what_is_done_next(what: str) -> None:
    made, want = STEPS[what]
    assert next_step(made()) is want


HEARD: dict[str, tuple[Callable[[], Entry], list[ev.Event]]] = {
    "that it is ready": (
        lambda: entry(job(STARTED, suspend=False), unit(job(), held(Phase.DEQUEUED))),
        [ev.UnitReady("ns/job")],
    ),
    "nothing while its pods start": (
        lambda: entry(job({**STARTED, "ready": 3}, suspend=False), unit(job(), held(Phase.DEQUEUED))),
        [],
    ),
    "that it is ready though some have succeeded already": (
        lambda: entry(job({**STARTED, "ready": 3, "succeeded": 1}, suspend=False), unit(job(), held(Phase.DEQUEUED))),
        [ev.UnitReady("ns/job")],
    ),
    "that it is not any more": (
        lambda: entry(job({**STARTED, "ready": 3}, suspend=False), unit(job(), held(Phase.RUNNING))),
        [ev.UnitUnready("ns/job")],
    ),
    "what ended pods have given back": (
        lambda: entry(
            job({"startTime": "t", "active": 2, "ready": 2, "succeeded": 6}, suspend=False),
            unit(job(), held(Phase.RUNNING)),
        ),
        [ev.UnitShrunk("ns/job", 3, (Grant("main", 2),)), ev.UnitReady("ns/job")],
    ),
    "what an owner gave back only when that is stored": (
        lambda: entry(
            job({**STARTED, "active": 2, "ready": 2}, suspend=False, parallelism=2), unit(job(), held(Phase.RUNNING))
        ),
        [ev.UnitReady("ns/job")],
    ),
    "that its owner paused it": (
        lambda: entry(job(annotations=MARK), unit(job(), held(Phase.DEQUEUED))),
        [ev.UnitPaused("ns/job")],
    ),
    "that it changed before its start": (
        lambda: entry(job(cpu="2"), unit(job(), held(Phase.DEQUEUED))),
        [ev.UnitPaused("ns/job", Cause.CHANGED)],
    ),
    "or while checks are asked": (
        lambda: entry(job(cpu="2"), unit(job(), held(Phase.RESERVED))),
        [ev.UnitPaused("ns/job", Cause.CHANGED)],
    ),
    "that its owner lets it go on": (
        lambda: entry(job(suspend=False), unit(job(), replace(WAITS, inactive=PAUSED))),
        [ev.UnitReactivated("ns/job")],
    ),
    "that its owner takes over what was set aside": (
        lambda: entry(job(), unit(job(), replace(WAITS, inactive="rejected"), active=False)),
        [ev.UnitReactivated("ns/job")],
    ),
    "nothing of what is set aside otherwise": (
        lambda: entry(job(suspend=False), unit(job(), replace(WAITS, inactive="rejected"))),
        [],
    ),
    "that it ended, whatever it was": (
        lambda: entry(job({"conditions": [{"type": "Failed", "status": "True"}]}), unit(job(), WAITS)),
        [ev.UnitFinished("ns/job", False)],
    ),
}


@pytest.mark.parametrize("what", HEARD)
def test_what_the_engine_hears(what: str) -> None:
    made, want = HEARD[what]
    assert observe(made(), 0, SETTLE_MS) == want


def _evicted(status: dict[str, Any], *pods: PodFacts, **more: Any) -> Entry:
    found = unit(job(), held(Phase.RUNNING, evicting="Reclaimed"))
    return entry(job(status), found, *pods, **more)


OVER: dict[str, tuple[Callable[[], Entry], bool]] = {
    "it stopped when its controller keeps no pod": (lambda: _evicted(STOPPED), True),
    "not while a pod stops": (lambda: _evicted(STOPPED, pod("p", deleting=True)), False),
    "nor while its controller counts one that we have not seen": (
        lambda: _evicted({**STOPPED, "terminating": 1}),
        False,
    ),
    "but pods on a node that is lost do not count": (
        lambda: _evicted({**STOPPED, "terminating": 1}, pod("p", deleting=True), lost=frozenset({"p"})),
        True,
    ),
    "not before its controller has seen it": (lambda: _evicted(STARTED), False),
    "nor before it has its own size back": (
        lambda: entry(
            job(STOPPED, annotations=REDUCED, parallelism=2), unit(job(), held(Phase.RUNNING, 2, evicting="Paused"))
        ),
        False,
    ),
    "one that was never resumed has nothing to stop": (
        lambda: entry(job(), unit(job(), held(Phase.DEQUEUED, evicting="Reclaimed"))),
        True,
    ),
    "one whose job is being deleted stops with its pods, for its controller starts none": (
        lambda: _deleted({"startTime": "t"}),
        True,
    ),
    "as its controller counts them": (lambda: _deleted({"startTime": "t", "active": 1}), False),
    "and as we see them": (lambda: _deleted({"startTime": "t"}, pod("p")), False),
    "not before that has begun, for it may just do so": (lambda: _deleted({}, phase=Phase.DEQUEUED), False),
    "one whose job is gone stops with its pods": (
        lambda: entry(None, unit(job(), held(Phase.RUNNING, evicting="Reclaimed"))),
        True,
    ),
}


@pytest.mark.parametrize("what", OVER)
def test_when_it_has_stopped(what: str) -> None:
    made, want = OVER[what]
    assert (observe(made(), 0, SETTLE_MS) == [ev.UnitStopped("ns/job", 0)]) is want


def test_an_elastic_unit_holds_what_was_let_in_until_it_is_gone() -> None:
    taking = _elastic(*FOUR[:2], pod("x", deleting=True), reclaim=2)
    assert targets(taking) == {"main": 2}
    assert holds(taking) == (Grant("main", 3),)


def test_a_job_that_changed_is_let_in_only_when_its_unit_has_followed() -> None:
    assert outdated(entry(job(cpu="2"), unit(job(), WAITS)))
    assert not outdated(entry(job(), unit(job(), WAITS)))
    assert not outdated(entry(job(parallelism=2, suspend=False), unit(job(), held(Phase.RUNNING))))
