"""Pod templates as the cluster will make pods of them: what LimitRanges and RuntimeClasses add at the pod's creation.

The request of a job must be that of its pods, and those get defaults that the template does not show. `completed`
writes them into the template of the unit, so that whoever reads the unit sees what is charged. Pure;
`usher.runtime.facts` calls it, `usher.runtime.surroundings` collects the objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from usher.api.meta import ObjectMeta
from usher.api.shapes import Api

Quantities = Mapping[str, str]


class LimitRangeItem(Api, frozen=True, kw_only=True):
    type: str = ""
    default: dict[str, str] = field(default_factory=dict)
    default_request: dict[str, str] = field(default_factory=dict)


class LimitRangeSpec(Api, frozen=True, kw_only=True):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRangeObject(Api, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


class Overhead(Api, frozen=True, kw_only=True):
    pod_fixed: dict[str, str] = field(default_factory=dict)


class RuntimeClassObject(Api, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    overhead: Overhead = Overhead()


class ContainerDefaults(Struct, frozen=True):
    """What a container gets that says nothing of a resource."""

    limits: Quantities = field(default_factory=dict)
    requests: Quantities = field(default_factory=dict)


def defaults_of(ranges: Iterable[LimitRangeObject]) -> ContainerDefaults:
    """Of all LimitRanges in a namespace; of several that speak of one resource, the first by name counts."""
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    for found in sorted(ranges, key=lambda each: each.metadata.name):
        for item in found.spec.limits:
            if item.type == "Container":
                limits = {**item.default, **limits}
                requests = {**item.default, **item.default_request, **requests}
    return ContainerDefaults(limits, requests)


def completed(
    template: Mapping[str, Any], defaults: ContainerDefaults | None, overheads: Mapping[str, Quantities]
) -> Mapping[str, Any]:
    """The template with what the cluster adds; the same one if that is nothing."""
    spec: Mapping[str, Any] = template.get("spec") or {}
    added: dict[str, Any] = {}
    overhead = overheads.get(str(spec.get("runtimeClassName") or ""))
    if overhead and not spec.get("overhead"):
        added["overhead"] = dict(overhead)
    if defaults is not None:
        for kind in ("containers", "initContainers"):
            containers = spec.get(kind)
            if isinstance(containers, list) and (filled := _filled(containers, defaults)) != containers:
                added[kind] = filled
    return {**template, "spec": {**spec, **added}} if added else template


def _filled(containers: Sequence[Any], defaults: ContainerDefaults) -> list[Any]:
    return [_with_defaults(each, defaults) if isinstance(each, Mapping) else each for each in containers]


def _with_defaults(container: Mapping[str, Any], defaults: ContainerDefaults) -> Mapping[str, Any]:
    """A limit of its own is its request, before any default is looked at."""
    resources = container.get("resources")
    own = resources if isinstance(resources, Mapping) else {}
    limits, requests = own.get("limits") or {}, own.get("requests") or {}
    if not isinstance(limits, Mapping) or not isinstance(requests, Mapping):
        return container
    asks = {**defaults.requests, **limits, **requests}
    may = {**defaults.limits, **limits}
    if asks == requests and may == limits:
        return container
    told = {name: amounts for name, amounts in (("limits", may), ("requests", asks)) if amounts}
    return {**container, "resources": {**own, **told}}
