"""Where units wait: queues, their lanes, and in a lane the groups of units that stand or fall together.

A lane is what competes with other lanes: a queue whose head blocks it is one lane, any other queue has one per quota.
In a lane whose head blocks, only the head can start, so all its units form one group. In any other lane a unit that
does not fit is passed over; units that ask for the same are one group, because if the first of them does not fit, none
does, but for those that end soon enough to use room which is kept for another: the first of them stands in for the
group then. A group that was stopped is parked at the node that stopped it, under the amount that must become free, and
opens again when that changes. Nothing is polled.
"""

from __future__ import annotations

from heapq import heappop, heappush

from usher.core.amounts import Amounts
from usher.core.ledger import Node
from usher.core.model import Queue
from usher.core.parking import Bucket, bucket_at
from usher.core.plugins import Blocks, QueuePolicy
from usher.core.state import UnitState

GroupKey = tuple[object, ...]
Waiting = tuple[tuple[int | str, ...], int, UnitState, int | None]
"""A unit by its order, its version then (with another it has left this place), and how long it may take."""


class Group:
    """Units of one lane in order; the first stands for all."""

    __slots__ = (
        "_ending",
        "_heap",
        "_stand_in",
        "_stands_in",
        "closed",
        "key",
        "lane",
        "opened",
        "park",
        "rank",
        "ranked",
        "ranked_epoch",
        "ranked_measure",
        "ranked_version",
        "ticket",
    )

    def __init__(self, lane: Lane, key: GroupKey) -> None:
        self.lane = lane
        self.key = key
        self._heap: list[Waiting] = []
        self._ending: dict[int, list[Waiting]] = {}
        """Where no head blocks: those that end by themselves, by how long they may take."""
        self._stand_in: UnitState | None = None
        self._stands_in = -1
        """The contest in which another unit than the first stands for the group."""
        self.park: Bucket | None = None
        self.opened = -1
        """The contest in which it may be tried, even if its bucket is not open."""
        self.closed = -1
        """The contest in which it was tried in vain."""
        self.ticket = 0
        """Counts what makes its place in its bucket outdated."""
        self.rank: tuple[object, ...] = ()
        self.ranked: UnitState | None = None
        self.ranked_version = self.ranked_epoch = self.ranked_measure = -1
        """`rank` is the key of `ranked` between lanes, for this state of its branch and of the shares."""

    def add(self, unit: UnitState) -> None:
        unit.version += 1
        unit.group = self
        most_ms = None if self.lane.blocks else unit.spec.max_execution_ms
        entry = (unit.order, unit.version, unit, most_ms)
        heappush(self._heap, entry)
        if most_ms is not None:
            if not self._ending and self.park is not None:
                self.park.ending[self] = None
            heappush(self._ending.setdefault(most_ms, []), entry)

    def top(self) -> UnitState | None:
        """The first unit, or None; entries that have left are dropped on the way, here and among those that end."""
        heap = self._heap
        while heap:
            entry = heap[0]
            unit = entry[2]
            if unit.group is self and unit.version == entry[1]:
                return unit
            heappop(heap)
            if entry[3] is not None:
                self._first_ending(entry[3])
        return None

    def _first_ending(self, most_ms: int) -> UnitState | None:
        """The first of those that may take just so long; where there is none, nothing is kept."""
        heap = self._ending.get(most_ms, [])
        while heap:
            entry = heap[0]
            unit = entry[2]
            if unit.group is self and unit.version == entry[1]:
                return unit
            heappop(heap)
        self._ending.pop(most_ms, None)
        return None

    @property
    def ends(self) -> bool:
        """The unit that it could start, or one of them, ends by itself in time."""
        if not self.lane.blocks:
            return bool(self._ending)
        first = self.top()
        return first is not None and first.spec.max_execution_ms is not None

    def first_within(self, most_ms: int) -> UnitState | None:
        """The first of those that take no longer than that."""
        found: UnitState | None = None
        for limit_ms in list(self._ending):
            unit = self._first_ending(limit_ms) if limit_ms <= most_ms else None
            if unit is not None and (found is None or unit.order < found.order):
                found = unit
        return found

    def put_forward(self, unit: UnitState, contest: int) -> None:
        """In this contest that one stands for the group; its first has had its turn."""
        self._stand_in, self._stands_in = unit, contest

    def stand_in(self, contest: int) -> UnitState | None:
        """The one that was put forward, while it waits."""
        unit = self._stand_in
        return unit if self._stands_in == contest and unit is not None and unit.group is self else None

    def turn(self, contest: int) -> UnitState | None:
        """Who stands for the group."""
        return self.stand_in(contest) or self.top()

    def is_open(self, contest: int) -> bool:
        """It may be tried in this contest."""
        park = self.park
        return self.opened == contest or (park is not None and park.opened == contest and self.closed != contest)

    def park_at(self, node: Node, resource: str, amount: int) -> None:
        bucket = bucket_at(node, resource, amount)
        if self.park is not bucket:
            self.unpark()
            self.park = bucket
            bucket.add(self)

    def unpark(self) -> None:
        if self.park is not None:
            bucket, self.park = self.park, None
            bucket.discard(self)

    def loosen(self) -> None:
        """Its rank may have fallen."""
        if self.park is not None:
            self.park.loosen(self)


