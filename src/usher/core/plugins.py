"""The seams of the engine: small Protocols that see frozen values, never clients, and the guard around them.

A plug-in that raises, or answers with what is no answer (`core.answers`), is disabled and named in `Guard.disabled`,
and a built-in answer takes its place: it never takes the engine down. The built-ins and the registry are in
`usher.policies`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ParamSpec, Protocol, TypeVar

from usher.core.amounts import Amounts
from usher.core.model import Unit
from usher.core.share import SharePolicy

P = ParamSpec("P")
T = TypeVar("T")


class Blocks(StrEnum):
    """Whom a unit at the head holds up while it cannot start."""

    NOBODY = "Nobody"
    QUOTA = "Quota"
    QUEUE = "Queue"


class QueuePolicy(Protocol):
    """The order inside a queue."""

    @property
    def name(self) -> str: ...

    @property
    def blocks(self) -> Blocks: ...

    def key(self, unit: Unit) -> tuple[int, ...]:
        """Smaller goes first; ties go to the older unit. It depends on the unit only.

        All keys of one policy have the same length.
        """
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A unit that could be taken back."""

    unit: Unit
    admitted_ms: int
    charged: Amounts


class VictimPolicy(Protocol):
    """Inside one quota, who gives back first."""

    @property
    def name(self) -> str: ...

    def key(self, candidate: Candidate) -> tuple[int, ...]:
        """Smaller is taken first; ties go to the younger unit. It depends on the candidate only.

        All keys of one policy have the same length.
        """
        ...


class Mapping_(Protocol):  # noqa: N801  (the seed's name; the underscore keeps typing's Mapping apart)
    """Chooses queue and quota of a unit that names none."""

    @property
    def name(self) -> str: ...

    def map(self, unit: Unit) -> tuple[str, str] | None:
        """Names of its queue and quota (either may be empty), or None for the built-in rules.

        Depends on the unit only.
        """
        ...


class Filter(Protocol):
    """A further condition for admission."""

    @property
    def name(self) -> str: ...

    def refuse(self, unit: Unit, ask: Amounts) -> str:
        """Why it may not start now; empty: it may. Asked again after every release.

        Being asked changes nothing.
        """
        ...


class Score(Protocol):
    """A say in the order between heads of equal class and queue priority."""

    @property
    def name(self) -> str: ...

    def score(self, unit: Unit) -> int:
        """Higher goes first. Depends on the unit only."""
        ...


class Reserver(Protocol):
    """Keeps books of its own next to the ledger: of each holding one `reserve`, any resizes, one `unreserve`.

    Its books begin empty: a new engine reserves anew what it finds charged.
    """

    @property
    def name(self) -> str: ...

    def reserve(self, unit: Unit, amounts: Amounts) -> None:
        """The unit was charged, perhaps with nothing, or a new engine found it charged."""
        ...

    def unreserve(self, unit: Unit, amounts: Amounts) -> None:
        """All of its charge was taken back."""
        ...

    def resize(self, unit: Unit, old: Amounts, new: Amounts) -> None:
        """The charge changed while the unit holds it."""
        ...


@dataclass(frozen=True, slots=True)
class Plugins:
    """Everything pluggable, chosen at start-up."""

    queue_policies: Mapping[str, QueuePolicy]
    """By name, aliases included."""
    share: SharePolicy
    share_fallback: SharePolicy
    """Takes over when `share` raises."""
    victims: VictimPolicy
    mappings: tuple[Mapping_, ...] = ()
    filters: tuple[Filter, ...] = ()
    scores: tuple[Score, ...] = ()
    reservers: tuple[Reserver, ...] = ()
    trusted: frozenset[str] = frozenset()
    """Names of those whose answers are not looked at: the built-ins."""


class WrongAnswerError(TypeError):
    """A plug-in answered with what is no answer; the message says what."""


@dataclass(slots=True)
class Guard:
    """Calls plug-ins and remembers those that raised."""

    disabled: dict[str, str] = field(default_factory=dict)
    on_disabled: Callable[[], None] = lambda: None
    """Called when a plug-in has been disabled: what it answered before counts no more."""

    def call(self, name: str, otherwise: T, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the plug-in answers, or `otherwise` if it is disabled or raises, whatever it raises."""
        if name in self.disabled:
            return otherwise
        try:
            return function(*args, **kwargs)
        except WrongAnswerError as error:
            self._disable(name, str(error))
        except Exception as error:
            self._disable(name, f"it raised {type(error).__name__}: {error}")
        return otherwise

    def _disable(self, name: str, why: str) -> None:
        self.disabled[name] = f"plug-in {name} is disabled: {why}"
        self.on_disabled()
