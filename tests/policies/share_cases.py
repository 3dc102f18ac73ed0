"""Builders, strategies and exact references for the tests of the share policies. None of it is imported by Usher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from hypothesis import strategies as st

from usher.core.amounts import Amounts, Signature
from usher.core.share import Sharer

GB = 10**9
GI = 2**30

RESOURCES = ("cpu", "gpu", "memory")

Demand = Mapping[Signature, Amounts]


def asks(**amounts: int) -> Demand:
    """The demand of units that all ask for these resources."""
    return {tuple(sorted(amounts)): amounts}


def child(name: str, demand: Demand, weight: int = 1, least: Amounts | None = None, lends: bool = True) -> Sharer:
    """A sharer whose `min` is `least`, as the engine makes it: a non-lender's `min` is demand too."""
    least = least or {}
    if not lends:
        demand = {(r,): {r: max(total(demand).get(r, 0), q)} for r, q in least.items()}
    wants = total(demand)
    guarantee = {r: min(q, wants.get(r, 0)) for r, q in least.items()}
    return Sharer(name, weight=weight, min=least, lends=lends, guarantee=guarantee, demand=demand)


def total(demand: Demand) -> dict[str, int]:
    """Demand per resource."""
    found: dict[str, int] = {}
    for vector in demand.values():
        for resource, quantity in vector.items():
            found[resource] = found.get(resource, 0) + quantity
    return found


def scaled_guarantees(amount: Amounts, sharers: Sequence[Sharer]) -> list[dict[str, int]]:
    """Guarantees as far as there is demand; where they exceed the amount in proportion, by largest remainder."""
    claims = []
    for sharer in sharers:
        wants = total(sharer.demand)
        claims.append({r: min(q, wants[r]) for r, q in sharer.guarantee.items() if q and r in wants})
    for r in RESOURCES:
        claiming = [(claim[r], sharer.name, claim) for claim, sharer in zip(claims, sharers, strict=True) if r in claim]
        asked, there = sum(claimed for claimed, _, _ in claiming), amount.get(r, 0)
        if asked <= there:
            continue
        for claimed, _, claim in claiming:
            claim[r] = claimed * there // asked
        left = there - sum(claim[r] for _, _, claim in claiming)
        claiming.sort(key=lambda each: (-(each[0] * there % asked), each[1]))
        for _, _, claim in claiming[:left]:
            claim[r] += 1
    return claims


def fluid_drf(amount: Amounts, sharers: Sequence[Sharer]) -> list[dict[str, Fraction]]:
    """Weighted DRF with guarantees in exact fractions: raise the lowest, one event at a time. Slow and simple."""
    held = [{r: Fraction(q) for r, q in g.items()} for g in scaled_guarantees(amount, sharers)]
    parts: list[dict[Signature, dict[str, Fraction]]] = []
    for s, h in zip(sharers, held, strict=True):
        wants = total(s.demand)
        rest = {
            sig: {r: Fraction(q) * (wants[r] - h.get(r, 0)) / wants[r] for r, q in vector.items() if q}
            for sig, vector in s.demand.items()
        }
        parts.append({sig: {r: q for r, q in v.items() if q} for sig, v in rest.items()} if s.weight else {})

    def free(r: str) -> Fraction:
        return amount.get(r, 0) - sum((h.get(r, Fraction(0)) for h in held), Fraction(0))

    def level(i: int, grow: dict[str, Fraction]) -> Fraction:
        return max(held[i].get(r, Fraction(0)) / (sharers[i].weight * amount[r]) for r in grow)

    while True:
        for own in parts:
            for sig in [sig for sig, v in own.items() if not v or any(free(r) <= 0 for r in v)]:
                del own[sig]
        grows = {
            i: {r: sum((v.get(r, Fraction(0)) for v in own.values()), Fraction(0)) for v in own.values() for r in v}
            for i, own in enumerate(parts)
            if own
        }
        if not grows:
            return held
        levels = {i: level(i, grow) for i, grow in grows.items()}
        low = min(levels.values())
        rising = [i for i in grows if levels[i] == low]
        # How fast each goes per unit of level: its dominant resources bound it.
        speed = {
            i: min(
                sharers[i].weight * amount[r] / grows[i][r]
                for r in grows[i]
                if held[i].get(r, Fraction(0)) == low * sharers[i].weight * amount[r]
            )
            for i in rising
        }
        steps = [levels[i] - low for i in grows if levels[i] > low]
        for i in rising:
            steps.append(1 / speed[i])
            for r, g in grows[i].items():  # another resource becomes the dominant one
                pace = speed[i] * g / (sharers[i].weight * amount[r])
                if pace > 1:
                    steps.append((low - held[i].get(r, Fraction(0)) / (sharers[i].weight * amount[r])) / (pace - 1))
        for r in {r for i in rising for r in grows[i]}:
            use = sum((speed[i] * grows[i].get(r, Fraction(0)) for i in rising), Fraction(0))
            steps.append(free(r) / use)
        step = min(s for s in steps if s > 0)
        for i in rising:
            way = speed[i] * step
            for r, g in grows[i].items():
                held[i][r] = held[i].get(r, Fraction(0)) + way * g
            for v in parts[i].values():
                for r in v:
                    v[r] *= 1 - way
            if way == 1:
                parts[i].clear()


quantities = st.integers(1, 30) | st.integers(1, 10**12)
vectors = st.dictionaries(st.sampled_from(RESOURCES), quantities, min_size=1)
"""The demand of one signature."""


@st.composite
def splits(draw: st.DrawFn, signatures: int = 3) -> tuple[dict[str, int], list[Sharer]]:
    """Something to split, and those who share it, as the engine makes them. Some resources are scarce, some missing."""
    among = []
    for name in draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=5, unique=True)):
        demand = {tuple(sorted(v)): v for v in draw(st.lists(vectors, max_size=signatures))}
        least: dict[str, int] = {}
        match draw(st.integers(0, 4)):
            case 0:
                least = draw(st.dictionaries(st.sampled_from(RESOURCES), quantities, max_size=2))
            case 1 | 2 as quarters:
                least = {r: q * quarters // 4 for r, q in total(demand).items()}
        among.append(child(name, demand, weight=draw(st.integers(0, 4)), least=least))
    return draw(amounts(among)), among


@st.composite
def amounts(draw: st.DrawFn, among: Sequence[Sharer]) -> dict[str, int]:
    """An amount that is scarce in some resources and missing in others."""
    found = {}
    for r in RESOURCES:
        wanted = sum(total(s.demand).get(r, 0) for s in among)
        tenths = draw(st.integers(0, 12))
        if tenths:
            found[r] = wanted * tenths // 11
    return found
