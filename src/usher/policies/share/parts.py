"""What the share policies have in common: demand per resource, scaled guarantees, and whole numbers.

Two rules live here and nowhere else. *Guarantees first*: each child's guarantee, as far as it has demand; where the
guarantees of all exceed the amount of a resource, they are scaled in proportion. *Largest remainder*: an exact share
is cut to a whole number, and the units that cutting leaves go to the largest remainders, ties by name. So nothing is
lost, nothing is issued twice, and the order in which the children are given never matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from usher.core.amounts import Amounts
from usher.core.share import Sharer


def total_demand(sharer: Sharer) -> Amounts:
    """Demand per resource, over all signatures. Do not change it: it may be the sharer's own."""
    demand = sharer.demand
    if len(demand) == 1:
        (vector,) = demand.values()
        return vector
    total: dict[str, int] = {}
    for vector in demand.values():
        for resource, quantity in vector.items():
            total[resource] = total.get(resource, 0) + quantity
    return total


def summed(vectors: Iterable[Amounts]) -> dict[str, int]:
    """The sum of all, resource by resource."""
    total: dict[str, int] = {}
    for vector in vectors:
        for resource, quantity in vector.items():
            if resource in total:
                total[resource] += quantity
            else:
                total[resource] = quantity
    return total


def fits(wanted: Amounts, amount: Amounts) -> bool:
    """Whether every resource of `wanted` is there in full; a missing one is zero."""
    return all(quantity <= amount.get(resource, 0) for resource, quantity in wanted.items())


def within(guarantee: Amounts, demand: Amounts) -> dict[str, int]:
    """The part of a guarantee that there is demand for."""
    return {
        resource: min(quantity, demand[resource])
        for resource, quantity in guarantee.items()
        if quantity > 0 and demand.get(resource, 0) > 0
    }


def scaled(amount: Amounts, guarantees: list[dict[str, int]], names: Sequence[str]) -> list[dict[str, int]]:
    """The guarantees, each resource whose sum exceeds the amount scaled down in proportion. Changes them in place."""
    for resource, total in summed(guarantees).items():
        there = amount.get(resource, 0)
        if total <= there:
            continue
        places = [place for place, guarantee in enumerate(guarantees) if resource in guarantee]
        remainders = []
        left = there
        for place in places:
            whole, remainder = divmod(guarantees[place][resource] * there, total)
            guarantees[place][resource] = whole
            remainders.append(remainder)
            left -= whole
        for winner in largest(remainders, [names[place] for place in places], left):
            guarantees[places[winner]][resource] += 1
    return guarantees


def largest(remainders: Sequence[int], names: Sequence[str], count: int) -> list[int]:
    """The places of the `count` largest remainders, ties by name."""
    if count <= 0:
        return []
    if count >= len(remainders):
        return list(range(len(remainders)))
    bar = sorted(remainders)[-count]
    above = [place for place, remainder in enumerate(remainders) if remainder > bar]
    level = [place for place, remainder in enumerate(remainders) if remainder == bar]
    level.sort(key=names.__getitem__)
    return above + level[: count - len(above)]


def unmoved_per_resource(before: Sharer, after: Sharer, deserved: Amounts) -> bool:
    """For a policy that looks at each resource alone: whether `after` would be given the same, and leave the same.

    A child that wants more than it was given in a resource is never the one that is satisfied, however much more it
    wants: only demand at or below what was given, or below the guarantee, counts.
    """
    if not same_claim(before, after) or after.min != before.min:
        return False
    was, now = total_demand(before), total_demand(after)
    if was.keys() != now.keys():
        return False
    guarantee = before.guarantee
    for resource, old in was.items():
        new = now[resource]
        if old != new:
            least = min(old, new)
            if least <= deserved.get(resource, 0) or least < guarantee.get(resource, 0):
                return False
    return True


def same_claim(before: Sharer, after: Sharer) -> bool:
    """Whether at most the demand differs (and what only demand is computed from)."""
    return after.weight == before.weight and after.guarantee == before.guarantee and after.name == before.name
