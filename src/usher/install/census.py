"""What Usher has to do with in a cluster, counted before it goes: jobs that wait or run, and its own objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from usher.api.kinds import KINDS
from usher.api.names import GROUP, MANAGED, PAUSED, QUEUE_JOB, QUEUE_KEYS, QUOTA_KEYS, VERSION
from usher.jobkinds.base import Job, JobKind
from usher.jobkinds.registry import BUILT_IN
from usher.kube.client import Client
from usher.kube.errors import NotFound
from usher.kube.resource import Resource, untyped
from usher.runtime.marks import GATE

Object = dict[str, Any]
PODS: Final = untyped("", "v1", "pods", "Pod", namespaced=True)
UNITS: Final = untyped(GROUP, VERSION, "queueunits", "QueueUnit", namespaced=True)
OVER: Final = ("Succeed", "Failed")
KEYS: Final = (*QUEUE_KEYS, *QUOTA_KEYS)


@dataclass(frozen=True)
class Held:
    """A job that Usher keeps suspended, and its unit."""

    kind: JobKind
    job: Object
    unit: Object | None
    """None: no manager has seen it yet."""

    @property
    def name(self) -> str:
        return f"{self.job['metadata']['namespace']}/{self.job['metadata']['name']}"


@dataclass
class Census:
    """What there is."""

    held: list[Held] = field(default_factory=list)
    running: int = 0
    """Jobs with a unit that run, and those that draw on a QueueJob."""
    aside: int = 0
    """Jobs with a unit that are suspended by somebody's will: their owner's, or an administrator's."""
    gated: list[Object] = field(default_factory=list)
    """Pods that wait at our gate."""
    objects: dict[str, int] = field(default_factory=dict)
    """Of each of our kinds, how many."""


async def take_census(client: Client, keys: Sequence[str] = KEYS) -> Census:
    """Look at everything of ours; a cluster without our kinds has nothing. `keys` are the labels that name a queue or a
    quota: the doors hold a job that has one, also where no manager has made a unit for it."""
    found = Census()
    for ours in KINDS.values():
        resource = untyped(GROUP, VERSION, ours.plural, ours.kind, namespaced=ours.namespaced)
        number = sum([1 async for _ in everything(client, resource)])
        if number:
            found.objects[ours.kind] = number
    jobs = {
        item["metadata"]["uid"]: (kind, item)
        for kind in BUILT_IN
        async for item in everything(client, untyped(kind.group, kind.version, kind.plural, kind.kind, namespaced=True))
    }
    async for unit in everything(client, UNITS):
        kind_and_job = jobs.pop(unit["spec"].get("consumerRef", {}).get("uid", ""), None)
        if kind_and_job is not None:
            _count(found, *kind_and_job, unit)
    for kind, item in jobs.values():
        drawn = _said(item["metadata"]).get(QUEUE_JOB)
        if _named(item["metadata"], keys) and (drawn or kind.suspended(as_job(item))):
            _count(found, kind, item, None)
    found.gated = [pod async for pod in everything(client, PODS) if _gated(pod)]
    return found


async def everything(client: Client, resource: Resource[Object]) -> AsyncIterator[Object]:
    """All objects of a kind; none where there is no such kind."""
    try:
        async for page in client.pages(resource):
            for item in page.items:
                yield item
    except NotFound:
        return


def as_job(item: Object) -> Job:
    """As its kind wants it."""
    meta = item["metadata"]
    return Job(meta["namespace"], meta["name"], meta["uid"], item["spec"], item.get("status") or {})


def _named(meta: Object, keys: Sequence[str]) -> bool:
    """Whether a job was meant for a queue, or draws on a QueueJob, which gives it no unit of its own; what a controller
    makes for another job never is."""
    said = _said(meta)
    owned = any(each.get("controller") for each in meta.get("ownerReferences") or ())
    return not owned and (any(said.get(key) for key in (*keys, QUEUE_JOB)) or said.get(MANAGED) == "true")


def _said(meta: Object) -> dict[str, str]:
    return {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}


def _count(found: Census, kind: JobKind, item: Object, unit: Object | None) -> None:
    job, status = as_job(item), (unit or {}).get("status", {})
    if kind.progress(job).succeeded is not None or status.get("phase") in OVER:
        return
    if not kind.suspended(job):
        found.running += 1
    elif status.get("inactive") or (unit is not None and unit["spec"].get("active") is False) or _paused(item, unit):
        found.aside += 1
    else:
        found.held.append(Held(kind, item, unit))


def _paused(item: Object, unit: Object | None) -> bool:
    """Whether its owner has suspended a job without a unit, as the doors note it."""
    return unit is None and (item["metadata"].get("annotations") or {}).get(PAUSED) == "true"


def _gated(pod: Object) -> bool:
    return any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates") or ())
