"""What the nodes offer: from Node objects to the engine's `CapacityChanged`, and only when it differs.

Two sums. `amounts` is what may be admitted: ready, schedulable nodes, at once. `shared` is what shares are computed
from: it keeps what a node has lost (NotReady, cordoned, deleted, or a device that its kubelet does not report just now)
for a grace time, so that a node that flaps costs nobody what it runs. Time is an argument; `next_ms` says when to look
again. The manager feeds it from the informer of nodes. A new leader did not see what was lost before it, and gives a
node that says since when it is away the rest of its grace; one that was deleted is forgotten.

A node counts unless it is cordoned, not Ready, or has a taint that says that nothing new should come (`CLOSED`). Other
taints set a node apart for those that tolerate them, as with GPUs, so they count: the queue cannot know who does.
Everything that a node offers counts, `pods` too: nobody asks for it today, and a limit on it is then a real one.
Both sums are of what is offered times the oversell rate, less what pods outside Usher use on each node, which is used
in full; so the engine that is told them has no rate of its own. They are rounded down once, in the sum: one device on
each of many nodes is oversold, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from usher.api.times import ms_of
from usher.core.amounts import Amounts, parse_amounts, raise_to
from usher.core.events import CapacityChanged
from usher.runtime.objects import NodeCondition, NodeObject, Taint

CLOSED: Final = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/out-of-service",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
    }
)
"""Taints of nodes that are no place for jobs: ill, going away, or the cluster's own."""

_REPELS: Final = frozenset({"NoSchedule", "NoExecute"})


def offered(node: NodeObject) -> dict[str, int]:
    """What jobs may use of a node now; what is no quantity is left out."""
    ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    if not ready or node.spec.unschedulable or any(_closes(taint) for taint in node.spec.taints):
        return {}
    return allocatable(node)


def allocatable(node: NodeObject) -> dict[str, int]:
    """What jobs may use of a node when nothing is against it."""
    amounts = parse_amounts(node.status.allocatable, "status.allocatable", [])
    return {resource: amount for resource, amount in amounts.items() if amount}


def away_since_ms(node: NodeObject) -> int:
    """Since when a node offers nothing, by its own word; 0: it does offer, or something is against it that has no time,
    as with what was never a place for jobs."""
    times = [each.last_transition_time for each in node.status.conditions if _ails(each)]
    closing = {taint.key: taint.time_added for taint in node.spec.taints if _closes(taint)}
    if node.spec.unschedulable:
        closing.setdefault("node.kubernetes.io/unschedulable", None)
    try:
        return min((ms_of(each) for each in (*times, *closing.values())), default=0)
    except ValueError:
        return 0


def _ails(condition: NodeCondition) -> bool:
    return condition.type == "Ready" and condition.status != "True"


def _closes(taint: Taint) -> bool:
    return taint.key in CLOSED and taint.effect in _REPELS


class _Node(Struct):
    """One node, also for a while after it has gone."""

    offers: dict[str, int] = field(default_factory=dict)
    lost: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    """Until when it counts for shares, and what it offered; earliest first."""
    shared: dict[str, int] = field(default_factory=dict)
    """The larger of what it offers and what it lost, per resource."""
    counted: dict[str, int] = field(default_factory=dict)
    """What of that is in the sum."""

    def settle(self, now_ms: int) -> None:
        """Forget what was lost too long ago."""
        while self.lost and self.lost[0][0] <= now_ms:
            self.lost.pop(0)
        self.shared = dict(self.offers)
        for _, amounts in self.lost:
            raise_to(self.shared, amounts)


