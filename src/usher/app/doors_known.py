"""What the doors know of the cluster, from the caches of the process: leaders and standbys alike.

Fed with every change that informers bring; what follows from it is worked out when somebody asks. No API call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from usher.api.names import MANAGED
from usher.api.queue import Queue as QueueObject
from usher.api.queuequota import QueueQuota
from usher.app.sources import KINDS_OF
from usher.core.model import Queue, Quota
from usher.kube.store import Deleted, Delta
from usher.quotas.objects import ElasticQuota, ElasticQuotaTree, ResourceQuota
from usher.runtime.capacity import Capacity
from usher.runtime.facts import Reading
from usher.runtime.foreign import Foreign
from usher.runtime.objects import NamespaceObject, PriorityClassObject
from usher.runtime.surroundings import Surroundings
from usher.runtime.templates import LimitRangeObject, RuntimeClassObject
from usher.settings.tree import Settings
from usher.webhooks.known import has_purse, may_use
from usher.webhooks.terms import Terms

FOREIGN: Final = {ElasticQuota: "ElasticQuota", ElasticQuotaTree: "ElasticQuotaTree", ResourceQuota: "ResourceQuota"}


class Memory:
    """Answers what `usher.webhooks.known.Known` asks."""

    def __init__(self, settings: Settings, terms: Terms, base: Reading) -> None:
        kinds = [KINDS_OF[each] for each in settings.quotas.sources]
        foreign = Foreign(settings.system_namespace, settings.managed_namespaces, kinds)
        self._around = around = Surroundings(settings.system_namespace, Capacity(0), foreign)
        self._terms, self._base = terms, base
        self._labels: dict[str, Mapping[str, str]] = {}
        self._see: dict[type, Callable[[Any, bool], None]] = {
            NamespaceObject: self._see_namespace,
            PriorityClassObject: around.see_class,
            LimitRangeObject: around.see_limits,
            RuntimeClassObject: around.see_runtime,
            QueueObject: around.see_queue,
            QueueQuota: around.see_quota,
            **{kind: self._seer(name) for kind, name in FOREIGN.items()},
        }
        self._late = True
        self._usable: dict[str, list[Queue]] = {}
        self._shared: list[Queue] = []
        self._own: dict[str, list[Queue]] = {}
        self._quotas: Mapping[str, Quota] = {}
        self._elastic: Mapping[str, Quota] = {}
        self._scheduler = settings.admission.elastic_quota_scheduler
        self._by_namespace: dict[str, str] = {}
        self._reading = base

    def hear(self, deltas: Sequence[Delta[Any]]) -> None:
        """What an informer brings; kinds that the doors do not ask for are passed over."""
        see = self._see.get(type(deltas[0].object)) if deltas else None
        if see is not None:
            self._late = True
            for delta in deltas:
                see(delta.object, isinstance(delta, Deleted))

    def _see_namespace(self, found: NamespaceObject, gone: bool) -> None:
        if gone:
            self._labels.pop(found.metadata.name, None)
        else:
            self._labels[found.metadata.name] = found.metadata.labels
        self._around.see_namespace(found, gone)

    def _seer(self, kind: str) -> Callable[[Any, bool], None]:
        return lambda found, gone: self._around.see_foreign(kind, found, gone)

    # -- answers ------------------------------------------------------------------------------------------------------

    def managed(self, namespace: str) -> bool:
        if self._terms.exempt(namespace):
            return False
        return namespace in self._terms.managed_namespaces or self._labels.get(namespace, {}).get(MANAGED, "") == "true"

    def queue(self, namespace: str, name: str) -> Queue | None:
        self._catch_up()
        queues = self._around.queues
        known = queues.get(f"{namespace}/{name}") or queues.get(f"{self._terms.system_namespace}/{name}")
        return None if known is None else known.queue

    def usable(self, namespace: str) -> Sequence[Queue]:
        self._catch_up()
        found = self._usable.get(namespace)
        if found is None:
            own = self._own.get(namespace, []) if namespace != self._terms.system_namespace else []
            found = [
                queue
                for queue in (*own, *self._shared)
                if may_use(queue, namespace) and has_purse(self, queue, namespace)
            ]
            self._usable[namespace] = found
        return found

    def quotas(self) -> Mapping[str, Quota]:
        self._catch_up()
        return self._quotas

    def reserved(self, quota: str) -> bool:
        return self.quotas()[quota].closed

    def quota_of(self, namespace: str) -> str:
        self._catch_up()
        return self._by_namespace.get(namespace, "")

    def scheduler(self, quota: str) -> str:
        self._catch_up()
        return self._scheduler if quota in self._elastic else ""

    def reading(self) -> Reading:
        self._catch_up()
        return self._reading

    def _catch_up(self) -> None:
        """Work out what follows from what was heard since somebody last asked."""
        if not self._late:
            return
        self._late = False
        around = self._around
        around.take(0)
        queues = [known.queue for _, known in sorted(around.queues.items())]
        self._shared = [queue for queue in queues if queue.shared]
        self._own = {}
        for queue in queues:
            self._own.setdefault(queue.namespace, []).append(queue)
        self._usable = {}
        self._quotas = around.quotas.quotas()
        self._elastic = around.foreign.elastic.nodes()
        self._by_namespace = {}
        for name in sorted(self._quotas):
            for namespace in self._quotas[name].namespaces:
                self._by_namespace.setdefault(namespace, name)
        self._reading = around.reading(self._base)
