"""Who starts: heads of lanes compete for what is free until nothing more fits.

A pass serves nominated units first, then takes lanes in order: heads that stay within their quota's deserved, then
those that would borrow; inside each class queue priority, score, weighted dominant share compared below the common
ancestor, and age. A unit that does not fit may take back (`core.reclaim`), start smaller, or use room that is kept for
another if it is sure to be gone in time; else its group is parked. During a pass nothing is released, so keys of lanes
only grow: a lane that is taken from the heap with an outdated key goes back with its new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from usher.core.amounts import Amounts
from usher.core.claims import NUMERIC, Claims, Gaps
from usher.core.laneorder import LaneOrder, borrows, entitled_to_some
from usher.core.lanes import Group, Lane
from usher.core.ledger import Blocked, Node
from usher.core.lifecycle import Lifecycle
from usher.core.overtaking import Key, Overtaking
from usher.core.state import UnitState
from usher.core.world import World

Entry = tuple[Key, int, Lane, Group, UnitState, int]
ANYTHING = -(1 << 80)
"""Parked under this, a group is tried after every release at the node."""


class Contest:
    """One pass; made anew for each call of the engine."""

    def __init__(self, world: World, lifecycle: Lifecycle) -> None:
        self._world = world
        self._lifecycle = lifecycle
        self._failed: set[Group] = set()
        self._order = LaneOrder(world)
        self._claims = Claims(world, lifecycle, self._ensure)
        self._overtaking = Overtaking(world, lifecycle, self._order.key)
        self._eligible: list[tuple[Node, str, int]] = []
        self._must: set[Group] = set()
        """Open groups that are tried even though nothing is free: they are new, or may take back."""
        self._ensured = False

    def run(self) -> None:
        world = self._world
        changed, world.claims_changed = world.claims_changed, False
        above, world.came_above = world.came_above, {}
        self._overtaking.promote()
        self._serve_nominated()
        if world.waiting > 1 or (world.waiting and not self._sure_to_be_tried()):
            self._ensure()
        self._open_claims(changed or world.claims_changed, above | world.came_above)
        self._open_released()
        if world.ready:
            self._compete()
        self._overtaking.mark(self._failed)
        world.contest += 1
        world.ready.clear()
        world.ledger.released.clear()

    def _sure_to_be_tried(self) -> bool:
        """A unit that waits is new in its place: whatever its quota deserves, it has its turn now."""
        contest = self._world.contest
        groups = (group for lane in self._world.ready for group in lane.groups.values())
        return any(group.opened == contest and group.park is None and group.top() is not None for group in groups)

    def _ensure(self) -> None:
        """Deserved is computed at most once per call."""
        if not self._ensured:
            self._ensured = True
            self._world.shares.ensure()

    # -- opening --------------------------------------------------------------------------------------------------

    def _open_released(self) -> None:
        """Groups parked where there is room for them again."""
        world = self._world
        contest = world.contest
        for node in world.ledger.released:
            for resource, buckets in node.parked.items():
                free = node.free(resource)
                fitting = [amount for amount in buckets if amount <= free]
                if fitting:
                    self._eligible.append((node, resource, min(fitting)))
                for amount in fitting:
                    for group in buckets[amount]:
                        group.opened = contest
                        world.ready[group.lane] = None
                if node.held.get(resource, 0):
                    self._open_backfill(buckets, free, free + node.held[resource])

    def _open_backfill(self, buckets: Mapping[int, Iterable[Group]], above: int, most: int) -> None:
        """Groups that would fit but for room that is kept, and whose units end: they may be gone in time."""
        for amount in [amount for amount in buckets if above < amount <= most]:
            for group in buckets[amount]:
                unit = group.top()
                if unit is not None and unit.spec.max_execution_ms is not None:
                    self._open_group(group)

    def _open_claims(self, changed: bool, above: Mapping[Node, None]) -> None:
        """Lanes whose right to take back may have changed: they are tried even though nothing is free.

        What this very contest starts is not taken back in it, so that counts in the next one again.
        """
        world, shares = self._world, self._world.shares
        for node in shares.risen:
            for lane in _lanes_below(node):
                self._open_entitled(lane)
        for node in world.ledger.released:
            if node.parent is not None:
                for lane in _lanes_below(node):
                    self._open(lane)
        if changed:
            for group in list(world.claimants):
                unit = group.top()
                if unit is None:
                    del world.claimants[group]
                elif self._claims.hopes(group, unit):
                    self._open_group(group)
        elif world.claimants and (above or shares.came_above):
            self._open_claimants([*above, *shares.came_above])
        shares.risen, shares.came_above = {}, {}

    def _open_claimants(self, above: Iterable[Node]) -> None:
        """Those poorer than a branch that came above its deserved."""
        world, shares = self._world, self._world.shares
        most: dict[Node | None, tuple[int, int]] = {}
        for node in above:
            whole, without = most.get(node.parent, (0, 0))
            most[node.parent] = max(whole, shares.share(node)), max(without, shares.share_without(node))
        for group in world.claimants:
            unit = group.top()
            if unit is not None and unit.leaf is not None and self._poorer(unit.leaf, unit.ask, most):
                self._open_group(group)

    def _poorer(self, leaf: Node, ask: Amounts, most: Mapping[Node | None, tuple[int, int]]) -> bool:
        """At some level it would stay poorer than the richest there, or than what that is left with."""
        entitled = True
        for node in leaf.path[:-1]:
            after = dict(node.used)
            for name, amount in ask.items():
                after[name] = after.get(name, 0) + amount
                entitled = entitled and after[name] <= node.deserved.get(name, 0)
            if node.parent in most:
                whole, without = most[node.parent]
                if self._world.shares.share_of(node, after) < (whole if entitled else without):
                    return True
        return False

    def _open_entitled(self, lane: Lane) -> None:
        """Its quota deserves more: that helps those who would now stay within it."""
        for group in lane.groups.values():
            unit = group.top()
            if unit is None:
                continue
            helped = lane.queue.spec.preempts or entitled_to_some(unit)
            if group.park is None or (helped and self._claims.hopes(group, unit)):
                self._open_group(group)

    def _open(self, lane: Lane) -> None:
        for group in lane.groups.values():
            unit = group.top()
            if unit is not None and (group.park is None or self._claims.hopes(group, unit)):
                self._open_group(group)

    def _open_group(self, group: Group) -> None:
        group.opened = self._world.contest
        self._must.add(group)
        self._world.ready[group.lane] = None

    # -- nominated units ------------------------------------------------------------------------------------------

    def _serve_nominated(self) -> None:
        """In their order, whole: freed room goes to the first, so that two never hoard halves."""
        world = self._world
        if not world.nominated:
            return
        line = sorted(world.nominated.values(), key=_nomination_order)
        served = 0
        for unit in line:
            assert unit.leaf is not None
            assert unit.nomination is not None
            served += 1
            later = [other for other in line[served:] if other.nomination is not None]
            blocked = self._limited(unit)
            if blocked is None:
                with world.ledger.without_holds((unit, *later)):
                    blocked = world.ledger.blocked(unit.leaf, unit.ask, not unit.spec.preemptible)
            if blocked is None:
                self._admit(unit, unit.target)
                continue
            unit.blocked = blocked
            if unit.nomination.claimed:
                if self._claims.search().lapsed(unit, later):
                    self._lifecycle.lapse(unit)
            elif self._limited(unit) is None:
                with world.ledger.without_holds((unit, *later)):
                    smaller = self._fits_smaller(unit)
                if smaller:
                    self._admit(unit, unit.target)

    # -- competing ------------------------------------------------------------------------------------------------

    def _compete(self) -> None:
        world = self._world
        contest = world.contest
        heap: list[Entry] = []
        full = False
        alone = len(world.ready) == 1
        self._must.update(group for group in world.fresh if group.park is None and group.opened == contest)
        world.fresh.clear()
        room: dict[tuple[Node, str], int] = {}
        for serial, lane in enumerate(world.ready):
            entry = self._known(lane, serial, room) or self._entry(lane, serial, alone)
            if entry is not None:
                heap.append(entry)
        heapify(heap)
        while heap:
            key, serial, lane, group, unit, version = heappop(heap)
            assert unit.leaf is not None
            if lane.blocker is not None:
                continue
            moved = group.top() is not unit
            if moved or (not alone and unit.leaf.branch.version != version):
                entry = self._entry(lane, serial, alone)
                if entry is not None and (moved or entry[0] != key):
                    heappush(heap, entry)
                if entry is None or moved or entry[0] != key:
                    continue
            if not self._try(group, unit, key):
                self._close(group)
                if lane.blocks:
                    continue
            elif group.top() is None:
                self._must.discard(group)
            elif lane.blocks:
                self._must.add(group)  # another head, which may need less than was free
            if not full and self._full():
                full = True
                hopeful = {group.lane for group in self._must}
                heap = [entry for entry in heap if entry[2] in hopeful]
                heapify(heap)
            if full and not any(other in self._must for other in lane.groups.values()):
                continue
            entry = self._entry(lane, serial, alone)
            if entry is not None:
                heappush(heap, entry)

    def _known(self, lane: Lane, serial: int, room: dict[tuple[Node, str], int]) -> Entry | None:
        """The entry of a lane of one group of which nothing has changed but that there may be room: the usual case."""
        if len(lane.groups) != 1 or lane.blocker is not None:
            return None
        (group,) = lane.groups.values()
        unit, park = group.ranked, group.park
        if (
            unit is None
            or park is None
            or unit.leaf is None
            or group.opened != self._world.contest
            or group.ranked_version != unit.leaf.branch.version
            or len(unit.leaf.lanes) != 1
            or group.top() is not unit
            or self._world.plugins.scores
            or not self._still_ranked(group, unit)
        ):
            return None
        free = room.get((park[0], park[1]))
        if free is None:
            free = room[park[0], park[1]] = park[0].free(park[1])
        if free < unit.ask_least.get(park[1], 0):
            return None
        return (group.rank, serial, lane, group, unit, group.ranked_version)

    def _still_ranked(self, group: Group, unit: UnitState) -> bool:
        """Its rank is right: no share is measured otherwise, and it would borrow, or not, as before."""
        shares = self._world.shares
        if group.ranked_epoch == shares.epoch:
            return True
        if group.ranked_measure != shares.measure or borrows(unit) != group.rank[0]:
            return False
        group.ranked_epoch = shares.epoch
        return True

    def _entry(self, lane: Lane, serial: int, alone: bool) -> Entry | None:
        """The lane's first unit with its key, and the state of its branch for which the key is right."""
        found = None if lane.blocker is not None else self._first(lane)
        if found is None:
            return None
        group, unit = found
        leaf = unit.leaf
        assert leaf is not None
        version = leaf.branch.version
        if alone:
            return ((), serial, lane, group, unit, version)
        epoch = self._world.shares.epoch
        if (
            group.ranked is not unit
            or group.ranked_version != version
            or group.ranked_epoch != epoch
            or len(leaf.lanes) != 1
            or self._world.plugins.scores
        ):
            group.rank = self._order.key(lane, unit)
            group.ranked, group.ranked_version, group.ranked_epoch = unit, version, epoch
            group.ranked_measure = self._world.shares.measure
        return (group.rank, serial, lane, group, unit, version)

    def _first(self, lane: Lane) -> tuple[Group, UnitState] | None:
        """The unit that stands for the lane: where the head does not block, those that cannot start are passed over.

        Room only shrinks during a contest, so passing over can be done before anybody's turn. It must be: else units
        within their quota's deserved would wait behind a large borrower, and take back what others borrowed meanwhile.
        """
        contest = self._world.contest
        found = lane.first(contest)
        if found is None or lane.blocks or not self._stuck(*found):
            return found
        line = lane.line(contest)
        for group, unit in line:
            if not self._stuck(group, unit):
                return group, unit
            if group.park is None:
                self._try(group, unit, ())
            self._close(group)
        return None

    def _stuck(self, group: Group, unit: UnitState) -> bool:
        """Nothing is free for it, and it cannot make room."""
        node, name = (group.park[0], group.park[1]) if group.park is not None else (self._world.ledger.root, "")
        names = (name,) if name else unit.ask_least
        if all(node.free(name) >= unit.ask_least.get(name, 0) for name in names):
            return False
        return group.lane.hopeless(self._world.contest, unit) or not self._claims.hopes(group, unit)

    def _close(self, group: Group) -> None:
        group.opened = -1
        self._failed.add(group)
        self._must.discard(group)

    def _full(self) -> bool:
        """Nothing that was opened because of free room fits any more: only those who may take back need a turn."""
        return not any(node.free(name) >= least for node, name, least in self._eligible)

    # -- one unit -------------------------------------------------------------------------------------------------

    def _try(self, group: Group, unit: UnitState, key: Key) -> bool:
        """Start it, make room for it, or park its group; False: it stays where it is."""
        world, leaf = self._world, unit.leaf
        assert leaf is not None
        if group.park is not None and self._stuck(group, unit):
            return False
        blocked = self._limited(unit)
        if blocked is None:
            blocked = world.ledger.blocked(leaf, unit.ask, not unit.spec.preemptible)
            if blocked is None or self._overtaking.backfills(unit):
                self._overtaking.note(group.lane, unit, key)
                self._admit(unit, unit.target)
                return True
            gaps: Gaps = []
            if blocked.check in NUMERIC and self._claims.takes_back(group, unit, blocked, gaps):
                return True
            if self._fits_smaller(unit):
                self._overtaking.note(group.lane, unit, key)
                self._admit(unit, unit.target)
                return True
            if self._claims.claims_part(group, unit, blocked, gaps):
                return True
            if unit.ask_least != unit.ask:
                blocked = world.ledger.blocked(leaf, unit.ask_least, not unit.spec.preemptible) or blocked
            unit.blocked = blocked
            self._park(group, unit, blocked, gaps)
        else:
            unit.blocked = blocked
            self._park(group, unit, blocked, ())
        group.lane.failed(world.contest, unit)
        return False

    def _limited(self, unit: UnitState) -> Blocked | None:
        """What stops it besides amounts: its queue's number of units, or a plug-in."""
        world, queue = self._world, unit.queue
        assert queue is not None
        limit = queue.spec.max_units
        if limit is not None and not unit.grants and queue.holding >= limit:
            return Blocked("MaxUnits", queue.spec.key, "", 1, queue.holding, 0, limit)
        for plugin in world.plugins.filters:
            why = world.guard.call(plugin.name, "", plugin.refuse, unit.spec, unit.ask)
            if why:
                return Blocked("Filter", plugin.name, detail=why)
        return None

    def _park(self, group: Group, unit: UnitState, blocked: Blocked, gaps: Iterable[tuple[Node, str, int]]) -> None:
        """Under what must be free before another try is of use: for it to fit, or for it to take back the rest."""
        ledger = self._world.ledger
        if blocked.check == "MaxUnits":
            group.unpark()
            return
        named = "" if blocked.check == "Filter" else blocked.node
        node, resource = ledger.nodes.get(named, ledger.root), blocked.resource
        if blocked.check not in ("Max", "Capacity", "Held"):
            group.park_at(node, resource, ANYTHING)
            return
        places: dict[tuple[Node, str], int] = {}
        for at, name, missing in gaps:
            amount = ANYTHING if ledger.floors else at.free(name) + at.leaving.get(name, 0) + missing
            places[at, name] = min(amount, places.get((at, name), amount))
        if not places or unit.ask_least != unit.ask:
            amount = unit.ask_least.get(resource, 0)
            places[node, resource] = min(amount, places.get((node, resource), amount))
        if len(places) == 1:
            (at, name), amount = places.popitem()
            group.park_at(at, name, amount)
        else:
            group.park_at(ledger.root, resource, ANYTHING)

    def _admit(self, unit: UnitState, counts: Mapping[str, int]) -> None:
        world = self._world
        protected_ms = 0
        if unit.nomination is not None and not unit.nomination.claimed:
            protected_ms = self._overtaking.reserve_after(unit) << min(unit.evictions, 16)
        self._lifecycle.admit(unit, counts, protected_ms)
        assert unit.leaf is not None
        for node in unit.leaf.path[:-1]:
            used, deserved = node.used, node.deserved
            for name in unit.charged:
                if used[name] > deserved.get(name, 0):
                    world.came_above[node] = None
                    break
        if unit.queue is not None and unit.queue.spec.preempts:
            world.claims_changed = True

    def _fits_smaller(self, unit: UnitState) -> bool:
        """Aim at the largest size, from its least on, that fits without taking from anybody."""
        ledger, leaf, fixed = self._world.ledger, unit.leaf, not unit.spec.preemptible
        assert leaf is not None
        return unit.ask_least != unit.ask and self._world.aim_lower(
            unit, lambda ask: ledger.blocked(leaf, ask, fixed) is None
        )


def _nomination_order(unit: UnitState) -> tuple[object, ...]:
    assert unit.nomination is not None
    return (not unit.nomination.claimed, unit.nomination.since_ms, unit.order[-4:])


def _lanes_below(node: Node) -> Iterable[Lane]:
    yield from node.lanes
    for child in node.children:
        yield from _lanes_below(child)
