"""What a quota source is: it keeps the objects of its kind and says which nodes of the tree they stand for.

Sources are joined by `usher.quotas.tree`, which tells the engine only what differs. A source derives anew only what a
change concerns. What is wrong with an object is a value, for its condition and for an Event: the rest goes on working.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from usher.core.model import Quota, Requirement

ACCEPTED: Final = "Accepted"
"""The reason of a condition that has nothing to complain about."""

Labels = Mapping[str, str]


class Problem(Struct, frozen=True):
    """One thing that is wrong with an object."""

    reason: str
    """One CamelCase word, for conditions and Events."""
    message: str
    takes_part: bool = False
    """True: its quota works all the same, perhaps not as its owner thought."""


class Verdict(Struct, frozen=True):
    """What the condition `Active` of an object says."""

    active: bool
    reason: str
    message: str


def verdict(problems: Sequence[Problem]) -> Verdict:
    """The condition of an object with these problems; the worst gives the reason, all give the message."""
    ordered = sorted(problems, key=lambda problem: problem.takes_part)
    if not ordered:
        return Verdict(True, ACCEPTED, "")
    return Verdict(ordered[0].takes_part, ordered[0].reason, "; ".join(problem.message for problem in ordered))


class QueueHint(Struct, frozen=True):
    """How the Queue should be that is made for a quota."""

    policy: str = ""
    """Empty: the default."""
    preempts: bool = False
    """Whether a unit may take from units of lower priority in the same quota."""


class QuotaSource(Protocol):
    """Objects in by methods of its own, and namespaces by these; nodes and problems out."""

    @property
    def kind(self) -> str:
        """The kind of its objects, as in QueueQuota."""
        ...

    @property
    def revision(self) -> int:
        """Grows whenever nodes change: as long as it stays, nobody needs to compare them."""
        ...

    def namespace_changed(self, name: str, labels: Labels) -> None: ...

    def namespace_gone(self, name: str) -> None: ...

    def nodes(self) -> Mapping[str, Quota]:
        """By name. What is named as the parent need not be there."""
        ...

    def object_of(self, node: str) -> str:
        """The key of the object that a node comes from: its name, or namespace/name."""
        ...

    def queue_hint(self, node: str) -> QueueHint | None:
        """How the default Queue of a node should be; None: it gets none."""
        ...

    def problems(self) -> Mapping[str, Sequence[Problem]]:
        """By the key of the object: what is wrong with it, whatever the others are."""
        ...


K = TypeVar("K")


class Keeping(Generic[K]):
    """Objects by key, and a revision that grows with each change of them: what sources have in common whose kind may go
    away, and whose objects name their namespaces."""

    def __init__(self) -> None:
        self.revision = 0
        self._kept: dict[str, K] = {}

    def gone(self, key: str) -> None:
        """An object was deleted."""
        if self._kept.pop(key, None) is not None:
            self._touch()

    def clear(self) -> None:
        """The kind itself is gone, and all objects with it."""
        if self._kept:
            self._kept.clear()
            self._touch()

    def namespace_changed(self, name: str, labels: Labels) -> None:
        """Namespaces are named, never selected by labels."""

    def namespace_gone(self, name: str) -> None:
        """As above."""

    def _touch(self) -> None:
        """What follows from the objects is to be worked out anew."""
        self.revision += 1


INVALID: Final = "Invalid"
NAME_RESERVED: Final = "NameReserved"


def matches(selector: Sequence[Requirement], labels: Labels) -> bool:
    """Whether all lines of a selector hold; without lines they do."""
    return all(line.matches(labels) for line in selector)


def selected(selector: Sequence[Requirement], namespaces: Mapping[str, Labels]) -> frozenset[str]:
    """The namespaces whose labels a selector matches."""
    return frozenset(name for name, labels in namespaces.items() if matches(selector, labels))
