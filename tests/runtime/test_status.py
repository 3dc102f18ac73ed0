"""Commands as changes of a unit's status."""

from __future__ import annotations

from made import held, job, pod, unit
from msgspec import structs

from usher.api.conditions import find
from usher.api.queueunit import QueueUnitStatus
from usher.api.stored import with_stored
from usher.core.commands import Admit, Command, Evict, Grow, SetPhase, Shrink
from usher.core.model import Grant, Stored
from usher.core.phases import Cause, Phase
from usher.runtime.facts import UnitFacts
from usher.runtime.status import fold, status_after, status_patch, with_report

NOW_MS = 1_700_000_000_000
WAITS = ("Capacity", "There is no room.")


def at(stored: Stored) -> UnitFacts:
    found = unit(job())
    return structs.replace(found, stored=stored, status=with_stored(QueueUnitStatus(), stored, now_ms=NOW_MS))


def after(stored: Stored, *commands: Command) -> QueueUnitStatus:
    return status_after(at(stored), fold(stored, commands, NOW_MS), commands, WAITS, NOW_MS)


def grants(count: int) -> tuple[Grant, ...]:
    return (Grant("main", count),)


def test_a_unit_that_must_wait_says_why() -> None:
    status = after(Stored(), SetPhase("ns/job", Phase.ENQUEUED, Cause.NOT_ADMITTED))
    reserved = find(status.conditions, "QuotaReserved")
    assert reserved is not None
    assert (status.phase, status.message) == (Phase.ENQUEUED, "There is no room.")
    assert (reserved.status, reserved.reason, reserved.message) == ("False", "Capacity", "There is no room.")


def test_an_admission_counts_and_is_a_condition() -> None:
    status = after(Stored(Phase.ENQUEUED), Admit("ns/job", 1, "quota", grants(3)))
    admitted = find(status.conditions, "Admitted")
    assert admitted is not None
    assert (status.phase, status.attempts, admitted.status) == (Phase.DEQUEUED, 1, "True")
    assert [(each.name, each.replicas) for each in status.admissions] == [("main", 3)]


def test_an_eviction_keeps_phase_and_quota_until_the_pods_are_gone() -> None:
    status = after(held(Phase.RUNNING), Evict("ns/job", 3, Cause.RECLAIMED, "ns/owner"))
    evicted, reserved = find(status.conditions, "Evicted"), find(status.conditions, "QuotaReserved")
    assert evicted is not None
    assert reserved is not None
    assert (status.phase, reserved.status) == (Phase.RUNNING, "True")
    assert (evicted.reason, evicted.message) == ("Reclaimed", "What it had borrowed was taken back for ns/owner.")


def test_what_must_be_given_back_is_shown_until_it_is() -> None:
    shrinking = after(held(Phase.RUNNING), Shrink("ns/job", 3, grants(2), Cause.RECLAIMED, "ns/owner"))
    (admission,) = shrinking.admissions
    assert admission.replicas == 4
    assert admission.reclaim_state is not None
    assert admission.reclaim_state.replicas == 2
    facts = structs.replace(at(held(Phase.RUNNING)), status=shrinking)
    gone = status_after(facts, held(Phase.RUNNING, 2), [], WAITS, NOW_MS)
    assert [(each.replicas, each.reclaim_state) for each in gone.admissions] == [(2, None)]
    grown = status_after(facts, held(Phase.RUNNING, 4), [Grow("ns/job", 3, grants(4))], WAITS, NOW_MS)
    assert [(each.replicas, each.reclaim_state) for each in grown.admissions] == [(4, None)]


def test_a_report_counts_pods_that_have_a_node() -> None:
    status = after(Stored(Phase.ENQUEUED), Admit("ns/job", 1, "quota", grants(3)))
    placed = structs.replace(pod("a"), node="n")
    (admission,) = with_report(status, [placed, pod("b")]).admissions
    assert (admission.running, admission.resources) == (1, {"cpu": "1"})
    assert with_report(status, []) is status


def test_a_patch_holds_what_changed_and_the_epoch() -> None:
    before = at(Stored(Phase.ENQUEUED)).status
    assert status_patch(before, before, 4, 7) == {}
    changed = after(Stored(Phase.ENQUEUED), SetPhase("ns/job", Phase.FAILED, Cause.FAILED))
    body = status_patch(before, changed, 4, 7)
    assert body["metadata"] == {"resourceVersion": "7"}
    assert (body["status"]["phase"], body["status"]["epoch"]) == ("Failed", 4)
    assert "evictions" not in body["status"]
