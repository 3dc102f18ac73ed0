"""The quota objects that are not ours, by kind: what the sources are fed with, and whom an Event is about.

Filled by informers through `usher.runtime.surroundings`; a kind that is not installed has no objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from usher.api.meta import ObjectMeta
from usher.api.names import MANAGED
from usher.quotas.elasticquota import ElasticQuotas
from usher.quotas.elasticquotatree import ElasticQuotaTrees
from usher.quotas.objects import ResourceQuota
from usher.quotas.resourcequota import ResourceQuotas
from usher.quotas.source import QuotaSource
from usher.quotas.tree import ObjectRef
from usher.runtime.port import Regarding

API_VERSIONS: Final = {
    "ElasticQuota": "scheduling.sigs.k8s.io/v1alpha1",
    "ElasticQuotaTree": "scheduling.sigs.k8s.io/v1beta1",
    "ResourceQuota": "v1",
}


class Foreign:
    """ElasticQuotas, ElasticQuotaTrees and ResourceQuotas."""

    def __init__(
        self,
        system_namespace: str,
        managed: Sequence[str] = (),
        kinds: Sequence[str] = ("ElasticQuota", "ElasticQuotaTree", "ResourceQuota"),
    ) -> None:
        self.elastic = ElasticQuotas()
        self.trees = ElasticQuotaTrees(system_namespace)
        self.resource = ResourceQuotas(frozenset(managed), MANAGED)
        self._by_kind: dict[str, Any] = {
            "ElasticQuota": self.elastic,
            "ElasticQuotaTree": self.trees,
            "ResourceQuota": self.resource,
        }
        self.sources: tuple[QuotaSource, ...] = tuple(source for kind, source in self._by_kind.items() if kind in kinds)
        self.metas: dict[ObjectRef, ObjectMeta] = {}
        self.resource_quotas: dict[str, ResourceQuota] = {}

    def see(self, kind: str, found: Any, gone: bool) -> None:
        """An object, as its informer says."""
        meta: ObjectMeta = found.metadata
        key = f"{meta.namespace}/{meta.name}"
        if isinstance(found, ResourceQuota):
            self.resource_quotas.pop(key, None)
            if not gone:
                self.resource_quotas[key] = found
        if gone:
            self.metas.pop((kind, key), None)
            self._by_kind[kind].gone(key)
        else:
            self.metas[kind, key] = meta
            self._by_kind[kind].changed(found)

    def regarding(self, ref: ObjectRef) -> Regarding | None:
        """Whom to tell of an object's problems."""
        meta = self.metas.get(ref)
        if meta is None:
            return None
        return Regarding(API_VERSIONS[ref[0]], ref[0], meta.namespace, meta.name, meta.uid)
