"""Of the quota kinds of others, what is decoded: only what their sources read. Nothing here is ever written back."""

from collections.abc import Mapping
from typing import Any

from msgspec import field

from usher.api.meta import ObjectMeta
from usher.api.shapes import Api

Quantities = Mapping[str, str | int | float]


class ElasticQuotaSpec(Api, frozen=True, kw_only=True):
    min: Quantities = field(default_factory=dict)
    max: Quantities = field(default_factory=dict)


class ElasticQuota(Api, frozen=True, kw_only=True):
    """Of scheduling.sigs.k8s.io/v1alpha1; most of what it says is in Koordinator's labels and annotations."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticQuotaSpec = ElasticQuotaSpec()


class TreeNode(Api, frozen=True, kw_only=True):
    """A quota inside an ElasticQuotaTree."""

    name: str = ""
    namespaces: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    min: Quantities = field(default_factory=dict)
    max: Quantities = field(default_factory=dict)
    children: tuple["TreeNode", ...] = ()


class ElasticQuotaTreeSpec(Api, frozen=True, kw_only=True):
    root: TreeNode = TreeNode()


class ElasticQuotaTree(Api, frozen=True, kw_only=True):
    """Of scheduling.sigs.k8s.io/v1beta1: a whole tree in one object."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticQuotaTreeSpec = ElasticQuotaTreeSpec()


class ResourceQuotaSpec(Api, frozen=True, kw_only=True):
    hard: Quantities = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    scope_selector: Mapping[str, Any] | None = None


class ResourceQuota(Api, frozen=True, kw_only=True):
    """Of v1: what the pods of a namespace may ask for together."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
