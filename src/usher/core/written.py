"""What the API holds of a unit once a command was carried out: the other half of `restore`.

`written(past, command, now_ms)` is the rule by which commands become status. Drivers apply it to the status they know
and store the result, so that whatever one engine commanded another one can take up.
"""

from __future__ import annotations

from dataclasses import replace

from usher.core.commands import Admit, Command, Evict, Grow, Nominate, NoteOvertaken, Reserve, SetPhase, Shrink, WakeAt
from usher.core.lifecycle import TAKEN_BACK
from usher.core.model import CheckState, Stored
from usher.core.phases import HOLDING, Phase

_TAKEN_BACK = frozenset(cause.value for cause in TAKEN_BACK)


def written(past: Stored, command: Command, now_ms: int) -> Stored:
    """The unit's past with this command in it; what the cluster itself finds (pods, answers of checks) is not ours."""
    match command:
        case Admit() | Reserve():
            return _let_in(past, command, now_ms)
        case Grow():
            return replace(past, grants=command.grants, nomination=None, overtaken_ms=-1)
        case Evict() if past.grants and command.generation >= past.generation:
            return replace(past, evicting=command.cause.value)
        case Nominate():
            return replace(past, nomination=command.nomination)
        case NoteOvertaken():
            return replace(past, overtaken_ms=command.since_ms)
        case SetPhase():
            return _in_phase(past, command, now_ms)
        case Evict() | Shrink() | WakeAt():
            return past


def _let_in(past: Stored, command: Admit | Reserve, now_ms: int) -> Stored:
    checks = past.checks
    if isinstance(command, Reserve):
        checks = dict.fromkeys(command.checks, CheckState.PENDING)
    return replace(
        past,
        phase=Phase.RESERVED if isinstance(command, Reserve) else Phase.DEQUEUED,
        grants=command.grants,
        quota=command.quota,
        generation=command.generation,
        admitted_ms=now_ms,
        protected_ms=command.protected_ms,
        overtaken_ms=-1,
        nomination=None,
        evicting="",
        checks=checks,
    )


def _in_phase(past: Stored, command: SetPhase, now_ms: int) -> Stored:
    """Quota is reserved if and only if the phase holds quota: whoever held some and does so no more was stopped."""
    phase = command.phase
    known = replace(
        past,
        phase=phase,
        retries=command.retries,
        requeue_at_ms=command.requeue_at_ms,
        inactive=command.inactive,
        has_run=past.has_run or phase is Phase.RUNNING,
    )
    if not past.grants and past.inactive and not command.inactive:
        return replace(known, ran_ms=0)  # its owner lets it take part again: its time begins anew
    if phase in HOLDING or not past.grants:
        return known
    ran_ms = now_ms - past.admitted_ms if past.phase is not Phase.RESERVED else 0
    return replace(
        known,
        grants=(),
        quota="",
        checks={},
        evicting="",
        protected_ms=0,
        generation=past.generation + 1,
        evictions=past.evictions + (past.evicting in _TAKEN_BACK),
        ran_ms=past.ran_ms + ran_ms,
    )
