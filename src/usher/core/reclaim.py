"""Taking back: the search for units that must go so that one other unit fits.

`claim` takes from other branches what they use beyond their deserved, `preempt` takes inside one quota from lower
priorities. Both are all or nothing: they answer a plan after which the claimant fits, or None. The search marks
candidates as leaving in the ledger while it looks, so that those chosen already count as gone, and takes every mark
back before it answers: the engine carries the plan out.

Giving and taking use the same inequality: a branch may claim while it stays within its deserved (or stays strictly
poorer than the one it takes from), and gives while it is above. So a settled state evicts nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush

from usher.core.amounts import Amounts
from usher.core.ledger import Ledger, Node
from usher.core.model import Grant
from usher.core.shares import Shares
from usher.core.state import UnitState, as_grants, between, granted_amounts, least_counts


@dataclass(frozen=True, slots=True)
class Take:
    """One unit that gives back: all of it, or down to `grants`."""

    unit: UnitState
    grants: tuple[Grant, ...] | None
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """What must go, and the lowest node that stopped the claimant."""

    node: str
    takes: tuple[Take, ...]


class Ladder:
    """Branches of a node by a value that may change; the highest is found without looking at the rest."""

    def __init__(self, value: Callable[[Node], int], parent: Node) -> None:
        self._value = value
        self._parent = parent
        self._nodes = parent.children
        self._most, self._most_at = 0, -1
        self._fill()

    def _fill(self) -> None:
        self._risen: dict[Node, None] = {}
        """Looked at when somebody asks: many rise again and again before that."""
        self._heap = [(-self._value(node), node.name, node) for node in self._nodes]
        heapify(self._heap)

    def put(self, node: Node) -> None:
        """Its value has risen (a value that fell is found out by itself)."""
        self._risen[node] = None

    @property
    def most(self) -> int:
        """The highest value; many ask before anything changes."""
        if self._most_at != self._parent.version:
            found = self._top((), [])
            self._most, self._most_at = (0 if found is None else found[0]), self._parent.version
        return self._most

    def descend(self, besides: Container[Node]) -> Generator[tuple[int, Node], None, None]:
        """The highest that is not among these, again and again: meanwhile values may fall, and these become more."""
        aside: list[tuple[int, str, Node]] = []
        try:
            while found := self._top(besides, aside):
                yield found
        finally:
            for entry in aside:
                heappush(self._heap, entry)

    def _top(self, besides: Container[Node], aside: list[tuple[int, str, Node]]) -> tuple[int, Node] | None:
        """The highest; those among `besides` that stand above it are taken out."""
        if len(self._heap) + len(self._risen) > 4 * len(self._nodes):
            self._fill()
        heap = self._heap
        for node in self._risen:
            heappush(heap, (-self._value(node), node.name, node))
        self._risen.clear()
        while heap:
            entry = heap[0]
            if entry[2] in besides:
                aside.append(heappop(heap))
                continue
            value = self._value(entry[2])
            if -entry[0] == value:
                return value, entry[2]
            heappop(heap)
            if value < -entry[0]:
                heappush(heap, (-value, entry[1], entry[2]))
        return None


class Ranking:
    """The branches of one node, richest first, those that leave counted as gone; told whenever one gets richer."""

    def __init__(self, shares: Shares, parent: Node) -> None:
        self._shares = shares
        self.measure = shares.measure
        """What shares are measured by must be the same for all."""
        self._whole = Ladder(partial(effective_share, shares), parent)
        self._without = Ladder(self._share_without, parent)

    def _share_without(self, node: Node) -> int:
        return effective_share(self._shares, node) if node.leaving else self._shares.share_without(node)

    @property
    def most(self) -> int:
        """The share of the richest."""
        return self._whole.most

    @property
    def most_without(self) -> int:
        """At least the share of whoever is richest after it gave up one unit."""
        return self._without.most

    def risen(self, node: Node) -> None:
        self._whole.put(node)
        self._without.put(node)

    def descend(self, besides: Container[Node]) -> Generator[tuple[int, Node], None, None]:
        """The richest besides these, again and again."""
        return self._whole.descend(besides)


class Search:
    """One look for victims; `protected_ms` afterwards says when a protection that stood in the way ends."""

    def __init__(
        self,
        ledger: Ledger,
        shares: Shares,
        ranking: Callable[[Node], Ranking],
        victims: Callable[[Node], list[UnitState]],
        now_ms: int,
        spared: Container[str],
    ) -> None:
        self._ledger = ledger
        self._shares = shares
        self._ranking = ranking
        self._victims = victims
        self._now_ms = now_ms
        self._spared = spared
        self._takes: dict[str, Take] = {}
        self._used: dict[Node, Ranking] = {}
        self.protected_ms = 0
        self.short = False
        """Something is missing that is not on its way."""
        self.gaps: list[tuple[Node, str, int]] = []
        """What would still be missing if everything that may be taken were taken: until then it is of no use to try."""

    # -- between quotas -------------------------------------------------------------------------------------------

    def claim(self, unit: UnitState) -> Plan | None:
        leaf = unit.leaf
        assert leaf is not None
        short = self._shortage(leaf, unit.ask)
        self.short = any(short)
        if not self.short or short[0]:
            return None
        lowest = next(index for index, need in enumerate(short) if need)
        fits = True
        for index in range(1, len(short)):
            fits = self._fill(unit, index, whole=False) or self._fill(unit, index, whole=True)
            if not fits:
                self._note_gap(leaf.path[index], self._shortage(leaf, unit.ask)[index])
                break
        return self._answer(unit, leaf.path[lowest].name, fits, partial(self._lacking, unit))

    def _note_gap(self, node: Node, lacking: Amounts) -> None:
        resource = min(lacking)
        self.gaps.append((node, resource, lacking[resource]))

    def _lacking(self, unit: UnitState) -> dict[str, int]:
        """What is missing anywhere on its path."""
        assert unit.leaf is not None
        most: dict[str, int] = {}
        for need in self._shortage(unit.leaf, unit.ask):
            for resource, amount in need.items():
                most[resource] = max(most.get(resource, 0), amount)
        return most

    def _fill(self, unit: UnitState, index: int, whole: bool) -> bool:
        """Free what the node at `index` of the path lacks: from its own branches first, then from those below."""
        assert unit.leaf is not None
        for level in range(index, 0, -1):
            if not self._shortage(unit.leaf, unit.ask)[index]:
                return True
            self._take_below(unit, level, index, whole)
        return not self._shortage(unit.leaf, unit.ask)[index]

    def _take_below(self, unit: UnitState, level: int, index: int, whole: bool) -> None:
        """Take from the other branches of the ancestor at `level` until the node at `index` has room."""
        leaf, ask = unit.leaf, unit.ask
        assert leaf is not None
        ancestor, own = leaf.path[level], leaf.path[level - 1]
        entitled = within_deserved(leaf.path[:level], ask)
        if not entitled and not self._shares.policy.claims_by_share:
            return
        poorer = self._shares.share_of(own, self._with(own, ask))
        guaranteed = self._guaranteed(own, ask)
        ranking = self._used[ancestor] = self._ranking(ancestor)
        spent = {own}
        with closing(ranking.descend(spent)) as branches:
            for share, branch in branches:
                if not guaranteed and share <= poorer:
                    return
                lacking = self._shortage(leaf, ask)[index]
                if not lacking:
                    return
                allowed = partial(self._stays_richer, branch, None if entitled else poorer)
                take = self._pick(branch, lacking, allowed, whole)
                if take is None:
                    spent.add(branch)
                else:
                    self._mark(take)

    def _pick(self, node: Node, lacking: Amounts, allowed: Callable[[Amounts], bool], whole: bool) -> Take | None:
        """The next unit below `node` to give back, if every node on the way is above deserved in what is lacking."""
        if not any(self._effective(node, resource) > node.deserved.get(resource, 0) for resource in lacking):
            return None
        for child in sorted(node.children, key=lambda child: (-effective_share(self._shares, child), child.name)):
            found = self._pick(child, lacking, allowed, whole)
            if found is not None:
                return found
        refused: list[Amounts] = []
        for unit in self._victims(node):
            if unit.charged in refused:
                continue
            take = self._offer(unit, lacking, whole)
            if take is not None:
                if allowed(take.amounts):
                    return take
                if take.grants is None:
                    refused.append(take.amounts)
        return None

    # -- inside one quota -----------------------------------------------------------------------------------------

    def preempt(self, unit: UnitState) -> Plan | None:
        """Lower priorities of the same quota make room; what the quota borrows does not rise."""
        leaf = unit.leaf
        assert leaf is not None
        short = self._shortage(leaf, unit.ask)
        self.short = any(short)
        if not self.short:
            return None
        lowest = next(index for index, need in enumerate(short) if need)
        borrowed = [self._borrowed(node, unit.ask, 0) for node in leaf.path[:-1]]
        wanting = partial(self._lacking_or_borrowed, unit, borrowed)
        for whole in (False, True):
            for victim in self._victims(leaf):
                lacking = wanting()
                if not lacking:
                    break
                if victim.rank < unit.rank and (take := self._offer(victim, lacking, whole)):
                    self._mark(take)
        fits = not wanting()
        for node, lacks in zip(leaf.path, self._shortage(leaf, unit.ask), strict=True):
            if lacks:
                self._note_gap(node, lacks)
                break
        return self._answer(unit, leaf.path[lowest].name, fits, wanting)

    def _lacking_or_borrowed(self, unit: UnitState, borrowed: Sequence[Amounts]) -> dict[str, int]:
        """What is missing, and what its quota (or one above) would borrow beyond what it borrowed before."""
        assert unit.leaf is not None
        most = self._lacking(unit)
        if self._shares.policy.entitles:
            for node, before in zip(unit.leaf.path[:-1], borrowed, strict=True):
                for resource, amount in self._borrowed(node, unit.ask, 1).items():
                    if amount > before[resource]:
                        most[resource] = max(most.get(resource, 0), amount - before[resource])
        return most

    def _borrowed(self, node: Node, ask: Amounts, times: int) -> dict[str, int]:
        return {
            resource: max(
                0,
                self._effective(node, resource)
                + node.held.get(resource, 0)
                + amount * times
                - node.deserved.get(resource, 0),
            )
            for resource, amount in ask.items()
        }

    # -- candidates -----------------------------------------------------------------------------------------------

    def _offer(self, unit: UnitState, lacking: Amounts, whole: bool) -> Take | None:
        """What this unit can give of what is lacking; elastic units give pods before they give themselves."""
        if not unit.spec.preemptible or unit.evicting or unit.shrink_to is not None or unit.key in self._spared:
            return None
        if not any(unit.charged.get(resource, 0) for resource in lacking):
            return None
        before = self._takes.get(unit.key)
        if before is not None and (before.grants is None or not whole):
            return None
        if unit.protected_ms > self._now_ms:
            ends = unit.protected_ms
            self.protected_ms = min(self.protected_ms, ends) if self.protected_ms else ends
            return None
        if unit.spec.elastic and not whole and not unit.assumed:
            return self._shrink(unit, lacking)
        return Take(unit, None, unit.charged)

    def _shrink(self, unit: UnitState, lacking: Amounts) -> Take | None:
        now = {grant.pod_set: grant.count for grant in unit.grants}
        least = {name: min(count, now.get(name, 0)) for name, count in least_counts(unit.spec).items()}
        most = {name: now.get(name, 0) for name in least}
        room = sum(most.values()) - sum(least.values())
        if room <= 0:
            return None

        def freed(pods: int) -> tuple[tuple[Grant, ...], dict[str, int]]:
            grants = as_grants(unit.spec, between(least, most, room - pods))
            rest = granted_amounts(unit.spec, grants)
            gone = {name: amount - rest.get(name, 0) for name, amount in unit.charged.items()}
            return grants, {name: amount for name, amount in gone.items() if amount > 0}

        low, high = 1, room
        while low < high:
            middle = (low + high) // 2
            enough = freed(middle)[1]
            if all(enough.get(resource, 0) >= amount for resource, amount in lacking.items()):
                high = middle
            else:
                low = middle + 1
        grants, gone = freed(low)
        return Take(unit, grants, gone) if any(gone.get(resource, 0) for resource in lacking) else None

    # -- marks ----------------------------------------------------------------------------------------------------

    def _mark(self, take: Take) -> None:
        before = self._takes.pop(take.unit.key, None)
        if before is not None:
            self._unmark(before)
        self._takes[take.unit.key] = take
        assert take.unit.leaf is not None
        self._ledger.leave(take.unit.leaf, take.amounts)

    def _unmark(self, take: Take) -> None:
        assert take.unit.leaf is not None
        self._ledger.unleave(take.unit.leaf, take.amounts)

    def _answer(self, unit: UnitState, node: str, fits: bool, wanting: Callable[[], Mapping[str, int]]) -> Plan | None:
        """Put back what is not needed, the most valuable first, and undo every mark."""
        assert unit.leaf is not None
        needed: list[Take] = []
        for take in reversed(self._takes.values()):
            self._unmark(take)
            if fits and wanting():
                needed.append(take)
                assert take.unit.leaf is not None
                self._ledger.leave(take.unit.leaf, take.amounts)
        for take in needed:
            self._unmark(take)
        self._rank_again()
        self._takes = {}
        return Plan(node, tuple(reversed(needed))) if fits and needed else None

    def _rank_again(self) -> None:
        """Branches that were ranked as if they had given back are as rich as before."""
        for take in self._takes.values():
            assert take.unit.leaf is not None
            for node in take.unit.leaf.path[:-1]:
                if node.parent in self._used:
                    self._used[node.parent].risen(node)

    # -- amounts --------------------------------------------------------------------------------------------------

    def _shortage(self, leaf: Node, ask: Amounts) -> list[dict[str, int]]:
        """By node of the path: what is missing once everything that is leaving has gone."""
        withheld = self._ledger.withheld(leaf, ask, gone=True) if self._ledger.floors else None
        short: list[dict[str, int]] = []
        for index, node in enumerate(leaf.path):
            need: dict[str, int] = {}
            for resource, amount in ask.items():
                limit = node.limit.get(resource)
                if limit is None:
                    if node.parent is not None:
                        continue
                    limit = 0
                spoken = node.held.get(resource, 0) - node.leaving.get(resource, 0)
                missing = node.used.get(resource, 0) + spoken + amount - limit
                if withheld is not None and withheld[index][resource][1] > 0:
                    missing = max(missing, withheld[index][resource][0] - limit)
                if missing > 0:
                    need[resource] = missing
            short.append(need)
        return short

    def lacks(self, unit: UnitState) -> bool:
        """It will not fit, even once everything that was told to go has gone."""
        assert unit.leaf is not None
        return any(self._shortage(unit.leaf, unit.ask))

    def _effective(self, node: Node, resource: str) -> int:
        return node.used.get(resource, 0) - node.leaving.get(resource, 0)

    def _with(self, node: Node, ask: Amounts) -> dict[str, int]:
        names = node.used.keys() | node.held.keys() | ask.keys()
        return {name: self._effective(node, name) + node.held.get(name, 0) + ask.get(name, 0) for name in names}

    def _guaranteed(self, node: Node, ask: Amounts) -> bool:
        return all(
            self._effective(node, resource) + node.held.get(resource, 0) + amount <= node.quota.min.get(resource, 0)
            for resource, amount in ask.items()
        )

    def _stays_richer(self, branch: Node, floor: int | None, freed: Amounts) -> bool:
        if floor is None:
            return True
        left = {name: self._effective(branch, name) - freed.get(name, 0) for name in branch.used}
        return self._shares.share_of(branch, left) > floor


def within_deserved(nodes: Sequence[Node], ask: Amounts) -> bool:
    """With `ask`, and with what is kept for its units, each of these stays within what it deserves."""
    return all(
        node.used.get(name, 0) - node.leaving.get(name, 0) + node.held.get(name, 0) + amount
        <= node.deserved.get(name, 0)
        for node in nodes
        for name, amount in ask.items()
    )


def effective_share(shares: Shares, node: Node) -> int:
    """Its weighted dominant share, those that leave counted as gone."""
    if not node.leaving:
        return shares.share(node)
    return shares.share_of(node, {name: amount - node.leaving.get(name, 0) for name, amount in node.used.items()})
