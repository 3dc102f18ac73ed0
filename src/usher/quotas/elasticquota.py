"""The source of ElasticQuotas, with the labels and annotations by which Koordinator makes trees of them.

Quotas are known by their name alone, as in Koordinator. Those of the default tree hang on `koordinator-root-quota`,
which is there whether or not such an object exists; that of its system and of its default quota hang beside it. A tree
of its own (`tree-id`) begins at its root quota (`is-root`), whose `total-resource` is the tree's alone: nobody else
may use it, unless `ignore-default-tree` says that it is counted twice. What divides the rest is `shared-weight`, or
`max` without it, resource by resource; policies that know one weight only take that of cpu.

Fed by the manager from an informer, and by the simulator from manifests, through `QuotaTree`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct

from usher.core.amounts import Amounts, field_path, format_amount, parse_amounts
from usher.core.model import ROOT, Quota
from usher.quotas.objects import ElasticQuota
from usher.quotas.placing import MIN_ABOVE_MAX, above_max
from usher.quotas.source import INVALID, NAME_RESERVED, Keeping, Labels, Problem, QueueHint

PREFIX: Final = "quota.scheduling.koordinator.sh/"
ROOT_QUOTA: Final = "koordinator-root-quota"
SYSTEM_QUOTA: Final = "koordinator-system-quota"
DEFAULT_QUOTA: Final = "koordinator-default-quota"
POLICY_KEYS: Final = ("koord-queue/queue-policy", "kube-queue/queue-policy")

ANNOTATION: Final = "AnnotationUnreadable"
NAME_TAKEN: Final = "NameTaken"
PARENT_UNMARKED: Final = "ParentNotMarked"
TREE_DIFFERS: Final = "TreeDiffers"
TREE_ROOTLESS: Final = "TreeWithoutRoot"
TOTAL_MISSING: Final = "TotalMissing"
MINS_ABOVE_MIN: Final = "MinsAboveMin"

_LABELS: Final = (
    "parent",
    "is-parent",
    "is-root",
    "tree-id",
    "allow-lent-resource",
    "ignore-default-tree",
    "allow-force-update",
)
_ANNOTATIONS: Final = ("shared-weight", "total-resource", "guaranteed", "namespaces")


class _Kept(Struct):
    """One object by itself; what depends on the others is found by `_derive`."""

    basis: object
    key: str
    quota: Quota | None
    tree: str = ""
    is_root: bool = False
    is_parent: bool = False
    forced: bool = False
    hint: QueueHint | None = None
    problems: tuple[Problem, ...] = ()


class _Derived(Struct):
    nodes: dict[str, Quota]
    owners: dict[str, str]
    """By node: the key of its object."""
    problems: dict[str, list[Problem]]


class ElasticQuotas(Keeping[_Kept]):
    """All ElasticQuotas of the cluster."""

    kind: Final = "ElasticQuota"

    def __init__(self) -> None:
        super().__init__()
        self._derived: _Derived | None = None

    def changed(self, found: ElasticQuota) -> None:
        """An ElasticQuota appeared or changed; what its scheduler writes into it is not looked at."""
        key = f"{found.metadata.namespace}/{found.metadata.name}"
        basis = _basis(found)
        before = self._kept.get(key)
        if before is None or before.basis != basis:
            self._kept[key] = read(found, key, basis)
            self._touch()

    def nodes(self) -> Mapping[str, Quota]:
        return self._now().nodes

    def object_of(self, node: str) -> str:
        return self._now().owners.get(node, "")

    def queue_hint(self, node: str) -> QueueHint | None:
        if node in (ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA):
            return None
        kept = self._kept.get(self.object_of(node))
        return None if kept is None or kept.is_parent else kept.hint

    def problems(self) -> Mapping[str, Sequence[Problem]]:
        return self._now().problems

    def _touch(self) -> None:
        super()._touch()
        self._derived = None

    def _now(self) -> _Derived:
        if self._derived is None:
            self._derived = _derive(self._kept)
        return self._derived


# -- one object -------------------------------------------------------------------------------------------------------


def _basis(found: ElasticQuota) -> object:
    labels, annotations = found.metadata.labels, found.metadata.annotations
    said = [labels.get(PREFIX + name) for name in _LABELS]
    said += [annotations.get(PREFIX + name) for name in _ANNOTATIONS]
    said += [labels.get(key) or annotations.get(key) for key in POLICY_KEYS]
    return found.spec, tuple(said)


def read(found: ElasticQuota, key: str, basis: object = None) -> _Kept:
    """An object as a node. One with an amount that cannot be read is none: it could limit nothing."""
    meta = found.metadata
    name, errors = meta.name, list[str]()
    if name == ROOT:
        text = f"{ROOT} is the whole cluster; give the quota another name"
        return _Kept(basis, key, None, problems=(Problem(NAME_RESERVED, text),))
    least, most = parse_amounts(found.spec.min, "spec.min", errors), parse_amounts(found.spec.max, "spec.max", errors)
    if errors:
        return _Kept(basis, key, None, problems=(Problem(INVALID, "; ".join(errors)),))
    said = _Said(meta.labels, meta.annotations)
    tree, is_root = said.label("tree-id"), said.label("is-root") == "true"
    problems = [
        Problem(MIN_ABOVE_MAX, f"{field_path('spec.min', resource)}: {why}; max counts", takes_part=True)
        for resource, why in above_max(least, most)
    ]
    weights = said.amounts("shared-weight")
    for resource, amount in said.amounts("guaranteed").items():
        least[resource] = max(amount, least.get(resource, 0))
    lends = said.label("allow-lent-resource") != "false"
    if is_root and tree:
        total = said.amounts("total-resource")
        if not total:
            text = f"the root of tree {tree} has no {PREFIX}total-resource; its min and max count"
            problems.append(Problem(TOTAL_MISSING, text, takes_part=True))
        most = {**most, **{resource: min(total[resource], most.get(resource, total[resource])) for resource in total}}
        if total and said.label("ignore-default-tree") != "true":
            least, lends = dict(most), False
    named = said.namespaces() | ({name} if name == meta.namespace else set())
    quota = Quota(
        name=name,
        parent=said.label("parent"),
        min={resource: min(amount, most.get(resource, amount)) for resource, amount in least.items()},
        max=most,
        weight=1,
        lends=lends,
        namespaces=frozenset(named),
        weights=_weights(weights, most),
    )
    policies = [meta.labels.get(each) or meta.annotations.get(each) for each in POLICY_KEYS]
    return _Kept(
        basis,
        key,
        quota,
        tree=tree,
        is_root=is_root and bool(tree),
        is_parent=said.label("is-parent") == "true",
        forced=said.label("allow-force-update") == "true",
        hint=QueueHint(next((each for each in policies if each), "")),
        problems=(*problems, *said.problems),
    )


class _Said:
    """What Koordinator's labels and annotations say; what cannot be read counts as not said."""

    def __init__(self, labels: Labels, annotations: Labels) -> None:
        self._labels, self._annotations = labels, annotations
        self.problems: list[Problem] = []

    def label(self, name: str) -> str:
        return self._labels.get(PREFIX + name, "")

    def amounts(self, name: str) -> dict[str, int]:
        errors: list[str] = []
        found = parse_amounts(self._json(name), self._path(name), errors)
        if errors:
            self.problems.append(Problem(ANNOTATION, f"{'; '.join(errors)}; it is left out", takes_part=True))
        return {} if errors else found

    def namespaces(self) -> frozenset[str]:
        found = self._json("namespaces")
        if found is None:
            return frozenset()
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            text = f"{self._path('namespaces')}: not a list of names; it is left out"
            problem = Problem(ANNOTATION, text, takes_part=True)
            if problem not in self.problems:
                self.problems.append(problem)
            return frozenset()
        return frozenset(found)

    def _json(self, name: str) -> object:
        text = self._annotations.get(PREFIX + name, "")
        if not text:
            return None
        try:
            found: object = json.loads(text)
        except ValueError:
            return text  # whoever wanted something else says so
        return found

    @staticmethod
    def _path(name: str) -> str:
        return f"metadata.annotations[{PREFIX}{name}]"


