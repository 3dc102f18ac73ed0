"""Who may take back, and what comes of it: the part of a contest that makes room instead of finding it.

`hopes` and `may_claim` are quick looks that spare the search; `takes_back` searches (`core.reclaim`), keeps the room
for the unit and tells the victims to go. Made anew for each contest: shares only rise by admissions while it lasts.
"""

from __future__ import annotations

from collections.abc import Callable

from usher.core.amounts import Amounts
from usher.core.lanes import Group
from usher.core.ledger import Blocked, Node
from usher.core.lifecycle import Lifecycle
from usher.core.phases import Cause
from usher.core.plugins import Candidate
from usher.core.reclaim import Plan, Ranking, Search, within_deserved
from usher.core.state import UnitState
from usher.core.world import World

NUMERIC = frozenset({"Max", "Capacity", "Held", "Guaranteed"})
"""The checks that taking back can cure."""
Gaps = list[tuple[Node, str, int]]
"""What would still be missing, where, if everything that may be taken were taken."""


class Claims:
    """Rights and searches of one contest."""

    def __init__(self, world: World, lifecycle: Lifecycle, ensure: Callable[[], None]) -> None:
        self._world = world
        self._lifecycle = lifecycle
        self._ensure = ensure
        self._sorted: dict[Node, list[UnitState]] = {}
        self._hopes: dict[Group, tuple[UnitState, bool]] = {}

    def hopes(self, group: Group, unit: UnitState) -> bool:
        """Worth a turn though nothing is free: it may take back, or use room that is kept and be gone in time.

        Remembered for the contest: what changes during it counts in the next one.
        """
        known = self._hopes.get(group)
        if known is None or known[0] is not unit:
            ends = bool(self._world.nominated) and group.ends
            hope = ends or group.lane.queue.spec.preempts
            hope = hope or (not self._coming(unit) and self.may_claim(unit, unit.ask_least))
            if not hope and unit.spec.elastic and unit.claims and self._entitled(unit, unit.ask_least):
                self._world.claimants[group] = None  # somebody may take all that is free now, and be richer then
            known = self._hopes[group] = (unit, hope)
        return known[1]

    def _coming(self, unit: UnitState) -> bool:
        """It will fit once everything that was told to go has gone."""
        assert unit.leaf is not None
        if self._world.ledger.floors:
            return False
        for node in reversed(unit.leaf.path):
            limits, used, held, leaving = node.limit, node.used, node.held, node.leaving
            if not leaving and node.parent is None:
                return False
            for name, amount in unit.ask.items():
                limit = limits.get(name, None if node.parent else 0)
                spoken = used.get(name, 0) + held.get(name, 0) - leaving.get(name, 0)
                if limit is not None and spoken + amount > limit:
                    return False
        return True

    def search(self) -> Search:
        world = self._world
        return Search(world.ledger, world.shares, self._ranking, self._victims, world.now_ms, world.started)

    def _victims(self, node: Node) -> list[UnitState]:
        """The units of a quota in the order in which they give back."""
        found = self._sorted.get(node)
        if found is None:
            disabled = len(self._world.guard.disabled)
            found = sorted(node.units.values(), key=self._victim_key)
            if disabled != len(self._world.guard.disabled):  # keys from before count no more
                found.sort(key=self._victim_key)
            self._sorted[node] = found
        return found

    def _ranking(self, parent: Node) -> Ranking:
        rankings, shares = self._world.rankings, self._world.shares
        found = rankings.get(parent)
        if found is None or found.measure != shares.measure:
            found = rankings[parent] = Ranking(shares, parent)
        return found

    def _victim_key(self, unit: UnitState) -> tuple[object, ...]:
        if unit.victim_key:
            return unit.victim_key
        policy = self._world.plugins.victims
        candidate = Candidate(unit.spec, unit.admitted_ms, unit.charged)
        none: tuple[int, ...] = ()
        key = self._world.guard.call(policy.name, none, policy.key, candidate)
        age = unit.spec
        unit.victim_key = (key, -age.created_ms, -age.seq, age.namespace, age.name)
        return unit.victim_key

    def takes_back(self, group: Group, unit: UnitState, blocked: Blocked, gaps: Gaps) -> bool:
        """Claim from other quotas, or preempt in its own, if it has the right to and then fits."""
        world = self._world
        world.claimants.pop(group, None)
        plan: Plan | None = None
        cause = Cause.RECLAIMED
        search = self.search()
        guaranteed = not self._not_guaranteed(unit)
        searched = guaranteed and unit.claims and self._entitled(unit, unit.ask)  # it may be poorer than somebody later
        if guaranteed and self.may_claim(unit, unit.ask):
            searched = True
            plan = search.claim(unit)
        if guaranteed and plan is None and group.lane.queue.spec.preempts:
            self._ensure()
            searched = True
            cause = Cause.PREEMPTED
            plan = search.preempt(unit)
        if search.protected_ms:
            world.remind(search.protected_ms, "protection", unit.key)
        if plan is None:
            if searched:
                world.claimants[group] = None
            gaps += search.gaps
            return False
        unit.blocked = blocked
        self._lifecycle.nominate(unit, world.ledger.nodes.get(plan.node, world.ledger.root), claimed=True)
        for take in plan.takes:
            if take.grants is None:
                self._lifecycle.evict(take.unit, cause, unit.key)
            else:
                self._lifecycle.shrink(take.unit, take.grants, cause, unit.key)
        return True

    def claims_part(self, group: Group, unit: UnitState, blocked: Blocked, gaps: Gaps) -> bool:
        """An elastic unit takes back what it deserves, though it wants more."""
        if not unit.spec.elastic or unit.ask == unit.ask_least or blocked.check not in NUMERIC:
            return False
        whole, leaf = unit.target, unit.leaf
        assert leaf is not None
        self._ensure()
        if not self._world.shares.policy.entitles:
            return False
        if not self._world.aim_lower(unit, lambda ask: within_deserved(leaf.path[:-1], ask)):
            return False
        if self.takes_back(group, unit, blocked, gaps):
            return True
        self._world.aim(unit, whole)
        return False

    def _not_guaranteed(self, unit: UnitState) -> bool:
        assert unit.leaf is not None
        return not unit.spec.preemptible and self._world.ledger.not_guaranteed(unit.leaf, unit.ask) is not None

    def _entitled(self, unit: UnitState, ask: Amounts) -> bool:
        leaf = unit.leaf
        assert leaf is not None
        return self._world.shares.policy.entitles and all(
            leaf.used.get(name, 0) + leaf.held.get(name, 0) + amount <= leaf.deserved.get(name, 0)
            for name, amount in ask.items()
        )

    def may_claim(self, unit: UnitState, ask: Amounts) -> bool:
        """A quick look: is there a level at which it has the right, and somebody is richer?"""
        world, leaf = self._world, unit.leaf
        policy = world.shares.policy
        assert leaf is not None
        if not policy.entitles or not unit.claims:
            return False
        self._ensure()
        entitled = True
        for node in leaf.path[:-1]:
            used, leaving, held = node.used, node.leaving, node.held
            guaranteed = True
            after = dict(used)
            for name, amount in ask.items():
                total = used.get(name, 0) + amount
                if leaving or held:
                    total += held.get(name, 0) - leaving.get(name, 0)
                after[name] = total
                entitled = entitled and total <= node.deserved.get(name, 0)
                guaranteed = guaranteed and total <= node.quota.min.get(name, 0)
            if not entitled and not policy.claims_by_share:
                return False
            assert node.parent is not None
            ranking = self._ranking(node.parent)
            richest = ranking.most if entitled else ranking.most_without
            if guaranteed or world.shares.share_of(node, after) < richest:
                return True
        return False
