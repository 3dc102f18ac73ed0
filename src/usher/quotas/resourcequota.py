"""The source of ResourceQuotas: a namespace whose pods one limits is a quota for the units of its Queues.

It counts in managed namespaces and where a Queue has no other purse; another source that names the namespace goes
before it. Several ResourceQuotas limit together: the smallest amount for each key counts. Those with scopes are left
out, for they limit some pods only. What pods outside Usher use is taken off, for the API server counts them, too. Those
that Usher itself made for a Queue say nothing new and are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from usher.api.names import GROUP
from usher.core.amounts import Amounts, field_path, parse_amounts
from usher.core.model import Quota
from usher.quotas.objects import ResourceQuota
from usher.quotas.source import INVALID, Labels, Problem, QueueHint

MADE_FOR: Final = f"{GROUP}/made-for-queue"
"""On a ResourceQuota that Usher made: the name of the Queue that had none."""
SCOPED: Final = "ScopesNotCounted"
NOT_COUNTED: Final = "KeysNotCounted"

_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
_REQUIRED: Final = frozenset({"cpu", "memory"})
"""What the API server lets no pod be without, where a ResourceQuota limits it."""


def resource_of(key: str) -> str:
    """The resource whose requests a key of `hard` limits; empty: it limits something else."""
    name = key.removeprefix("requests.")
    if name in _PLAIN or name.startswith("hugepages-") or (name != key and "/" in name):
        return name
    return ""


def key_of(resource: str) -> str:
    """The key of `hard` that limits the requests for a resource."""
    return resource if resource == "pods" else f"requests.{resource}"


def _about_pods(key: str) -> bool:
    return key.startswith("limits.") or key in ("pods", "count/pods", "count/jobs.batch")


class _Kept(Struct):
    spec: object
    made: bool
    hard: dict[str, int]
    problems: tuple[Problem, ...] = ()
    counts: bool = True


class _Space(Struct):
    """A namespace."""

    quotas: dict[str, _Kept] = field(default_factory=dict)
    queues: dict[str, int] = field(default_factory=dict)
    """Queues without a quota, and their weights."""
    outside: Amounts = field(default_factory=dict)
    managed: bool = False


def node_of(namespace: str) -> str:
    """The name of the quota that a namespace's ResourceQuotas are."""
    return f"resourcequota:{namespace}"


