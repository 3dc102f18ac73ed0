"""Demand, guarantees and deserved over the whole tree, kept up to date with as little work as possible.

Demand goes up: a leaf's is the sum over its units by signature, a parent's is its children's, each under its own
`max`. Deserved comes down: at each parent the share policy splits the amount among the children. Only the paths whose
demand changed are looked at, and a split is done again only if the policy cannot say that nobody moves. The engine
calls `ensure()` when it needs to know, at most once per call.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm

from usher.core.amounts import Amounts, Signature, signature
from usher.core.ledger import Ledger, Node
from usher.core.plugins import Guard
from usher.core.share import SharePolicy, Sharer

INFINITE = 1 << 4096
"""More than any share: a weight of zero, or use of a resource of which there is none."""


class Shares:
    """Keeps `demand`, `guarantee` and `deserved` of every node."""

    def __init__(self, ledger: Ledger, policy: SharePolicy, fallback: SharePolicy, guard: Guard) -> None:
        self._ledger = ledger
        self._chosen = policy
        self._fallback = fallback
        self._guard = guard
        self._dirty: dict[Node, None] = {}
        self._amount: Mapping[str, int] = {}
        self._stale = True
        self._in_force = self.policy = policy
        self._by_resource = False
        """Whether the policy looks at each resource by itself: then `max` cuts each by itself, too."""
        self.choose()
        self.epoch = 0
        """Counts changes of anybody's deserved, or of what shares are measured by."""
        self.measure = 0
        """Counts changes of what shares are measured by."""
        self.risen: dict[Node, None] = {}
        """Nodes whose deserved rose in some resource since the engine last looked."""
        self.rescaled: dict[Node, None] = {}
        """Nodes the shares of whose children are measured otherwise since the engine last looked."""
        self.came_above: dict[Node, None] = {}
        """Nodes whose deserved fell below what they use since the engine last looked."""

    def choose(self) -> None:
        """Go by the fallback if the policy was disabled."""
        self.policy = self._fallback if self._chosen.name in self._guard.disabled else self._chosen
        self._by_resource = bool(getattr(self.policy, "by_resource", False))

    def restart(self, amount: Amounts) -> None:
        """A new tree, or a new amount at the root: everything is computed again."""
        self._amount = amount
        self._stale = True
        self.epoch += 1
        self.measure += 1
        self._dirty = {}
        self._ledger.root.factors = None
        self.rescaled = {self._ledger.root: None}
        for node in self._ledger.nodes.values():
            node.share = -1

    def demand(self, leaf: Node, amounts: Amounts, sign: int) -> None:
        """Add (1) or remove (-1) one unit's demand."""
        key = signature(amounts)
        total = leaf.demand.get(key)
        if total is None:
            total = leaf.demand[key] = dict.fromkeys(key, 0)
        for resource in key:
            total[resource] += sign * amounts[resource]
        if not any(total.values()):
            del leaf.demand[key]
        self._dirty[leaf] = None

    def ensure(self) -> None:
        """Bring deserved up to date; by the fallback throughout, if the policy is disabled on the way."""
        self.choose()
        self._update()
        self.choose()
        if self._in_force is not self.policy:
            self._in_force = self.policy
            self._stale = True
            self._update()

    def _update(self) -> None:
        if not self.policy.entitles:
            self._dirty.clear()
            return
        if self._stale:
            self._stale = False
            self._dirty.clear()
            self._gather_all(self._ledger.root)
            self._split(self._ledger.root, self._root_amount(), everything=True)
            return
        if self._dirty:
            for parent in self._gather():
                amount = self._root_amount() if parent.parent is None else parent.deserved
                self._split(parent, amount, everything=False)

    def _root_amount(self) -> Amounts:
        """What the quotas share: the amount less what runs on outside every quota."""
        outside = _totals(self._ledger.root.demand)
        return {name: max(0, amount - outside.get(name, 0)) for name, amount in self._amount.items()}

    # -- upwards --------------------------------------------------------------------------------------------------

    def _gather_all(self, node: Node) -> None:
        for child in node.children:
            self._gather_all(child)
        if node.parent is not None:
            node.sharer = self._sharer(node)

    def _gather(self) -> list[Node]:
        """Renew the sharers on the paths that changed; the parents whose split may move, topmost first."""
        moved: dict[Node, None] = {}
        level = dict(self._dirty)
        self._dirty.clear()
        waiting = sorted(level, key=lambda node: -len(node.path))
        while waiting:
            node = waiting.pop(0)
            parent = node.parent
            if parent is None:
                moved[node] = None
                continue
            before, node.sharer = node.sharer, self._sharer(node)
            assert before is not None
            if before == node.sharer:
                continue
            if not self._unmoved(before, node.sharer, node.deserved):
                moved[parent] = None
            if parent.parent is not None and parent not in level:
                level[parent] = None
                waiting.append(parent)
                waiting.sort(key=lambda node: -len(node.path))
        return sorted(moved, key=lambda node: len(node.path))

    def _unmoved(self, before: Sharer, after: Sharer, deserved: Amounts) -> bool:
        policy = self.policy
        return self._guard.call(policy.name, False, policy.unmoved, before, after, deserved)

    def _sharer(self, node: Node) -> Sharer:
        quota = node.quota
        demand = {key: amounts.copy() for key, amounts in node.demand.items()}
        guarantee: dict[str, int] = {}
        for child in node.children:
            assert child.sharer is not None
            for key, amounts in child.sharer.demand.items():
                total = demand.setdefault(key, dict.fromkeys(key, 0))
                for resource, amount in amounts.items():
                    total[resource] += amount
            for resource, amount in child.sharer.guarantee.items():
                guarantee[resource] = guarantee.get(resource, 0) + amount
        if self._by_resource:
            demand = {(resource,): {resource: amount} for resource, amount in _totals(demand).items() if amount}
        if quota.min:
            wanted = _totals(demand)
            for resource, amount in quota.min.items():
                amount = min(amount, quota.max.get(resource, amount))
                asked, kept = wanted.get(resource, 0), min(quota.kept.get(resource, 0), amount)
                if kept > asked:
                    own = demand.setdefault((resource,), {resource: 0})
                    own[resource] += kept - asked
                amount = min(amount, max(asked, kept))
                if amount > guarantee.get(resource, 0):
                    guarantee[resource] = amount
        if quota.max:
            _cap(demand, quota.max)
            for resource in guarantee.keys() & quota.max.keys():
                guarantee[resource] = min(guarantee[resource], quota.max[resource])
        return Sharer(node.name, quota.weight, quota.min, quota.max, quota.lends, guarantee, demand, quota.weights)

    # -- downwards ------------------------------------------------------------------------------------------------

    def _split(self, parent: Node, amount: Mapping[str, int], everything: bool) -> None:
        if parent.amount != amount or parent.factors is None:
            parent.amount = dict(amount)
            parent.factors = None
            self.epoch += 1
            self.measure += 1
            self.rescaled[parent] = None
            for child in parent.children:
                child.share = -1
        if not parent.children:
            return
        sharers = [child.sharer for child in parent.children if child.sharer is not None]
        for child, deserved in zip(parent.children, self._divide(amount, sharers), strict=True):
            if deserved != child.deserved:
                self._moved(child, deserved)
            elif not everything:
                continue
            child.deserved = deserved
            if child.children:
                self._split(child, deserved, everything)

    def _divide(self, amount: Amounts, sharers: list[Sharer]) -> list[dict[str, int]]:
        policy = self.policy
        nothing: list[dict[str, int]] = []
        answer = self._guard.call(policy.name, nothing, policy.split, amount, sharers)
        return answer or self._fallback.split(amount, sharers)

    def _moved(self, node: Node, deserved: dict[str, int]) -> None:
        self.epoch += 1
        before = node.deserved
        if any(amount > before.get(resource, 0) for resource, amount in deserved.items()):
            self.risen[node] = None
        for resource, amount in before.items():
            if amount > deserved.get(resource, 0) and amount >= node.used.get(resource, 0) > deserved.get(resource, 0):
                self.came_above[node] = None

    # -- weighted dominant shares ---------------------------------------------------------------------------------

    def share(self, node: Node) -> int:
        """The node's weighted dominant share of its parent's amount, as a whole number that orders siblings exactly."""
        if node.share < 0:
            node.share = self.share_of(node, node.used)
            node.share_without = -1
        return node.share

    def share_without(self, node: Node) -> int:
        """At least what its share would be if any one of its units were gone."""
        whole = self.share(node)
        if node.children or whole == INFINITE:
            return whole
        if node.share_without < 0:
            node.share_without = max((self._less(node, shape) for shape in node.shapes), default=0)
        return node.share_without

    def _less(self, node: Node, shape: tuple[tuple[str, int], ...]) -> int:
        left = dict(node.used)
        for name, amount in shape:
            left[name] -= amount
        return self.share_of(node, left)

    def share_of(self, node: Node, used: Amounts) -> int:
        """The same for another use of that node."""
        parent = node.parent
        assert parent is not None
        factors = parent.factors
        if factors is None:
            factors = self._scale(parent)
        weight = node.quota.weight
        if weight == 0:
            return INFINITE
        most = 0
        for resource, amount in used.items():
            if amount > 0:
                factor = factors.get(resource)
                if factor is None:
                    return INFINITE
                if amount * factor > most:
                    most = amount * factor
        return most * parent.scale // weight

    def _scale(self, parent: Node) -> dict[str, int]:
        """Factors that turn use into comparable whole numbers.

        A share is used ÷ (weight × amount). With a common multiple of the amounts the first division is exact; two
        fractions whose denominators are weights differ by at least 1 ÷ (largest weight)², so that scaled by this
        square and rounded down they stay in the same order, and equal ones stay equal.
        """
        amount = self._amount if parent.parent is None else parent.deserved
        present = {resource: whole for resource, whole in amount.items() if whole > 0}
        common = lcm(*present.values()) if present else 1
        parent.factors = {resource: common // whole for resource, whole in present.items()}
        heaviest = max((child.quota.weight for child in parent.children), default=1)
        parent.scale = max(heaviest, 1) ** 2
        return parent.factors


def _totals(demand: Mapping[Signature, Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for amounts in demand.values():
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _cap(demand: dict[Signature, dict[str, int]], limits: Amounts) -> None:
    """Scale demand down under `max`, resource by resource in name order, whole signatures at a time."""
    cut = False
    for resource in sorted(limits):
        total = sum(amounts.get(resource, 0) for amounts in demand.values())
        limit = limits[resource]
        if total > limit:
            cut = True
            for amounts in demand.values():
                if resource in amounts:
                    for name in amounts:
                        amounts[name] = amounts[name] * limit // total
    if cut:
        for key in [key for key, amounts in demand.items() if not all(amounts.values())]:
            amounts = demand.pop(key)
            left = tuple(name for name in key if amounts[name])
            if left:
                kept = demand.setdefault(left, dict.fromkeys(left, 0))
                for name in left:
                    kept[name] += amounts[name]
