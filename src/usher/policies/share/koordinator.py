"""`koordinator`: the runtime quota of Koordinator's elastic quotas, one resource at a time, with min scaling on.

1. Where the `min` of the children add up to more than the amount, each is scaled down (rounded down); those of idle
   children count, as in Koordinator. A node whose children are guaranteed more than its own `min` counts with that.
2. A child whose demand is within its `min` gets its demand; any other gets its `min` and is *needy*.
3. What is left is divided among the needy by weight (largest remainder, ties by name). Whoever now has its demand
   gives back the surplus and leaves; the rest is divided again, until nothing is left or nobody is needy.

Step 3 is Koordinator's since its change 2876. Releases up to 1.8.0 round each part by itself, half up, and so now and
then issue a unit more or fewer than there is; a share policy must not (`usher.testing.runtimes` has both, to compare).

So weight divides what is left *above* `min`, not the whole. A needy child of weight 0 stays at its `min`. Each
resource may have a weight of its own (`weights`), as `shared-weight` of an ElasticQuota gives them.
A resource that `max` does not name is not limited, as everywhere in Usher (Koordinator would hide it).
"""

from __future__ import annotations

from collections.abc import Sequence

from usher.core.amounts import Amounts
from usher.core.share import Sharer
from usher.policies.share.parts import fits, largest, summed, total_demand, unmoved_per_resource


class Koordinator:
    """Koordinator's runtime quota."""

    name = "koordinator"
    entitles = True
    claims_by_share = False
    by_resource = True
    """Demand comes resource by resource, each cut to its own `max`: a job that exceeds one still asks for the rest."""

    def split(self, amount: Amounts, sharers: Sequence[Sharer]) -> list[dict[str, int]]:
        """Deserved of each sharer, in the order given, with a key for each resource it asks for."""
        demands = [total_demand(sharer) for sharer in sharers]
        wanted = summed(demands)
        if fits(wanted, amount) and all(sharer.weight and all(sharer.weights.values()) for sharer in sharers):
            return [dict(demand) for demand in demands]
        names = [sharer.name for sharer in sharers]
        deserved: list[dict[str, int]] = [{} for _ in sharers]
        for resource in wanted:
            there = amount.get(resource, 0)
            mins = _scaled_mins(resource, there, sharers)
            weights = [sharer.weights.get(resource, sharer.weight) for sharer in sharers]
            requests = [demand.get(resource, 0) for demand in demands]
            for share, demand, runtime in zip(
                deserved, demands, _runtime(there, names, weights, mins, requests), strict=True
            ):
                if resource in demand:
                    share[resource] = runtime
        return deserved

    def unmoved(self, before: Sharer, after: Sharer, deserved: Amounts) -> bool:
        """When each resource's demand is what it was, or was above deserved and still is."""
        return unmoved_per_resource(before, after, deserved)


def _scaled_mins(resource: str, there: int, sharers: Sequence[Sharer]) -> list[int]:
    mins = [max(sharer.min.get(resource, 0), sharer.guarantee.get(resource, 0)) for sharer in sharers]
    total = sum(mins)
    return mins if total <= there else [there * least // total for least in mins]


def _runtime(
    there: int, names: Sequence[str], weights: Sequence[int], mins: Sequence[int], requests: Sequence[int]
) -> list[int]:
    runtime = [min(least, request) for least, request in zip(mins, requests, strict=True)]
    left = there - sum(runtime)
    needy = [place for place, request in enumerate(requests) if request > runtime[place] and weights[place] > 0]
    while left > 0 and needy:
        parts = _divided(left, [names[place] for place in needy], [weights[place] for place in needy])
        left = 0
        still = []
        for place, part in zip(needy, parts, strict=True):
            surplus = runtime[place] + part - requests[place]
            if surplus >= 0:
                runtime[place] = requests[place]
                left += surplus
            else:
                runtime[place] += part
                still.append(place)
        needy = still
    return runtime


def _divided(total: int, names: Sequence[str], weights: Sequence[int]) -> list[int]:
    """`total` in proportion to the weights, by largest remainder."""
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    left = total - sum(parts)
    for winner in largest([total * weight % whole for weight in weights], names, left):
        parts[winner] += 1
    return parts
