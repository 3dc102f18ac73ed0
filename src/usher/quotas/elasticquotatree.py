"""The source of ElasticQuotaTree: one object that holds a whole tree of quotas.

Nodes go by their own names; the tree's root stands for what all of them share, below the root of everything. Leaves
name namespaces. `koord-queue/max-jobs` in `max` limits how many units hold quota at a time; the attribute
`alibabacloud.com/lendlimit` says how much of `min` is lent while idle, and `preempt-policy` whether a higher priority
may take from a lower one. Only one tree counts: that in kube-system, else the first by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct, field

from usher.core.amounts import Amounts, field_path, format_amount, parse_amounts
from usher.core.model import ROOT, Quota
from usher.quotas.objects import ElasticQuotaTree, TreeNode
from usher.quotas.placing import MIN_ABOVE_MAX, above_max
from usher.quotas.source import INVALID, NAME_RESERVED, Keeping, Problem, QueueHint

HOME: Final = "kube-system"
MAX_JOBS: Final = ("koord-queue/max-jobs", "kube-queue/max-jobs")
LEND_LIMIT: Final = "alibabacloud.com/lendlimit"
PREEMPT: Final = ("preempt-policy", "PreemptLowerPriority")
UNLIMITED: Final = 2**31 - 1
"""As many jobs as this, or more, are no limit."""

ANOTHER_TREE: Final = "AnotherTree"
NAME_TAKEN: Final = "NameTaken"
NAME_MISSING: Final = "NameMissing"
NAMESPACES_ABOVE: Final = "NamespacesOnParent"
MINS_ABOVE_MIN: Final = "MinsAboveMin"
ROOT_UNEQUAL: Final = "RootMinIsNotMax"
ATTRIBUTE: Final = "AttributeUnreadable"


class _Read(Struct):
    """A tree as nodes."""

    nodes: dict[str, Quota] = field(default_factory=dict)
    hints: dict[str, QueueHint] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


class ElasticQuotaTrees(Keeping[ElasticQuotaTree]):
    """All ElasticQuotaTrees of the cluster, of which one counts."""

    kind: Final = "ElasticQuotaTree"

    def __init__(self, system_namespace: str) -> None:
        super().__init__()
        self._system = system_namespace
        self._read: _Read | None = None

    def changed(self, found: ElasticQuotaTree) -> None:
        """A tree appeared or changed; what is not its spec is not looked at."""
        key = f"{found.metadata.namespace}/{found.metadata.name}"
        before = self._kept.get(key)
        self._kept[key] = found
        if before is None or before.spec != found.spec:
            self._touch()

    def nodes(self) -> Mapping[str, Quota]:
        return self._now().nodes

    def object_of(self, node: str) -> str:
        return self._chosen()

    def queue_hint(self, node: str) -> QueueHint | None:
        return self._now().hints.get(node)

    def problems(self) -> Mapping[str, Sequence[Problem]]:
        chosen = self._chosen()
        found: dict[str, Sequence[Problem]] = {
            key: [Problem(ANOTHER_TREE, f"only one tree counts, and that is {chosen}")]
            for key in self._kept
            if key != chosen
        }
        return {**found, chosen: self._now().problems} if self._now().problems else found

    def _chosen(self) -> str:
        return min(self._kept, key=lambda key: (not key.startswith(f"{HOME}/"), key), default="")

    def _touch(self) -> None:
        super()._touch()
        self._read = None

    def _now(self) -> _Read:
        if self._read is None:
            tree = self._kept.get(self._chosen())
            self._read = _Read() if tree is None else read(tree, self._system)
        return self._read


def read(tree: ElasticQuotaTree, system: str) -> _Read:
    """The nodes of a tree. One with an amount that cannot be read is left out, with what is below it."""
    found = _Read()
    top = tree.spec.root
    root = f"tree:{tree.metadata.name}"
    path = "spec.root"
    quota = _node(top, root, "", path, found)
    if quota is None:
        return found
    if quota.min != quota.max:
        found.problems.append(Problem(ROOT_UNEQUAL, f"{path}: its min is not its max; both count", takes_part=True))
    found.nodes[root] = quota
    waiting = [(path, top, root)]
    while waiting:
        above, node, name = waiting.pop()
        _compare_mins(above, node, found.nodes[name], found)
        for place, child in _children(above, node):
            if _add(place, child, name, system, found):
                waiting.append((place, child, child.name))
    return found


def _children(path: str, node: TreeNode) -> Iterator[tuple[str, TreeNode]]:
    for i, child in enumerate(node.children):
        yield f"{path}.children[{i}]", child


def _add(path: str, node: TreeNode, parent: str, system: str, found: _Read) -> bool:
    """Put a node below its parent; whether it could be."""
    if not node.name:
        found.problems.append(Problem(NAME_MISSING, f"{path}.name: is missing; it is left out"))
    elif node.name == ROOT:
        text = f"{path}.name: {ROOT} is the whole cluster; give the quota another name"
        found.problems.append(Problem(NAME_RESERVED, text))
    elif node.name in found.nodes:
        found.problems.append(Problem(NAME_TAKEN, f"{path}.name: {node.name} is there twice; the first counts"))
    else:
        quota = _node(node, node.name, parent, path, found)
        if quota is None:
            return False
        queue = queue_name(node.name)
        if queue != node.name:
            quota = replace(quota, queue=f"{system}/{queue}")
        found.nodes[node.name] = quota
        if not node.children:
            found.hints[node.name] = QueueHint(preempts=node.attributes.get(PREEMPT[0]) == PREEMPT[1])
        return True
    return False


def _node(node: TreeNode, name: str, parent: str, path: str, found: _Read) -> Quota | None:
    errors: list[str] = []
    least = parse_amounts(node.min, f"{path}.min", errors)
    most = parse_amounts(node.max, f"{path}.max", errors)
    if errors:
        found.problems.append(Problem(INVALID, "; ".join(errors)))
        return None
    jobs = [most.pop(key) for key in MAX_JOBS if key in most]
    for key in MAX_JOBS:
        least.pop(key, None)
    for resource, why in above_max(least, most):
        text = f"{field_path(f'{path}.min', resource)}: {why.replace('spec.max', 'max')}; max counts"
        found.problems.append(Problem(MIN_ABOVE_MAX, text, takes_part=True))
    least = {resource: min(amount, most.get(resource, amount)) for resource, amount in least.items()}
    if node.namespaces and node.children:
        text = f"{path}.namespaces: only a quota without children has namespaces; they are left out"
        found.problems.append(Problem(NAMESPACES_ABOVE, text, takes_part=True))
    return Quota(
        name=name,
        parent=parent,
        min=least,
        max=most,
        namespaces=frozenset() if node.children else frozenset(node.namespaces),
        keeps=_kept(node, least, path, found),
        max_jobs=next((each for each in jobs if each < UNLIMITED), None),
    )


def _kept(node: TreeNode, least: Amounts, path: str, found: _Read) -> dict[str, int]:
    """What of `min` stays when the most is lent that may be."""
    text = node.attributes.get(LEND_LIMIT, "")
    if not text:
        return {}
    where, errors = field_path(f"{path}.attributes", LEND_LIMIT), list[str]()
    try:
        limit = parse_amounts(json.loads(text), where, errors)
    except ValueError:
        limit, errors = {}, [f"{where}: is not JSON"]
    if errors:
        found.problems.append(Problem(ATTRIBUTE, f"{'; '.join(errors)}; all of min is lent", takes_part=True))
        return {}
    kept = {resource: least.get(resource, 0) - amount for resource, amount in limit.items()}
    return {resource: amount for resource, amount in kept.items() if amount > 0}


def _compare_mins(path: str, node: TreeNode, quota: Quota, found: _Read) -> None:
    sums: dict[str, int] = {}
    for child in node.children:
        for resource, amount in parse_amounts(child.min, "", []).items():
            sums[resource] = sums.get(resource, 0) + amount
    shown = [
        f"{format_amount(resource, amount)} {resource} of {format_amount(resource, quota.min.get(resource, 0))}"
        for resource, amount in sorted(sums.items())
        if amount > quota.min.get(resource, 0) and resource not in MAX_JOBS
    ]
    if shown:
        text = f"{path}: the min of its children add up to more than its min: {', '.join(shown)}; theirs count"
        found.problems.append(Problem(MINS_ABOVE_MIN, text, takes_part=True))


def queue_name(quota: str) -> str:
    """The name of an object for a quota, whose own may be anything."""
    return re.sub(r"[^a-z0-9.-]+", "-", quota.lower()).strip("-.")[-63:].strip("-.") or "quota"
