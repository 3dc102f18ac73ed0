"""Who starts: heads of lanes compete for what is free until nothing more fits.

A pass serves nominated units first, then takes lanes in order: heads that stay within their quota's deserved, then
those that would borrow; inside each class queue priority, score, weighted dominant share compared below the common
ancestor, and age. A unit that does not fit may take back (`core.reclaim`), start smaller, or use room that is kept for
another if it is sure to be gone in time; else its group is parked. During a pass nothing is released, so ranks of lanes
only grow: a lane that is taken from the heap with an outdated one goes back with its new one. Lanes of parked groups
enter when the first of their groups is the first of an open bucket (`core.parking`): those behind cost nothing.
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
from usher.core.overtaking import Overtaking
from usher.core.parking import STILL_OPEN, Bucket, Place, Rank
from usher.core.state import UnitState
from usher.core.world import World

Entry = tuple[Rank, int, Lane, Group, UnitState, int, Bucket | None]
"""Rank, tie-break, who, the state of its branch for which the rank is right; and the bucket that it comes from."""
ANYTHING = -(1 << 80)
"""Parked under this, a group is tried after every release at the node."""


class Contest:
    """One pass; made anew for each call of the engine."""

    def __init__(self, world: World, lifecycle: Lifecycle) -> None:
        self._world = world
        self._lifecycle = lifecycle
        self._failed: dict[Group, None] = {}
        self._order = LaneOrder(world)
        self._claims = Claims(world, lifecycle, self._ensure)
        self._overtaking = Overtaking(world, lifecycle, self._order.key)
        self._buckets: list[Bucket] = []
        """Those that were opened."""
        self._eligible: list[tuple[Node, str, int]] = []
        self._heap: list[Entry] = []
        self._entries = 0
        self._taken: list[tuple[Bucket, Place]] = []
        self._must: dict[Group, None] = {}
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
        if self._buckets or self._must or world.fresh:
            self._compete()
        self._overtaking.mark(self._failed, self._rank)
        for bucket, place in self._taken:
            bucket.line.give_back(place)
        world.contest += 1
        world.fresh.clear()
        world.ledger.released.clear()

    def _sure_to_be_tried(self) -> bool:
        """A unit that waits is new in its place: whatever its quota deserves, it has its turn now."""
        contest = self._world.contest
        fresh = self._world.fresh
        return any(group.opened == contest and group.park is None and group.top() is not None for group in fresh)

    def _ensure(self) -> None:
        """Deserved is computed at most once per call."""
        if not self._ensured:
            self._ensured = True
            self._world.shares.ensure()

    # -- opening --------------------------------------------------------------------------------------------------

    def _open_released(self) -> None:
        """Buckets with room for their groups again."""
        contest = self._world.contest
        for node in self._world.ledger.released:
            for resource, buckets in node.parked.items():
                free = node.free(resource)
                fitting = [bucket for amount, bucket in buckets.items() if amount <= free]
                if fitting:
                    self._eligible.append((node, resource, min(bucket.amount for bucket in fitting)))
                    self._buckets += fitting
                for bucket in fitting:
                    bucket.opened, bucket.closed_after = contest, STILL_OPEN
                    bucket.line.settle(self._rank, len(bucket.groups))
                if node.held.get(resource, 0):
                    self._open_backfill(buckets.values(), free, free + node.held[resource])

    def _open_backfill(self, buckets: Iterable[Bucket], above: int, most: int) -> None:
        """Groups that would fit but for room that is kept, and whose units end: they may be gone in time."""
        for bucket in buckets:
            if above < bucket.amount <= most:
                for group in bucket.ending:
                    if group.ends:
                        self._open_group(group)

    def _open_claims(self, changed: bool, above: Mapping[Node, None]) -> None:
        """Lanes whose right to take back may have changed: they are tried even though nothing is free.

        What this very contest starts is not taken back in it, so that counts in the next one again.
        """
        world, shares = self._world, self._world.shares
        for node in shares.rescaled:
            for lane in _lanes_below(node):
                for group in lane.groups.values():
                    group.loosen()
        for node in shares.risen:
            for lane in _lanes_below(node):
                self._open_entitled(lane)
        for node in world.ledger.released:
            if node.parent is world.ledger.root:  # all its path is released
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
        shares.risen, shares.came_above, shares.rescaled = {}, {}, {}

    def _open_claimants(self, above: Iterable[Node]) -> None:
        """Those poorer than a branch that came above its deserved."""
        world, shares = self._world, self._world.shares
        most: dict[Node | None, tuple[int, int]] = {}
        for node in above:
            whole, without = most.get(node.parent, (0, 0))
            most[node.parent] = max(whole, shares.share(node)), max(without, shares.share_without(node))
        for group in world.claimants:
            unit = group.top()
            if unit is None or unit.leaf is None:
                continue
            ask = unit.ask_least if unit.spec.elastic else unit.ask  # an elastic one takes back in part
            if self._poorer(unit.leaf, ask, most):
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
            if group.rank and group.rank[0] and not borrows(unit):
                group.loosen()
            helped = lane.queue.spec.preempts or entitled_to_some(unit)
            if group.park is None or (helped and self._claims.hopes(group, unit)):
                self._open_group(group)

    def _open(self, lane: Lane) -> None:
        """Its quota uses less, or one above it does."""
        for group in lane.groups.values():
            group.loosen()
            unit = group.top()
            if unit is not None and (group.park is None or self._claims.hopes(group, unit)):
                self._open_group(group)

    def _open_group(self, group: Group) -> None:
        group.opened = self._world.contest
        self._must[group] = None

    # -- nominated units ------------------------------------------------------------------------------------------

    def _serve_nominated(self) -> None:
        """In their order, whole: freed room goes to the first, so that two never hoard halves."""
        world = self._world
        if not world.nominated:
            return
        ledger, search = world.ledger, self._claims.search()
        line = sorted(world.nominated.values(), key=_nomination_order)
        for unit in line:
            ledger.set_aside(unit)
        for unit in line:  # only what is kept for those before it counts now
            leaf, nomination = unit.leaf, unit.nomination
            assert leaf is not None
            assert nomination is not None
            limited = self._limited(unit)
            blocked = limited or ledger.blocked(leaf, unit.ask, not unit.spec.preemptible)
            lapsed = blocked is not None and nomination.claimed and search.lacks(unit)
            smaller = blocked is not None and not nomination.claimed and limited is None and self._fits_smaller(unit)
            ledger.put_back(unit)
            if blocked is None or smaller:
                self._admit(unit)
                continue
            unit.blocked = blocked
            if lapsed:
                self._lifecycle.lapse(unit)

    # -- competing ------------------------------------------------------------------------------------------------

    def _compete(self) -> None:
        world, heap = self._world, self._heap
        contest = world.contest
        full = False
        self._must.update((group, None) for group in world.fresh if group.park is None and group.opened == contest)
        for group in list(self._must):
            if group.lane.entered != contest:
                group.lane.entered = contest
                self._enter(group.lane)
        for opened in self._buckets:
            self._scout(opened)
        while heap:
            rank, _, lane, group, unit, version, bucket = heappop(heap)
            if bucket is not None:
                if not self._discovers(bucket, lane):
                    continue
                if len(lane.groups) > 1 or unit.leaf is None or len(unit.leaf.lanes) > 1:
                    version = -1  # this is the turn of one of its groups, not that of the lane
            if lane.blocker is not None:
                continue
            if group.turn(contest) is not unit or unit.leaf is None or unit.leaf.branch.version != version:
                entry = self._entry(lane)
                if entry is None:
                    continue
                if entry[3] is not group or entry[0] != rank:
                    heappush(heap, entry)
                    continue
            if not self._try(group, unit, rank):
                self._close(group, unit)
                if lane.blocks:
                    continue
            elif group.top() is None:
                self._must.pop(group, None)
            elif lane.blocks:
                self._must[group] = None  # another head, which may need less than was free
            if not full and self._full():
                full = True
                for opened in self._buckets:
                    opened.closed_after = min(opened.closed_after, self._overtaking.passes)
                hopeful = {group.lane for group in self._must}
                heap[:] = [entry for entry in heap if entry[6] is None and entry[2] in hopeful]
                heapify(heap)
            if full and not any(other in self._must for other in lane.groups.values()):
                continue
            self._enter(lane)

    def _scout(self, bucket: Bucket) -> None:
        """Its first group is the next that could have a turn because of the room that there is."""
        place = bucket.line.pop(self._rank) if bucket.roomy else None
        if place is None:
            bucket.closed_after = self._overtaking.passes
            return
        self._taken.append((bucket, place))
        rank, _, _, group = place
        unit = group.ranked
        assert unit is not None
        self._entries += 1
        heappush(self._heap, (rank, self._entries, group.lane, group, unit, group.ranked_version, bucket))

    def _discovers(self, bucket: Bucket, lane: Lane) -> bool:
        """It is the turn of a group that a bucket offered: True if there is room, and its lane has not entered yet."""
        contest = self._world.contest
        if not bucket.roomy:
            bucket.closed_after = self._overtaking.passes
            return False
        self._scout(bucket)
        if lane.entered == contest:
            return False
        lane.entered = contest
        return True

    def _enter(self, lane: Lane) -> None:
        entry = self._entry(lane)
        if entry is not None:
            heappush(self._heap, entry)

    def _entry(self, lane: Lane) -> Entry | None:
        """The lane's first unit with its rank, and the state of its branch for which that is right."""
        found = None if lane.blocker is not None else self._first(lane)
        if found is None:
            return None
        group, unit = found
        assert unit.leaf is not None
        rank = self._order.key(lane, unit) if len(unit.leaf.lanes) > 1 else self._rank_of(group, unit)
        self._entries += 1
        return (rank, self._entries, lane, group, unit, unit.leaf.branch.version, None)

    def _rank(self, group: Group) -> Rank | None:
        """The rank of a group's first unit; if other lanes of its quota lend it their age, the least that it can be."""
        unit = group.top()
        return None if unit is None else self._rank_of(group, unit)

    def _rank_of(self, group: Group, unit: UnitState) -> Rank:
        leaf, shares = unit.leaf, self._world.shares
        assert leaf is not None
        version = leaf.branch.version
        if group.ranked is unit and group.ranked_version == version and group.ranked_measure == shares.measure:
            if group.ranked_epoch == shares.epoch:
                return group.rank
            if borrows(unit) == group.rank[0]:
                group.ranked_epoch = shares.epoch
                return group.rank
        group.rank = self._order.key(group.lane, unit, least=len(leaf.lanes) > 1)
        group.ranked, group.ranked_version, group.ranked_epoch = unit, version, shares.epoch
        group.ranked_measure = shares.measure
        return group.rank

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
            self._close(group, unit)
        return lane.first(contest)  # who stands in for one of them, if anybody

    def _stuck(self, group: Group, unit: UnitState) -> bool:
        """Nothing is free for it, and it cannot make room."""
        if group.stand_in(self._world.contest) is unit:
            return False
        park, least = group.park, unit.ask_least
        if park is not None and park.resource:
            if park.node.free(park.resource) >= least.get(park.resource, 0):
                return False
        else:
            node = self._world.ledger.root if park is None else park.node
            if all(node.free(name) >= amount for name, amount in least.items()):
                return False
        return group.lane.hopeless(self._world.contest, unit) or not self._claims.hopes(group, unit)

    def _close(self, group: Group, tried: UnitState) -> None:
        """Who had the turn cannot start; another of the group may still, if it is sure to be gone in time."""
        contest = self._world.contest
        other = None if group.stand_in(contest) is tried else self._overtaking.stand_in(group)
        if other is not None:
            group.put_forward(other, contest)
            self._open_group(group)
            return
        group.opened, group.closed = -1, self._world.contest
        self._failed[group] = None
        self._must.pop(group, None)

    def _full(self) -> bool:
        """Nothing that was opened because of free room fits any more: only those who may take back need a turn."""
        return all(node.free(name) < least for node, name, least in self._eligible)

    # -- one unit -------------------------------------------------------------------------------------------------

    def _try(self, group: Group, unit: UnitState, rank: Rank) -> bool:
        """Start it, make room for it, or park its group; False: it stays where it is."""
        world, leaf = self._world, unit.leaf
        assert leaf is not None
        if group.park is not None and self._stuck(group, unit):
            return False
        blocked = self._limited(unit)
        if blocked is None:
            blocked = world.ledger.blocked(leaf, unit.ask, not unit.spec.preemptible)
            if blocked is None or self._overtaking.backfills(unit):
                self._overtaking.note(group.lane, unit, rank)
                self._admit(unit)
                return True
            gaps: Gaps = []
            if blocked.check in NUMERIC and self._claims.takes_back(group, unit, blocked, gaps):
                return True
            if self._fits_smaller(unit):
                self._overtaking.note(group.lane, unit, rank)
                self._admit(unit)
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
        """What stops it besides amounts: the number of units of its queue or quotas, or a plug-in."""
        world, queue = self._world, unit.queue
        assert queue is not None
        limit = queue.spec.max_units
        if limit is not None and not unit.grants and queue.holding >= limit:
            return Blocked("MaxUnits", queue.spec.key, "", 1, queue.holding, 0, limit)
        assert unit.leaf is not None
        if not unit.grants and (crowded := world.ledger.crowded(unit.leaf)):
            return crowded
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

    def _admit(self, unit: UnitState) -> None:
        world = self._world
        protected_ms = 0
        if unit.nomination is not None and not unit.nomination.claimed:
            protected_ms = self._overtaking.reserve_after(unit) << min(unit.evictions, 16)
        self._lifecycle.admit(unit, protected_ms)
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
