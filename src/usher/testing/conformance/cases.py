"""Units and splits to try plug-ins on: extreme ones by hand, others at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from usher.core.amounts import AMOUNT_MAX, Amounts, Signature
from usher.core.model import PodSet, Unit
from usher.core.plugins import Candidate
from usher.core.share import Sharer

often: Final = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.differing_executors],
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
"""For properties: the same test runs in the class of every plug-in."""

RESOURCES: Final = ("cpu", "memory", "example.com/gpu")
HUGE: Final = 1000 * AMOUNT_MAX
"""More than one quantity can say; sums may."""

EXTREMES: Final = (
    Unit("a", "plain", (PodSet("main", 1, {"cpu": 1000}),)),
    Unit("a", "no-pod-sets", ()),
    Unit("a", "no-pods", (PodSet("main", 0, {"cpu": 1000}),)),
    Unit("a", "no-requests", (PodSet("main", 3, {}),)),
    Unit("a", "zero-requests", (PodSet("main", 3, {"cpu": 0, "memory": 0}),)),
    Unit("a", "gpu-only", (PodSet("main", 1, {"example.com/gpu": 1}),)),
    Unit("a", "huge", (PodSet("main", 10**9, {"cpu": AMOUNT_MAX, "memory": AMOUNT_MAX}),)),
    Unit("a", "lowest", (PodSet("main", 1, {"cpu": 1}),), priority=-(2**31)),
    Unit("a", "highest", (PodSet("main", 1, {"cpu": 1}),), priority=2**31 - 1),
    Unit("a", "newest", (PodSet("main", 1, {"cpu": 1}),), created_ms=2**53, seq=2**53),
    Unit("a", "labelled", (PodSet("main", 1, {"cpu": 1}),), labels={"": "", "team": "red", "ключ": "☃"}),
    Unit("a", "several", (PodSet("driver", 1, {"cpu": 500}), PodSet("worker", 8, {"memory": 2**30}, 0)), elastic=True),
    Unit("a", "aside", (PodSet("main", 1, {"cpu": 1}),), active=False, preemptible=False, max_execution_ms=0),
)
"""What a job may ask for, and few do."""

_amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 9) | st.integers(0, HUGE))
_pods = st.builds(PodSet, st.sampled_from(["main", "driver"]), st.integers(0, 9) | st.integers(0, 10**9), _amounts)
_texts = st.text("abc-", min_size=1, max_size=3)

units: st.SearchStrategy[Unit] = st.builds(
    Unit,
    namespace=st.sampled_from(["a", "b"]),
    name=_texts,
    pod_sets=st.lists(_pods, max_size=3, unique_by=lambda pods: pods.name).map(tuple),
    queue=st.sampled_from(["", "main"]),
    quota=st.sampled_from(["", "a"]),
    priority=st.integers(-9, 9) | st.integers(-(2**31), 2**31 - 1),
    created_ms=st.integers(0, 9) | st.integers(0, 2**53),
    seq=st.integers(0, 9),
    labels=st.dictionaries(_texts, _texts, max_size=2),
    active=st.booleans(),
    preemptible=st.booleans(),
    elastic=st.booleans(),
    max_execution_ms=st.none() | st.integers(0, 10**9),
)
"""Any unit that can be written down."""

candidates: st.SearchStrategy[Candidate] = st.builds(Candidate, units, st.integers(0, 2**53), _amounts)
"""Any unit that may have been admitted."""


def wanted(sharer: Sharer) -> dict[str, int]:
    """Demand per resource, over all signatures."""
    total: dict[str, int] = {}
    for vector in sharer.demand.values():
        for resource, quantity in vector.items():
            total[resource] = total.get(resource, 0) + quantity
    return total


def sharer(
    name: str, demand: Mapping[Signature, Amounts], weight: int = 1, least: Amounts | None = None, lends: bool = True
) -> Sharer:
    """A child as the engine makes it: guaranteed its `min` as far as it has demand; without lending, all of it."""
    least, demand = least or {}, dict(demand)
    wants = wanted(Sharer(name, demand=demand))
    if not lends:
        for resource, quantity in least.items():
            missing = quantity - wants.get(resource, 0)
            if missing > 0:
                demand[resource,] = {resource: demand.get((resource,), {}).get(resource, 0) + missing}
        wants = wanted(Sharer(name, demand=demand))
    guarantee = {resource: min(quantity, wants.get(resource, 0)) for resource, quantity in least.items()}
    return Sharer(name, weight, least, {}, lends, {r: q for r, q in guarantee.items() if q}, demand)


_quantities = st.integers(1, 30) | st.integers(1, 10**12) | st.just(HUGE)
_vectors = st.dictionaries(st.sampled_from(RESOURCES), _quantities, min_size=1)


def _cpu(millicores: int) -> dict[Signature, Amounts]:
    return {("cpu",): {"cpu": millicores}}


Split = tuple[dict[str, int], list[Sharer]]

EXTREME_SPLITS: Final[Mapping[str, Split]] = {
    "nobody shares": ({"cpu": 10}, []),
    "nothing is there": ({}, [sharer("a", _cpu(5))]),
    "zero is there": ({"cpu": 0}, [sharer("a", _cpu(5), least={"cpu": 5}), sharer("b", {})]),
    "nobody wants anything": ({"cpu": 10}, [sharer("a", {}), sharer("b", {}, least={"cpu": 9})]),
    "one unit for many": ({"cpu": 1}, [sharer(f"t{n}", _cpu(1)) for n in range(50)]),
    "all are scavengers": ({"cpu": 10}, [sharer(n, _cpu(9), weight=0) for n in "ab"]),
    "guarantees exceed the amount": (
        {"cpu": 10},
        [
            sharer("a", _cpu(30), least={"cpu": 20}),
            sharer("b", _cpu(9), least={"cpu": 9}),
        ],
    ),
    "an idle child with a guarantee": (
        {"cpu": 10},
        [sharer("a", _cpu(30), least={"cpu": 8}), sharer("b", {}, least={"cpu": 8}), sharer("c", _cpu(30), weight=99)],
    ),
    "an idle child that does not lend": (
        {"cpu": 10},
        [sharer("a", {}, least={"cpu": 4}, lends=False), sharer("b", _cpu(30))],
    ),
    "huge amounts": (
        {"cpu": HUGE, "memory": HUGE},
        [sharer(n, {("cpu", "memory"): {"cpu": HUGE, "memory": 1}}, weight=w) for n, w in (("a", 1), ("b", 10**9))],
    ),
    "a resource that is not there": (
        {"cpu": 10},
        [
            sharer("a", {("cpu", "example.com/gpu"): {"cpu": 4, "example.com/gpu": 1}}),
            sharer("b", _cpu(9)),
        ],
    ),
}
"""By sentence: an amount, and those who share it."""


@st.composite
def splits(draw: st.DrawFn) -> Split:
    """Something to split, and those who share it. Some resources are scarce, some missing."""
    among = []
    for name in draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=5, unique=True)):
        demand = {tuple(sorted(vector)): vector for vector in draw(st.lists(_vectors, max_size=3))}
        wants = wanted(Sharer(name, demand=demand))
        least: Amounts = {}
        match draw(st.integers(0, 3)):
            case 0:
                least = draw(st.dictionaries(st.sampled_from(RESOURCES), _quantities, max_size=2))
            case 1:
                least = {resource: quantity // 2 for resource, quantity in wants.items()}
        made = sharer(name, demand, draw(st.integers(0, 4)), least, draw(st.booleans()))
        if draw(st.booleans()):
            made = made._replace(max={r: max(q, made.min.get(r, 0)) for r, q in wanted(made).items()})
        among.append(made)
    return draw(_scarce(among)), among


@st.composite
def _scarce(draw: st.DrawFn, among: Sequence[Sharer]) -> dict[str, int]:
    found = {}
    for resource in RESOURCES:
        tenths = draw(st.integers(0, 12))
        if tenths:
            found[resource] = sum(wanted(each).get(resource, 0) for each in among) * tenths // 11
    return found


@st.composite
def changes(draw: st.DrawFn) -> tuple[dict[str, int], list[Sharer], int, Sharer]:
    """A split, the place of one child in it, and that child with another demand: a multiple, or some more or less."""
    amount, among = draw(splits())
    place = draw(st.integers(0, len(among) - 1))
    before, times = among[place], draw(st.integers(1, 3))
    demand: dict[Signature, dict[str, int]] = {}
    for signature, vector in before.demand.items():
        if times > 1:
            demand[signature] = {resource: quantity * times for resource, quantity in vector.items()}
        else:
            demand[signature] = {r: max(1, q + draw(st.integers(-3, 50))) for r, q in vector.items()}
    wants = wanted(Sharer("", demand=demand))
    guarantee = {r: min(q, wants.get(r, 0)) for r, q in before.guarantee.items()}
    most = {r: max(q, wants.get(r, 0)) for r, q in before.max.items()}
    after = before._replace(demand=demand, guarantee=guarantee, max=most if draw(st.booleans()) else before.max)
    if any(wants[r] > q for r, q in after.max.items() if r in wants):
        after = after._replace(max=most)
    return amount, among, place, after
