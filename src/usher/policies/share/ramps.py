"""The level at which a resource runs out, when many children grow in straight pieces.

A piece rises with the level from `start` to `end`, and uses `slope × (level − start)` of each of its resources. Pieces
that grow in the same resources form a *herd*, which is kept in columns: work on a column runs at the speed of the
interpreter's own loops. The use of a resource is a sum of ramps that begin at the starts, minus one of ramps that
begin at the ends. With both sorted, and the slopes summed up along them, the use at any level costs two binary
searches, and one more binary search over all turning points finds where it meets what is free.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from operator import mul


class Herd:
    """Pieces that grow in the same resources, in columns; a child may own several, one after the other."""

    __slots__ = ("ends", "places", "resources", "slopes", "starts")

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.resources = resources
        self.places: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.slopes: list[list[int]] = [[] for _ in resources]
        """One column for each resource."""

    def add(self, place: int, start: int, end: int, slopes: Sequence[int]) -> None:
        """One more piece, of the child in this place."""
        self.places.append(place)
        self.starts.append(start)
        self.ends.append(end)
        for column, slope in zip(self.slopes, slopes, strict=True):
            column.append(slope)

    def rise_to(self, level: int, held: Mapping[str, list[int]], free: dict[str, int]) -> None:
        """Take from `free` and add to `held` what the pieces use up to a level."""
        tops = [end if end < level else level for end in self.ends]  # noqa: FURB136  (min() takes four times as long)
        climbs = [top - start if start < top else 0 for start, top in zip(self.starts, tops, strict=True)]
        for resource, slopes in zip(self.resources, self.slopes, strict=True):
            column = held[resource]
            uses = list(map(mul, slopes, climbs))
            for place, use in zip(self.places, uses, strict=True):
                column[place] += use
            if resource in free:
                free[resource] -= sum(uses)

    def rest(self, level: int) -> Herd:
        """What is left of the pieces above a level."""
        rows = [row for row, end in enumerate(self.ends) if end > level]
        rest = Herd(self.resources)
        rest.places = [self.places[row] for row in rows]
        rest.starts = [max(level, self.starts[row]) for row in rows]
        rest.ends = [self.ends[row] for row in rows]
        rest.slopes = [[slopes[row] for row in rows] for slopes in self.slopes]
        return rest


def lowest_stop(herds: Sequence[Herd], free: Mapping[str, int]) -> tuple[int, set[str]] | None:
    """The lowest level at which a resource of `free` is used up, and which are; None if that never happens."""
    found: dict[str, int] = {}
    ramps: dict[tuple[int, ...], _Ramps] = {}
    for resource, left in free.items():
        members = tuple(place for place, herd in enumerate(herds) if resource in herd.resources and herd.places)
        if not members:
            continue
        if members not in ramps:
            ramps[members] = _Ramps([herds[place] for place in members])
        level = ramps[members].level(resource, left)
        if level is not None:
            found[resource] = level
    if not found:
        return None
    lowest = min(found.values())
    return lowest, {resource for resource, level in found.items() if level == lowest}


class _Ramps:
    """The ramps of some herds, up and down, sorted once for all the resources that they share."""

    def __init__(self, herds: Sequence[Herd]) -> None:
        self._herds = herds
        self._starts = _Side(list(chain.from_iterable(herd.starts for herd in herds)))
        self._ends = _Side(list(chain.from_iterable(herd.ends for herd in herds)))
        self._turns = sorted(self._starts.levels + self._ends.levels)

    def level(self, resource: str, left: int) -> int | None:
        """The level at which `left` of a resource is used up, rounded down; None if it is not."""
        slopes = [herd.slopes[herd.resources.index(resource)] for herd in self._herds]
        column = slopes[0] if len(slopes) == 1 else list(chain.from_iterable(slopes))
        up, offset = self._starts.sums(column)
        down, back = self._ends.sums(column)
        starts, ends = self._starts.levels, self._ends.levels

        def use(level: int) -> int:
            begun, ended = bisect_right(starts, level), bisect_right(ends, level)
            return level * (up[begun] - down[ended]) - offset[begun] + back[ended]

        above = bisect_left(self._turns, left, key=use)
        if above == len(self._turns):
            return None
        if above == 0:
            return self._turns[0]
        begun, ended = (bisect_right(side, self._turns[above - 1]) for side in (starts, ends))
        return (left + offset[begun] - back[ended]) // (up[begun] - down[ended])


class _Side:
    """Where ramps begin: the levels in ascending order, all equal ones of a herd that starts together as one."""

    def __init__(self, levels: list[int]) -> None:
        self._order: list[int] = []
        if levels.count(levels[0]) == len(levels):
            self.levels = levels[:1]
        else:
            self._order = sorted(range(len(levels)), key=levels.__getitem__)
            self.levels = [levels[row] for row in self._order]

    def sums(self, column: Sequence[int]) -> tuple[list[int], list[int]]:
        """(rise, offset) by the number of ramps that have begun: together they are at rise × level − offset."""
        sloped = [column[row] for row in self._order] if self._order else [sum(column)]
        return list(accumulate(sloped, initial=0)), list(accumulate(map(mul, sloped, self.levels), initial=0))
