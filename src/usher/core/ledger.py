"""The quota tree and what is charged to it.

A unit is charged to one node and so to every ancestor up to the root. Checking and charging happen in one step of one
thread, so no interleaving can over-admit. Four amounts per node and resource: `used` (charged to units, whether
confirmed or assumed), `leaving` (the part of `used` that was told to go), `held` (kept for nominated units) and
`fixed` (the part of `used` that cannot be preempted). A quota that does not lend keeps its idle `min` for itself:
`kept` is what a node withholds from its parent, its use or its `min`, whichever is more.

Only the engine writes here; every change names the nodes that have room again in `released`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from usher.core.amounts import Amounts, Signature
from usher.core.model import ROOT, Quota
from usher.core.share import Sharer

if TYPE_CHECKING:
    from usher.core.lanes import Lane
    from usher.core.parking import Bucket
    from usher.core.state import UnitState


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a unit does not start now: the check, and where there are numbers, the node, the resource and them."""

    check: str
    node: str = ""
    resource: str = ""
    asked: int = 0
    used: int = 0
    held: int = 0
    limit: int = 0
    detail: str = ""


class Node:
    """One quota in the tree (or the root, or a queue that is its own purse)."""

    __slots__ = (
        "amount",
        "branch",
        "children",
        "demand",
        "deserved",
        "factors",
        "fixed",
        "floor",
        "held",
        "kept",
        "kept_below",
        "lanes",
        "leaving",
        "limit",
        "name",
        "parent",
        "parked",
        "path",
        "quota",
        "scale",
        "shapes",
        "share",
        "share_without",
        "sharer",
        "units",
        "used",
        "version",
    )

    def __init__(self, quota: Quota, parent: Node | None) -> None:
        self.name = quota.name
        self.quota = quota
        self.parent = parent
        self.children: list[Node] = []
        self.path: tuple[Node, ...] = (self, *parent.path) if parent else (self,)
        self.branch: Node = self.path[-2] if len(self.path) > 1 else self
        """The child of the root above (or at) this node."""
        self.limit: Mapping[str, int] = quota.max
        self.used: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self.leaving: dict[str, int] = {}
        self.fixed: dict[str, int] = {}
        self.kept: dict[str, int] = {}
        self.kept_below: dict[str, int] = {}
        self.floor: dict[str, int] = {}
        """What it keeps while nothing runs."""
        self.units: dict[str, UnitState] = {}
        """Units charged to this very node."""
        self.lanes: dict[Lane, None] = {}
        self.parked: dict[str, dict[int, Bucket]] = {}
        """By resource and the amount that must be free: groups of units that this node stopped."""
        # What `core.shares` computes.
        self.demand: dict[Signature, dict[str, int]] = {}
        self.sharer: Sharer | None = None
        self.deserved: dict[str, int] = {}
        self.amount: Mapping[str, int] = {}
        self.factors: dict[str, int] | None = None
        self.scale = 1
        self.share = -1
        self.share_without = -1
        self.shapes: dict[tuple[tuple[str, int], ...], int] = {}
        """How many of its units are charged alike."""
        self.version = 0
        """Counts changes of what it uses and holds, and of what leaves."""

    def free(self, resource: str) -> int:
        """What nobody uses or holds; huge where the node does not limit it."""
        limit = self.limit.get(resource)
        if limit is None:
            limit = 0 if self.parent is None else 1 << 80
        free = limit - self.used.get(resource, 0)
        return free - self.held.get(resource, 0) if self.held else free


