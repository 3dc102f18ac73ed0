"""The source of our own quotas: each QueueQuota is a node; `parent: root` is the same as none.

Namespaces are charged here by name or by their labels. Fed by the manager from informers, through `QuotaTree`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct

from usher.api.quantities import amounts_of, requirements_of
from usher.api.queuequota import QueueQuota
from usher.core.amounts import field_path
from usher.core.model import ROOT, Quota, Requirement
from usher.quotas.placing import MIN_ABOVE_MAX, above_max
from usher.quotas.source import INVALID, NAME_RESERVED, Labels, Problem, QueueHint, matches, selected


class _Kept(Struct):
    """One object, as far as the tree needs it."""

    spec: object
    quota: Quota | None
    named: frozenset[str] = frozenset()
    """The namespaces that it lists."""
    selector: tuple[Requirement, ...] | None = None
    problems: tuple[Problem, ...] = ()


class QueueQuotas:
    """All QueueQuotas of the cluster."""

    kind: Final = "QueueQuota"

    def __init__(self) -> None:
        self.revision = 0
        self._kept: dict[str, _Kept] = {}
        self._selecting: dict[str, _Kept] = {}
        self._namespaces: dict[str, Labels] = {}
        self._nodes: dict[str, Quota] = {}

    def changed(self, found: QueueQuota) -> None:
        """A QueueQuota appeared or changed; what is not its spec is not looked at."""
        name = found.metadata.name
        before = self._kept.get(name)
        if before is not None and before.spec == found.spec:
            return
        kept = self._kept[name] = read(found, self._namespaces)
        self._selecting.pop(name, None)
        if kept.selector is not None:
            self._selecting[name] = kept
        self._put(name, kept.quota)

    def gone(self, name: str) -> None:
        """A QueueQuota was deleted."""
        self._kept.pop(name, None)
        self._selecting.pop(name, None)
        self._put(name, None)

    def namespace_changed(self, name: str, labels: Labels) -> None:
        if self._namespaces.get(name) == labels:
            return
        self._namespaces[name] = dict(labels)
        for quota, kept in self._selecting.items():
            self._belongs(quota, kept, name, matches(kept.selector or (), labels))

    def namespace_gone(self, name: str) -> None:
        if self._namespaces.pop(name, None) is not None:
            for quota, kept in self._selecting.items():
                self._belongs(quota, kept, name, False)

    def nodes(self) -> Mapping[str, Quota]:
        return self._nodes

    def object_of(self, node: str) -> str:
        return node

    def queue_hint(self, node: str) -> QueueHint | None:
        return QueueHint()

    def problems(self) -> Mapping[str, Sequence[Problem]]:
        return {name: kept.problems for name, kept in self._kept.items() if kept.problems}

    def _belongs(self, quota: str, kept: _Kept, namespace: str, is_selected: bool) -> None:
        """A namespace is selected, or is not; others stay as they are."""
        node = kept.quota
        belongs = is_selected or namespace in kept.named
        if node is not None and belongs != (namespace in node.namespaces):
            changed = node.namespaces | {namespace} if belongs else node.namespaces - {namespace}
            kept.quota = replace(node, namespaces=changed)
            self._put(quota, kept.quota)

    def _put(self, name: str, quota: Quota | None) -> None:
        self.revision += 1
        if quota is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = quota


def read(found: QueueQuota, namespaces: Mapping[str, Labels]) -> _Kept:
    """An object as a node. One with an amount or a selector that cannot be read is none: it could limit nothing."""
    name, spec = found.metadata.name, found.spec
    if name == ROOT:
        text = f"{ROOT} is the whole cluster; name the quotas below it"
        return _Kept(spec, None, problems=(Problem(NAME_RESERVED, text),))
    errors: list[str] = []
    least, most = amounts_of(spec.min, "spec.min", errors), amounts_of(spec.max, "spec.max", errors)
    selector: tuple[Requirement, ...] | None = None
    try:
        selector = None if spec.namespace_selector is None else requirements_of(spec.namespace_selector)
    except ValueError as error:
        errors.append(f"spec.namespaceSelector: {error}")
    if spec.weight < 0:
        errors.append(f"spec.weight: {spec.weight} is negative")
    if errors:
        return _Kept(spec, None, problems=(Problem(INVALID, "; ".join(errors)),))
    problems = tuple(
        Problem(MIN_ABOVE_MAX, f"{field_path('spec.min', resource)}: {why}; max counts", takes_part=True)
        for resource, why in above_max(least, most)
    )
    named = frozenset(spec.namespaces)
    quota = Quota(
        name=name,
        parent="" if spec.parent == ROOT else spec.parent,
        min={resource: min(amount, most.get(resource, amount)) for resource, amount in least.items()},
        max=most,
        weight=spec.weight,
        lends=spec.lendable,
        namespaces=named if selector is None else named | selected(selector, namespaces),
        closed=bool(named) or selector is not None,
    )
    return _Kept(spec, quota, named, selector, problems)
