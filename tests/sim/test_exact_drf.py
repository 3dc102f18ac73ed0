"""The yardstick itself: exact DRF on cases that can be done by hand, and against the policy that rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from usher.core.amounts import Amounts, Signature, signature
from usher.core.share import Sharer
from usher.policies.share import Drf
from usher.sim.exact import Claimant, exact_drf

Wants = dict[Signature, Amounts]
RESOURCES = ("cpu", "gpu", "memory")


def wants(*vectors: Amounts) -> Wants:
    return {signature(vector): vector for vector in vectors}


def cpus(name: str, much: int, **more: int | bool | Amounts) -> Claimant:
    return Claimant(name, wants=wants({"cpu": much}) if much else {}, **more)  # type: ignore[arg-type]


CASES: dict[str, tuple[Amounts, list[Claimant], dict[str, Mapping[str, Fraction | int]]]] = {
    "dominant shares are equal": (
        {"cpu": 9, "memory": 18},
        [
            Claimant("a", wants=wants({"cpu": 10, "memory": 40})),
            Claimant("b", wants=wants({"cpu": 30, "memory": 10})),
        ],
        {"a": {"cpu": 3, "memory": 12}, "b": {"cpu": 6, "memory": 2}},
    ),
    "what cannot be halved is": (
        {"cpu": 10},
        [cpus("a", 9), cpus("b", 9), cpus("c", 9)],
        {key: {"cpu": Fraction(10, 3)} for key in "abc"},
    ),
    "weights count": ({"cpu": 12}, [cpus("a", 12, weight=2), cpus("b", 12)], {"a": {"cpu": 8}, "b": {"cpu": 4}}),
    "who wants less leaves the rest": (
        {"cpu": 12},
        [cpus("a", 1), cpus("b", 5), cpus("c", 20)],
        {"a": {"cpu": 1}, "b": {"cpu": 5}, "c": {"cpu": 6}},
    ),
    "a guarantee comes first": (
        {"cpu": 12},
        [cpus("a", 9, least={"cpu": 6}), cpus("b", 9), cpus("c", 9)],
        {"a": {"cpu": 6}, "b": {"cpu": 3}, "c": {"cpu": 3}},
    ),
    "a guarantee below the fair share changes nothing": (
        {"cpu": 12},
        [cpus("a", 9, least={"cpu": 2}), cpus("b", 9), cpus("c", 9)],
        {key: {"cpu": 4} for key in "abc"},
    ),
    "guarantees that are too much are scaled": (
        {"cpu": 12},
        [cpus("a", 30, least={"cpu": 20}), cpus("b", 30, least={"cpu": 10})],
        {"a": {"cpu": 8}, "b": {"cpu": 4}},
    ),
    "an idle guarantee is lent": (
        {"cpu": 12},
        [cpus("a", 0, least={"cpu": 6}), cpus("b", 20)],
        {"a": {}, "b": {"cpu": 12}},
    ),
    "unless it does not lend": (
        {"cpu": 12},
        [cpus("a", 0, least={"cpu": 6}, lends=False), cpus("b", 20)],
        {"a": {"cpu": 6}, "b": {"cpu": 6}},
    ),
    "max is a limit": (
        {"cpu": 12},
        [cpus("a", 12, most={"cpu": 2}), cpus("b", 20)],
        {"a": {"cpu": 2}, "b": {"cpu": 10}},
    ),
    "weight 0 gets what is guaranteed to it": (
        {"cpu": 12},
        [cpus("a", 12, weight=0, least={"cpu": 1}), cpus("b", 20)],
        {"a": {"cpu": 1}, "b": {"cpu": 11}},
    ),
    "signatures that need nothing that ran out go on": (
        {"cpu": 30, "memory": 30},
        [
            cpus("n1", 99),
            cpus("n2", 99),
            Claimant("n3", below=[cpus("n31", 99), Claimant("n32", wants=wants({"memory": 99}))]),
            Claimant("n4", wants=wants({"memory": 99})),
        ],
        {
            "n1": {"cpu": 10},
            "n2": {"cpu": 10},
            "n3": {"cpu": 10, "memory": 15},
            "n31": {"cpu": 10},
            "n32": {"memory": 15},
            "n4": {"memory": 15},
        },
    ),
    "below a parent only what it got is divided": (
        {"cpu": 12},
        [Claimant("p", below=[cpus("p1", 9, weight=2), cpus("p2", 9)]), cpus("b", 12)],
        {"p": {"cpu": 6}, "p1": {"cpu": 4}, "p2": {"cpu": 2}, "b": {"cpu": 6}},
    ),
    "what is not offered is not given": (
        {"cpu": 12},
        [Claimant("a", wants=wants({"cpu": 5, "gpu": 1})), cpus("b", 20)],
        {"a": {}, "b": {"cpu": 12}},
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_everybody_gets_what_can_be_computed_by_hand(what: str) -> None:
    amount, claimants, want = CASES[what]

    found = exact_drf(amount, claimants)

    assert {name: {r: q for r, q in got.items() if q} for name, got in found.items()} == want


@st.composite
def claims(draw: st.DrawFn) -> tuple[dict[str, int], list[Claimant]]:
    """Up to six tenants with up to three kinds of tasks each, and never enough of everything."""
    vector = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 10_000), min_size=1)
    amount = {name: draw(st.integers(1, 30_000)) for name in RESOURCES}
    found = []
    for number in range(draw(st.integers(1, 6))):
        asked = wants(*draw(st.lists(vector, min_size=1, max_size=3)))
        least = draw(st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 3_000), max_size=2))
        found.append(Claimant(f"t{number}", draw(st.integers(0, 4)), least, wants=asked))
    return amount, found


def total(asked: Mapping[Signature, Amounts]) -> dict[str, int]:
    found: dict[str, int] = {}
    for vector in asked.values():
        for name, much in vector.items():
            found[name] = found.get(name, 0) + much
    return found


def guaranteed(claimant: Claimant) -> dict[str, int]:
    asked = total(claimant.wants)
    return {name: min(much, asked.get(name, 0)) for name, much in claimant.least.items()}


def apart(exact: Mapping[str, Mapping[str, Fraction]], rounded: Mapping[str, Amounts]) -> dict[tuple[str, str], object]:
    """Where a share is a whole unit or more from the exact one."""
    return {
        (key, name): (exact[key].get(name, 0), got.get(name, 0))
        for key, got in rounded.items()
        for name in RESOURCES
        if abs(exact[key].get(name, 0) - got.get(name, 0)) >= 1
    }


def whole_guarantees(
    amount: Amounts, claimants: Sequence[Claimant], rounded: Mapping[str, Amounts]
) -> tuple[set[str], list[Claimant]]:
    """What is guaranteed more than there is, and the claimants with the whole numbers that became of it.

    Nobody gets more of such a resource than that. Whole numbers may complete what a claimant wants of it where the
    fraction did not, and its other resources then go on: what follows is to be compared from there.
    """
    promised = {name: sum(guaranteed(each).get(name, 0) for each in claimants) for name in amount}
    over = {name for name in amount if promised[name] > amount[name]}
    return over, [
        replace(each, least={n: rounded[each.name].get(n, 0) if n in over else much for n, much in each.least.items()})
        for each in claimants
    ]


@settings(max_examples=150, deadline=None)
@given(case=claims())
@example(
    case=(
        {"cpu": 2, "gpu": 1, "memory": 1},
        [
            Claimant("t0", 0, {"cpu": 2}, wants=wants({"cpu": 2})),
            Claimant("t1", 1, {"cpu": 1}, wants=wants({"cpu": 1, "gpu": 1})),
        ],
    )
)
def test_the_policy_drf_is_exact_but_for_whole_numbers(case: tuple[dict[str, int], list[Claimant]]) -> None:
    amount, claimants = case
    sharers: Sequence[Sharer] = [
        Sharer(each.name, each.weight, each.least, guarantee=guaranteed(each), demand=each.wants) for each in claimants
    ]

    rounded = dict(zip([each.name for each in claimants], Drf().split(amount, sharers), strict=True))

    over, from_there = whole_guarantees(amount, claimants, rounded)
    assert not [where for where in apart(exact_drf(amount, claimants), rounded) if where[1] in over]
    assert not apart(exact_drf(amount, from_there), rounded)


@settings(max_examples=150, deadline=None)
@given(case=claims())
def test_nothing_is_given_twice_and_nobody_is_stopped_without_a_reason(
    case: tuple[dict[str, int], list[Claimant]],
) -> None:
    amount, claimants = case

    found = exact_drf(amount, claimants)

    used = {name: sum(got.get(name, Fraction(0)) for got in found.values()) for name in amount}
    assert all(used[name] <= amount[name] for name in amount)
    for each in claimants:
        asked, got = total(each.wants), found[each.name]
        assert all(got.get(name, 0) <= much for name, much in asked.items())
        short = [name for name, much in asked.items() if got.get(name, 0) < much and each.weight]
        for name in short:
            kinds = [kind for kind in each.wants if name in kind]
            assert any(used[other] == amount[other] for kind in kinds for other in kind), (each.name, name)
