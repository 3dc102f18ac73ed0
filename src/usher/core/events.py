"""What can happen to the engine. Each event is frozen data; its handler in the engine is `_on_<name>`."""

from __future__ import annotations

from dataclasses import dataclass

from usher.core.amounts import Amounts
from usher.core.model import CheckState, Grant, Queue, Quota, Stored, Unit
from usher.core.phases import Cause


@dataclass(frozen=True, slots=True)
class Synced:
    """Every kind has been listed once: decisions may begin."""


@dataclass(frozen=True, slots=True)
class CapacityChanged:
    """What the nodes offer."""

    amounts: Amounts
    shared: Amounts | None = None
    """What shares are computed from, where it differs (a node that may come back soon)."""


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """A queue appeared or changed."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueGone:
    key: str


@dataclass(frozen=True, slots=True)
class QuotaChanged:
    """A quota appeared or changed."""

    quota: Quota


@dataclass(frozen=True, slots=True)
class QuotaGone:
    name: str


@dataclass(frozen=True, slots=True)
class UnitChanged:
    """A unit appeared (then `stored` is its past) or its owner changed it (then `stored` is not read)."""

    unit: Unit
    stored: Stored | None = None


@dataclass(frozen=True, slots=True)
class UnitGone:
    """The unit is deleted and none of its pods is left."""

    key: str


@dataclass(frozen=True, slots=True)
class UnitReady:
    """Ready and succeeded pods have reached the granted count."""

    key: str


@dataclass(frozen=True, slots=True)
class UnitUnready:
    """A running unit's pods are fewer than granted again."""

    key: str


@dataclass(frozen=True, slots=True)
class UnitStopped:
    """No pod of an evicted unit is active or terminating any more."""

    key: str
    generation: int
    """Of the admission that ended; a report about an earlier one is ignored."""


@dataclass(frozen=True, slots=True)
class UnitPaused:
    """Its owner suspended a released job by hand: quota goes back once its pods are gone."""

    key: str
    cause: Cause = Cause.PAUSED
    """Or that the job changed between its admission and its start: then it competes again at once, as it is now."""


@dataclass(frozen=True, slots=True)
class UnitShrunk:
    """Pods of an admitted unit have ended, or were given back: it now needs only this much."""

    key: str
    generation: int
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class UnitFinished:
    """The job ended."""

    key: str
    succeeded: bool


@dataclass(frozen=True, slots=True)
class UnitReactivated:
    """Its owner wants a unit that was set aside (rejected, out of time) to take part again."""

    key: str


@dataclass(frozen=True, slots=True)
class CheckAnswered:
    """A check controller spoke."""

    key: str
    check: str
    state: CheckState
    message: str = ""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A command about this admission was carried out."""

    key: str
    generation: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A command about this admission was not, and will not be, carried out: what it assumed is forgotten."""

    key: str
    generation: int
    reason: str = ""


Event = (
    Synced
    | CapacityChanged
    | QueueChanged
    | QueueGone
    | QuotaChanged
    | QuotaGone
    | UnitChanged
    | UnitGone
    | UnitReady
    | UnitUnready
    | UnitStopped
    | UnitPaused
    | UnitShrunk
    | UnitFinished
    | UnitReactivated
    | CheckAnswered
    | Confirmed
    | Refused
)
