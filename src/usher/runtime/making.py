"""What the manager makes for people: a default Queue for each quota, and the missing half of Queue and ResourceQuota.

`plan` is pure: what should be made, changed and removed, from what there is. The rule: what is not ours is never
touched; ours is what carries our mark, and it goes when its reason has gone, a Queue only once no unit is in it.
`Maker` carries a plan out, beside the manager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from usher.api import names
from usher.api.meta import ObjectMeta
from usher.api.quantities import quantities_of
from usher.core.amounts import Amounts, parse_amounts
from usher.core.model import Quota
from usher.core.phases import FINISHED
from usher.quotas.elasticquotatree import queue_name
from usher.quotas.objects import ResourceQuota
from usher.quotas.resourcequota import MADE_FOR, key_of, resource_of
from usher.quotas.source import QueueHint
from usher.runtime.manager import Manager
from usher.runtime.port import Outcome, Written
from usher.runtime.surroundings import KnownQueue, Surroundings

log = logging.getLogger("usher.making")

MADE_BY: Final = {"app.kubernetes.io/managed-by": "usher"}
FOR_QUOTA: Final = f"{names.GROUP}/made-for-quota"
"""On a Queue that we made: the quota (or the ResourceQuota) that had none."""

Body = dict[str, Any]
Empty = Callable[[str], bool]
"""Whether no unit is in the Queue of this key."""


@dataclass(frozen=True, slots=True)
class MakingSettings:
    """What is made at all."""

    system_namespace: str
    default_queues: bool = True
    pairs: bool = True
    interval_ms: int = 1_000


@dataclass(slots=True)
class Plan:
    """What should be done; bodies with their namespaces, and objects to remove."""

    create_queues: list[Body] = field(default_factory=list)
    delete_queues: list[ObjectMeta] = field(default_factory=list)
    create_quotas: list[Body] = field(default_factory=list)
    patch_quotas: list[tuple[ObjectMeta, Body]] = field(default_factory=list)
    delete_quotas: list[ObjectMeta] = field(default_factory=list)
    waits: bool = False
    """Something stays only because units are in it."""


def default_queue(system: str, quota: str, hint: QueueHint) -> Body:
    """The shared Queue of a quota's units that name none."""
    spec: Body = {"quota": quota}
    if hint.policy:
        spec["queuePolicy"] = hint.policy
    if hint.preempts:
        spec["preemption"] = {"withinQuota": "LowerPriority"}
    return _queue(queue_name(quota), system, quota, spec)


def plan_defaults(
    hints: Mapping[str, QueueHint],
    queues: Mapping[str, KnownQueue],
    empty: Empty,
    system: str,
    plan: Plan,
) -> None:
    """A Queue in the system namespace for each quota without one of its name; ours go with their quota."""
    wanted = {queue_name(quota): quota for quota in sorted(hints, reverse=True)}
    for name, quota in sorted(wanted.items()):
        if f"{system}/{name}" not in queues:
            plan.create_queues.append(default_queue(system, quota, hints[quota]))
    for key, known in sorted(queues.items()):
        meta = known.object.metadata
        if meta.namespace == system and FOR_QUOTA in meta.labels and meta.name not in wanted:
            _remove(known, key, empty, plan)


def plan_pairs(around: Surroundings, empty: Empty, system: str, plan: Plan) -> None:
    """In managed namespaces: a Queue for a lone ResourceQuota, and a ResourceQuota for a lone Queue."""
    resource, objects = around.foreign.resource, around.foreign.resource_quotas
    quotas = around.quotas.quotas()
    by_namespace = {space: quota for quota in quotas.values() for space in quota.namespaces}
    spaces: dict[str, list[KnownQueue]] = {}
    for known in around.queues.values():
        spaces.setdefault(known.object.metadata.namespace, []).append(known)
    for meta in (found.metadata for found in objects.values()):
        spaces.setdefault(meta.namespace, [])
    spaces.pop(system, None)
    for namespace, queues in sorted(spaces.items()):
        theirs = resource.quotas_in(namespace)
        ours = [
            found
            for found in objects.values()
            if found.metadata.namespace == namespace and MADE_FOR in found.metadata.labels
        ]
        managed = resource.managed(namespace)
        if managed and theirs and not queues:
            plan.create_queues.append(_queue(theirs[0], namespace, theirs[0], {}))
        lone = sorted(
            (each for each in queues if FOR_QUOTA not in each.object.metadata.labels),
            key=lambda each: each.object.metadata.name,
        )
        for known in queues:
            made_for = known.object.metadata.labels.get(FOR_QUOTA)
            if made_for and (lone or made_for not in map(queue_name, theirs)):
                _remove(known, known.queue.key, empty, plan)
        if managed and lone and not theirs:
            home = by_namespace.get(namespace)
            purses = [quotas.get(each.queue.quota) or home for each in lone]
            purses += [home] if home is not None else []  # of jobs in shared queues
            _plan_quota(lone[0], _together(purses), ours, plan)
        elif not lone or theirs or not managed:
            plan.delete_quotas.extend(found.metadata for found in ours)