class ResourceQuotas:
    """All ResourceQuotas of the cluster."""

    kind: Final = "ResourceQuota"
    yields: Final = True
    """A namespace that another source names is not ours."""

    def __init__(self, managed: frozenset[str] = frozenset(), label: str = "") -> None:
        """`managed`: namespaces in which every pod is queued; so are those with this label."""
        self.revision = 0
        self._managed = managed
        self._label = label
        self._spaces: dict[str, _Space] = {}
        self._nodes: dict[str, Quota] = {}

    # -- what is fed ------------------------------------------------------------------------------------------------

    def changed(self, found: ResourceQuota) -> None:
        """A ResourceQuota appeared or changed; its status is not looked at."""
        meta = found.metadata
        space, made = self._space(meta.namespace), MADE_FOR in meta.labels
        before = space.quotas.get(meta.name)
        if before is None or before.spec != found.spec or before.made != made:
            space.quotas[meta.name] = read(found, made)
            self._derive(meta.namespace)

    def gone(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        if self._space(namespace).quotas.pop(name, None) is not None:
            self._derive(namespace)

    def queue_changed(self, namespace: str, name: str, weight: int | None) -> None:
        """A Queue without a quota has this weight; None: it has a quota, or is gone."""
        queues = self._space(namespace).queues
        if queues.get(name) != weight:
            if weight is None:
                del queues[name]
            else:
                queues[name] = weight
            self._derive(namespace)

    def outside_changed(self, used: Mapping[str, Amounts]) -> None:
        """What pods use that do not belong to Usher, by namespace; none in those that are not named."""
        for namespace in {**self._spaces, **used}:
            space, amounts = self._space(namespace), used.get(namespace, {})
            if space.outside != amounts:
                space.outside = dict(amounts)
                self._derive(namespace)

    def namespace_changed(self, name: str, labels: Labels) -> None:
        space, managed = self._space(name), name in self._managed or labels.get(self._label) == "true"
        if space.managed != managed:
            space.managed = managed
            self._derive(name)

    def namespace_gone(self, name: str) -> None:
        space = self._space(name)
        space.managed = False
        self._derive(name)

    # -- what is asked ----------------------------------------------------------------------------------------------

    def managed(self, namespace: str) -> bool:
        space = self._spaces.get(namespace)
        return space is not None and space.managed

    def quotas_in(self, namespace: str) -> list[str]:
        """The ResourceQuotas of a namespace that others made."""
        space = self._spaces.get(namespace)
        return [] if space is None else sorted(name for name, kept in space.quotas.items() if not kept.made)

    def required_by_ours(self, namespace: str) -> frozenset[str]:
        """What no pod may be without because of the ResourceQuota that Usher made."""
        space = self._spaces.get(namespace)
        made = [kept.hard for kept in space.quotas.values() if kept.made] if space is not None else []
        return frozenset().union(*made) & _REQUIRED

    def nodes(self) -> Mapping[str, Quota]:
        return self._nodes

    def object_of(self, node: str) -> str:
        namespace = node.partition(":")[2]
        names = self.quotas_in(namespace)
        return f"{namespace}/{names[0]}" if names else ""

    def queue_hint(self, node: str) -> QueueHint | None:
        return None  # its Queue is in the namespace, and is made by other rules

    def problems(self) -> Mapping[str, Sequence[Problem]]:
        return {
            f"{namespace}/{name}": kept.problems
            for namespace, space in self._spaces.items()
            if self._takes_part(space)
            for name, kept in space.quotas.items()
            if kept.problems and not kept.made
        }

    @staticmethod
    def _takes_part(space: _Space) -> bool:
        return space.managed or bool(space.queues)

    def _space(self, namespace: str) -> _Space:
        return self._spaces.setdefault(namespace, _Space())

    def _derive(self, namespace: str) -> None:
        space, name = self._space(namespace), node_of(namespace)
        counting = [kept for kept in space.quotas.values() if kept.counts and not kept.made]
        node = _node(namespace, space, counting) if counting and self._takes_part(space) else None
        if self._nodes.get(name) == node:
            return
        self.revision += 1
        if node is None:
            del self._nodes[name]
        else:
            self._nodes[name] = node


def _node(namespace: str, space: _Space, counting: Sequence[_Kept]) -> Quota:
    hard: dict[str, int] = {}
    for kept in counting:
        for resource, amount in kept.hard.items():
            hard[resource] = min(amount, hard.get(resource, amount))
    names = sorted(space.quotas)
    queue = next((name for name in names if name in space.queues), min(space.queues, default=""))
    return Quota(
        name=node_of(namespace),
        max={resource: max(0, amount - space.outside.get(resource, 0)) for resource, amount in hard.items()},
        weight=sum(space.queues.values()) if space.queues else 1,
        namespaces=frozenset({namespace}),
        closed=True,
        requires=frozenset(hard) & _REQUIRED,
        queue=f"{namespace}/{queue}" if queue else "",
    )


def read(found: ResourceQuota, made: bool) -> _Kept:
    """A ResourceQuota by itself."""
    spec, errors = found.spec, list[str]()
    if spec.scopes or spec.scope_selector:
        text = "it has scopes, so it limits some pods only: it is left out"
        return _Kept(spec, made, {}, (Problem(SCOPED, text, takes_part=True),), counts=False)
    hard: dict[str, int] = {}
    others: list[str] = []
    for key, quantity in spec.hard.items():
        resource = resource_of(key)
        if resource:
            amount = parse_amounts({resource: quantity}, "spec.hard", errors).get(resource)
            if amount is not None:
                hard[resource] = min(amount, hard.get(resource, amount))
        elif _about_pods(key):
            others.append(field_path("spec.hard", key))
    if errors:
        return _Kept(spec, made, {}, (Problem(INVALID, "; ".join(errors)),), counts=False)
    problems: tuple[Problem, ...] = ()
    if others:
        text = f"{', '.join(sorted(others))}: only requests are counted; the API server refuses what exceeds the rest"
        problems = (Problem(NOT_COUNTED, text, takes_part=True),)
    return _Kept(spec, made, hard, problems)