class Ledger:
    """The tree, and the one place where amounts are charged."""

    def __init__(self) -> None:
        self.root = Node(Quota(ROOT), None)
        self.nodes: dict[str, Node] = {}
        self.problems: dict[str, str] = {}
        self.floors = False
        self.counts = False
        """Whether any node limits the number of its units."""
        self.released: dict[Node, None] = {}

    # -- the tree -------------------------------------------------------------------------------------------------

    def rebuild(self, quotas: Mapping[str, Quota], capacity: Amounts) -> None:
        """Lay the tree anew; nothing is charged to it yet."""
        self.root = Node(Quota(ROOT, max=capacity), None)
        self.nodes = {}
        self.problems = {}
        for name in sorted(quotas):
            self._attach(name, quotas)
        self.counts = any(node.quota.max_jobs is not None for node in self.nodes.values())
        self.floors = any(node.quota.kept for node in self.nodes.values())
        self.released = {}
        if self.floors:
            self._keep_floors(self.root)

    def _attach(self, name: str, quotas: Mapping[str, Quota]) -> None:
        chain: list[str] = []
        above = name
        while above and above != ROOT and above not in self.nodes:
            if above not in quotas:
                self._refuse(chain, chain[-1:], f"its parent {above} does not exist")
                return
            if above in chain:
                circle = chain[chain.index(above) :]
                self._refuse(chain, circle, f"it is its own ancestor: {' → '.join([*circle, above])}")
                return
            if above in self.problems:
                self._refuse([*chain, above], [above], self.problems[above])
                return
            chain.append(above)
            above = quotas[above].parent
        parent = self.nodes.get(above, self.root)
        for link in reversed(chain):
            node = Node(quotas[link], parent)
            parent.children.append(node)
            self.nodes[link] = node
            parent = node

    def _refuse(self, chain: list[str], faulty: Sequence[str], problem: str) -> None:
        """Quotas of a chain that does not reach the root: those with a fault of their own, and those below them."""
        for link, parent in zip(chain, [*chain[1:], ""], strict=True):
            self.problems[link] = problem if link in faulty else f"its parent {parent} takes no part"

    def _keep_floors(self, node: Node) -> None:
        for child in node.children:
            self._keep_floors(child)
            for resource, amount in child.kept.items():
                node.kept_below[resource] = node.kept_below.get(resource, 0) + amount
        node.kept = dict(node.kept_below)
        for resource, amount in node.quota.kept.items():
            node.kept[resource] = max(node.kept.get(resource, 0), amount)
        node.floor = dict(node.kept)

    # -- checking -------------------------------------------------------------------------------------------------

    def crowded(self, leaf: Node) -> Blocked | None:
        """The lowest node that holds as many units as it may; None: there is room for one more."""
        for node in leaf.path if self.counts else ():
            most = node.quota.max_jobs
            if most is not None and (there := _holding(node)) >= most:
                return Blocked("MaxJobs", node.name, "", 1, there, 0, most)
        return None

    def blocked(self, leaf: Node, ask: Amounts, fixed: bool = False) -> Blocked | None:
        """The lowest node that stops `ask` now, with the numbers; None: it fits."""
        for node in leaf.path:
            limits, used, held = node.limit, node.used, node.held
            for resource, amount in ask.items():
                limit = limits.get(resource)
                if limit is None:
                    if node.parent is not None:
                        continue
                    limit = 0
                taken = used.get(resource, 0)
                kept = held.get(resource, 0) if held else 0
                if taken + kept + amount > limit:
                    check = "Held" if taken + amount <= limit else ("Max" if node.parent else "Capacity")
                    return Blocked(check, node.name, resource, amount, taken, kept, limit)
        if self.floors and (stopped := self._kept_from(leaf, ask)):
            return stopped
        return self.not_guaranteed(leaf, ask) if fixed else None

    def never_fits(self, leaf: Node, ask: Amounts, fixed: bool = False) -> Blocked | None:
        """The node that would stop `ask` even if nothing else ran."""
        for node in leaf.path:
            for resource, amount in ask.items():
                limit = node.limit.get(resource)
                if limit is None:
                    if node.parent is not None:
                        continue
                    limit = 0
                if amount > limit:
                    return Blocked("NeverFits", node.name, resource, amount, 0, 0, limit)
        if self.floors and (stopped := self._never_left(leaf, ask)):
            return stopped
        if fixed:
            for node in leaf.path[:-1]:
                for resource, amount in ask.items():
                    guaranteed = node.quota.min.get(resource, 0 if node is leaf else None)
                    if guaranteed is not None and amount > guaranteed:
                        return Blocked("NotGuaranteed", node.name, resource, amount, 0, 0, guaranteed)
        return None

    def not_guaranteed(self, leaf: Node, ask: Amounts) -> Blocked | None:
        for node in leaf.path[:-1]:
            for resource, amount in ask.items():
                guaranteed = node.quota.min.get(resource, 0 if node is leaf else None)
                taken = node.fixed.get(resource, 0)
                if guaranteed is not None and taken + amount > guaranteed:
                    return Blocked("NotGuaranteed", node.name, resource, amount, taken, 0, guaranteed)
        return None

    def withheld(self, leaf: Node, ask: Amounts, gone: bool) -> list[dict[str, tuple[int, int]]]:
        """By node of the path: what it would withhold from its parent with `ask`, and how much more that is than now.

        Room that is kept counts as used; with `gone`, what was told to leave counts as free. A quota that does not
        lend withholds its `min` whoever leaves it.
        """
        found: list[dict[str, tuple[int, int]]] = []
        below: dict[str, tuple[int, int]] = {}
        for node in leaf.path:
            level: dict[str, tuple[int, int]] = {}
            for resource, amount in ask.items():
                now = self._kept_after(node, resource, gone)
                total, rise = below.get(resource, (0, amount))
                total = self._own_and_below(node, resource, gone) + rise
                total = max(total, node.quota.kept.get(resource, 0))
                level[resource] = (total, total - now)
            found.append(level)
            below = level
        return found

    def _own_and_below(self, node: Node, resource: str, gone: bool) -> int:
        total = _spoken(node, resource, gone)
        for child in node.children:
            total += self._kept_after(child, resource, gone) - _spoken(child, resource, gone)
        return total

    def _kept_after(self, node: Node, resource: str, gone: bool) -> int:
        if resource not in node.held and not (gone and resource in node.leaving):
            return node.kept.get(resource, 0)
        total = self._own_and_below(node, resource, gone)
        return max(total, node.quota.kept.get(resource, 0))

    def _kept_from(self, leaf: Node, ask: Amounts) -> Blocked | None:
        for node, level in zip(leaf.path, self.withheld(leaf, ask, gone=False), strict=True):
            for resource, (total, rise) in level.items():
                limit = node.limit.get(resource)
                if limit is not None and rise > 0 and total > limit:
                    amount = ask[resource]
                    return Blocked("Guaranteed", node.name, resource, amount, total - amount, 0, limit)
        return None

    def _never_left(self, leaf: Node, ask: Amounts) -> Blocked | None:
        """The node at which `ask` does not fit beside what quotas that do not lend keep even while idle."""
        for resource, amount in ask.items():
            total = amount
            for node in leaf.path:
                total = max(total, node.quota.kept.get(resource, 0))
                limit = node.limit.get(resource)
                rise = total - node.floor.get(resource, 0)
                if limit is not None and rise > 0 and total > limit:
                    return Blocked("NeverFits", node.name, resource, amount, 0, total - amount, limit)
                if node.parent is not None:
                    total = rise + sum(child.floor.get(resource, 0) for child in node.parent.children)
        return None

    # -- changing -------------------------------------------------------------------------------------------------

    def charge(self, leaf: Node, amounts: Amounts, fixed: bool) -> None:
        """The caller has checked (or found the pods running: then it is charged whatever the limits say)."""
        for node in leaf.path:
            used = node.used
            node.share = -1
            node.version += 1
            for resource, amount in amounts.items():
                used[resource] = used.get(resource, 0) + amount
        if fixed:
            _shift(leaf.path, "fixed", amounts, 1)
        if self.floors:
            self._shift_kept(leaf, amounts, 1)

    def refund(self, leaf: Node, amounts: Amounts, fixed: bool) -> None:
        released = self.released
        for node in leaf.path:
            used = node.used
            node.share = -1
            node.version += 1
            released[node] = None
            for resource, amount in amounts.items():
                used[resource] -= amount
        if fixed:
            _shift(leaf.path, "fixed", amounts, -1)
        if self.floors:
            self._shift_kept(leaf, amounts, -1)

    def _shift_kept(self, leaf: Node, amounts: Amounts, sign: int) -> None:
        delta = {resource: sign * amount for resource, amount in amounts.items()}
        for node in leaf.path:
            rest: dict[str, int] = {}
            for resource, change in delta.items():
                below = node.kept_below.get(resource, 0) + change
                node.kept_below[resource] = below
                kept = max(below, node.quota.kept.get(resource, 0))
                moved = kept - node.kept.get(resource, 0)
                if moved:
                    node.kept[resource] = kept
                    rest[resource] = moved
            delta = rest

    def hold(self, leaf: Node, amounts: Amounts) -> None:
        """Keep room."""
        for node in leaf.path:
            node.version += 1
        _shift(leaf.path, "held", amounts, 1)

    @contextmanager
    def without_holds(self, units: Iterable[UnitState]) -> Iterator[None]:
        """What if no room were kept for these?"""
        aside = list(units)
        for unit in aside:
            self.set_aside(unit)
        yield
        for unit in aside:
            self.put_back(unit)

    def set_aside(self, unit: UnitState) -> None:
        """Let the room that is kept for it not count, until it is put back."""
        if unit.leaf is not None:
            _shift(unit.leaf.path, "held", unit.held, -1)

    def put_back(self, unit: UnitState) -> None:
        if unit.leaf is not None:
            _shift(unit.leaf.path, "held", unit.held, 1)

    def unhold(self, leaf: Node, amounts: Amounts) -> None:
        _shift(leaf.path, "held", amounts, -1)
        for node in leaf.path:
            node.version += 1
            self.released[node] = None

    def leave(self, leaf: Node, amounts: Amounts) -> None:
        """These were told to go; they stay charged until they are gone."""
        for node in leaf.path:
            node.version += 1
        _shift(leaf.path, "leaving", amounts, 1)

    def unleave(self, leaf: Node, amounts: Amounts) -> None:
        for node in leaf.path:
            node.version += 1
        _shift(leaf.path, "leaving", amounts, -1)


def _holding(node: Node) -> int:
    """How many units are charged here and below."""
    return len(node.units) + sum(_holding(child) for child in node.children)


def _spoken(node: Node, resource: str, gone: bool) -> int:
    taken = node.used.get(resource, 0) + node.held.get(resource, 0)
    return taken - node.leaving.get(resource, 0) if gone else taken


def _shift(path: tuple[Node, ...], column: str, amounts: Amounts, sign: int) -> None:
    for node in path:
        total: dict[str, int] = getattr(node, column)
        for resource, amount in amounts.items():
            left = total.get(resource, 0) + sign * amount
            if left:
                total[resource] = left
            else:
                total.pop(resource, None)
