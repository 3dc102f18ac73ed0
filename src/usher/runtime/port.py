"""The port to the cluster: what the loop asks of whoever talks to the API server. `usher.app` plugs it in.

Writes answer with a value, never with an exception: what became of a write is an event like any other. A write that
rests on something read carries its `resourceVersion`; the cluster answers `Stale` with the object as it is now.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from usher.api.queue import Queue
from usher.api.queuequota import QueueQuota
from usher.api.queueunit import QueueUnit
from usher.jobkinds.base import JobKind
from usher.quotas.objects import ResourceQuota
from usher.runtime.objects import JobObject

T = TypeVar("T", covariant=True)
Body = dict[str, Any]


class Written(Struct, Generic[T], frozen=True):
    """Done; this is the object now."""

    object: T


class Stale(Struct, Generic[T], frozen=True):
    """Not done: the object has changed; this is the object now."""

    object: T


class Vanished(Struct, frozen=True):
    """Not done: the object is not there."""


class Rejected(Struct, frozen=True):
    """Not done, and it would not be done if it were tried again."""

    reason: str
    message: str


class Fenced(Struct, frozen=True):
    """Not sent, because we are not the leader any more: nothing counts from here on."""


Outcome = Written[T] | Stale[T] | Vanished | Rejected | Fenced


class Urgency(Enum):
    """Which writes go first."""

    DECISION = 0
    """Somebody waits for it: admissions, evictions, releases."""
    RECORD = 1
    """What happened."""
    REPORT = 2
    """What is shown."""


class Severity(Enum):
    NORMAL = "Normal"
    WARNING = "Warning"


class Regarding(Struct, frozen=True):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Cluster(Protocol):
    """The API server, as the loop sees it."""

    async def create_unit(self, namespace: str, body: Body) -> Outcome[QueueUnit]: ...

    async def patch_unit(self, namespace: str, name: str, body: Body) -> Outcome[QueueUnit]: ...

    async def patch_unit_status(
        self, namespace: str, name: str, body: Body, urgency: Urgency
    ) -> Outcome[QueueUnit]: ...

    async def delete_unit(self, namespace: str, name: str, uid: str) -> Outcome[None]: ...

    async def patch_job(self, kind: JobKind, namespace: str, name: str, body: Body) -> Outcome[JobObject]: ...

    async def open_gate(self, namespace: str, pod: str, uid: str, gate: str) -> Outcome[None]: ...

    async def evict_pod(self, namespace: str, pod: str, uid: str, finalizer: str = "") -> Outcome[None]:
        """Evict a pod, after this finalizer was taken off it; `Rejected`: a disruption budget is against it."""

    async def create_queue(self, namespace: str, body: Body) -> Outcome[Queue]: ...

    async def delete_queue(self, namespace: str, name: str, uid: str) -> Outcome[None]: ...

    async def create_resource_quota(self, namespace: str, body: Body) -> Outcome[ResourceQuota]: ...

    async def patch_resource_quota(self, namespace: str, name: str, body: Body) -> Outcome[ResourceQuota]: ...

    async def delete_resource_quota(self, namespace: str, name: str, uid: str) -> Outcome[None]: ...

    async def patch_queue_status(self, namespace: str, name: str, body: Body) -> Outcome[Queue]: ...

    async def patch_quota_status(self, name: str, body: Body) -> Outcome[QueueQuota]: ...

    def tell(self, regarding: Regarding, severity: Severity, reason: str, action: str, note: str) -> None:
        """An Event; never waited for, dropped first when there is too much to write."""
