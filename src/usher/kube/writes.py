"""What the writer takes and gives back: writes and their outcomes, as frozen values.

A write names one object and one change to it. What it may be guarded by decides what may be done when an answer is
lost: `guard` (a resourceVersion) and `uid` are checked by the server, so a guarded write cannot happen twice. A write
that is neither guarded nor idempotent cannot be made here: nobody could say afterwards whether it had happened.

Outcomes are for matching. Those that end without the server's word have `unsure`: whether the write may have happened.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, Generic, TypeVar

from usher.kube.client import PatchKind, Propagation
from usher.kube.errors import KubeError
from usher.kube.resource import Resource

T = TypeVar("T")


class Urgency(IntEnum):
    """Who goes first. Objects with a more urgent write waiting go before others; what is last here is dropped first."""

    URGENT = 0
    NORMAL = 1
    COSMETIC = 2
    SPARE = 3


class Verb(Enum):
    """What a write does; also how it is counted."""

    CREATE = "create"
    PATCH = "patch"
    APPLY = "apply"
    REPLACE = "replace"
    DELETE = "delete"
    EVICT = "evict"
    """Delete a pod, unless a disruption budget is against it: then it is refused."""


@dataclass(frozen=True, kw_only=True)
class Write(Generic[T]):
    """One change to one object.

    `coalesce` names a kind of write: a newer one of that kind to the same object replaces an older one that still
    waits, if nothing else for that object waits between them. `fence`, if set, is asked instead of the writer's.
    """

    resource: Resource[T]
    verb: Verb
    name: str
    namespace: str | None = None
    body: Any = None
    subresource: str | None = None
    patch: PatchKind = PatchKind.MERGE
    force: bool = False
    propagation: Propagation | None = None
    guard: str | None = None
    uid: str | None = None
    idempotent: bool | None = None
    urgency: Urgency = Urgency.NORMAL
    coalesce: str | None = None
    fence: Callable[[], bool] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError(f"a write to a {self.resource.kind} needs the object's name: a generated one is not known")
        if self.verb is Verb.CREATE and (self.guard or self.uid):
            raise ValueError("an object that is to be created has no resourceVersion and no uid yet")
        if not self.guarded and not self.repeatable and self.verb is not Verb.CREATE:
            raise ValueError("a JSON patch needs a guard, unless it is said to be idempotent")

    @property
    def guarded(self) -> bool:
        """Whether the server refuses it when the object is not as it was."""
        return self.guard is not None

    @property
    def repeatable(self) -> bool:
        """Whether doing it twice is as good as once."""
        if self.idempotent is not None:
            return self.idempotent
        return self.verb is not Verb.CREATE and not (self.verb is Verb.PATCH and self.patch is PatchKind.JSON)

    @property
    def key(self) -> tuple[str, str, str | None, str]:
        """The object: writes to one object keep their order."""
        return self.resource.group, self.resource.plural, self.namespace, self.name

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.verb.value} {self.resource.kind} {place}{' ' + self.subresource if self.subresource else ''}"


@dataclass(frozen=True)
class Done(Generic[T]):
    """It happened. `object` is what the server then had (None: deleted, or not readable as its type).

    `found`: the answer was lost, and the object was read back and found to have the change.
    """

    object: T | None
    found: bool = False


@dataclass(frozen=True)
class Conflicted(Generic[T]):
    """The object is not as the guard says, or another manager owns the field. Read, compute anew.

    `unsure`: an answer was lost before, and the object, which is `current`, does not show whether the write happened.
    """

    error: KubeError
    current: T | None = None
    unsure: bool = False


@dataclass(frozen=True)
class Exists(Generic[T]):
    """An object of that name was there before, or, after a lost answer, one that is not as it was to be created."""

    error: KubeError
    current: T | None = None
    unsure: bool = False


@dataclass(frozen=True)
class Vanished:
    """There is no such object (any more), or another one has its name now; or there is no such namespace."""

    error: KubeError


@dataclass(frozen=True)
class Refused:
    """The server will not do it: not allowed, not valid. The same write would be refused again."""

    error: KubeError


@dataclass(frozen=True)
class Fenced:
    """The fence was closed before the write was sent, or sent again."""

    unsure: bool = False


@dataclass(frozen=True)
class Superseded(Generic[T]):
    """A newer write of its kind took its place before it was sent."""

    by: Write[T]


@dataclass(frozen=True)
class Dropped:
    """The queue was full, and this was the least urgent. It was never sent."""


@dataclass(frozen=True)
class GaveUp:
    """Its time was over before the server had done it; `error` is the last one."""

    error: KubeError
    unsure: bool = False


@dataclass(frozen=True)
class Stopped:
    """The writer stopped before it was sent, or before its answer came."""

    unsure: bool = False


Outcome = Done[T] | Conflicted[T] | Exists[T] | Vanished | Refused | Fenced | Superseded[T] | Dropped | GaveUp | Stopped
