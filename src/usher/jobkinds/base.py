"""What the runtime asks of a kind of job. Each kind is one object that answers; it keeps nothing.

A job reaches a kind as a `Job`: its identity, labels, and the decoded `spec` and `status`. Kinds answer with facts
(`PodSetShape`, `Progress`) and with merge patches of the job's `spec`, or its `status` where it is told by that
(`part`). A kind never sees a client, a queue or a quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, runtime_checkable

from msgspec import Struct, field

from usher.core.amounts import Amounts
from usher.jobkinds.additions import Additions

Spec = Mapping[str, Any]
Counts = Mapping[str, int]
"""Pods by pod set."""


class BadJobError(ValueError):
    """The job says something that cannot be queued; the text names the field."""


class Job(Struct, frozen=True):
    """A job of any kind, as the API server has it."""

    namespace: str
    name: str
    uid: str
    spec: Spec
    status: Spec = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


class PodSetShape(Struct, frozen=True):
    """Pods of a job that are alike, as their template describes them."""

    name: str
    count: int
    template: Mapping[str, Any]
    min_count: int | None = None


class Progress(Struct, frozen=True):
    """How far a job is, by its own status."""

    ready: Counts
    """Pods that are ready."""
    done: Counts
    """Pods that have succeeded."""
    usable: Counts
    """The most pods that it can still use at a time; what has succeeded is not needed again."""
    needed: Counts
    """The same, or what it still has if that is more."""
    held: bool
    """Its controller has seen that it is suspended."""
    started: bool
    """Its controller has seen that it was released, and not yet that it is held again."""
    succeeded: bool | None = None
    """None: it has not ended."""
    message: str = ""
    alive: int = 0
    """Pods that it still has, by its controller's count: active or terminating."""
    leaves: Spec = field(default_factory=dict)
    """What its controller leaves in its status when it has stopped it, and must go before it counts as held and can be
    changed: the patch of that status."""


class OwnWords(Struct, frozen=True):
    """What a job's spec itself says of its place; it goes before labels and annotations."""

    queue: str = ""
    priority: int | None = None
    elastic: bool = False
    takes_part: bool = False
    """It is queued also if it names neither a queue nor a quota."""


NO_WORDS: Final = OwnWords()


class Allocation(Struct, frozen=True):
    """What a job without pods of its own has, in units; and what of it must be given back."""

    units: int = 0
    shrink_to: int | None = None
    shrink_at_ms: int = 0
    held: bool = False
    """Said of it: it has quota; else, in two words, why not."""
    reason: str = ""
    message: str = ""


class JobKind(Protocol):
    """The questions that the runtime has about a kind of job."""

    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def part(self) -> Literal["spec", "status"]:
        """Where it is told to start, to stop and to change its size."""

    @property
    def finalizer(self) -> str:
        """What its controller puts on pods to count how they end: taken off a pod that is given back, so that this
        does not count as a failure. Empty: nothing."""

    def words(self, job: Job) -> OwnWords:
        """What its spec says of its place."""

    def pod_sets(self, job: Job) -> tuple[PodSetShape, ...]:
        """Its pods at full size; raises BadJobError."""

    def suspended(self, job: Job) -> bool:
        """Whether its spec holds it."""

    def counts(self, job: Job) -> Counts:
        """How many pods its spec lets run now."""

    def release(self, job: Job, grants: Counts, additions: Additions) -> dict[str, Any]:
        """The patch that lets it start with these pods."""

    def hold(self, job: Job, counts: Counts) -> dict[str, Any]:
        """The patch that stops it and brings back its own counts."""

    def resize(self, job: Job, counts: Counts) -> dict[str, Any]:
        """The patch that changes how many pods a released job may have."""

    def progress(self, job: Job) -> Progress: ...

    def pod_set_of(self, labels: Mapping[str, str]) -> str:
        """The pod set that a pod with these labels belongs to."""


@runtime_checkable
class PodlessKind(JobKind, Protocol):
    """A kind that has no pods: what it holds is what its status says it may use."""

    def allocation(self, job: Job) -> Allocation:
        """What it has, by its status."""

    def allocate(self, job: Job, allocation: Allocation, each: Amounts, now_ms: int) -> dict[str, Any]:
        """The patch of its status that gives it this, in units of `each`; empty if it says so already."""
