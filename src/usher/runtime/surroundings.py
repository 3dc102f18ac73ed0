"""What jobs are decided among: queues, quotas, nodes, namespaces, priority classes. Objects in, engine events out.

Fed by informers through `usher.app`; `take` after each batch gives what the engine must hear, only what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import Struct, field, structs

from usher.api.meta import ObjectMeta
from usher.api.quantities import amounts_of, requirements_of
from usher.api.queue import PreemptionWithinQuota
from usher.api.queue import Queue as QueueObject
from usher.api.queuequota import QueueQuota
from usher.core.durations import DurationError, parse_ms
from usher.core.events import Event, QueueChanged, QueueGone
from usher.core.model import Check, Queue
from usher.policies.registry import ALIASES
from usher.quotas.queuequota import QueueQuotas
from usher.quotas.source import selected
from usher.quotas.tree import QuotaTree
from usher.runtime.capacity import Capacity
from usher.runtime.facts import Reading, version_of
from usher.runtime.foreign import Foreign
from usher.runtime.naming import default_queues
from usher.runtime.objects import NamespaceObject, NodeObject, PriorityClassObject
from usher.runtime.outside import Outside
from usher.runtime.templates import ContainerDefaults, LimitRangeObject, RuntimeClassObject, defaults_of

ELASTIC_QUOTA_NAME = "quota.scheduling.koordinator.sh/name"
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def read_queue(
    found: QueueObject,
    namespaces: Mapping[str, Mapping[str, str]],
    classes: Mapping[str, int],
    system: str,
    errors: list[str],
) -> Queue:
    """A Queue as the engine wants it; what cannot be read is left out, with a text in `errors`."""
    meta, spec = found.metadata, found.spec
    allowed: frozenset[str] | None = None
    checks: list[Check] = []
    reserve_after_ms: int | None = None
    try:
        if spec.namespace_selector is not None:
            allowed = selected(requirements_of(spec.namespace_selector), namespaces)
        checks = [Check(each.name, requirements_of(each.label_selector)) for each in spec.admission_checks]
    except ValueError as error:
        errors.append(f"spec: {error}; nobody may use it")
        allowed = frozenset()
    try:
        reserve_after_ms = None if spec.reserve_after is None else parse_ms(spec.reserve_after)
    except DurationError as error:
        errors.append(f"spec.reserveAfter: {error}")
    preemption = spec.preemption
    return Queue(
        namespace=meta.namespace,
        name=meta.name,
        policy=ALIASES.get(spec.queue_policy, spec.queue_policy),
        priority=spec.priority if spec.priority is not None else classes.get(spec.priority_class_name, 0),
        weight=spec.weight,
        quota=spec.quota,
        request=amounts_of(spec.request, "spec.request", errors),
        shared=meta.namespace == system,
        namespaces=allowed,
        max_priority=spec.max_priority,
        max_units=spec.max_units,
        stop=spec.stop_policy,
        checks=tuple(checks),
        preempts=preemption is not None and preemption.within_quota is PreemptionWithinQuota.LOWER_PRIORITY,
        reserve_after_ms=reserve_after_ms,
    )


def outdated(found: ObjectMeta, known: ObjectMeta, gone: bool) -> bool:
    """Whether something newer is known already: by the answer to a write of ours, or because it was made again."""
    if gone:
        return found.uid != known.uid
    return found.uid == known.uid and version_of(found.resource_version) < version_of(known.resource_version)


class KnownQueue(Struct):
    """A Queue object and what became of it."""

    object: QueueObject
    queue: Queue
    problems: list[str] = field(default_factory=list)

    @property
    def closed(self) -> bool:
        """Who may use it cannot be read, so nobody may."""
        return bool(self.problems) and self.queue.namespaces == frozenset()


def _nobody(uid: str) -> bool:
    return False


class Charging(Struct, frozen=True):
    """How pods outside Usher are treated."""

    counts: bool = True
    """What they use is taken off what the nodes offer."""
    quota: str = ""
    """And charged to this quota."""
    queued: Callable[[str], bool] = _nobody
    """Whether the job of this uid takes part."""


class Surroundings:
    """Everything around the units, as the API server has it."""

    def __init__(
        self,
        system_namespace: str,
        capacity: Capacity,
        foreign: Foreign | None = None,
        charging: Charging | None = None,
    ) -> None:
        self.capacity = capacity
        self.outside = Outside()
        self._charging = charging or Charging()
        self.queue_quotas = QueueQuotas()
        self.foreign = foreign or Foreign(system_namespace)
        self.quotas = QuotaTree(self.queue_quotas, *self.foreign.sources)
        self.queues: dict[str, KnownQueue] = {}
        self.quota_objects: dict[str, QueueQuota] = {}
        self._system = system_namespace
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._classes: dict[str, PriorityClassObject] = {}
        self._limits: dict[str, dict[str, LimitRangeObject]] = {}
        self._defaults: dict[str, ContainerDefaults] = {}
        self._overheads: dict[str, Mapping[str, str]] = {}
        self._told: dict[str, Queue] = {}
        self._stale = False
        """All queues must be read again: namespaces or classes changed."""
        self._untold = True
        """A queue may differ from what the engine was told."""
        self._unnamed = True
        """Another queue may be the only one of a namespace."""
        self._queue_names: Mapping[str, str] = {}
        self.changes = 0
        """Grows whenever an object is seen that has a status of ours, or decides what it says."""

    def see_queue(self, found: QueueObject, gone: bool = False) -> None:
        """A Queue, whoever read or wrote it; one that is older than what is known changes nothing."""
        key = f"{found.metadata.namespace}/{found.metadata.name}"
        known = self.queues.get(key)
        if known is not None and outdated(found.metadata, known.object.metadata, gone):
            return
        self.changes += 1
        if not gone or known is not None:
            lone = not gone and not found.spec.quota and found.metadata.namespace != self._system
            weight = found.spec.weight if lone else None
            self.foreign.resource.queue_changed(found.metadata.namespace, found.metadata.name, weight)
        if gone:
            self.queues.pop(key, None)
        elif known is not None and known.object.spec == found.spec:
            known.object = found
            return
        else:
            self.queues[key] = self._read(found)
        self._untold = self._unnamed = True

    def see_quota(self, found: QueueQuota, gone: bool = False) -> None:
        name = found.metadata.name
        known = self.quota_objects.get(name)
        if known is not None and outdated(found.metadata, known.metadata, gone):
            return
        self.changes += 1
        if gone:
            self.quota_objects.pop(name, None)
            self.queue_quotas.gone(name)
        else:
            self.quota_objects[name] = found
            self.queue_quotas.changed(found)

    def see_foreign(self, kind: str, found: Any, gone: bool = False) -> None:
        """A quota object of another system."""
        self.changes += 1
        self.foreign.see(kind, found, gone)
        self._untold = True  # a ResourceQuota that we made says what pods must ask for

    def pod_labels(self, quota: str) -> Mapping[str, str]:
        """What pods charged to a quota carry: Koordinator's scheduler finds an ElasticQuota by a label."""
        return {ELASTIC_QUOTA_NAME: quota} if quota in self.foreign.elastic.nodes() else {}

    def see_namespace(self, found: NamespaceObject, gone: bool = False) -> None:
        name, labels = found.metadata.name, found.metadata.labels
        if gone:
            self._namespaces.pop(name, None)
            self.quotas.namespace_gone(name)
        elif self._namespaces.get(name) != labels:
            self._namespaces[name] = labels
            self.quotas.namespace_changed(name, labels)
        else:
            return
        self._stale = True
        self.changes += 1

    def see_class(self, found: PriorityClassObject, gone: bool = False) -> None:
        if gone:
            self._classes.pop(found.metadata.name, None)
        else:
            self._classes[found.metadata.name] = found
        self._stale = True

    def see_limits(self, found: LimitRangeObject, gone: bool = False) -> None:
        meta = found.metadata
        if gone:
            self._limits.get(meta.namespace, {}).pop(meta.name, None)
        else:
            self._limits.setdefault(meta.namespace, {})[meta.name] = found
        self._defaults = {
            namespace: defaults_of(ranges.values()) for namespace, ranges in self._limits.items() if ranges
        }

    def see_runtime(self, found: RuntimeClassObject, gone: bool = False) -> None:
        if gone or not found.overhead.pod_fixed:
            self._overheads.pop(found.metadata.name, None)
        else:
            self._overheads[found.metadata.name] = found.overhead.pod_fixed

    def see_node(self, found: NodeObject, now_ms: int, gone: bool = False) -> None:
        if gone:
            self.capacity.node_gone(found.metadata.name, now_ms)
        else:
            self.capacity.node_changed(found, now_ms)

    def reading(self, base: Reading) -> Reading:
        """How jobs are read, with the priority classes as they are now."""
        default = next((each for each in self._classes.values() if each.global_default), None)
        return structs.replace(
            base,
            classes=self._values(),
            default_class=("", 0) if default is None else (default.metadata.name, default.value),
            defaults=self._defaults,
            overheads=dict(self._overheads),
            queues=self._default_queues(base),
        )

    def _default_queues(self, base: Reading) -> Mapping[str, str]:
        """Worked out anew only when queues or namespaces changed: this is asked after every change of anything."""
        if self._unnamed:
            self._unnamed = False
            self._queue_names = default_queues(
                base.managed, self._namespaces, [each.queue for each in self.queues.values()]
            )
        return self._queue_names

    def take(self, now_ms: int) -> list[Event]:
        """What the engine must hear now."""
        if self._stale:
            self._stale, self._untold, self._unnamed = False, True, True
            self.queues = {key: self._read(known.object) for key, known in self.queues.items()}
        self._take_outside(now_ms)
        events: list[Event] = [*self.quotas.take()]
        events.extend(self._take_queues())
        change = self.capacity.take(now_ms)
        return events if change is None else [*events, change]

    def _take_outside(self, now_ms: int) -> None:
        charging = self._charging
        used = self.outside.take(now_ms, charging.queued)
        if used is None:
            return
        self.foreign.resource.outside_changed(used.by_namespace)
        if charging.counts:
            self.capacity.outside_changed(used.by_node, now_ms)
            self.quotas.outside = (charging.quota, used.total() if charging.quota else {})

    def _take_queues(self) -> list[Event]:
        if not self._untold:
            return []
        self._untold = False
        events: list[Event] = []
        for key in [key for key in self._told if key not in self.queues]:
            del self._told[key]
            events.append(QueueGone(key))
        for key, known in self.queues.items():
            queue = known.queue
            required = self.foreign.resource.required_by_ours(queue.namespace)
            if required:
                queue = replace(queue, requires=required)
            if self._told.get(key) != queue:
                self._told[key] = queue
                events.append(QueueChanged(queue))
        return events

    def _values(self) -> dict[str, int]:
        return {**SYSTEM_CLASSES, **{name: each.value for name, each in self._classes.items()}}

    def _read(self, found: QueueObject) -> KnownQueue:
        errors: list[str] = []
        queue = read_queue(found, self._namespaces, self._values(), self._system, errors)
        return KnownQueue(found, queue, errors)