class Lane:
    """One contender in the order between queues."""

    __slots__ = ("_failed", "_failed_in", "blocker", "blocks", "entered", "groups", "leaf", "queue")

    def __init__(self, queue: QueueState, leaf: Node | None) -> None:
        self.queue = queue
        self.leaf = leaf
        self.blocks = queue.policy.blocks is not Blocks.NOBODY
        self.groups: dict[GroupKey, Group] = {}
        self.blocker: UnitState | None = None
        """A nominated head: it waits for its room and holds up the lane."""
        self.entered = -1
        """The contest in which it has competed."""
        self._failed: list[Amounts] = []
        self._failed_in = -1

    def group_for(self, unit: UnitState, apart: bool) -> Group:
        """The group this unit belongs to; `apart`: units may differ in ways that the engine cannot see."""
        key: GroupKey = ()
        if not self.blocks:
            asks = tuple(sorted(unit.ask.items()))
            key = (
                asks,
                asks if unit.ask_least is unit.ask else tuple(sorted(unit.ask_least.items())),
                unit.spec.preemptible,
                unit.claims,
                unit.key if apart or unit.grants else "",
            )
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(self, key)
        return group

    def drop(self, group: Group) -> None:
        """Nobody is left in it."""
        group.unpark()
        if self.groups.get(group.key) is group:
            del self.groups[group.key]

    def failed(self, contest: int, unit: UnitState) -> None:
        """Remember what could neither start nor take back."""
        if self._failed_in != contest:
            self._failed_in = contest
            self._failed = []
        if unit.claims:
            self._failed.append(unit.ask)

    def hopeless(self, contest: int, unit: UnitState) -> bool:
        """In this contest a unit of this lane has failed that asked for no more of anything."""
        if self._failed_in != contest or self.queue.spec.preempts or unit.ask != unit.ask_least:
            return False
        ask = unit.ask
        return any(all(ask.get(name, 0) >= amount for name, amount in less.items()) for less in self._failed)

    def first(self, contest: int) -> tuple[Group, UnitState] | None:
        """The first of those that stand for a group which is open in this contest."""
        found: tuple[Group, UnitState] | None = None
        for group in self.groups.values():
            unit = group.turn(contest) if group.is_open(contest) else None
            if unit is not None and (found is None or unit.order < found[1].order):
                found = (group, unit)
        return found

    def line(self, contest: int) -> list[tuple[Group, UnitState]]:
        """Those that stand for a group which is open in this contest, in order."""
        tops = ((group, group.turn(contest)) for group in self.groups.values() if group.is_open(contest))
        return sorted(((group, unit) for group, unit in tops if unit is not None), key=lambda pair: pair[1].order)


class QueueState:
    """A queue and everything that waits in it or holds quota through it."""

    __slots__ = ("holding", "lanes", "members", "policy", "spec")

    def __init__(self, spec: Queue, policy: QueuePolicy) -> None:
        self.spec = spec
        self.policy = policy
        self.lanes: dict[str, Lane] = {}
        self.members: dict[str, UnitState] = {}
        """Units that wait here, those that cannot take part now included."""
        self.holding = 0

    def lane_for(self, leaf: Node) -> Lane:
        if self.policy.blocks is Blocks.QUEUE:
            lane = self.lanes.get("")
            if lane is None:
                lane = self.lanes[""] = Lane(self, None)
            leaf.lanes[lane] = None
            return lane
        lane = self.lanes.get(leaf.name)
        if lane is None:
            lane = self.lanes[leaf.name] = Lane(self, leaf)
            leaf.lanes[lane] = None
        return lane