class Capacity:
    """The sums over all nodes, kept up to date node by node."""

    def __init__(self, grace_ms: int, oversell: tuple[int, int] = (1, 1)) -> None:
        self._grace_ms = grace_ms
        self._above, self._below = oversell
        """The rate as a fraction; sums are kept in parts, of which `_below` are one."""
        self._nodes: dict[str, _Node] = {}
        self._losing: dict[str, _Node] = {}
        """Those with a loss that is not forgotten yet."""
        self._amounts: dict[str, int] = {}
        self._shared: dict[str, int] = {}
        self._outside: dict[str, Amounts] = {}
        """By node, also for one that is not there yet."""
        self._told: CapacityChanged | None = None

    def node_changed(self, node: NodeObject, now_ms: int) -> None:
        """A node appeared or changed."""
        name, offers = node.metadata.name, offered(node)
        if self._told is None and not offers and name not in self._nodes:
            since_ms = away_since_ms(node)
            until_ms = min(since_ms, now_ms) + self._grace_ms
            if since_ms and until_ms > now_ms:
                known = self._nodes[name] = _Node(lost=[(until_ms, allocatable(node))])
                self._settle(name, known, now_ms)
        self._set(name, offers, now_ms)

    def node_gone(self, name: str, now_ms: int) -> None:
        """A node was deleted; it may come back under its name."""
        self._set(name, {}, now_ms)

    def outside_changed(self, by_node: Mapping[str, Amounts], now_ms: int) -> None:
        """What pods outside Usher use on each node; what is not named, they do not use."""
        for name in {**self._outside, **by_node}:
            before, after = self._outside.get(name, {}), by_node.get(name, {})
            if before != after:
                self._outside[name] = after
                node = self._nodes.get(name)
                if node is not None:
                    _replace(self._amounts, self._less(node.offers, before), self._less(node.offers, after))
                    self._settle(name, node, now_ms)
        self._outside = {name: amounts for name, amounts in by_node.items() if amounts}

    def take(self, now_ms: int) -> CapacityChanged | None:
        """What the engine must be told; None: what it was told last still holds. The first answer is never None."""
        for name, node in list(self._losing.items()):
            if node.lost[0][0] <= now_ms:
                self._settle(name, node, now_ms)
        amounts, shared = self._whole(self._amounts), self._whole(self._shared)
        change = CapacityChanged(amounts, None if shared == amounts else shared)
        if change == self._told:
            return None
        self._told = change
        return change

    @property
    def next_ms(self) -> int | None:
        """When `take` may have an answer though no node changes; None: never."""
        return min((node.lost[0][0] for node in self._losing.values()), default=None)

    def _set(self, name: str, offers: dict[str, int], now_ms: int) -> None:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node()
        elif offers == node.offers:
            return
        before = node.offers
        if self._grace_ms and any(offers.get(resource, 0) < amount for resource, amount in before.items()):
            node.lost.append((now_ms + self._grace_ms, before))
        outside = self._outside.get(name, {})
        _replace(self._amounts, self._less(before, outside), self._less(offers, outside))
        node.offers = offers
        self._settle(name, node, now_ms)

    def _settle(self, name: str, node: _Node, now_ms: int) -> None:
        before = node.counted
        node.settle(now_ms)
        node.counted = self._less(node.shared, self._outside.get(name, {}))
        _replace(self._shared, before, node.counted)
        if node.lost:
            self._losing[name] = node
        else:
            self._losing.pop(name, None)
            if not node.offers:
                del self._nodes[name]

    def _less(self, offers: Amounts, outside: Amounts) -> dict[str, int]:
        """What is left of a node, in parts; what is not, is dropped."""
        above, below = self._above, self._below
        left = {name: amount * above - outside.get(name, 0) * below for name, amount in offers.items()}
        return {name: amount for name, amount in left.items() if amount > 0}

    def _whole(self, parts: Amounts) -> dict[str, int]:
        return {name: amount for name, part in parts.items() if (amount := part // self._below)}


def _replace(total: dict[str, int], before: Amounts, after: Amounts) -> None:
    """Put one node's new amounts in the place of its old ones; what becomes zero is dropped."""
    for resource in {**before, **after}:
        amount = total.get(resource, 0) - before.get(resource, 0) + after.get(resource, 0)
        if amount:
            total[resource] = amount
        else:
            total.pop(resource, None)
