"""The port of the runtime, plugged into the client: every write through the writer, every outcome a value."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from usher.api.queue import Queue
from usher.api.queuequota import QueueQuota
from usher.api.queueunit import QueueUnit
from usher.app.resources import PODS_UNTYPED, QUEUES, QUOTAS, RESOURCE_QUOTAS, UNITS, resource_of
from usher.jobkinds.base import JobKind
from usher.kube import writes as w
from usher.kube.client import Client, PatchKind
from usher.kube.errors import KubeError, NotFound
from usher.kube.resource import Resource
from usher.kube.writer import Writer
from usher.quotas.objects import ResourceQuota
from usher.runtime import port as p
from usher.runtime.objects import JobObject

T = TypeVar("T")
log = logging.getLogger("usher.cluster")

_URGENCY = {
    p.Urgency.DECISION: w.Urgency.URGENT,
    p.Urgency.RECORD: w.Urgency.NORMAL,
    p.Urgency.REPORT: w.Urgency.COSMETIC,
}


class LiveCluster:
    """A real API server."""

    def __init__(self, client: Client, writer: Writer, recorder: Any = None) -> None:
        self._client = client
        self._writer = writer
        self._recorder = recorder
        self._resources: dict[str, Resource[JobObject]] = {}

    async def create_unit(self, namespace: str, body: p.Body) -> p.Outcome[QueueUnit]:
        return await self._create(UNITS, namespace, body)

    async def patch_unit(self, namespace: str, name: str, body: p.Body) -> p.Outcome[QueueUnit]:
        return await self._send(_patch(UNITS, namespace, name, body))

    async def patch_unit_status(
        self, namespace: str, name: str, body: p.Body, urgency: p.Urgency
    ) -> p.Outcome[QueueUnit]:
        return await self._send(_patch(UNITS, namespace, name, body, "status", _URGENCY[urgency]))

    async def delete_unit(self, namespace: str, name: str, uid: str) -> p.Outcome[None]:
        return await self._delete(UNITS, namespace, name, uid)

    async def patch_job(self, kind: JobKind, namespace: str, name: str, body: p.Body) -> p.Outcome[JobObject]:
        resource = self._resources.setdefault(kind.plural, resource_of(kind))
        part = "status" if "status" in body else None
        return await self._send(_patch(resource, namespace, name, body, part, w.Urgency.URGENT))

    async def open_gate(self, namespace: str, pod: str, uid: str, gate: str) -> p.Outcome[None]:
        """Remove one gate of a pod."""

        def opened(found: p.Body) -> p.Body | None:
            gates = found["spec"].get("schedulingGates") or []
            return {"spec": {"schedulingGates": [each for each in gates if each["name"] != gate]}}

        return await self._change_pod(namespace, pod, uid, opened)

    async def _change_pod(
        self, namespace: str, pod: str, uid: str, change: Callable[[p.Body], p.Body | None]
    ) -> p.Outcome[None]:
        """Guarded by the version that was read, because lists are replaced as a whole."""
        for _ in range(5):
            try:
                found = await self._client.get(PODS_UNTYPED, pod, namespace)
            except NotFound:
                return p.Vanished()
            except KubeError as error:
                return p.Rejected(type(error).__name__, str(error))
            meta = found["metadata"]
            if meta["uid"] != uid:
                return p.Vanished()
            body = change(found)
            if body is None:
                return p.Written(None)
            body["metadata"] = {**body.get("metadata", {}), "resourceVersion": meta["resourceVersion"]}
            outcome = await self._send(_patch(PODS_UNTYPED, namespace, pod, body, urgency=w.Urgency.URGENT))
            if not isinstance(outcome, p.Stale):
                return p.Written(None) if isinstance(outcome, p.Written) else outcome
        return p.Rejected("Conflict", "the pod keeps changing")

    async def evict_pod(self, namespace: str, pod: str, uid: str, finalizer: str = "") -> p.Outcome[None]:
        """Asked first whether it may go: one that may not keeps its finalizer, without which its job would lose it."""

        def without(found: p.Body) -> p.Body | None:
            held = found["metadata"].get("finalizers") or []
            return {"metadata": {"finalizers": [f for f in held if f != finalizer]}} if finalizer in held else None

        def with_it(found: p.Body) -> p.Body | None:
            held = found["metadata"].get("finalizers") or []
            going = bool(found["metadata"].get("deletionTimestamp"))  # then none may be added
            return None if going or finalizer in held else {"metadata": {"finalizers": [*held, finalizer]}}

        try:
            await self._client.evict(PODS_UNTYPED, pod, namespace, uid=uid, dry_run=True)
        except NotFound:
            return p.Vanished()
        except KubeError as error:
            return p.Rejected(type(error).__name__, _reasons(error))
        outcome = await self._change_pod(namespace, pod, uid, without) if finalizer else p.Written(None)
        if not isinstance(outcome, p.Written):
            return outcome
        outcome = await self._remove(w.Verb.EVICT, PODS_UNTYPED, namespace, pod, uid)
        if isinstance(outcome, p.Rejected) and finalizer:  # somebody else was quicker, and the budget is used up
            await self._change_pod(namespace, pod, uid, with_it)
        return outcome

    async def create_queue(self, namespace: str, body: p.Body) -> p.Outcome[Queue]:
        return await self._create(QUEUES, namespace, body)

    async def delete_queue(self, namespace: str, name: str, uid: str) -> p.Outcome[None]:
        return await self._delete(QUEUES, namespace, name, uid)

    async def create_resource_quota(self, namespace: str, body: p.Body) -> p.Outcome[ResourceQuota]:
        return await self._create(RESOURCE_QUOTAS, namespace, body)

    async def patch_resource_quota(self, namespace: str, name: str, body: p.Body) -> p.Outcome[ResourceQuota]:
        return await self._send(_patch(RESOURCE_QUOTAS, namespace, name, body))

    async def delete_resource_quota(self, namespace: str, name: str, uid: str) -> p.Outcome[None]:
        return await self._delete(RESOURCE_QUOTAS, namespace, name, uid)

    async def patch_queue_status(self, namespace: str, name: str, body: p.Body) -> p.Outcome[Queue]:
        return await self._send(_patch(QUEUES, namespace, name, body, "status", w.Urgency.COSMETIC))

    async def patch_quota_status(self, name: str, body: p.Body) -> p.Outcome[QueueQuota]:
        return await self._send(_patch(QUOTAS, None, name, body, "status", w.Urgency.COSMETIC))

    def tell(self, regarding: p.Regarding, severity: p.Severity, reason: str, action: str, note: str) -> None:
        if self._recorder is not None:
            self._recorder(regarding, severity, reason, action, note)

    async def _create(self, resource: Resource[T], namespace: str, body: p.Body) -> p.Outcome[T]:
        write = w.Write(
            resource=resource,
            verb=w.Verb.CREATE,
            name=body["metadata"]["name"],
            namespace=namespace,
            body=body,
            urgency=w.Urgency.NORMAL,
        )
        return await self._send(write)

    async def _delete(self, resource: Resource[Any], namespace: str, name: str, uid: str) -> p.Outcome[None]:
        return await self._remove(w.Verb.DELETE, resource, namespace, name, uid)

    async def _remove(
        self, verb: w.Verb, resource: Resource[Any], namespace: str, name: str, uid: str
    ) -> p.Outcome[None]:
        outcome = await self._send(
            w.Write(resource=resource, verb=verb, name=name, namespace=namespace, uid=uid), needs_object=False
        )
        return p.Written(None) if isinstance(outcome, p.Written | p.Vanished) else _empty(outcome)

    async def _send(self, write: w.Write[T], needs_object: bool = True) -> p.Outcome[T]:
        outcome = await self._writer.submit(write)
        match outcome:
            case w.Done(found) if found is not None or not needs_object:
                return p.Written(found)  # type: ignore[arg-type]
            case w.Done() | w.Conflicted(current=None) | w.Exists(current=None):
                return await self._read_back(write, done=isinstance(outcome, w.Done))
            case w.Conflicted(current=current) | w.Exists(current=current):
                assert current is not None
                return p.Stale(current)
            case w.Vanished():
                return p.Vanished()
            case w.Fenced() | w.Stopped():
                return p.Fenced()
            case w.Refused(error) | w.GaveUp(error):
                log.warning("%s: %s", write, error)
                return p.Rejected(type(error).__name__, str(error))
            case w.Superseded() | w.Dropped():
                return p.Rejected(type(outcome).__name__, "it was not sent")

    async def _read_back(self, write: w.Write[T], done: bool) -> p.Outcome[T]:
        try:
            found = await self._client.get(write.resource, write.name, write.namespace)
        except NotFound:
            return p.Vanished()
        except KubeError as error:
            return p.Rejected(type(error).__name__, str(error))
        return p.Written(found) if done else p.Stale(found)


def _patch(
    resource: Resource[T],
    namespace: str | None,
    name: str,
    body: p.Body,
    subresource: str | None = None,
    urgency: w.Urgency = w.Urgency.NORMAL,
    coalesce: str | None = None,
) -> w.Write[T]:
    return w.Write(
        resource=resource,
        verb=w.Verb.PATCH,
        name=name,
        namespace=namespace,
        body=body,
        subresource=subresource,
        patch=PatchKind.MERGE,
        guard=body.get("metadata", {}).get("resourceVersion"),
        urgency=urgency,
        coalesce=coalesce,
    )


def _reasons(error: KubeError) -> str:
    """What the server says and, where it knows, which budget it is."""
    return " ".join([str(error), *(cause.message for cause in error.causes if cause.message)])


def _empty(outcome: p.Outcome[Any]) -> p.Outcome[None]:
    if isinstance(outcome, p.Written):
        return p.Written(None)
    return p.Stale(None) if isinstance(outcome, p.Stale) else outcome
