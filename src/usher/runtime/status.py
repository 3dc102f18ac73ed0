"""Commands as a change of the unit's status: the one place where what the engine decides becomes words in the API.

What the engine must find again is folded in by `usher.core.written` and laid out by `usher.api.stored`; here come the
conditions and texts for people. The patch holds only what changed, and the epoch of the leader who writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from usher.api import names
from usher.api.codec import as_dict, merge_patch
from usher.api.conditions import find, with_condition
from usher.api.quantities import quantities_of
from usher.api.queueunit import Admission, QueueUnitStatus, ReclaimState
from usher.api.stored import with_stored
from usher.api.times import time_of
from usher.core.amounts import add
from usher.core.commands import Admit, Command, Evict, Grow, Reserve, SetPhase, Shrink
from usher.core.model import Stored
from usher.core.phases import FINISHED, HOLDING, Cause, Phase
from usher.core.written import written
from usher.runtime.facts import PodFacts, UnitFacts

WORDS: Final[Mapping[Cause, str]] = {
    Cause.RECLAIMED: "What it had borrowed was taken back",
    Cause.PREEMPTED: "A unit of higher priority took its place",
    Cause.DRAINED: "Its queue is being drained",
    Cause.DEACTIVATED: "It was made inactive",
    Cause.PAUSED: "Its owner suspended the job",
    Cause.CHANGED: "Its job changed after it was admitted",
    Cause.START_TIMEOUT: "Its pods were not ready in time",
    Cause.RECOVERY_TIMEOUT: "Its pods were unready for too long",
    Cause.CHECK_RETRY: "An admission check asked to try again later",
    Cause.CHECK_TIMEOUT: "An admission check did not answer in time",
    Cause.CHECK_REJECTED: "An admission check rejected it",
    Cause.MAXIMUM_EXECUTION_TIME: "It ran for as long as it may",
}
"""Why a unit had to stop, for people."""


def fold(stored: Stored, commands: Sequence[Command], now_ms: int) -> Stored:
    """The unit's past with these commands in it."""
    for command in commands:
        stored = written(stored, command, now_ms)
    return stored


def status_after(
    unit: UnitFacts, stored: Stored, commands: Sequence[Command], waits: tuple[str, str], now_ms: int
) -> QueueUnitStatus:
    """The status once these commands are carried out; `waits` says why it waits, in a word and a sentence."""
    before = unit.status
    status = with_stored(before, stored, now_ms=now_ms)
    conditions = status.conditions
    reason, message = waits
    if not stored.grants and stored.phase not in FINISHED:
        why = stored.inactive[:1].upper() + stored.inactive[1:] if stored.inactive else message
        conditions = with_condition(
            conditions, names.QUOTA_RESERVED, False, "Inactive" if stored.inactive else reason, why, now_ms=now_ms
        )
    said = find(before.conditions, names.ADMITTED)
    if stored.phase in (Phase.DEQUEUED, Phase.RUNNING):
        conditions = with_condition(conditions, names.ADMITTED, True, "Admitted", now_ms=now_ms)
    elif said is not None and said.status == "True" and stored.phase not in FINISHED:
        conditions = with_condition(conditions, names.ADMITTED, False, "Evicted", now_ms=now_ms)
    if stored.phase is Phase.RUNNING:
        conditions = with_condition(conditions, names.PODS_READY, True, "PodsReady", now_ms=now_ms)
    elif find(conditions, names.PODS_READY) is not None and stored.phase not in FINISHED:
        conditions = with_condition(conditions, names.PODS_READY, False, "NotStarted", now_ms=now_ms)
    if stored.phase in FINISHED:
        why = "JobSucceeded" if stored.phase is Phase.SUCCEED else "JobFailed"
        conditions = with_condition(conditions, names.QUOTA_RESERVED, False, "Finished", now_ms=now_ms)
        conditions = with_condition(conditions, names.FINISHED, True, why, now_ms=now_ms)
    for command in commands:
        if isinstance(command, Evict) and stored.evicting:
            text = WORDS.get(command.cause, command.cause.value) + (f" for {command.by}" if command.by else "") + "."
            conditions = with_condition(conditions, names.EVICTED, True, command.cause.value, text, now_ms=now_ms)
    text = _message(stored, waits, conditions)
    moved = stored.phase is not before.phase or text != before.message
    attempts = sum(
        isinstance(command, Reserve) or (isinstance(command, Admit) and before.phase is not Phase.RESERVED)
        for command in commands
    )
    return msgspec.structs.replace(
        status,
        admissions=_taken_back(status.admissions, commands),
        conditions=conditions,
        message=text,
        attempts=before.attempts + attempts,
        last_update_time=time_of(now_ms) if moved else before.last_update_time,
    )


def _message(stored: Stored, waits: tuple[str, str], conditions: Sequence[Any]) -> str:
    if stored.phase in FINISHED or (stored.phase is Phase.RUNNING and not stored.evicting):
        return ""
    if stored.evicting:
        evicted = find(conditions, names.EVICTED)
        return evicted.message if evicted is not None else ""
    if stored.phase in HOLDING:
        return "Its admission checks are asked." if stored.phase is Phase.RESERVED else "It may start."
    if stored.inactive:
        return f"Set aside: {stored.inactive}."
    return waits[1]


def _taken_back(admissions: Sequence[Admission], commands: Sequence[Command]) -> tuple[Admission, ...]:
    """What was granted, with what must be given back of it."""
    down_to: dict[str, int] = {}
    for command in commands:
        if isinstance(command, Shrink):
            down_to |= {grant.pod_set: grant.count for grant in command.grants}
        elif isinstance(command, Grow):
            down_to = dict.fromkeys((grant.pod_set for grant in command.grants), 2**31)
    return tuple(_reclaimed(each, down_to.get(each.name)) for each in admissions)


def _reclaimed(admission: Admission, down_to: int | None) -> Admission:
    state = admission.reclaim_state if down_to is None else ReclaimState(replicas=down_to)
    if state is not None and state.replicas >= admission.replicas:
        state = None
    return msgspec.structs.replace(admission, reclaim_state=state)


def with_report(status: QueueUnitStatus, pods: Sequence[PodFacts]) -> QueueUnitStatus:
    """The status with what really runs, by pod set."""
    running: dict[str, int] = {}
    resources: dict[str, dict[str, int]] = {}
    for pod in pods:
        if pod.node:
            running[pod.pod_set] = running.get(pod.pod_set, 0) + 1
            add(resources.setdefault(pod.pod_set, {}), pod.request)
    admissions = tuple(_reported(each, running, resources) for each in status.admissions)
    return status if admissions == status.admissions else msgspec.structs.replace(status, admissions=admissions)


def _reported(
    admission: Admission, running: Mapping[str, int], resources: Mapping[str, Mapping[str, int]]
) -> Admission:
    used = quantities_of(resources.get(admission.name, {}))
    return msgspec.structs.replace(admission, running=running.get(admission.name, 0), resources=used)


def status_patch(before: QueueUnitStatus, after: QueueUnitStatus, epoch: int, version: int | None) -> dict[str, Any]:
    """The merge patch from one status to the other; empty if nothing but the epoch would change."""
    inside = merge_patch(as_dict(before), as_dict(after))
    inside.pop("epoch", None)
    if not inside:
        return {}
    body: dict[str, Any] = {"status": {**inside, "epoch": epoch}}
    if version is not None:
        body["metadata"] = {"resourceVersion": str(version)}
    return body


def phase_words(command: SetPhase) -> str:
    """What an Event says about a change of phase."""
    return WORDS.get(command.cause, "")
