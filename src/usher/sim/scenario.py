"""What is simulated: units with their timing, and everything else that happens at a given time. Plain values.

Made by the manifest loader and the trace readers, run by `cluster.Simulation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from usher.core.events import Event
from usher.core.model import CheckState, Unit


@dataclass(frozen=True, slots=True)
class Answers:
    """What an admission check says to the first, second, … reservation; the last goes on for ever."""

    states: tuple[CheckState | None, ...] = (CheckState.READY,)
    """None: it never answers."""
    after_ms: int = 0

    def to(self, reservation: int) -> CheckState | None:
        """The answer to the given reservation of a unit, counted from 1."""
        return self.states[min(reservation, len(self.states)) - 1]


@dataclass(frozen=True, slots=True)
class Work:
    """One unit, when it comes, how long it runs and how it ends."""

    unit: Unit
    runs_ms: int
    """From the moment its pods are ready; what an eviction interrupts starts over."""
    name: str = ""
    """As the manifest has it, where the unit needed another one."""
    ready_after_ms: int | None = 0
    """From its admission; None: its pods never become ready."""
    leaves_ms: int | None = None
    fails: bool = False
    renews: bool = False
    """What an eviction interrupts gets its whole maximum execution time again, as batch systems do it."""
    answers: Answers | None = None
    """Of every check of this unit; None: as the checks themselves say."""

    @property
    def arrives_ms(self) -> int:
        return self.unit.created_ms


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that will happen by itself."""

    works: tuple[Work, ...]
    """In the order of arrival."""
    happenings: tuple[tuple[int, Event], ...]
    """Capacity, quotas and queues as they come, change and go, in the order of time."""
    answers: Mapping[str, Answers] = field(default_factory=dict)
    """By check; a check that is not here is Ready at once."""
    notes: tuple[str, ...] = ()
    """For people: what was left out, and why."""