def _weights(given: Amounts, most: Amounts) -> dict[str, int]:
    """As Koordinator reads them: what is given, else `max`; beside what is given, the rest weighs nothing."""
    if not any(given.values()):
        return dict(most)
    return {**dict.fromkeys(most, 0), **given}


# -- all objects ------------------------------------------------------------------------------------------------------


def _derive(kept: Mapping[str, _Kept]) -> _Derived:
    problems = {key: list(each.problems) for key, each in kept.items() if each.problems}
    by_name: dict[str, _Kept] = {}
    for key in sorted(kept):
        each = kept[key]
        if each.quota is None:
            continue
        first = by_name.setdefault(each.quota.name, each)
        if first is not each:
            text = f"quota {each.quota.name} is there already, from ElasticQuota {first.key}"
            problems.setdefault(key, []).append(Problem(NAME_TAKEN, text))
    found = _Derived({}, {name: each.key for name, each in by_name.items()}, problems)
    roots = {each.tree: name for name, each in sorted(by_name.items(), reverse=True) if each.is_root}
    homes = {each.key.partition("/")[0]: name for name, each in by_name.items() if each.key == f"{name}/{name}"}
    for name, each in sorted(by_name.items()):
        assert each.quota is not None
        node = _placed(each, each.quota, by_name, roots, found)
        if node is not None:
            mine = frozenset(space for space in node.namespaces if homes.get(space, name) == name)
            found.nodes[name] = _weighed(node, mine)
    if any(node.parent == ROOT_QUOTA for node in found.nodes.values()):
        found.nodes.setdefault(ROOT_QUOTA, Quota(ROOT_QUOTA))
    _compare_mins(by_name, found)
    return found