def _remove(known: KnownQueue, key: str, empty: Empty, plan: Plan) -> None:
    """A Queue of ours, once no unit is in it."""
    if empty(key):
        plan.delete_queues.append(known.object.metadata)
    else:
        plan.waits = True


def _together(purses: Sequence[Quota | None]) -> dict[str, int]:
    """What the units of a namespace may have at most in all of its quotas; a resource that one does not limit is not in
    it. The API server knows nothing of quotas, so anything less would refuse pods that were let start."""
    found = {quota.name: quota.max for quota in purses if quota is not None}
    if None in purses or not found:
        return {}
    shared = set.intersection(*(set(each) for each in found.values()))
    return {resource: sum(each[resource] for each in found.values()) for resource in sorted(shared)}


def _plan_quota(known: KnownQueue, most: Amounts, ours: Sequence[ResourceQuota], plan: Plan) -> None:
    meta = known.object.metadata
    hard = {key_of(name): text for name, text in quantities_of(most).items()}
    reference = {"apiVersion": names.API_VERSION, "kind": "Queue", "name": meta.name, "uid": meta.uid}
    mine = [found for found in ours if found.metadata.labels.get(MADE_FOR) == meta.name]
    plan.delete_quotas.extend(found.metadata for found in ours if found not in mine)
    if not mine:
        plan.create_quotas.append(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {
                    "name": meta.name,
                    "namespace": meta.namespace,
                    "labels": {**MADE_BY, MADE_FOR: meta.name},
                    "ownerReferences": [{**reference, "controller": True}],
                },
                "spec": {"hard": hard},
            }
        )
    elif _canonical(mine[0].spec.hard) != _canonical(hard):
        gone = {key: None for key in mine[0].spec.hard if key not in hard}
        plan.patch_quotas.append((mine[0].metadata, {"spec": {"hard": {**gone, **hard}}}))


def _canonical(hard: Mapping[str, object]) -> dict[str, int]:
    """So that 1 and 1000m are the same."""
    return {key: parse_amounts({name: text}, "", [])[name] for key, text in hard.items() if (name := resource_of(key))}


def _queue(name: str, namespace: str, quota: str, spec: Body) -> Body:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Queue",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**MADE_BY, FOR_QUOTA: queue_name(quota)},
        },
        "spec": spec,
    }


class Maker:
    """One leader's making."""

    def __init__(self, manager: Manager, around: Surroundings, settings: MakingSettings) -> None:
        self._manager = manager
        self._around = around
        self._settings = settings
        self._seen = -1
        self._again = True
        """Something was not done, or waits for a Queue to be empty."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._settings.interval_ms / 1000)

    async def look(self) -> None:
        """Make what is missing since the last look."""
        around, settings = self._around, self._settings
        if around.changes == self._seen and not self._again:
            return
        self._seen = around.changes
        plan = Plan()
        if settings.default_queues:
            hints = around.quotas.queue_hints()
            plan_defaults(hints, around.queues, self._empty, settings.system_namespace, plan)
        if settings.pairs:
            plan_pairs(around, self._empty, settings.system_namespace, plan)
        self._again = plan.waits
        await self._carry_out(plan)

    def _empty(self, key: str) -> bool:
        engine = self._manager.engine
        inside = (engine.unit(each) for each in self._manager.entries if engine.queue_of(each) == key)
        return all(each is None or each.phase in FINISHED for each in inside)

    async def _carry_out(self, plan: Plan) -> None:
        cluster = self._manager.cluster
        writes: list[Awaitable[Outcome[Any]]] = []
        writes.extend(cluster.create_queue(body["metadata"]["namespace"], body) for body in plan.create_queues)
        writes.extend(cluster.delete_queue(meta.namespace, meta.name, meta.uid) for meta in plan.delete_queues)
        writes.extend(cluster.create_resource_quota(body["metadata"]["namespace"], body) for body in plan.create_quotas)
        writes.extend(cluster.patch_resource_quota(meta.namespace, meta.name, body) for meta, body in plan.patch_quotas)
        writes.extend(cluster.delete_resource_quota(meta.namespace, meta.name, meta.uid) for meta in plan.delete_quotas)
        for outcome in await asyncio.gather(*writes):
            if not isinstance(outcome, Written):
                self._again = True
                log.debug("it was not made: %s", outcome)
