"""What quotas allow: max, min, oversell, missing and zero resources, units that may not be preempted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from usher.core import events as e
from usher.core.model import Settings
from usher.testing.builders import amounts, queue, quota, tenant, unit
from usher.testing.harness import Harness


def test_every_max_on_the_path_counts() -> None:
    play = Harness(
        quota("p", max={"cpu": 5}),
        *tenant("a", parent="p", max={"cpu": 4}),
        *tenant("b", parent="p", max={"cpu": 4}),
        cpu=100,
    )
    play.submit(*(unit(f"a/{i}", cpu=1) for i in range(6)))
    play.submit(*(unit(f"b/{i}", cpu=1) for i in range(6)))

    assert play.used("p") == amounts(cpu=5)
    assert play.why("a/5") == "Max"


def test_a_tree_of_job_slots() -> None:
    """root 21; c1 15 {10, 5}; c2 6 {3, 3}: one 2-cpu job in each leaf, then 4 more cpus do not fit in 5."""
    play = Harness(
        quota("c1", max={"cpu": 15}),
        *tenant("c11", parent="c1", max={"cpu": 10}),
        *tenant("c12", parent="c1", max={"cpu": 5}),
        quota("c2", max={"cpu": 6}),
        *tenant("c21", parent="c2", max={"cpu": 3}),
        *tenant("c22", parent="c2", max={"cpu": 3}),
        cpu=21,
    )
    play.submit(*(unit(f"{name}/1", cpu=2) for name in ("c11", "c12", "c21", "c22")))
    assert len(play.running) == 4

    play.submit(unit("c12/4", cpu=4))

    assert play.text("c12/4").startswith(
        "c12/4 is number 1 of 1 in queue c12/c12. It asks for 4 cpu; quota c12 has 5, 2 in use."
    )


OVERSELL = {"half as much again": ((3, 2), 6), "the capacity itself": ((1, 1), 4), "less": ((1, 2), 2)}


@pytest.mark.parametrize("sentence", OVERSELL)
def test_the_root_is_capacity_times_the_oversell_rate(sentence: str) -> None:
    rate, want = OVERSELL[sentence]
    play = Harness(*tenant("a"), *tenant("b"), settings=Settings(oversell=rate), cpu=4)
    play.submit(*(unit(f"{n}/{i}", cpu=1) for i in range(8) for n in "ab"))

    assert len(play.running) == want
    assert play.deserved("a") == amounts(cpu=want // 2), "for shares and for admission alike"


def test_a_resource_that_no_node_offers_is_zero_at_the_root() -> None:
    play = Harness(*tenant("a"), cpu=4)
    play.submit(unit("a/gpu", cpu=1, gpu=1), unit("a/cpu", cpu=1))

    assert play.running == ["a/cpu"]
    assert play.why("a/gpu") == "NeverFits"
    assert "gpu" in play.text("a/gpu")
    assert play.deserved("a") == amounts(cpu=1), "junk that can never run earns nothing"
    play.capacity(cpu=4, gpu=1)
    assert play.running == ["a/cpu", "a/gpu"]


def test_a_unit_that_asks_for_nothing_starts_at_once() -> None:
    play = Harness(*tenant("a"), cpu=1)
    play.submit(unit("a/full", cpu=1))
    play.submit(unit("a/empty"))

    assert play.running == ["a/empty", "a/full"]


def test_demand_above_max_earns_no_more_than_max() -> None:
    play = Harness(*tenant("a", max={"cpu": 3}), *tenant("b"), cpu=10)
    play.submit(*(unit(f"{n}/{i}", cpu=1) for i in range(10) for n in "ab"))

    assert play.deserved("a") == amounts(cpu=3)
    assert play.deserved("b") == amounts(cpu=7)


def test_junk_in_the_queue_of_one_tenant_costs_the_other_nothing() -> None:
    play = Harness(*tenant("a", max={"cpu": 2}), *tenant("b"), cpu=10)
    play.submit(*(unit(f"a/{i}", cpu=3) for i in range(20)))
    play.submit(*(unit(f"b/{i}", cpu=1) for i in range(10)))

    assert play.deserved("b") == amounts(cpu=10)


def test_guarantees_that_exceed_the_capacity_are_scaled() -> None:
    play = Harness(*tenant("a", min={"cpu": 9}), *tenant("b", min={"cpu": 3}), cpu=8)
    play.submit(*(unit(f"{n}/{i}", cpu=1) for i in range(10) for n in "ab"))

    assert play.deserved("a") == amounts(cpu=6)
    assert play.deserved("b") == amounts(cpu=2)


def test_an_idle_minimum_is_lent() -> None:
    play = Harness(*tenant("a", min={"cpu": 8}), *tenant("b"), cpu=10)
    play.submit(*(unit(f"b/{i}", cpu=1) for i in range(10)))
    assert len(play.running) == 10
    assert play.deserved("b") == amounts(cpu=10)


def test_weight_zero_uses_only_what_nobody_wants() -> None:
    play = Harness(*tenant("a"), *tenant("z", weight=0), cpu=4)
    play.submit(*(unit(f"z/{i}", cpu=1) for i in range(4)))
    assert len(play.running) == 4

    play.submit(unit("a/1", cpu=3))

    assert play.deserved("z") == {}
    assert "a/1" in play.running
    assert len(play.evictions) == 3


# -- units that may not be preempted ----------------------------------------------------------------------------------


FIXED = {
    "within the min": ({"cpu": 2}, {"cpu": 1}, ""),
    "exactly the min": ({"cpu": 2}, {"cpu": 2}, ""),
    "above the min": ({"cpu": 2}, {"cpu": 3}, "NotGuaranteed"),
    "an unset min is zero here": ({}, {"cpu": 1}, "NotGuaranteed"),
    "an unset resource of the min is zero here": ({"cpu": 2}, {"cpu": 1, "memory": 1}, "NotGuaranteed"),
}


@pytest.mark.parametrize("sentence", FIXED)
def test_a_unit_that_may_not_be_preempted_must_fit_in_min(sentence: str) -> None:
    least, asked, want = FIXED[sentence]
    play = Harness(*tenant("a", min=least), cpu=10, memory=10)
    play.submit(unit("a/fixed", fixed=True, **asked))  # type: ignore[arg-type]

    assert play.why("a/fixed") == want
    assert ("a/fixed" in play.running) is (want == "")


def test_fixed_units_share_the_min_and_the_min_of_ancestors_that_set_one() -> None:
    play = Harness(
        quota("p", min={"cpu": 3}),
        *tenant("a", parent="p", min={"cpu": 2}),
        *tenant("b", parent="p", min={"cpu": 2}),
        quota("q"),
        *tenant("c", parent="q", min={"cpu": 2}),
        cpu=10,
    )
    play.submit(*(unit(f"{n}/{i}", cpu=1, fixed=True) for n in "abc" for i in range(3)))

    assert play.running == ["a/0", "a/1", "b/0", "c/0", "c/1"], "p sets a min of 3; q sets none"
    play.finish("a/0")
    assert {"a/1", "b/0"} < set(play.running)
    assert len([key for key in play.running if key[0] in "ab"]) == 3


def test_preemptible_units_do_not_use_up_the_min_of_fixed_ones() -> None:
    play = Harness(*tenant("a", min={"cpu": 2}), cpu=10)
    play.submit(unit("a/plain", cpu=5))
    play.submit(unit("a/fixed", cpu=2, fixed=True))

    assert play.running == ["a/fixed", "a/plain"]


def test_a_fixed_unit_claims_its_min_back() -> None:
    play = Harness(*tenant("a", min={"cpu": 4}), *tenant("b"), cpu=10)
    play.submit(*(unit(f"b/{i}", cpu=1) for i in range(10)))

    play.submit(unit("a/fixed", cpu=4, fixed=True))

    assert "a/fixed" in play.running
    assert len(play.evictions) == 4
    play.submit(*(unit(f"b/more{i}", cpu=1) for i in range(5)))
    assert "a/fixed" in play.running


# -- capacity ---------------------------------------------------------------------------------------------------------


def test_less_capacity_stops_admission_at_once() -> None:
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/1", cpu=4))
    play.capacity(cpu=5)
    play.submit(unit("a/2", cpu=2))

    assert play.running == ["a/1"]
    assert play.why("a/2") == "Capacity"
    play.capacity(cpu=6)
    assert play.running == ["a/1", "a/2"]


def test_shares_may_count_nodes_that_come_back_soon() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(*(unit(f"{n}/{i}", cpu=1) for i in range(10) for n in "ab"))

    play.send(e.CapacityChanged(amounts(cpu=6), shared=amounts(cpu=10)))

    assert play.deserved("a") == amounts(cpu=5)
    assert play.evictions == []
    play.finish(*play.running[:2])
    assert len(play.running) == 8, "nothing starts while 8 run on 6"


def test_many_queues_on_one_quota_never_exceed_it() -> None:
    play = Harness(
        *(queue(f"a/q{i}", policy, quota="a") for i, policy in enumerate(["FIFO", "Priority", "Block", "FIFO"])),
        quota("a", max={"cpu": 5}, namespaces=["a"]),
        cpu=100,
    )
    play.slow = True
    play.submit(*(unit(f"a/{i}", cpu=1, queue=f"q{i % 4}") for i in range(40)))

    assert play.used("a") == amounts(cpu=5)


def test_many_quotas_in_one_queue_are_charged_each_for_its_own() -> None:
    play = Harness(
        queue("usher-system/main", shared=True),
        quota("a", max={"cpu": 2}, namespaces=["a"]),
        quota("b", max={"cpu": 3}, namespaces=["b"]),
        cpu=100,
    )
    play.submit(*(unit(f"{n}/{i}", cpu=1, queue="main") for i in range(5) for n in "ab"))

    assert play.used("a") == amounts(cpu=2)
    assert play.used("b") == amounts(cpu=3)


@pytest.mark.parametrize("says", ["quota", "queue"])
def test_a_unit_without_a_request_that_its_quota_or_queue_requires_is_held(says: str) -> None:
    needed = frozenset({"cpu"})
    own, limit = tenant("a")
    strict = (replace(own, requires=needed), limit) if says == "queue" else (own, replace(limit, requires=needed))
    play = Harness(*strict, cpu=10, memory="10Gi")
    play.submit(unit("a/silent", memory="1Gi"), unit("a/asks", cpu=1))

    assert play.running == ["a/asks"]
    assert play.why("a/silent") == "RequestMissing"
    play.apply(own, limit)
    assert play.running == ["a/asks", "a/silent"]
