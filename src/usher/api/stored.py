"""A unit's past, as its status holds it: the one place that says where each field of `Stored` lives.

| `Stored` | in the status |
|---|---|
| `phase`, `quota`, `evictions`, `has_run`, `inactive` | the same |
| `grants` | `admissions`, by pod set, while there are any |
| `evicting` | the reason of the condition Evicted, while that and QuotaReserved are True |
| `admitted_ms` | `lastAllocateTime` |
| `ran_ms` | `pastExecutionMilliseconds` |
| `generation` | `admissionGeneration` |
| `retries`, `requeue_at_ms` | `requeueState` |
| `nomination` | `nomination` |
| `overtaken_ms`, `protected_ms` | `overtakenSince`, `protectedUntil` |
| `checks` | `admissionChecks`, while quota is reserved |

Read when a manager starts. `with_stored` writes the same fields (what `usher.core.written` makes of a command), so that
nothing can be forgotten on one side only.
"""

from __future__ import annotations

import msgspec

from usher.api import conditions
from usher.api.names import EVICTED, QUOTA_RESERVED
from usher.api.queueunit import Admission, AdmissionCheckState, Nomination, QueueUnitStatus, RequeueState
from usher.api.times import ms_of, time_of
from usher.core.model import Grant, Stored
from usher.core.model import Nomination as EngineNomination


def stored_of(status: QueueUnitStatus | None) -> Stored:
    """What the engine must know of a unit's past."""
    if status is None:
        return Stored()
    reserved = conditions.is_true(status.conditions, QUOTA_RESERVED)
    evicted = conditions.find(status.conditions, EVICTED)
    requeue = status.requeue_state or RequeueState()
    return Stored(
        phase=status.phase,
        grants=tuple(Grant(each.name, each.replicas) for each in status.admissions),
        quota=status.quota,
        evicting=evicted.reason if evicted is not None and evicted.status == "True" and reserved else "",
        admitted_ms=ms_of(status.last_allocate_time),
        ran_ms=status.past_execution_milliseconds,
        generation=status.admission_generation,
        evictions=status.evictions,
        retries=requeue.count,
        requeue_at_ms=ms_of(requeue.requeue_at),
        inactive=status.inactive,
        nomination=_nomination(status.nomination),
        overtaken_ms=-1 if status.overtaken_since is None else ms_of(status.overtaken_since),
        protected_ms=ms_of(status.protected_until),
        has_run=status.has_run,
        checks={each.name: each.state for each in status.admission_checks} if reserved else {},
    )


def with_stored(status: QueueUnitStatus, stored: Stored, *, now_ms: int) -> QueueUnitStatus:
    """The status with this past; what is not part of it (messages, running pods, answers' details) stays."""
    held = conditions.with_condition(
        status.conditions,
        QUOTA_RESERVED,
        bool(stored.grants),
        "QuotaReserved" if stored.grants else "Waiting",
        now_ms=now_ms,
    )
    if stored.evicting:
        held = conditions.with_condition(held, EVICTED, True, stored.evicting, now_ms=now_ms)
    elif stored.grants and conditions.is_true(held, EVICTED):
        held = conditions.with_condition(held, EVICTED, False, "Admitted", now_ms=now_ms)
    return msgspec.structs.replace(
        status,
        phase=stored.phase,
        admissions=_admissions(status, stored),
        quota=stored.quota,
        conditions=held,
        last_allocate_time=time_of(stored.admitted_ms) if stored.admitted_ms else None,
        past_execution_milliseconds=stored.ran_ms,
        admission_generation=stored.generation,
        evictions=stored.evictions,
        requeue_state=_requeue_state(stored),
        inactive=stored.inactive,
        nomination=None if stored.nomination is None else _written(stored.nomination),
        overtaken_since=None if stored.overtaken_ms < 0 else time_of(stored.overtaken_ms),
        protected_until=time_of(stored.protected_ms) if stored.protected_ms else None,
        has_run=stored.has_run,
        admission_checks=_checks(status, stored, now_ms),
    )


def _nomination(written: Nomination | None) -> EngineNomination | None:
    if written is None:
        return None
    return EngineNomination(written.claimed, ms_of(written.since), written.node)


def _written(nomination: EngineNomination) -> Nomination:
    return Nomination(claimed=nomination.claimed, since=time_of(nomination.since_ms), node=nomination.node)


def _requeue_state(stored: Stored) -> RequeueState | None:
    if not stored.retries and not stored.requeue_at_ms:
        return None
    return RequeueState(
        count=stored.retries, requeue_at=time_of(stored.requeue_at_ms) if stored.requeue_at_ms else None
    )


def _admissions(status: QueueUnitStatus, stored: Stored) -> tuple[Admission, ...]:
    known = {each.name: each for each in status.admissions}
    return tuple(
        msgspec.structs.replace(known.get(grant.pod_set, Admission(name=grant.pod_set)), replicas=grant.count)
        for grant in stored.grants
    )


def _checks(status: QueueUnitStatus, stored: Stored, now_ms: int) -> tuple[AdmissionCheckState, ...]:
    known = {each.name: each for each in status.admission_checks}
    found = []
    for name, state in stored.checks.items():
        before = known.get(name)
        if before is None or before.state is not state:
            before = AdmissionCheckState(name=name, state=state, last_transition_time=time_of(now_ms))
        found.append(before)
    return tuple(found)
