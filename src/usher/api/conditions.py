"""Conditions of a status: looking one up, and setting one without touching what did not change.

`lastTransitionTime` moves only when the status does, and a condition that says the same is kept as the same object, so
that `old is new` tells a writer that there is nothing to write. Called by whoever writes a status of ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from usher.api.meta import Condition
from usher.api.times import time_of


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of this type."""
    return next((each for each in conditions if each.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Whether the condition of this type is there and True."""
    found = find(conditions, kind)
    return found is not None and found.status == "True"


def with_condition(
    conditions: tuple[Condition, ...],
    kind: str,
    holds: bool | None,
    reason: str,
    message: str = "",
    *,
    now_ms: int,
    generation: int = 0,
) -> tuple[Condition, ...]:
    """The conditions with this one set, at its old place or at the end; the same tuple if nothing changed.

    `holds` None is Unknown.
    """
    status = "Unknown" if holds is None else str(holds)
    before = find(conditions, kind)
    unmoved = before is not None and before.status == status
    condition = Condition(
        type=kind,
        status=status,
        observed_generation=generation,
        last_transition_time=before.last_transition_time if before is not None and unmoved else time_of(now_ms),
        reason=reason,
        message=message,
    )
    if before is None:
        return (*conditions, condition)
    if before == condition:
        return conditions
    return tuple(condition if each is before else each for each in conditions)


def without_condition(conditions: tuple[Condition, ...], kind: str) -> tuple[Condition, ...]:
    """The conditions without the one of this type; the same tuple if there was none."""
    return conditions if find(conditions, kind) is None else tuple(each for each in conditions if each.type != kind)
