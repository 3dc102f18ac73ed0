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

_COVER_BITS = 64

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
    shares = [[quantity * scale.steps[r] for quantity in column] for r, column in zip(resources, columns, strict=True)]
    dominant = shares[0] if len(shares) == 1 else list(map(max, *shares))
    level_bits, rate_bits = scale.level_bits, scale.rate_bits
    herd.ends = [(share << level_bits) // weight for share, weight in zip(dominant, weights, strict=True)]
    for column in columns:
        rows = zip(column, weights, dominant, strict=True)
        herd.slopes.append([(quantity * weight << rate_bits) // share for quantity, weight, share in rows])
    return herd


def add_covered(herd: Herd, place: int, demand: Amounts, guarantee: Amounts, weight: int, scale: Scale) -> None:
    """A child of one signature that grows from its guarantee, in the resources of the herd."""
    steps = scale.steps
    wants = []
    lines = []
    for resource in herd.resources:
        has = guarantee.get(resource, 0)
        want = demand[resource] - has
        wants.append(want)
        lines.append((has * steps[resource], want * steps[resource]))
    _add_pieces(herd, place, lines, 1, scale.level_bits, weight, [want * weight << scale.rate_bits for want in wants])


def _add_pieces(
    herd: Herd, place: int, lines: Sequence[Line], way: int, shift: int, unit: int, slopes: Sequence[int]
) -> None:
    """The pieces of a child whose level, a part of its way along, is the largest of its lines there.

    A line's level is (have + gone × grow) << `shift`, over `unit`; on it, the slopes are those given, over `grow`.
    """
    have, grow = max(lines)
    start = (have << shift) // unit
    while True:
        cross = (way, 1, 0, 0)  # where the next steeper line becomes the largest: a fraction of the way, and the line
        for more, steeper in lines:
            if steeper > grow:
                gone, of = have - more, steeper - grow
                if gone * cross[1] < cross[0] * of or (gone * cross[1] == cross[0] * of and steeper > cross[3]):
                    cross = (gone, of, more, steeper)
        gone, of, more, steeper = cross
        end = (have * of + gone * grow << shift) // (of * unit)
        herd.add(place, start, end, [slope // grow for slope in slopes])
        if not steeper or gone == way * of:
            return
        have, grow, start = more, steeper, end


class Mixed:
    """A child of several signatures, which may stop at different times; those that grow are equally far along."""

    __slots__ = ("_parts", "_rates", "_resources", "_rest", "_scale", "_weight", "place")

    def __init__(
        self, place: int, weight: int, demand: Mapping[Signature, Amounts], guarantee: Amounts, scale: Scale
    ) -> None:
        self.place = place
        self._weight = weight
        self._scale = scale
        parts = [part for part in _uncovered(demand, guarantee) if part.keys() <= scale.steps.keys()]
        shares = [quantity * scale.steps[resource] for resource, quantity in summed(parts).items()]
        share = max(shares, default=0)
        self._rest = (share << scale.level_bits) // (weight << _COVER_BITS)
        unit = weight << scale.rate_bits
        self._turn([{r: quantity * unit // share for r, quantity in part.items()} for part in parts])

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
        herd = herds.setdefault(resources, Herd(resources))
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


def _uncovered(demand: Mapping[Signature, Amounts], guarantee: Amounts) -> list[dict[str, int]]:
    """What each signature still wants when the guarantee is taken off all of them in proportion, in fractions."""
    total = summed(demand.values())
    parts = []
    for vector in demand.values():
        part = {
            resource: (quantity * (total[resource] - guarantee.get(resource, 0)) << _COVER_BITS) // total[resource]
            for resource, quantity in vector.items()
            if quantity and guarantee.get(resource, 0) < total[resource]
        }
        if part:
            parts.append(part)
    return parts
