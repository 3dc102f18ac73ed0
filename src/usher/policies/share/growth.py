"""How a child grows under `drf`: straight pieces from its guarantee to its demand.

Its level is its weighted dominant share: the largest of `held ÷ (weight × amount)` among the resources in which it
still grows. Going along its direction, that is convex, with one straight piece for each resource that becomes the
dominant one; turned around, it says what the child holds at a level. Without a guarantee there is a single piece, from
level zero, and whole columns of such children are computed at once. A child of one signature keeps its pieces for as
long as it grows. One of several signatures (`Mixed`) takes a new direction when some of them stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from usher.core.amounts import Amounts, Signature
from usher.policies.share.parts import summed
from usher.policies.share.ramps import Herd

_COVER_BITS = 128

Line = tuple[int, int]
"""The share of a resource that a child has at the start, and how much more at the end of its way."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How many binary digits levels, rates and amounts carry after the point."""

    level_bits: int
    rate_bits: int
    bits: int
    """level_bits + rate_bits: those of an amount, being level × rate."""
    steps: Mapping[str, int]
    """For each resource of which there is something to share: what one unit adds to a share, in a common measure."""


def plain_herd(
    resources: tuple[str, ...],
    places: list[int],
    weights: Sequence[int],
    columns: Sequence[Sequence[int]],
    scale: Scale,
) -> Herd:
    """Children of one signature without guarantees; a column of demand for each resource."""
    herd = Herd(resources)
    herd.places = places
    herd.starts = [0] * len(places)
    herd.slopes = []
    dominant: list[int] = []
    for resource, column in zip(resources, columns, strict=True):
        step = scale.steps[resource]
        shares = [quantity * step for quantity in column]
        if dominant:
            shares = [one if one > two else two for one, two in zip(shares, dominant, strict=True)]  # noqa: FURB136
        dominant = shares
    level_bits, rate_bits = scale.level_bits, scale.rate_bits
    herd.ends = [(share << level_bits) // weight for share, weight in zip(dominant, weights, strict=True)]
    units = [weight << rate_bits for weight in weights]
    for column in columns:
        rows = zip(column, units, dominant, strict=True)
        herd.slopes.append([quantity * unit // share for quantity, unit, share in rows])
    return herd


def add_covered(herd: Herd, place: int, demand: Amounts, guarantee: Amounts, weight: int, scale: Scale) -> None:
    """A child of one signature that grows from its guarantee, in the resources of the herd."""
    steps, unit = scale.steps, weight << scale.rate_bits
    lines = []
    slopes = []
    for resource in herd.resources:
        has, step = guarantee.get(resource, 0), steps[resource]
        want = demand[resource] - has
        lines.append((has * step, want * step))
        slopes.append(want * unit)
    _add_pieces(herd, place, lines, 1, scale.level_bits, weight, slopes)


def _add_pieces(
    herd: Herd, place: int, lines: Sequence[Line], way: int, shift: int, unit: int, slopes: Sequence[int]
) -> None:
    """The pieces of a child whose level, a part of its way along, is the largest of its lines there.

    A line's level is (have + gone × grow) << `shift`, over `unit`; on it, the slopes are those given, over `grow`.
    """
    have, grow = max(lines)
    start = (have << shift) // unit
    while steeper := [line for line in lines if line[1] > grow]:
        # The next to become the largest: where it crosses, as a fraction of the way, and of equals the steepest.
        gone, of, more, rise = way, 1, 0, 0
        for low, steep in steeper:
            late, over = (have - low) * of, gone * (steep - grow)
            if late < over or (late == over and steep > rise):
                gone, of, more, rise = have - low, steep - grow, low, steep
        if gone >= way * of:
            break
        end = (have * of + gone * grow << shift) // (of * unit)
        herd.add(place, start, end, [slope // grow for slope in slopes])
        have, grow, start = more, rise, end
    herd.add(place, start, (have + way * grow << shift) // unit, [slope // grow for slope in slopes])


class Mixed:
    """A child of several signatures, which may stop at different times; those that grow are equally far along."""

    __slots__ = ("_parts", "_rates", "_resources", "_rest", "_scale", "_weight", "place")

    def __init__(
        self, place: int, weight: int, demand: Mapping[Signature, Amounts], guarantee: Amounts, scale: Scale
    ) -> None:
        self.place = place
        self._weight = weight
        self._scale = scale
        steps = scale.steps
        vectors, bits = _uncovered(demand, guarantee)
        parts = [vector for vector in vectors if vector.keys() <= steps.keys()]
        share = max([quantity * steps[resource] for resource, quantity in summed(parts).items()], default=0)
        self._rest = (share << scale.level_bits) // (weight << bits)
        unit = weight << scale.rate_bits
        self._turn([{r: quantity * unit // share or 1 for r, quantity in part.items()} for part in parts])

    @property
    def grows(self) -> bool:
        """Whether it has any way to go."""
        return self._rest > 0

    def _turn(self, parts: list[dict[str, int]]) -> None:
        self._parts = parts
        rates = summed(parts)
        self._resources = tuple(sorted(rates))
        self._rates = [rates[resource] for resource in self._resources]

    def join(self, herds: dict[tuple[str, ...], Herd], held: Mapping[str, list[int]]) -> None:
        """Add the pieces that it has before it to the herd in whose resources it grows."""
        resources = self._resources
        if resources not in herds:
            herds[resources] = Herd(resources)
        herd = herds[resources]
        unit = self._weight << self._scale.rate_bits
        _add_pieces(herd, self.place, self._lines(held), self._rest, 0, unit, [rate * unit for rate in self._rates])

    def goes_on(self, level: int, exhausted: set[str], held: Mapping[str, list[int]]) -> bool:
        """Go up to a level (from `held`), stop what needs the exhausted. False if it grows no more."""
        unit = self._weight << self._scale.rate_bits
        way = min([(level * unit - have) // grow for have, grow in self._lines(held)], default=0)
        self._rest -= max(way, 0)
        if self._rest <= 0:
            return False
        kept = [part for part in self._parts if part.keys().isdisjoint(exhausted)]
        if len(kept) < len(self._parts):
            self._turn(kept)
        return bool(kept)

    def _lines(self, held: Mapping[str, list[int]]) -> list[Line]:
        steps = self._scale.steps
        return [
            (held[resource][self.place] * steps[resource], rate * steps[resource])
            for resource, rate in zip(self._resources, self._rates, strict=True)
        ]


def _uncovered(demand: Mapping[Signature, Amounts], guarantee: Amounts) -> tuple[list[dict[str, int]], int]:
    """What each signature still wants when the guarantee is taken off all of them in proportion.

    And how many binary digits these numbers have after the point: none without a guarantee.
    """
    if not guarantee:
        return [{r: quantity for r, quantity in vector.items() if quantity} for vector in demand.values()], 0
    total = summed(demand.values())
    wants = {r: quantity - guarantee.get(r, 0) << _COVER_BITS for r, quantity in total.items()}
    parts = [
        {r: quantity * wants[r] // total[r] for r, quantity in vector.items() if quantity and wants[r]}
        for vector in demand.values()
    ]
    return [part for part in parts if part], _COVER_BITS
