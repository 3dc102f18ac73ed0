"""Where units wait: queues, their lanes, and in a lane the groups of units that stand or fall together.

A lane is what competes with other lanes: a queue whose head blocks it is one lane, any other queue has one per quota.
In a lane whose head blocks, only the head can start, so all its units form one group. In any other lane a unit that
does not fit is passed over; units that ask for the same are one group, because if the first of them does not fit, none
does. A group that was stopped is parked at the node that stopped it, under the amount that must become free, and opens
again when that changes. Nothing is polled.
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


class Group:
    """Units of one lane in order; the first stands for all."""

    __slots__ = (
        "_heap",
        "closed",
        "ends",
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
        self._heap: list[tuple[tuple[int | str, ...], int, UnitState]] = []
        self.park: Bucket | None = None
        self.opened = -1
        """The contest in which it may be tried, even if its bucket is not open."""
        self.closed = -1
        """The contest in which it was tried in vain."""
        self.ends = False
        """A unit of it ends by itself in time."""
        self.ticket = 0
        """Counts what makes its place in its bucket outdated."""
        self.rank: tuple[object, ...] = ()
        self.ranked: UnitState | None = None
        self.ranked_version = self.ranked_epoch = self.ranked_measure = -1
        """`rank` is the key of `ranked` between lanes, for this state of its branch and of the shares."""

    def add(self, unit: UnitState) -> None:
        unit.version += 1
        unit.group = self
        heappush(self._heap, (unit.order, unit.version, unit))
        if unit.spec.max_execution_ms is not None and not self.ends:
            self.ends = True
            if self.park is not None:
                self.park.ending[self] = None

    def top(self) -> UnitState | None:
        """The first unit, or None; entries that have left are dropped on the way."""
        heap = self._heap
        while heap:
            entry = heap[0]
            unit = entry[2]
            if unit.group is self and unit.version == entry[1]:
                return unit
            heappop(heap)
        return None

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
                unit.spec.max_execution_ms,
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
        """The first unit of the groups that are open in this contest."""
        found: tuple[Group, UnitState] | None = None
        for group in self.groups.values():
            unit = group.top() if group.is_open(contest) else None
            if unit is not None and (found is None or unit.order < found[1].order):
                found = (group, unit)
        return found

    def line(self, contest: int) -> list[tuple[Group, UnitState]]:
        """The first units of all groups that are open in this contest, in order."""
        tops = ((group, group.top()) for group in self.groups.values() if group.is_open(contest))
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
