"""The writes that wait: in order for each object, by urgency among objects, bounded.

The rules: writes to one object leave in the order they came, one at a time; the object whose most urgent waiting write
is the most urgent goes first, then the one whose next write came first. A write is replaced or dropped only while
nothing behind it, for its object, would then go without it. No I/O and no clock: the writer drives this.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from usher.kube.writer_delivery import Delivery
from usher.kube.writes import Urgency, Write

Key = tuple[str, str, str | None, str]


@dataclass(eq=False, slots=True)
class Entry:
    """A write and who waits for its outcome."""

    delivery: Delivery[Any]
    number: int
    settle: Callable[[Any], None]
    fail: Callable[[BaseException], None]
    give_up_at: float
    tries: int = 0
    waits: bool = True
    """Whether it was never tried: only then may it be replaced or dropped."""
    sending: bool = False

    @property
    def write(self) -> Write[Any]:
        """What is to be done."""
        return self.delivery.write


@dataclass(eq=False, slots=True)
class Lane:
    """The writes to one object. While `busy`, its first is under way or rests before another try."""

    key: Key
    entries: deque[Entry] = field(default_factory=deque)
    busy: bool = False
    spare: bool = False
    """What is under way is nothing that anybody waits for."""

    @property
    def rank(self) -> tuple[int, int]:
        """What decides whose turn it is: a more urgent write lends its urgency to those before it."""
        first = self.entries[0]
        if len(self.entries) == 1:
            return first.write.urgency, first.number
        return min(entry.write.urgency for entry in self.entries), first.number


class Queue:
    """All lanes. `waiting` counts writes that were not yet sent, by urgency."""

    def __init__(self) -> None:
        self.waiting = [0] * len(Urgency)
        self._lanes: dict[Key, Lane] = {}
        self._ready: list[tuple[int, int, Lane]] = []
        self._newest: list[list[Entry]] = [[] for _ in Urgency]
        """By urgency, those that may still wait: the newest last. Others stay in it until somebody looks."""

    def __len__(self) -> int:
        return sum(self.waiting)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self._lanes

    def entries(self) -> Iterator[Entry]:
        """Every write that has no outcome yet."""
        for lane in self._lanes.values():
            yield from lane.entries

    def add(self, entry: Entry) -> Entry | None:
        """Put a write in; the older one whose place it took, if any."""
        lane = self._lanes.setdefault(entry.write.key, Lane(entry.write.key))
        replaced = None
        if lane.entries and _replaces(entry.write, lane.entries[-1]):
            replaced = lane.entries.pop()
            self._waits_no_more(replaced)
        lane.entries.append(entry)
        self.waiting[entry.write.urgency] += 1
        self._remember(entry)
        if not lane.busy:
            self._offer(lane)
        return replaced

    def take(self, *, spare: bool = True) -> Lane | None:
        """The next lane whose turn it is, now busy; without `spare`, none whose writes nobody waits for."""
        while self._ready:
            urgency, number, lane = self._ready[0]
            if lane.busy or not lane.entries or lane.rank != (urgency, number):
                heappop(self._ready)  # it was offered again since, or went
                continue
            if urgency == Urgency.SPARE and not spare:
                return None
            heappop(self._ready)
            lane.busy, lane.spare = True, urgency == Urgency.SPARE
            if lane.entries[0].waits:
                self._waits_no_more(lane.entries[0])
            return lane
        return None

    def rested(self, lane: Lane) -> None:
        """The first write of a busy lane may be tried again."""
        lane.busy = False
        self._offer(lane)

    def finished(self, lane: Lane) -> Entry:
        """The first write of a busy lane has its outcome."""
        entry = lane.entries.popleft()
        lane.busy = False
        if lane.entries:
            self._offer(lane)
        else:
            del self._lanes[lane.key]
        return entry

    def make_room_for(self, urgency: Urgency) -> Entry | None:
        """Take out the least urgent write that waits, if it is less urgent than this; the newest of those."""
        for level in reversed(Urgency):
            if level <= urgency:
                return None
            if self.waiting[level] and (found := self._newest_last(level)) is not None:
                lane = self._lanes[found.write.key]
                lane.entries.pop()
                self._waits_no_more(found)
                if not lane.entries:
                    del self._lanes[lane.key]
                elif not lane.busy:
                    self._offer(lane)
                return found
        return None

    def _newest_last(self, level: Urgency) -> Entry | None:
        """The newest of that urgency that waits with nothing behind it."""
        newest, kept = self._newest[level], []
        found = None
        while newest and found is None:
            entry = newest.pop()
            if not entry.waits:
                continue
            if self._lanes[entry.write.key].entries[-1] is entry:
                found = entry
            else:
                kept.append(entry)
        newest.extend(reversed(kept))
        return found

    def _remember(self, entry: Entry) -> None:
        level = entry.write.urgency
        self._newest[level].append(entry)
        if len(self._newest[level]) > 2 * self.waiting[level] + 100:
            self._newest[level] = [each for each in self._newest[level] if each.waits]

    def _waits_no_more(self, entry: Entry) -> None:
        entry.waits = False
        self.waiting[entry.write.urgency] -= 1

    def _offer(self, lane: Lane) -> None:
        heappush(self._ready, (*lane.rank, lane))


def _replaces(newer: Write[Any], last: Entry) -> bool:
    return newer.coalesce is not None and newer.coalesce == last.write.coalesce and last.waits