def _placed(
    each: _Kept, quota: Quota, by_name: Mapping[str, _Kept], roots: Mapping[str, str], found: _Derived
) -> Quota | None:
    """The node at its place in the tree; None if it can have none."""

    def say(reason: str, text: str, takes_part: bool) -> None:
        found.problems.setdefault(each.key, []).append(Problem(reason, text, takes_part))

    name = quota.name
    if name == ROOT_QUOTA:
        return Quota(ROOT_QUOTA)
    if name in (SYSTEM_QUOTA, DEFAULT_QUOTA):
        return Quota(name, min=quota.min, max=quota.max, lends=quota.lends)
    if each.is_root:
        return replace(quota, parent="", weights={})
    parent = quota.parent
    if not parent or parent == ROOT_QUOTA:
        if each.tree and each.tree in roots:
            parent = roots[each.tree]
        else:
            parent = ROOT_QUOTA
            if each.tree:
                say(TREE_ROOTLESS, f"tree {each.tree} has no root quota; it is part of the default tree", True)
    above = by_name.get(parent)
    if above is not None and parent != ROOT_QUOTA:
        if above.tree != each.tree:
            text = f"its tree-id is {each.tree or 'none'}, and that of its parent {parent} is {above.tree or 'none'}"
            say(TREE_DIFFERS, text, False)
            return None
        if not above.is_parent and not above.is_root:
            say(PARENT_UNMARKED, f"its parent {parent} has no label {PREFIX}is-parent: true", True)
    return replace(quota, parent=parent)


def _weighed(node: Quota, namespaces: frozenset[str]) -> Quota:
    """With one weight for policies that know only one."""
    weights = node.weights
    one = (weights.get("cpu") or max(weights.values(), default=1)) if weights else node.weight
    return replace(node, weight=one, namespaces=namespaces)


def _compare_mins(by_name: Mapping[str, _Kept], found: _Derived) -> None:
    """Say where quotas are together promised more than the `min` of their parent, as Koordinator would refuse it."""
    sums: dict[str, dict[str, int]] = {}
    for node in found.nodes.values():
        above = by_name.get(node.parent)
        if above is not None and above.quota is not None and not above.forced and node.parent != ROOT_QUOTA:
            total = sums.setdefault(node.parent, {})
            for resource, amount in node.min.items():
                total[resource] = total.get(resource, 0) + amount
    for parent, total in sums.items():
        least = found.nodes[parent].min if parent in found.nodes else {}
        shown = [
            f"{format_amount(resource, amount)} {resource} of {format_amount(resource, least.get(resource, 0))}"
            for resource, amount in sorted(total.items())
            if amount > least.get(resource, 0)
        ]
        if shown:
            text = f"the min of its children add up to more than its min: {', '.join(shown)}; theirs count"
            found.problems.setdefault(by_name[parent].key, []).append(Problem(MINS_ABOVE_MIN, text, takes_part=True))
