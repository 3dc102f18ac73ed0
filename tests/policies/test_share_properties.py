"""What every share policy promises, and what each is by definition, on splits made at random."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from share_cases import RESOURCES, child, fluid_drf, scaled_guarantees, splits, total

from usher.core.amounts import Amounts
from usher.core.share import SharePolicy, Sharer
from usher.policies.share import Drf, Koordinator, NoShare, Proportion

Split = tuple[dict[str, int], list[Sharer]]

EVERY: tuple[SharePolicy, ...] = (Drf(), Koordinator(), Proportion())
some = settings(max_examples=80, deadline=None)


def used(shares: Sequence[Amounts], resource: str) -> int:
    return sum(share.get(resource, 0) for share in shares)


@some
@given(case=splits())
def test_nobody_gets_more_than_there_is_or_than_it_asks_for(case: Split) -> None:
    amount, among = case
    for policy in EVERY:
        shares = policy.split(amount, among)

        for sharer, share in zip(among, shares, strict=True):
            wants = total(sharer.demand)
            assert share.keys() == wants.keys(), policy.name
            assert all(0 <= quantity <= wants[resource] for resource, quantity in share.items()), policy.name
        assert all(used(shares, r) <= amount.get(r, 0) for share in shares for r in share), policy.name


@some
@given(case=splits())
def test_everybody_gets_at_least_its_scaled_guarantee(case: Split) -> None:
    """Koordinator scales `min`, that of the idle included, and rounds down: at least that."""
    amount, among = case
    guarantees = scaled_guarantees(amount, among)

    for policy in (Drf(), Proportion()):
        for share, guarantee in zip(policy.split(amount, among), guarantees, strict=True):
            assert all(share[resource] >= quantity for resource, quantity in guarantee.items()), policy.name
    for sharer, share in zip(among, Koordinator().split(amount, among), strict=True):
        for resource, quantity in share.items():
            mins, there = sum(s.min.get(resource, 0) for s in among), amount.get(resource, 0)
            least = sharer.guarantee.get(resource, 0)
            assert quantity >= (least if mins <= there else least * there // mins)


@some
@given(case=splits())
def test_nothing_is_left_that_somebody_could_use(case: Split) -> None:
    """Of what a child lacks not one unit is left; under drf, of that or of something that it is asked for with."""
    amount, among = case
    for policy in EVERY:
        shares = policy.split(amount, among)

        for sharer, share in zip(among, shares, strict=True):
            for resource, wanted in total(sharer.demand).items():
                if sharer.weight and share[resource] < wanted:
                    partners = {resource}
                    if policy.name == "drf":
                        partners = {r for signature in sharer.demand if resource in signature for r in signature}
                    assert any(used(shares, r) == amount.get(r, 0) for r in partners), policy.name


@some
@given(case=splits(), data=st.data())
def test_the_order_of_the_children_does_not_matter(case: Split, data: st.DataObject) -> None:
    amount, among = case
    order = data.draw(st.permutations(range(len(among))))
    for policy in EVERY:
        shares = policy.split(amount, among)

        assert policy.split(amount, [among[place] for place in order]) == [shares[place] for place in order]


@settings(max_examples=150, deadline=None)
@given(case=splits())
def test_drf_is_less_than_one_unit_from_its_definition_in_fractions(case: Split) -> None:
    amount, among = case

    for share, exact in zip(Drf().split(amount, among), fluid_drf(amount, among), strict=True):
        assert all(abs(quantity - exact.get(resource, Fraction(0))) < 1 for resource, quantity in share.items())


huge = st.integers(1, 7) | st.integers(1, 2**80)


@some
@given(
    demands=st.lists(
        st.lists(st.dictionaries(st.sampled_from(RESOURCES), huge, min_size=1), min_size=1, max_size=3),
        min_size=2,
        max_size=4,
    ),
    weights=st.tuples(*[st.sampled_from([1, 2, 10**9])] * 4),
    least=st.dictionaries(st.sampled_from(RESOURCES), huge),
    amount=st.fixed_dictionaries(dict.fromkeys(RESOURCES, st.sampled_from([7, 10**12 + 39, 2**61 - 1, 2**63 - 1]))),
)
def test_drf_keeps_its_precision_between_one_device_and_the_largest_numbers(
    demands: list[list[dict[str, int]]], weights: tuple[int, ...], least: dict[str, int], amount: dict[str, int]
) -> None:
    among = [
        child(f"t{n}", {tuple(sorted(vector)): vector for vector in vectors}, weights[n], least if n == 0 else None)
        for n, vectors in enumerate(demands)
    ]

    for share, exact in zip(Drf().split(amount, among), fluid_drf(amount, among), strict=True):
        assert all(abs(quantity - exact.get(resource, Fraction(0))) < 1 for resource, quantity in share.items())


@some
@given(case=splits())
def test_proportion_is_weighted_max_min_per_resource(case: Split) -> None:
    """Nobody below its demand has less per weight than somebody who is above its guarantee (up to one unit each)."""
    amount, among = case
    shares = Proportion().split(amount, among)
    guarantees = scaled_guarantees(amount, among)
    weighted = [place for place, sharer in enumerate(among) if sharer.weight]

    for poor in weighted:
        for resource, wanted in total(among[poor].demand).items():
            if shares[poor][resource] == wanted:
                continue
            level = Fraction(shares[poor][resource] + 1, among[poor].weight)
            for rich in weighted:
                has = shares[rich].get(resource, 0)
                if has > guarantees[rich].get(resource, 0) + 1:
                    assert Fraction(has - 1, among[rich].weight) <= level


def koordinator_reference(total_amount: int, quotas: list[dict[str, Any]]) -> dict[str, int]:
    """Koordinator's runtime quota for one resource, written from its description and not from our code."""
    sum_min = sum(q["min"] for q in quotas)
    runtime: dict[str, int] = {}
    needy = []
    for quota in quotas:
        scaled = quota["min"]
        if sum_min > total_amount:
            scaled = total_amount * quota["min"] // sum_min
        if quota["request"] > scaled:
            needy.append(quota)
            runtime[quota["name"]] = scaled
        else:
            runtime[quota["name"]] = quota["request"]
    rest = total_amount - sum(runtime.values())
    while rest > 0 and needy and sum(q["weight"] for q in needy) > 0:
        weights = sum(q["weight"] for q in needy)
        part = {q["name"]: q["weight"] * rest // weights for q in needy}
        by_remainder = sorted(needy, key=lambda q: (-(q["weight"] * rest % weights), q["name"]))
        for quota in by_remainder[: rest - sum(part.values())]:
            part[quota["name"]] += 1
        rest = 0
        for quota in list(needy):
            name = quota["name"]
            runtime[name] += part[name]
            if runtime[name] >= quota["request"]:
                rest += runtime[name] - quota["request"]
                runtime[name] = quota["request"]
                needy.remove(quota)
    return runtime


@some
@given(case=splits())
def test_koordinator_is_what_koordinator_computes(case: Split) -> None:
    amount, among = case
    shares = Koordinator().split(amount, among)

    for resource in {r for share in shares for r in share}:
        quotas = [
            {
                "name": s.name,
                "weight": s.weight,
                "min": s.min.get(resource, 0),
                "request": total(s.demand).get(resource, 0),
            }
            for s in among
        ]
        want = koordinator_reference(amount.get(resource, 0), quotas)
        assert {s.name: share.get(resource, 0) for s, share in zip(among, shares, strict=True)} == want


@st.composite
def changes(draw: st.DrawFn) -> tuple[dict[str, int], list[Sharer], int, Sharer]:
    """A split, and one child of it with other demand: more of the same, a little of something, or all else."""
    amount, among = draw(splits(signatures=2))
    place = draw(st.integers(0, len(among) - 1))
    before = among[place]
    by = Fraction(draw(st.integers(1, 12)), 4)
    wants = total(before.demand)
    kind = draw(st.integers(0, 3))
    demand = {}
    for signature, vector in before.demand.items():
        if kind == 0:  # in the same direction
            scaled = {r: q * by for r, q in vector.items()}
            exact = all(q.denominator == 1 for q in scaled.values())
            demand[signature] = (
                {r: int(q) for r, q in scaled.items()} if exact else {r: q * 3 for r, q in vector.items()}
            )
        elif kind == 1:  # in the same direction above the guarantee
            rest = {r: q - before.guarantee.get(r, 0) * q // wants[r] for r, q in vector.items()}
            demand[signature] = {r: q + rest[r] * by.numerator for r, q in vector.items()}
        else:
            demand[signature] = {r: max(1, q + draw(st.integers(-3, 50))) for r, q in vector.items()}
    after = Sharer(before.name, before.weight, before.min, before.max, before.lends, before.guarantee, demand)
    return amount, among, place, after


@settings(max_examples=200, deadline=None)
@given(change=changes())
def test_unmoved_means_that_nobody_moves(change: tuple[dict[str, int], list[Sharer], int, Sharer]) -> None:
    amount, among, place, after = change
    for policy in (*EVERY, NoShare()):
        shares = policy.split(amount, among)

        if policy.unmoved(among[place], after, shares[place]):
            assert policy.split(amount, [*among[:place], after, *among[place + 1 :]]) == shares, policy.name
