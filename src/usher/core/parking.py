"""Where groups sleep that were stopped: a bucket for each node, resource and amount that must become free there.

A bucket keeps its groups in the order between lanes from one contest to the next. A release opens whole buckets, and a
contest takes from them one group after the other while there is room: it costs what starts, not what sleeps. The rule:
the place of a group in a line may be too far ahead, never too far behind. Whoever is taken out with an outdated rank
goes back to where it belongs; whatever could bring a group forward (its quota uses less or deserves more, another unit
is its first) must `loosen` it, and then its place is found anew. `contest` and `overtaking` take groups out.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from usher.core.lanes import Group
    from usher.core.ledger import Node

Rank = tuple[object, ...]
"""A place in the order between lanes; smaller goes first. No two units have the same."""
Ranker = Callable[["Group"], Rank | None]
"""The rank of a group now; None: it has no place in this line."""
Place = tuple[Rank, int, int, "Group"]
"""A rank, and the ticket that the group had when it got this place; with another ticket it counts no more.

The third number tells an outdated place from that of another group which has the same first unit now.
"""
SLACK = 64
"""How many outdated places a line may have besides as many as it has groups."""
STILL_OPEN = 1 << 62


class Line:
    """Groups of one bucket by rank."""

    __slots__ = ("_given", "_heap", "loose")

    def __init__(self) -> None:
        self._heap: list[Place] = []
        self._given = 0
        """Counts the places that were given."""
        self.loose: dict[Group, None] = {}
        """Groups whose place must be found."""

    def settle(self, ranker: Ranker, groups: int) -> None:
        """Find places for all that are loose; drop outdated ones when they are the most."""
        heap = self._heap
        if len(heap) > 2 * groups + SLACK:
            heap[:] = [place for place in heap if place[3].ticket == place[1]]
            heapify(heap)
        for group in self.loose:
            rank = ranker(group)
            if rank is not None:
                self._give(rank, group.ticket, group)
        self.loose.clear()

    def pop(self, ranker: Ranker, below: Rank | None = None) -> Place | None:
        """Take out the first, if its rank is below that."""
        heap = self._heap
        while heap:
            place = heap[0]
            rank, ticket, _, group = place
            if below is not None and not rank < below:
                return None
            heappop(heap)
            if group.ticket == ticket:
                now = ranker(group)
                if now == rank:
                    return place
                if now is not None:
                    self._give(now, ticket, group)
        return None

    def _give(self, rank: Rank, ticket: int, group: Group) -> None:
        self._given += 1
        heappush(self._heap, (rank, ticket, self._given, group))

    def give_back(self, place: Place) -> None:
        """It was taken out, and keeps its place."""
        if place[3].ticket == place[1]:
            heappush(self._heap, place)


class Bucket:
    """Groups that wait for so much of a resource to become free at a node."""

    __slots__ = ("amount", "closed_after", "ending", "groups", "line", "node", "opened", "resource", "unnoticed")

    def __init__(self, node: Node, resource: str, amount: int) -> None:
        self.node = node
        self.resource = resource
        self.amount = amount
        self.groups: dict[Group, None] = {}
        self.ending: dict[Group, None] = {}
        """Groups of units that end by themselves in time: they may use room that is kept for others."""
        self.line = Line()
        self.unnoticed = Line()
        """Groups whose first unit has not been overtaken yet."""
        self.opened = -1
        """The contest for which it was opened."""
        self.closed_after = STILL_OPEN
        """After how many admissions of that contest there was no more room in it, or nobody."""

    @property
    def roomy(self) -> bool:
        return self.node.free(self.resource) >= self.amount

    def loosen(self, group: Group) -> None:
        group.ticket += 1
        self.line.loose[group] = None
        self.unnoticed.loose[group] = None

    def add(self, group: Group) -> None:
        self.groups[group] = None
        if group.ends:
            self.ending[group] = None
        self.loosen(group)

    def discard(self, group: Group) -> None:
        group.ticket += 1
        del self.groups[group]
        self.ending.pop(group, None)
        self.line.loose.pop(group, None)
        self.unnoticed.loose.pop(group, None)
        if not self.groups:
            buckets = self.node.parked[self.resource]
            del buckets[self.amount]
            if not buckets:
                del self.node.parked[self.resource]


def bucket_at(node: Node, resource: str, amount: int) -> Bucket:
    """The bucket of that place, made if there is none."""
    buckets = node.parked.setdefault(resource, {})
    bucket = buckets.get(amount)
    if bucket is None:
        bucket = buckets[amount] = Bucket(node, resource, amount)
    return bucket
