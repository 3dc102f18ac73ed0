"""What the engine wants done. Each command is frozen data; drivers carry it out and report back by an event.

`generation` counts a unit's admissions: outcomes and reports carry it, so that one about an earlier admission is told
from one about the current. The commands of one call are in the order in which they must take effect on one object; a
`Nominate` must be stored before the first `Evict` or `Shrink` of the same call is carried out.
"""

from __future__ import annotations

from typing import NamedTuple

from usher.core.model import Grant, Nomination
from usher.core.phases import Cause, Phase


class Admit(NamedTuple):
    """Let it start with these pods (phase Dequeued). Answered by Confirmed or Refused."""

    key: str
    generation: int
    quota: str
    grants: tuple[Grant, ...]
    protected_ms: int = 0
    """Nobody takes it back before this time; 0: anybody may at once."""


class Reserve(NamedTuple):
    """Quota is held; ask these checks (phase Reserved). Answered by Confirmed or Refused."""

    key: str
    generation: int
    quota: str
    grants: tuple[Grant, ...]
    checks: tuple[str, ...]
    protected_ms: int = 0


class Grow(NamedTuple):
    """A running elastic unit may have these pods now. Answered by Confirmed or Refused."""

    key: str
    generation: int
    grants: tuple[Grant, ...]


class Shrink(NamedTuple):
    """A running elastic unit must give back pods down to this. Answered by UnitShrunk."""

    key: str
    generation: int
    grants: tuple[Grant, ...]
    cause: Cause
    by: str
    """The unit for which it is taken."""


class Evict(NamedTuple):
    """Stop it, in this admission or an earlier one. Answered by UnitStopped (or UnitFinished, UnitGone)."""

    key: str
    generation: int
    cause: Cause
    by: str = ""
    """The unit for which it is taken, if any."""


class Nominate(NamedTuple):
    """Store that room is kept for this unit; None: no longer. Admit, Reserve and Grow clear it as well."""

    key: str
    nomination: Nomination | None


class NoteOvertaken(NamedTuple):
    """Store since when this waiting unit is overtaken; Admit, Reserve and Grow clear it.

    Only a restart reads it: it may be written late, together with whatever else is written of the unit.
    """

    key: str
    since_ms: int


class SetPhase(NamedTuple):
    """Write the unit's phase and cause; quota is reserved if and only if the phase holds quota."""

    key: str
    phase: Phase
    cause: Cause
    retries: int = 0
    requeue_at_ms: int = 0
    inactive: str = ""


class WakeAt(NamedTuple):
    """Call `handle` again at this time, if nothing happens before."""

    at_ms: int


Command = Admit | Reserve | Grow | Shrink | Evict | Nominate | NoteOvertaken | SetPhase | WakeAt
