"""Nobody starves: who was overtaken, room that is kept for them, and who may use that room meanwhile.

A unit is overtaken when a unit after it in the order went through the node that stops it. Overtaken for too long, room
is kept for it without evicting anybody; units that are sure to be gone before it could start may still use the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from usher.core.commands import NoteOvertaken
from usher.core.lanes import Group, Lane
from usher.core.ledger import Node
from usher.core.lifecycle import Lifecycle
from usher.core.parking import Bucket, Rank, Ranker
from usher.core.state import UnitState
from usher.core.world import World


class Overtaking:
    """What one contest must remember of who went past whom."""

    def __init__(self, world: World, lifecycle: Lifecycle, key: Callable[[Lane, UnitState], Rank]) -> None:
        self._world = world
        self._lifecycle = lifecycle
        self._key = key
        self.passes = 0
        """How many units went through."""
        self._kept: int | None = None
        self._kept_known = False
        self._passed: dict[Node, Rank] = {}
        self._passed_in: dict[tuple[Node, Lane], tuple[int | str, ...]] = {}

    def promote(self) -> None:
        """Room is kept for whoever was overtaken too long; at one node for one unit at a time."""
        world = self._world
        if not world.overdue:
            return
        taken = {
            unit.nomination.node for unit in world.nominated.values() if unit.nomination and not unit.nomination.claimed
        }
        for unit in sorted(world.overdue.values(), key=lambda unit: (unit.overtaken_ms, unit.order[-4:])):
            leaf = unit.leaf
            if unit.group is None or leaf is None:
                continue
            stopped = unit.blocked or world.ledger.blocked(leaf, unit.ask, not unit.spec.preemptible)
            if stopped is None or not stopped.resource or stopped.node in taken:
                continue
            node = world.ledger.nodes.get(stopped.node, world.ledger.root)
            if unit.group.lane.blocks and unit.group.top() is not unit:
                continue
            taken.add(stopped.node)
            self._lifecycle.nominate(unit, node, claimed=False)
            world.ledger.released.update(dict.fromkeys(leaf.path))  # for those who could be gone before it starts

    def stand_in(self, group: Group) -> UnitState | None:
        """The first of a group that is sure to be gone before the units for which room is kept could start."""
        if group.lane.blocks or not group.ends:
            return None
        kept_ms = self._kept_ms()
        unit = None if kept_ms is None else group.first_within(kept_ms - self._world.now_ms)
        return unit if unit is not None and self.backfills(unit) else None

    def backfills(self, unit: UnitState) -> bool:
        """It is sure to be gone before the units for which room is kept could start, and fits until then."""
        world, leaf = self._world, unit.leaf
        assert leaf is not None
        if unit.spec.max_execution_ms is None:
            return False
        kept_ms = self._kept_ms()
        if kept_ms is None or world.now_ms + unit.spec.max_execution_ms - unit.ran_ms > kept_ms:
            return False
        with world.ledger.without_holds(self._keeping()):
            return world.ledger.blocked(leaf, unit.ask, not unit.spec.preemptible) is None

    def _keeping(self) -> list[UnitState]:
        """For whom room is kept without evicting anybody."""
        nominated = self._world.nominated.values()
        return [unit for unit in nominated if unit.nomination and not unit.nomination.claimed]

    def _kept_ms(self) -> int | None:
        """Until when all of that room is sure to be of no use to them; None: nobody can tell, or none is kept.

        Computed once: what starts in this contest can only make it later.
        """
        if not self._kept_known:
            self._kept_known = True
            keeping = self._keeping()
            ends = self._ends() if keeping else []
            starts = [self._could_start_ms(unit, ends) for unit in keeping]
            if None not in starts:
                self._kept = min((start for start in starts if start is not None), default=None)
        return self._kept

    def _ends(self) -> list[tuple[int, str, UnitState]]:
        """When what runs is sure to have ended, in order."""
        ledger = self._world.ledger
        return sorted(
            (unit.admitted_ms + unit.spec.max_execution_ms - unit.ran_ms, unit.key, unit)
            for node in (ledger.root, *ledger.nodes.values())
            for unit in node.units.values()
            if unit.charged and unit.spec.max_execution_ms is not None
        )

    def _could_start_ms(self, nominee: UnitState, ends: Iterable[tuple[int, str, UnitState]]) -> int | None:
        """When enough of what runs is sure to have ended; None: nobody can tell."""
        leaf = nominee.leaf
        assert leaf is not None
        short = {
            (node, name): node.used.get(name, 0) + amount - limit
            for node in leaf.path
            for name, amount in nominee.ask.items()
            if (limit := node.limit.get(name, None if node.parent else 0)) is not None
        }
        latest: int | None = None
        for end_ms, _, unit in ends:
            if all(amount <= 0 for amount in short.values()):
                return latest
            assert unit.leaf is not None
            for node in unit.leaf.path:
                for name, amount in unit.charged.items():
                    if (node, name) in short:
                        short[node, name] -= amount
            latest = end_ms
        return latest if all(amount <= 0 for amount in short.values()) else None

    def note(self, lane: Lane, unit: UnitState, rank: Rank) -> None:
        """Remember at each node with parked groups who went through it last in the order."""
        assert unit.leaf is not None
        self.passes += 1
        for node in unit.leaf.path:
            if node.parked:
                rank = rank or self._key(lane, unit)
                if rank > self._passed.get(node, ()):
                    self._passed[node] = rank
                last = self._passed_in.get((node, lane))
                if last is None or unit.order > last:
                    self._passed_in[node, lane] = unit.order

    def mark(self, failed: Iterable[Group], ranker: Ranker) -> None:
        """Groups that were not tried, or failed, while somebody after them went through."""
        for (node, lane), last_in in self._passed_in.items():
            for group in lane.groups.values():
                unit = self._unnoticed(group, node)
                if unit is not None and unit.order < last_in:
                    self._overtake(unit)
        for group in failed:
            if group.park is not None and group.park.node in self._passed:
                self._compare(group, self._passed[group.park.node])
        for node, last in self._passed.items():
            for buckets in node.parked.values():
                for bucket in buckets.values():
                    if bucket.opened != self._world.contest or bucket.closed_after < self.passes:
                        self._mark_before(bucket, last, ranker)

    def _mark_before(self, bucket: Bucket, last: Rank, ranker: Ranker) -> None:
        """Those of a bucket that were before the last who went through."""

        def unnoticed(group: Group) -> Rank | None:
            unit = group.top()
            return None if unit is None or unit.overtaken_ms >= 0 else ranker(group)

        line = bucket.unnoticed
        line.settle(unnoticed, len(bucket.groups))
        aside = []
        while (place := line.pop(unnoticed, below=last)) is not None:
            if not self._compare(place[3], last):
                aside.append(place)
        for place in aside:
            line.give_back(place)

    def _compare(self, group: Group, last: Rank) -> bool:
        """Whether it was before the last who went through; noted if so."""
        unit = self._unnoticed(group, None)
        if unit is None or not self._key(group.lane, unit) < last:
            return False
        self._overtake(unit)
        return True

    def _unnoticed(self, group: Group, node: Node | None) -> UnitState | None:
        """The first unit of a group that is parked (at that node), if it was not overtaken before."""
        if group.park is None or (node is not None and group.park.node is not node):
            return None
        unit = group.top()
        return unit if unit is not None and unit.overtaken_ms < 0 else None

    def _overtake(self, unit: UnitState) -> None:
        world = self._world
        unit.overtaken_ms = world.now_ms
        delay_ms = self.reserve_after(unit)
        if delay_ms > 0:
            world.remind(world.now_ms + delay_ms, "overtaken", unit.key)
            world.out.append(NoteOvertaken(unit.key, world.now_ms))

    def reserve_after(self, unit: UnitState) -> int:
        return self._world.reserve_after_ms(unit)
