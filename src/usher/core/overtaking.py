"""Nobody starves: who was overtaken, room that is kept for them, and who may use that room meanwhile.

A unit is overtaken when a unit after it in the order went through the node that stops it. Overtaken for too long, room
is kept for it without evicting anybody; units that are sure to be gone before it could start may still use the room.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from usher.core.commands import NoteOvertaken
from usher.core.lanes import Group, Lane
from usher.core.ledger import Node
from usher.core.lifecycle import Lifecycle
from usher.core.state import UnitState
from usher.core.world import World

Key = tuple[object, ...]
"""A place in the order between lanes; smaller goes first."""


class Overtaking:
    """What one contest must remember of who went past whom."""

    def __init__(self, world: World, lifecycle: Lifecycle, key: Callable[[Lane, UnitState], Key]) -> None:
        self._world = world
        self._lifecycle = lifecycle
        self._key = key
        self._passed: dict[Node, Key] = {}
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

    def backfills(self, unit: UnitState) -> bool:
        """It is sure to be gone before the units for which room is kept could start."""
        world, leaf = self._world, unit.leaf
        assert leaf is not None
        if unit.spec.max_execution_ms is None:
            return False
        keeping = [other for other in world.nominated.values() if other.nomination and not other.nomination.claimed]
        if not keeping:
            return False
        with world.ledger.without_holds(keeping):
            fits = world.ledger.blocked(leaf, unit.ask, not unit.spec.preemptible) is None
        if not fits:
            return False
        ends_ms = world.now_ms + unit.spec.max_execution_ms - unit.ran_ms
        starts = [self._could_start_ms(other) for other in keeping]
        return all(start is not None and ends_ms <= start for start in starts)

    def _could_start_ms(self, nominee: UnitState) -> int | None:
        """When enough of what runs is sure to have ended; None: nobody can tell."""
        leaf = nominee.leaf
        assert leaf is not None
        short = {
            (node, name): node.used.get(name, 0) + amount - limit
            for node in leaf.path
            for name, amount in nominee.ask.items()
            if (limit := node.limit.get(name, None if node.parent else 0)) is not None
        }
        ends = sorted(
            (unit.admitted_ms + unit.spec.max_execution_ms - unit.ran_ms, unit.key, unit)
            for unit in self._world.units.values()
            if unit.charged and unit.spec.max_execution_ms is not None
        )
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

    def note(self, lane: Lane, unit: UnitState, key: Key) -> None:
        """Remember at each node with parked groups who went through it last in the order."""
        assert unit.leaf is not None
        for node in unit.leaf.path:
            if node.parked:
                key = key or self._key(lane, unit)
                if key > self._passed.get(node, ()):
                    self._passed[node] = key
                last = self._passed_in.get((node, lane))
                if last is None or unit.order > last:
                    self._passed_in[node, lane] = unit.order

    def mark(self, failed: Container[Group]) -> None:
        """Groups that were not tried, or failed, while somebody after them went through."""
        world = self._world
        for node, last in self._passed.items():
            parked = [group for buckets in node.parked.values() for groups in buckets.values() for group in groups]
            for group in parked:
                if group.opened == world.contest and group not in failed:
                    continue
                unit = group.top()
                if unit is not None and unit.overtaken_ms < 0 and self._overtaken(node, group, unit, last):
                    self._overtake(unit)

    def _overtaken(self, node: Node, group: Group, unit: UnitState, last: Key) -> bool:
        inside = self._passed_in.get((node, group.lane))
        if inside is not None and unit.order < inside:
            return True
        leaf = unit.leaf
        assert leaf is not None
        if last[0] == 0 and any(
            leaf.used.get(name, 0) + leaf.held.get(name, 0) + amount > leaf.deserved.get(name, 0)
            for name, amount in unit.ask.items()
        ):
            return False
        return self._key(group.lane, unit) < last

    def _overtake(self, unit: UnitState) -> None:
        world = self._world
        unit.overtaken_ms = world.now_ms
        delay_ms = self.reserve_after(unit)
        if delay_ms > 0:
            world.remind(world.now_ms + delay_ms, "overtaken", unit.key)
            world.out.append(NoteOvertaken(unit.key, world.now_ms))

    def reserve_after(self, unit: UnitState) -> int:
        return self._world.reserve_after_ms(unit)
