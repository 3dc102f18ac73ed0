"""`proportion`: weighted max-min fairness, one resource at a time.

Of each resource, a child gets the level × its weight, but not less than its guarantee and not more than its demand;
the level is the highest at which the amount suffices. The guarantee is part of the share, not on top of it: it lifts
only those who would be below it. A child of weight 0 gets its guarantee.

The level is an exact fraction: going up through the sorted levels at which a child begins to rise (guarantee ÷
weight) and at which it has enough (demand ÷ weight), the sums of weights, guarantees and demands on the way are whole
numbers. The sort keys are these quotients in 128 binary digits after the point, finer than any two of them can differ
from the level looked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from usher.core.amounts import Amounts
from usher.core.share import Sharer
from usher.policies.share.parts import (
    fits,
    largest,
    scaled,
    summed,
    total_demand,
    unmoved_per_resource,
    within,
)

_KEY_BITS = 128


class Proportion:
    """Weighted max-min per resource, over demand, guarantees first."""

    name = "proportion"
    entitles = True
    claims_by_share = True

    def split(self, amount: Amounts, sharers: Sequence[Sharer]) -> list[dict[str, int]]:
        """Deserved of each sharer, in the order given, with a key for each resource it asks for."""
        names = [sharer.name for sharer in sharers]
        demands = [total_demand(sharer) for sharer in sharers]
        if fits(summed(demands), amount) and all(sharer.weight for sharer in sharers):
            return [dict(demand) for demand in demands]
        floors = [within(sharer.guarantee, demand) for sharer, demand in zip(sharers, demands, strict=True)]
        floors = scaled(amount, floors, names)
        deserved: list[dict[str, int]] = [dict.fromkeys(demand, 0) for demand in demands]
        for resource in summed(demands):
            places = [place for place, demand in enumerate(demands) if resource in demand]
            shares = _fill(
                amount.get(resource, 0),
                [names[place] for place in places],
                [sharers[place].weight for place in places],
                [floors[place].get(resource, 0) for place in places],
                [demands[place][resource] for place in places],
            )
            for place, share in zip(places, shares, strict=True):
                deserved[place][resource] = share
        return deserved

    def unmoved(self, before: Sharer, after: Sharer, deserved: Amounts) -> bool:
        """When each resource's demand is what it was, or was above deserved and still is."""
        return unmoved_per_resource(before, after, deserved)


def _fill(
    amount: int, names: Sequence[str], weights: Sequence[int], floors: Sequence[int], caps: Sequence[int]
) -> list[int]:
    """Level × weight, within floor and cap, at the highest level that the amount allows, in whole numbers."""
    free = amount - sum(floors)
    level = _level(free, weights, floors, caps)
    if level is None:
        return [cap if weight else floor for weight, floor, cap in zip(weights, floors, caps, strict=True)]
    numerator, denominator = level
    shares = []
    remainders = []
    rising = []
    for place, (weight, floor, cap) in enumerate(zip(weights, floors, caps, strict=True)):
        whole, remainder = divmod(weight * numerator, denominator)
        if whole < floor:
            whole = floor
        elif whole >= cap:
            whole = cap
        elif remainder:
            rising.append(place)
            remainders.append(remainder)
        shares.append(whole)
    left = min(amount - sum(shares), len(rising))
    for winner in largest(remainders, [names[place] for place in rising], left):
        shares[rising[winner]] += 1
    return shares


def _level(free: int, weights: Sequence[int], floors: Sequence[int], caps: Sequence[int]) -> tuple[int, int] | None:
    """The level (a fraction) at which `free` is used up beyond the floors; None if it suffices for every cap."""
    turns = []
    for weight, floor, cap in zip(weights, floors, caps, strict=True):
        if weight and floor < cap:
            turns.append(((floor << _KEY_BITS) // weight, weight, floor))
            turns.append(((cap << _KEY_BITS) // weight, -weight, -cap))
    turns.sort()
    rising = 0  # the weights of those between floor and cap
    offset = 0  # what they and the satisfied had, in total, where their line begins: used = rising × level − offset
    for key, weight, start in turns:
        if rising * key > (free + offset) << _KEY_BITS:
            break
        rising += weight
        offset += start
    return (free + offset, rising) if rising else None
