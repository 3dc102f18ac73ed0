"""`drf`: weighted Dominant Resource Fairness over demand, with guarantees.

Each child first has its guarantee. What it still wants is then a *direction* (the sum of what its signatures still
ask for), and all children are raised together: always the one with the lowest weighted dominant share, which is the
largest of allocated ÷ (weight × amount) among the resources in which it still grows. So at every moment there is one
*level*, and everybody who can still grow has come up to it. When a resource is exhausted, exactly the signatures that
still need it stop; the children that have others go on in a new direction, from the share they have in it. That is a
new *phase*, and each exhausts a resource, so there are hardly more phases than resources.

In a phase each child grows in straight pieces (`growth`); the use of a resource is thus a sum of ramps, and the level
at which it reaches the amount is found from sorted turning points and running sums (`ramps`), without going through
the children one by one.

**Numbers.** Everything is a whole number; there are no floats and no rounding that depends on the order of the
children. Shares are counted in 1/(least common multiple of the amounts), so they compare exactly. Levels and rates
are fixed-point numbers (their sum as fractions would have a denominator as long as the list of children), with so
many binary digits, chosen from the amounts and the weights, that all errors together stay far below 2⁻³⁰ of a unit.
To that an allocation is rounded (equal shares become equal numbers) before it is cut to whole units; what cutting
leaves goes to the largest remainders, ties by name. None of these choices looks at how much is wanted, and rates
depend on the direction of demand only: that is what `unmoved` builds on.

**Edges.** Weight 0 gets its guarantee and nothing else. A resource that is missing or has amount zero is exhausted
from the start. A signature needs a resource only as far as the guarantee has not covered it. Everybody has a key for
each resource it asks for, even where the answer is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import lcm

from usher.core.amounts import Amounts, Signature
from usher.core.share import Sharer
from usher.policies.share.growth import Mixed, Scale, add_covered, plain_herd
from usher.policies.share.parts import fits, largest, same_claim, scaled, summed, total_demand, within
from usher.policies.share.ramps import Herd, lowest_stop

_REMAINDER_BITS = 30
_REMAINDER_MASK = (1 << _REMAINDER_BITS) - 1


class Drf:
    """Weighted Dominant Resource Fairness."""

    name = "drf"
    entitles = True
    claims_by_share = True

    def split(self, amount: Amounts, sharers: Sequence[Sharer]) -> list[dict[str, int]]:
        """Deserved of each sharer, in the order given, with a key for each resource it asks for."""
        return _Split(amount, sharers).deserved()

    def unmoved(self, before: Sharer, after: Sharer, deserved: Amounts) -> bool:
        """When it had and has more demand than it was given, in the same direction, or could not grow at all.

        Then it never comes to the end of its demand, and up to there only the direction counts.
        """
        was, now = before.demand, after.demand
        if not same_claim(before, after) or was.keys() != now.keys():
            return False
        if was == now:
            return True
        if before.guarantee or not before.weight:
            return _unmoved_above_guarantee(before, after, deserved)
        return _beyond(was, deserved) and _beyond(now, deserved) and _parallel(was, now)


class _Split:
    """One split on its way: who wants what, who has what."""

    def __init__(self, amount: Amounts, sharers: Sequence[Sharer]) -> None:
        self.amount = amount
        self.sharers = sharers
        self.demands: list[Amounts] = []
        self.plain: dict[Signature, list[int]] = {}
        """The places of those with one signature, a weight and no guarantee."""
        self.others: list[int] = []
        for place, sharer in enumerate(sharers):
            demand = sharer.demand
            if len(demand) == 1 and sharer.weight and not sharer.guarantee:
                for signature, vector in demand.items():
                    self.demands.append(vector)
                    try:
                        self.plain[signature].append(place)
                    except KeyError:
                        self.plain[signature] = [place]
            else:
                self.demands.append(total_demand(sharer))
                self.others.append(place)
        self.columns: dict[Signature, list[list[int]]] = {}
        for signature in self.plain:
            self._line_up(signature)
        self.guarantees = self._guarantees()
        self.wanted = self._wanted()

    def _line_up(self, signature: Signature) -> None:
        """Put the demand of a signature in columns. Who wants nothing of something in it is not plain."""
        demands, places = self.demands, self.plain[signature]
        columns = [[demands[place][resource] for place in places] for resource in signature]
        if any(0 in column for column in columns):
            self.others += [place for place in places if 0 in demands[place].values()]
            places = [place for place in places if 0 not in demands[place].values()]
            columns = [[demands[place][resource] for place in places] for resource in signature]
        self.plain[signature], self.columns[signature] = places, columns

    def _guarantees(self) -> dict[int, dict[str, int]]:
        """By place, scaled."""
        places = [place for place in self.others if self.sharers[place].guarantee]
        guarantees = [within(self.sharers[place].guarantee, self.demands[place]) for place in places]
        scaled(self.amount, guarantees, [self.sharers[place].name for place in places])
        return dict(zip(places, guarantees, strict=True))

    def _wanted(self) -> dict[str, int]:
        """What all together could use: of those of weight 0, what is guaranteed to them."""
        wanted = summed(
            self.demands[place] if self.sharers[place].weight else self.guarantees.get(place, {})
            for place in self.others
        )
        for signature, columns in self.columns.items():
            for resource, column in zip(signature, columns, strict=True):
                wanted[resource] = wanted.get(resource, 0) + sum(column)
        return wanted

    def _resources(self) -> set[str]:
        """All that anybody asks for."""
        found = {resource for signature in self.plain for resource in signature}
        return found.union(*[self.demands[place] for place in self.others])

    def deserved(self) -> list[dict[str, int]]:
        """The answer."""
        deserved = [dict(demand) for demand in self.demands]
        if fits(self.wanted, self.amount):
            for place in self.others:
                if not self.sharers[place].weight:
                    deserved[place] = dict.fromkeys(deserved[place], 0) | self.guarantees.get(place, {})
            return deserved
        free = {resource: self.amount.get(resource, 0) for resource in self.wanted}
        for resource, quantity in summed(self.guarantees.values()).items():
            free[resource] -= quantity
        scale = self._scale(free)
        held = self._raise_together(free, scale)
        names = [sharer.name for sharer in self.sharers]
        for resource, column in held.items():
            shares = _cut(column, scale.bits, self.amount.get(resource, 0), names)
            for mine, share in zip(deserved, shares, strict=True):
                if resource in mine:
                    mine[resource] = share
        return deserved

    def _scale(self, free: Amounts) -> Scale:
        there = {resource: self.amount[resource] for resource in free if self.amount.get(resource, 0) > 0}
        common = lcm(*there.values())
        level_bits = 48 + sum([sharer.weight for sharer in self.sharers]).bit_length()
        # An error in a scarce resource moves the level, and so what is given of the most plentiful one.
        rate_bits = 64 + common.bit_length() + max(there.values(), default=1).bit_length()
        mixed = any(len(self.sharers[place].demand) > 1 for place in self.others)
        if mixed or self.guarantees:  # off its dominant resource a child may grow much faster than its level
            level_bits += 96
        if mixed:  # a signature may go on when a far larger one has stopped
            rate_bits += 192
        steps = {resource: common // quantity for resource, quantity in there.items() if free[resource] > 0}
        return Scale(level_bits, rate_bits, level_bits + rate_bits, steps)

    def _raise_together(self, free: Amounts, scale: Scale) -> dict[str, list[int]]:
        """Raise all, phase by phase, until each has what it wants or lacks what is exhausted. Who holds what."""
        held = {resource: [0] * len(self.sharers) for resource in self._resources()}
        for place, guarantee in self.guarantees.items():
            for resource, quantity in guarantee.items():
                held[resource][place] = quantity << scale.bits
        herds, mixed = self._herds(scale)
        left = {r: free[r] << scale.bits for r in scale.steps if self.wanted[r] > self.amount[r]}
        while herds or mixed:
            moving: dict[tuple[str, ...], Herd] = {}
            for child in mixed:
                child.join(moving, held)
            stop = lowest_stop([*herds, *moving.values()], left)
            level, exhausted = stop or (_top([*herds, *moving.values()]), set(left))
            mixed = [child for child in mixed if child.goes_on(level, exhausted, held)]
            for herd in (*herds, *moving.values()):
                herd.rise_to(level, held, left)
            if stop is None:
                break
            left = {resource: rest for resource, rest in left.items() if resource not in exhausted}
            herds = [herd.rest(level) for herd in herds if exhausted.isdisjoint(herd.resources)]
        return held

    def _herds(self, scale: Scale) -> tuple[list[Herd], list[Mixed]]:
        """Those of one signature that can grow, and those of several."""
        herds: list[Herd] = []
        for signature, places in self.plain.items():
            if scale.steps.keys() >= set(signature):
                weights = [self.sharers[place].weight for place in places]
                herds.append(plain_herd(signature, places, weights, self.columns[signature], scale))
        covered: dict[tuple[str, ...], Herd] = {}
        mixed = []
        for place in self.others:
            sharer, demand, guarantee = self.sharers[place], self.demands[place], self.guarantees.get(place, {})
            if not sharer.weight:
                continue
            if len(sharer.demand) > 1:
                child = Mixed(place, sharer.weight, sharer.demand, guarantee, scale)
                if child.grows:
                    mixed.append(child)
                continue
            grows = tuple([resource for resource, want in demand.items() if want > guarantee.get(resource, 0)])
            herd = covered.get(grows)
            if herd is None:
                if not grows or not scale.steps.keys() >= set(grows):
                    continue
                herd = covered[grows] = Herd(grows)
            add_covered(herd, place, demand, guarantee, sharer.weight, scale)
        return [*herds, *covered.values()], mixed


def _top(herds: Iterable[Herd]) -> int:
    return max((max(herd.ends) for herd in herds if herd.ends), default=0)


def _cut(column: Sequence[int], bits: int, amount: int, names: Sequence[str]) -> list[int]:
    """A column in whole units; what cutting leaves goes to the largest remainders, ties by name."""
    drop = bits - _REMAINDER_BITS
    half = 1 << drop - 1
    fine = [held + half >> drop for held in column]
    shares = [held >> _REMAINDER_BITS for held in fine]
    remainders = [held & _REMAINDER_MASK for held in fine]
    left = min(amount - sum(shares), sum(remainders) + len(remainders) >> _REMAINDER_BITS)
    for winner in largest(remainders, names, left):
        shares[winner] += 1
    return shares


def _beyond(demand: Mapping[Signature, Amounts], deserved: Amounts) -> bool:
    """Whether each signature alone wants more of some resource than the child was given of it in total.

    All signatures that still grow are equally far along, so the child had all it wants only if it had all that one of
    them wants.
    """
    for vector in demand.values():
        for resource, quantity in vector.items():
            if quantity > deserved.get(resource, 0):
                break
        else:
            return False
    return True


def _parallel(was: Mapping[Signature, Amounts], now: Mapping[Signature, Amounts]) -> bool:
    """Whether one is a multiple of the other."""
    old_unit = new_unit = 0
    for signature, old_vector in was.items():
        new_vector = now[signature]
        if old_vector.keys() != new_vector.keys():
            return False
        for resource, old in old_vector.items():
            new = new_vector[resource]
            if not old_unit:
                old_unit, new_unit = old, new
            if old * new_unit != new * old_unit or (not old) != (not new):
                return False
    return old_unit > 0


def _unmoved_above_guarantee(before: Sharer, after: Sharer, deserved: Amounts) -> bool:
    """`unmoved` for a child with a guarantee or of weight 0; the signatures are the same."""
    guarantee = before.guarantee
    was, now = total_demand(before), total_demand(after)
    if was.keys() != now.keys():
        return False
    for resource, least in guarantee.items():
        if resource in was and min(was[resource], least) != min(now[resource], least):
            return False
    if not before.weight:
        return True
    # Less than the guarantee: the guarantees of all use the resource up, and what needs more of it never grows.
    short = {r for r, least in guarantee.items() if deserved.get(r, 0) < min(least, was.get(r, 0))}
    if short:
        return all(not short.isdisjoint(signature) for signature in before.demand)
    if len(before.demand) != 1:
        return False
    (signature,) = before.demand
    old = {signature: {r: quantity - min(quantity, guarantee.get(r, 0)) for r, quantity in was.items()}}
    new = {signature: {r: quantity - min(quantity, guarantee.get(r, 0)) for r, quantity in now.items()}}
    unmet = any(quantity > deserved.get(r, 0) for r, quantity in was.items())
    return unmet and any(quantity > deserved.get(r, 0) for r, quantity in now.items()) and _parallel(old, new)
