"""Exact Dominant Resource Fairness: what a perfectly divisible cluster would give to whom, in fractions.

The yardstick of reports, and independent of the share policies: it shares no code with them, knows nothing of integers,
units or time, and does the same for every policy. It divides as the design says. A node's guarantee is the larger of
min(demand, `min`) and its children's guarantees; guarantees come first, scaled in proportion where they exceed the
amount. Then everybody with demand left is raised, always the one with the lowest weighted dominant share, each along
the sum of what its signatures still want; when a resource is used up, the signatures that need it stop and the others
go on. Weight 0 gets its guarantee only. Below the top each node divides what it was given. Called by `sim.fairness`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

from usher.core.amounts import Amounts, Signature

Vector = dict[str, Fraction]
Wants = dict[Signature, Vector]

_ZERO, _ONE = Fraction(0), Fraction(1)


@dataclass(slots=True)
class Claimant:
    """A node of the tree, with what its own units ask for and those below it."""

    name: str
    weight: int = 1
    least: Amounts = field(default_factory=dict)
    most: Amounts = field(default_factory=dict)
    """A resource that is missing here is not limited."""
    lends: bool = True
    wants: Mapping[Signature, Amounts] = field(default_factory=dict)
    """Of its own units, by the set of resources that they ask for."""
    below: list[Claimant] = field(default_factory=list)


@dataclass(slots=True)
class _Sharer:
    """A claimant with everything below it added up, and what it has got so far."""

    claimant: Claimant
    wants: Wants
    guarantee: Vector
    below: list[_Sharer]
    held: Vector = field(default_factory=dict)
    rest: Wants = field(default_factory=dict)
    """What it still wants beyond what it holds."""


def exact_drf(amount: Amounts, claimants: Sequence[Claimant]) -> dict[str, Vector]:
    """What each claimant gets of the amount, those at every level below included, by name."""
    found: dict[str, Vector] = {}
    _divide({resource: Fraction(there) for resource, there in amount.items()}, [_summed(c) for c in claimants], found)
    return found


def _divide(amount: Vector, sharers: Sequence[_Sharer], found: dict[str, Vector]) -> None:
    _fill(amount, sharers)
    for sharer in sharers:
        found[sharer.claimant.name] = sharer.held
        if sharer.below:
            _divide(sharer.held, sharer.below, found)


def _summed(claimant: Claimant) -> _Sharer:
    """Demand and guarantee, from the leaves upwards."""
    below = [_summed(each) for each in claimant.below]
    wants: Wants = {}
    own = {key: {name: Fraction(much) for name, much in vector.items()} for key, vector in claimant.wants.items()}
    for each in (own, *(sharer.wants for sharer in below)):
        for key, vector in each.items():
            wants[key] = _sum([wants.get(key, {}), vector])
    guarantee = _sum(each.guarantee for each in below)
    asked = _sum(wants.values())
    for name, least in claimant.least.items():
        much = min(Fraction(least), Fraction(claimant.most.get(name, least)))
        lacks = much - asked.get(name, _ZERO)
        if not claimant.lends and lacks > 0:
            wants[name,] = _sum([wants.get((name,), {}), {name: lacks}])
        elif lacks > 0:
            much = asked.get(name, _ZERO)
        guarantee[name] = max(guarantee.get(name, _ZERO), much)
    for name in sorted(claimant.most):
        _cap(wants, name, Fraction(claimant.most[name]))
        guarantee[name] = min(guarantee.get(name, _ZERO), Fraction(claimant.most[name]))
    return _Sharer(claimant, wants, guarantee, below)


def _cap(wants: Wants, name: str, most: Fraction) -> None:
    """Scale every signature that asks for this resource down, so that together they stay below the limit."""
    asked = sum((vector.get(name, _ZERO) for vector in wants.values()), _ZERO)
    if asked > most:
        for key in [key for key in wants if name in wants[key]]:
            wants[key] = {each: much * most / asked for each, much in wants[key].items()}


def _fill(amount: Vector, sharers: Sequence[_Sharer]) -> None:
    """Guarantees, then progressive filling in as many rounds as resources run out."""
    promised = _sum(sharer.guarantee for sharer in sharers)
    for sharer in sharers:
        sharer.held = {
            name: much * min(_ONE, amount.get(name, _ZERO) / promised[name])
            for name, much in sharer.guarantee.items()
            if much
        }
        asked = _sum(sharer.wants.values())
        sharer.rest = {
            key: {
                name: much * (1 - sharer.held.get(name, _ZERO) / asked[name])
                for name, much in vector.items()
                if much and asked[name] > sharer.held.get(name, _ZERO)
            }
            for key, vector in sharer.wants.items()
            if any(vector.values())
        }
    growing = [sharer for sharer in sharers if sharer.claimant.weight]
    while growing:
        used = _sum(sharer.held for sharer in sharers)
        free = {name for name, there in amount.items() if there > used.get(name, _ZERO)}
        for sharer in growing:
            sharer.rest = {key: vector for key, vector in sharer.rest.items() if vector and vector.keys() <= free}
        growing = [sharer for sharer in growing if sharer.rest]
        paths = [_Path(sharer, amount) for sharer in growing]
        level = _highest(paths, {name: amount[name] - used.get(name, _ZERO) for name in free})
        for path in paths:
            path.go(level)


class _Path:
    """How one sharer grows with the level: the part of its rest that it has got is a minimum of straight lines."""

    def __init__(self, sharer: _Sharer, amount: Vector) -> None:
        self._sharer = sharer
        self.rest = _sum(sharer.rest.values())
        weight, held = sharer.claimant.weight, sharer.held
        self._lines = [
            (weight * amount[name] / much, held.get(name, _ZERO) / much) for name, much in self.rest.items() if much
        ]
        """Slope and offset for each resource in which it grows: part = slope × level − offset."""

    def part(self, level: Fraction) -> Fraction:
        return min(_ONE, max(_ZERO, min(slope * level - offset for slope, offset in self._lines)))

    def turns(self) -> set[Fraction]:
        """Every level at which its line may bend."""
        found = {(offset + end) / slope for slope, offset in self._lines for end in (_ZERO, _ONE)}
        for (slope, offset), (other, shift) in combinations(self._lines, 2):
            if slope != other:
                found.add((offset - shift) / (slope - other))
        return {level for level in found if level >= 0}

    def go(self, level: Fraction) -> None:
        """Take what this level gives."""
        sharer, part = self._sharer, self.part(level)
        sharer.held = _sum([sharer.held, {name: much * part for name, much in self.rest.items()}])
        left = 1 - part
        sharer.rest = {
            key: {name: much * left for name, much in vector.items()} for key, vector in sharer.rest.items() if left
        }


def _highest(paths: Sequence[_Path], free: Vector) -> Fraction:
    """The level at which the first resource is used up, or at which everybody has everything."""
    turns = sorted(set().union(*(path.turns() for path in paths))) or [_ZERO]

    def taken(level: Fraction) -> Vector:
        parts = [path.part(level) for path in paths]
        return _sum({n: q * part for n, q in path.rest.items()} for path, part in zip(paths, parts, strict=True))

    def fits(level: Fraction) -> bool:
        return all(much <= free[name] for name, much in taken(level).items())

    if fits(turns[-1]):
        return turns[-1]
    low, high = -1, len(turns) - 1  # turns[low] fits (nothing is taken at level 0), turns[high] does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(turns[middle]) else (low, middle)
    start = turns[low] if low >= 0 else _ZERO
    before, after = taken(start), taken(turns[high])
    return min(
        start + (free[name] - before[name]) * (turns[high] - start) / (after[name] - before[name])
        for name in after
        if after[name] > before[name]
    )


def _sum(vectors: Iterable[Mapping[str, Fraction]]) -> Vector:
    total: Vector = {}
    for vector in vectors:
        for name, much in vector.items():
            total[name] = total.get(name, _ZERO) + much
    return total
