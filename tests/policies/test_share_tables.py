"""Worked examples of other systems and papers, each for the policy that it is about.

cpu is in millicores; where a source counts whole things without a unit, so do we.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from share_cases import GB, GI, Demand, asks, child, total

from usher.core.amounts import Amounts
from usher.core.share import SharePolicy, Sharer
from usher.policies.share import Drf, Koordinator, NoShare, Proportion

DRF, KOORDINATOR, PROPORTION = Drf(), Koordinator(), Proportion()
EVERY = (DRF, KOORDINATOR, PROPORTION)


@dataclass(frozen=True)
class Case:
    policies: tuple[SharePolicy, ...]
    amount: Amounts
    given: list[Sharer]
    want: list[Amounts]


def tasks(count: int, cpu: int, gb: int) -> Demand:
    return asks(cpu=count * cpu * 1000, memory=count * gb * GB)


def cpus(*wants: int) -> list[Amounts]:
    return [{"cpu": want * 1000} for want in wants]


def units(*wants: int) -> list[Amounts]:
    return [{"gpu": want} for want in wants]


def one(name: str, want: int, weight: int = 1, least: int = 0, lends: bool = True) -> Sharer:
    """A child that asks for one kind of thing."""
    return child(name, asks(gpu=want) if want else {}, weight, {"gpu": least} if least else None, lends)


def cpu(name: str, want: int, weight: int = 1) -> Sharer:
    return child(name, asks(cpu=want * 1000), weight)


CASES = {
    "the DRF paper: 9 CPU and 18 GB, tasks of <1,4> and <3,1>": Case(
        (DRF,),
        {"cpu": 9000, "memory": 18 * GB},
        [child("A", tasks(10, 1, 4)), child("B", tasks(10, 3, 1))],
        [{"cpu": 3000, "memory": 12 * GB}, {"cpu": 6000, "memory": 2 * GB}],
    ),
    "the DRF paper, weights 2 to 1: memory runs out at 54/13 and 18/13 tasks": Case(
        (DRF,),
        {"cpu": 9000, "memory": 18 * GB},
        [child("A", tasks(10, 1, 4), weight=2), child("B", tasks(10, 3, 1))],
        [{"cpu": 4154, "memory": 16615384615}, {"cpu": 4153, "memory": 1384615385}],
    ),
    "the DRF paper, weights 1 to 2: cpu runs out at 1.8 and 2.4 tasks": Case(
        (DRF,),
        {"cpu": 9000, "memory": 18 * GB},
        [child("A", tasks(10, 1, 4)), child("B", tasks(10, 3, 1), weight=2)],
        [{"cpu": 1800, "memory": 7200000000}, {"cpu": 7200, "memory": 2400000000}],
    ),
    "the DRF paper, against asset fairness: <1,3> and <1,1> of 30 each": Case(
        (DRF,),
        {"cpu": 30000, "memory": 30 * GB},
        [child("A", tasks(30, 1, 3)), child("B", tasks(30, 1, 1))],
        [{"cpu": 5000, "memory": 15 * GB}, {"cpu": 15000, "memory": 15 * GB}],
    ),
    "kube-arbitrator's design: weights 2 and 4 of 9 CPU and 27Gi": Case(
        (PROPORTION,),
        {"cpu": 9000, "memory": 27 * GI},
        [child("q1", asks(cpu=5000, memory=10 * GI), weight=2), child("q2", asks(cpu=10000, memory=20 * GI), weight=4)],
        [{"cpu": 3000, "memory": 9 * GI}, {"cpu": 6000, "memory": 18 * GI}],
    ),
    "kube-arbitrator's integration test: weights 3 and 1 of 8 CPU": Case(
        EVERY, {"cpu": 8000}, [cpu("q1", 12, weight=3), cpu("q2", 4)], cpus(6, 2)
    ),
    "kube-arbitrator's tutorial: everybody fits": Case(
        EVERY, {"cpu": 16000}, [cpu("q01", 11, weight=6), cpu("q02", 5)], cpus(11, 5)
    ),
    "sorting by request instead of request per weight would give 2, 6, 6": Case(
        EVERY, {"cpu": 14000}, [cpu("a", 4), cpu("b", 6, weight=5), cpu("c", 8)], cpus(4, 6, 4)
    ),
    "three equals share what does not divide by three; the first by name gets the rest": Case(
        EVERY,
        {"cpu": 10000},
        [cpu("b", 99), cpu("a", 99), cpu("c", 99)],
        [{"cpu": 3333}, {"cpu": 3334}, {"cpu": 3333}],
    ),
    "Volcano #2549: extreme weights come to an end": Case(
        EVERY, {"cpu": 1056000}, [cpu("a", 96, weight=10**7), cpu("b", 960)], cpus(96, 960)
    ),
    "Volcano #2549: and under contention": Case(
        EVERY, {"cpu": 1000000}, [cpu("a", 96, weight=10**7), cpu("b", 960)], cpus(96, 904)
    ),
    "Volcano #1083: all weights 0: nothing beyond the guarantee": Case(
        EVERY,
        {"gpu": 10},
        [one("a", 8, weight=0, least=3), one("b", 8, weight=0)],
        units(3, 0),
    ),
    "Koordinator: request below min is lent, the rest by weight above min": Case(
        (KOORDINATOR,),
        {"gpu": 100},
        [one("n1", 5, 40, 10), one("n2", 20, 60, 15), one("n3", 40, 50, 20), one("n4", 70, 80, 15)],
        units(5, 20, 35, 40),
    ),
    "Koordinator: weight 0 stays at its min": Case(
        (KOORDINATOR,),
        {"gpu": 100},
        [one("n1", 5, 40, 10), one("n2", 20, 60, 15), one("n3", 40, 50, 20), one("n4", 70, 0, 15)],
        units(5, 20, 40, 15),
    ),
    "Koordinator: no GPU is lost or issued twice among ten borrowers": Case(
        (KOORDINATOR,),
        {"gpu": 81},
        [one("donor", 0, least=3)] + [one(f"b{n:02}", 100, least=8 if n < 8 else 7) for n in range(10)],
        [{}, *units(9, 9, 9, 8, 8, 8, 8, 8, 7, 7)],
    ),
    "Koordinator: an idle min is lent": Case(
        (KOORDINATOR,), {"gpu": 100}, [one("t1", 0, least=60), one("t2", 90, least=50)], [{}, {"gpu": 90}]
    ),
    "Koordinator: a min that is asked for in part": Case(
        (KOORDINATOR,), {"gpu": 100}, [one("t1", 30, least=55), one("t2", 90, least=45)], units(30, 70)
    ),
    "Koordinator: a child alone gets its max": Case((KOORDINATOR,), {"gpu": 120}, [one("t1", 80, least=50)], units(80)),
    "Koordinator: equals above equal mins": Case(
        EVERY, {"gpu": 120}, [one("t1", 80, least=50), one("t2", 100, least=50)], units(60, 60)
    ),
    "Koordinator: who does not lend keeps its min": Case(
        EVERY, {"gpu": 100}, [one("t1", 96, least=60), one("t2", 0, least=40, lends=False)], units(60, 40)
    ),
    "Koordinator: equals": Case(EVERY, {"gpu": 50}, [one("q1", 35, least=10), one("q2", 35, least=10)], units(25, 25)),
    "Koordinator: mins 40 and 5, and a max of 40": Case(
        EVERY, {"gpu": 50}, [one("q1", 40, least=40), one("q2", 40, least=5)], units(40, 10)
    ),
    "guarantees that exceed the amount are scaled; the rest to the first by name": Case(
        EVERY,
        {"gpu": 200},
        [one("c", 150, least=100), one("b", 150, least=100), one("a", 150, least=100)],
        units(66, 67, 67),
    ),
    "scaled guarantees keep their proportion": Case(
        (DRF, PROPORTION), {"gpu": 60}, [one("a", 90, least=80), one("b", 90, least=40)], units(40, 20)
    ),
    "proportion: a guarantee is part of the share, it lifts only those below": Case(
        (PROPORTION, DRF), {"gpu": 90}, [one("a", 90, least=30), one("b", 90), one("c", 90)], units(30, 30, 30)
    ),
    "a zero in a demand asks for nothing, and holds nobody up where that is exhausted": Case(
        EVERY,
        {"cpu": 10000, "gpu": 0},
        [child("a", {("cpu", "gpu"): {"cpu": 8000, "gpu": 0}}), child("b", asks(cpu=8000))],
        [{"cpu": 5000, "gpu": 0}, {"cpu": 5000}],
    ),
    "a demand that is zero in all it names gets nothing and takes nothing": Case(
        EVERY,
        {"cpu": 10000, "gpu": 6},
        [child("a", {("gpu",): {"gpu": 0}, ("cpu",): {"cpu": 0}}), child("b", {("cpu",): {"cpu": 8000}, (): {}})],
        [{"gpu": 0, "cpu": 0}, {"cpu": 8000}],
    ),
    "koordinator: weight divides what is above min": Case(
        (KOORDINATOR,), {"gpu": 90}, [one("a", 90, least=30), one("b", 90), one("c", 90)], units(50, 20, 20)
    ),
}


@pytest.mark.parametrize(
    ("policy", "case"),
    [pytest.param(p, case, id=f"{p.name}: {name}") for name, case in CASES.items() for p in case.policies],
)
def test_worked_example_comes_out_as_published(policy: SharePolicy, case: Case) -> None:
    assert policy.split(case.amount, case.given) == case.want
    assert policy.split(case.amount, case.given[::-1]) == case.want[::-1]


def test_a_returning_lender_gets_back_what_it_asks_for() -> None:
    # Koordinator: t1 max 80 min 60, t2 max 100 min 50 of 100. At 60 + 50 the mins exceed the total and are scaled.
    def split(want: int) -> list[dict[str, int]]:
        return KOORDINATOR.split({"gpu": 100}, [one("t1", want, least=60), one("t2", 90, least=50)])

    assert split(0) == [{}, {"gpu": 90}]
    assert split(30) == units(30, 70)
    assert split(60) == units(55, 45)  # with min scaling; 60 and 50 without, which is more than there is
    assert KOORDINATOR.split({"gpu": 100}, [one("t2", 90, least=50)]) == units(90)


@pytest.mark.parametrize("policy", EVERY)
@pytest.mark.parametrize(("asked", "root", "c1"), [(0, 20, 20), (40, 40, 40), (60, 60, 60)])
def test_a_child_that_does_not_lend_counts_upwards(policy: SharePolicy, asked: int, root: int, c1: int) -> None:
    children = [one("c1", asked, least=20, lends=False), one("c2", 0, least=20)]
    demand = asks(gpu=sum(total(each.demand).get("gpu", 0) for each in children))
    (parent,) = policy.split({"gpu": 100}, [child("root", demand, least={"gpu": 60})])

    assert parent == {"gpu": root}
    assert policy.split(parent, children) == [{"gpu": c1}, {}]


@pytest.mark.parametrize("policy", EVERY)
@pytest.mark.parametrize(("asked", "want"), [((10, 30), (10, 30)), ((25, 45), (25, 45)), ((55, 75), (30, 60))])
def test_max_cuts_on_the_way_up_and_all_that_is_asked_comes_down(
    policy: SharePolicy, asked: tuple[int, int], want: tuple[int, int]
) -> None:
    amount: Amounts = {"cpu": 96, "memory": 160}
    demand = asks(cpu=asked[0], memory=asked[1])
    for most in ((30, 60), (60, 80), (96, 160)):  # the engine cuts demand to `max` before a policy sees it
        demand = asks(cpu=min(total(demand)["cpu"], most[0]), memory=min(total(demand)["memory"], most[1]))
    for name in ("test1", "test1-a", "a-123"):
        (amount,) = policy.split(amount, [child(name, demand, least={"cpu": 20, "memory": 40})])

    assert amount == {"cpu": want[0], "memory": want[1]}


def test_a_parent_of_unlike_children_is_not_served_twice_in_what_only_one_of_them_wants() -> None:
    # Volcano's hierarchical DRF: n3 has a cpu-only and a memory-only child; naive DRF gives its memory child 20 of 30.
    only_cpu, only_memory = asks(cpu=30000), asks(memory=30 * GB)
    top = [
        child("n1", only_cpu), child("n2", only_cpu), child("n3", {**only_cpu, **only_memory}), child("n4", only_memory)
    ]  # fmt: skip
    shares = DRF.split({"cpu": 30000, "memory": 30 * GB}, top)

    assert shares == [
        {"cpu": 10000}, {"cpu": 10000}, {"cpu": 10000, "memory": 15 * GB}, {"memory": 15 * GB}
    ]  # fmt: skip
    assert DRF.split(shares[2], [child("n31", only_cpu), child("n32", only_memory)]) == [
        {"cpu": 10000},
        {"memory": 15 * GB},
    ]


def test_a_branch_behind_in_what_still_grows_catches_up_first() -> None:
    demand: Demand = {("cpu",): {"cpu": 40000}, ("memory",): {"memory": 20 * GB}}
    top = [child("n1", asks(cpu=30000)), child("n2", demand), child("n3", asks(memory=30 * GB))]

    assert DRF.split({"cpu": 30000, "memory": 30 * GB}, top) == [
        {"cpu": 15000},
        {"cpu": 15000, "memory": 15 * GB},
        {"memory": 15 * GB},
    ]


@pytest.mark.parametrize("amount", [{"cpu": 1000}, {"cpu": 1000, "gpu": 0}])
def test_what_is_missing_stops_only_those_who_need_it(amount: Amounts) -> None:
    demand: Demand = {("cpu",): {"cpu": 900}, ("cpu", "gpu"): {"cpu": 900, "gpu": 1}}
    sharers = [child("a", demand), child("b", asks(cpu=900)), child("c", asks(cpu=900, gpu=1))]

    assert DRF.split(amount, sharers) == [{"cpu": 500, "gpu": 0}, {"cpu": 500}, {"cpu": 0, "gpu": 0}]


def test_the_guarantee_is_taken_off_all_signatures_in_proportion() -> None:
    # Half of a's cpu is guaranteed, so each of its signatures still wants half: 200 cpu, and 100 cpu with 30 gpus.
    demand: Demand = {("cpu",): {"cpu": 400}, ("cpu", "gpu"): {"cpu": 200, "gpu": 30}}
    a = child("a", demand, least={"cpu": 300})

    assert DRF.split({"cpu": 1000, "gpu": 0}, [a, child("b", asks(cpu=900))]) == [
        {"cpu": 500, "gpu": 0},
        {"cpu": 500},
    ]


def test_nobody_deserves_anything_without_a_policy() -> None:
    policy = NoShare()

    assert policy.split({"cpu": 10}, [child("a", asks(cpu=5)), child("b", {})]) == [{}, {}]
    assert policy.unmoved(child("a", asks(cpu=5)), child("a", asks(gpu=7)), {})


def test_policies_say_what_they_are() -> None:
    said = [(p.name, p.entitles, p.claims_by_share) for p in (Drf(), Koordinator(), Proportion(), NoShare())]

    assert said == [
        ("drf", True, True), ("koordinator", True, False), ("proportion", True, True), ("none", False, False)
    ]  # fmt: skip
