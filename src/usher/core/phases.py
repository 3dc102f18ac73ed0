"""The life of a unit, as one table.

`TRANSITIONS` maps (phase, cause) to the next phase. The engine moves a unit only through `after()`, which refuses a
pair that is not in the table: such a step would be a bug, and going on could spend quota twice. Docs and diagrams are
generated from the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Phase(StrEnum):
    """Where a unit stands; the strings are those of the QueueUnit status."""

    NEW = ""
    ENQUEUED = "Enqueued"
    RESERVED = "Reserved"
    DEQUEUED = "Dequeued"
    RUNNING = "Running"
    SUCCEED = "Succeed"
    FAILED = "Failed"
    TIMEOUT_BACKOFF = "TimeoutBackoff"


class Cause(StrEnum):
    """Why a unit moves."""

    NOT_ADMITTED = "NotAdmitted"
    ADMITTED = "Admitted"
    QUOTA_RESERVED = "QuotaReserved"
    CHECKS_READY = "ChecksReady"
    CHECK_RETRY = "CheckRetry"
    CHECK_TIMEOUT = "CheckTimeout"
    CHECK_REJECTED = "CheckRejected"
    PODS_READY = "PodsReady"
    START_TIMEOUT = "StartTimeout"
    RECOVERY_TIMEOUT = "RecoveryTimeout"
    BACKOFF_OVER = "BackoffOver"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    RECLAIMED = "Reclaimed"
    PREEMPTED = "Preempted"
    DRAINED = "Drained"
    DEACTIVATED = "Deactivated"
    MAXIMUM_EXECUTION_TIME = "MaximumExecutionTimeExceeded"
    PAUSED = "Paused"
    CHANGED = "JobChanged"


FINISHED = frozenset({Phase.SUCCEED, Phase.FAILED})
WAITING = frozenset({Phase.NEW, Phase.ENQUEUED, Phase.TIMEOUT_BACKOFF})
HOLDING = frozenset({Phase.RESERVED, Phase.DEQUEUED, Phase.RUNNING})
"""The phases in which a unit holds quota."""

BACKOFF_CAUSES = frozenset({Cause.CHECK_RETRY, Cause.CHECK_TIMEOUT, Cause.START_TIMEOUT, Cause.RECOVERY_TIMEOUT})
"""Evictions that end in TimeoutBackoff; all others end in Enqueued."""


def _table() -> dict[tuple[Phase, Cause], Phase]:
    table: dict[tuple[Phase, Cause], Phase] = {(Phase.NEW, Cause.NOT_ADMITTED): Phase.ENQUEUED}
    for phase in (Phase.NEW, Phase.ENQUEUED):
        table[phase, Cause.ADMITTED] = Phase.DEQUEUED
        table[phase, Cause.QUOTA_RESERVED] = Phase.RESERVED
    table[Phase.RESERVED, Cause.CHECKS_READY] = Phase.DEQUEUED
    table[Phase.RESERVED, Cause.CHECK_RETRY] = Phase.TIMEOUT_BACKOFF
    table[Phase.RESERVED, Cause.CHECK_TIMEOUT] = Phase.TIMEOUT_BACKOFF
    table[Phase.RESERVED, Cause.CHECK_REJECTED] = Phase.ENQUEUED
    table[Phase.DEQUEUED, Cause.PODS_READY] = Phase.RUNNING
    table[Phase.DEQUEUED, Cause.START_TIMEOUT] = Phase.TIMEOUT_BACKOFF
    table[Phase.RUNNING, Cause.RECOVERY_TIMEOUT] = Phase.TIMEOUT_BACKOFF
    table[Phase.TIMEOUT_BACKOFF, Cause.BACKOFF_OVER] = Phase.ENQUEUED
    for phase in HOLDING:
        for cause in (
            Cause.RECLAIMED,
            Cause.PREEMPTED,
            Cause.DRAINED,
            Cause.DEACTIVATED,
            Cause.MAXIMUM_EXECUTION_TIME,
            Cause.PAUSED,
            Cause.CHANGED,
        ):
            table[phase, cause] = Phase.ENQUEUED
    for phase in Phase:
        if phase not in FINISHED:
            table[phase, Cause.SUCCEEDED] = Phase.SUCCEED
            table[phase, Cause.FAILED] = Phase.FAILED
    return table


TRANSITIONS: Mapping[tuple[Phase, Cause], Phase] = _table()


class IllegalTransitionError(RuntimeError):
    """The engine tried a step that the table does not have."""


def after(phase: Phase, cause: Cause) -> Phase:
    """The phase that follows, or an error that stops the process."""
    try:
        return TRANSITIONS[phase, cause]
    except KeyError:
        raise IllegalTransitionError(f"no transition from {phase.value or '(none)'} by {cause.value}") from None
