"""Taking back between quotas: who may claim, from whom, and how much goes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from usher.core.model import Settings, Unit
from usher.testing.builders import amounts, queue, quota, tenant, unit
from usher.testing.harness import Harness


def many(tenant_name: str, count: int, **request: str | int) -> Iterable[Unit]:
    return (unit(f"{tenant_name}/{i:02}", **request) for i in range(count))  # type: ignore[arg-type]


def counted(play: Harness, tenant_name: str) -> int:
    return sum(key.startswith(f"{tenant_name}/") for key in play.running)


@pytest.mark.parametrize("share", ["drf", "koordinator", "proportion"])
def test_a_borrower_gives_back_what_the_owner_asks_for(share: str) -> None:
    """3 cpus, two queues of weight 1; one runs three units of 1, the other asks for 1: exactly one goes."""
    play = Harness(*tenant("a"), *tenant("b"), share=share, cpu=3)
    play.submit(*many("a", 3, cpu=1))
    assert counted(play, "a") == 3, "idle capacity is lent"

    play.submit(unit("b/owner", cpu=1))

    assert "b/owner" in play.running
    assert play.evictions == ["a/02"], "the latest start of equal priority"
    assert play.evicted_for == [("a/02", "Reclaimed", "b/owner")]
    assert counted(play, "a") == 2


def test_nobody_gives_to_a_claimant_that_would_be_as_rich() -> None:
    """5 gpus that cannot be halved: a deserves 3, b 2. b runs 3, and a asks for 3: both sides would be alike."""
    play = Harness(*tenant("a"), *tenant("b"), share="koordinator", gpu=5)
    play.submit(unit("b/1", gpu=3))

    play.submit(unit("a/1", gpu=3))

    assert play.deserved("a") == amounts(gpu=3)
    assert play.deserved("b") == amounts(gpu=2)
    assert play.evictions == []


def test_without_entitlement_nobody_claims() -> None:
    play = Harness(*tenant("a"), *tenant("b", min={"cpu": 2}), share="none", cpu=3)
    play.submit(*many("a", 3, cpu=1))

    play.submit(unit("b/waits", cpu=1))

    assert play.evictions == []
    assert play.waiting == ["b/waits"]


def test_a_claim_that_would_end_above_deserved_in_one_dimension_evicts_nobody() -> None:
    """Deserved 2 cpu and 3 memory, uses 1 and 3, asks 1 and 1; the other deserves no cpu and runs 1 and 1."""
    play = Harness(*tenant("a", min={"cpu": 2, "memory": 2}), *tenant("b"), share="koordinator", cpu=2, memory=4)
    play.submit(unit("a/runs", cpu=1, memory=3), unit("b/runs", cpu=1, memory=1))
    assert play.running == ["a/runs", "b/runs"]

    play.submit(unit("a/asks", cpu=1, memory=1))
    assert play.deserved("a") == amounts(cpu=2, memory=3)
    assert play.deserved("b") == amounts(memory=1)

    assert play.evictions == []


def test_a_claim_beyond_deserved_evicts_nobody() -> None:
    """Deserved 1 cpu and 2 memory, uses 1 and 1, asks 1 and 2."""
    play = Harness(
        *tenant("a", min={"cpu": 1, "memory": 2}),
        *tenant("b", min={"cpu": 2, "memory": 1}),
        share="koordinator",
        cpu=3,
        memory=3,
    )
    play.submit(unit("a/runs", cpu=1, memory=1), unit("b/runs", cpu=2, memory=1))

    play.submit(unit("a/asks", cpu=1, memory=2))

    assert play.evictions == []
    assert play.waiting == ["a/asks"]


def test_a_claim_beyond_its_own_max_evicts_nobody() -> None:
    """Max and deserved 8 cpu and 100 memory, uses 7 and 90, asks 2 and 5."""
    play = Harness(*tenant("a", max={"cpu": 8, "memory": 100}), *tenant("b"), cpu=9, memory=1000)
    play.submit(unit("a/runs", cpu=7, memory=90), unit("b/runs", cpu=2, memory=1))

    play.submit(unit("a/asks", cpu=2, memory=5))

    assert play.evictions == []
    assert play.why("a/asks") == "Max"


def test_guaranteed_minimum_is_taken_back_whatever_the_shares() -> None:
    """Of 12, b uses 10 and is guaranteed 5, a uses 2 of its 5: a gets its 5, b keeps 7."""
    play = Harness(*tenant("a", min={"cpu": 5}), *tenant("b", min={"cpu": 5}), share="koordinator", cpu=12)
    play.submit(*many("b", 12, cpu=1))
    play.submit(unit("a/x", cpu=1), unit("a/y", cpu=1))

    play.submit(*(unit(f"a/more{i}", cpu=1) for i in range(3)))

    assert (counted(play, "a"), counted(play, "b")) == (5, 7)


def test_without_guarantees_equal_weights_still_share_equally() -> None:
    """Of 12, b uses 10 and a 2; a wants more. Both deserve 6, so b gives back 4."""
    play = Harness(*tenant("a"), *tenant("b"), cpu=12)
    play.submit(*many("b", 12, cpu=1))

    play.submit(*many("a", 12, cpu=1))

    assert (counted(play, "a"), counted(play, "b")) == (6, 6)
    assert len(play.evictions) == 6


@pytest.mark.parametrize(("weights", "want"), [((1, 1), (6, 6)), ((2, 1), (8, 4)), ((3, 1), (9, 3)), ((1, 0), (12, 0))])
def test_both_hungry_each_ends_with_what_it_deserves(weights: tuple[int, int], want: tuple[int, int]) -> None:
    play = Harness(*tenant("a", weight=weights[0]), *tenant("b", weight=weights[1]), cpu=12)
    play.submit(*many("b", 12, cpu=1))

    play.submit(*many("a", 12, cpu=1))

    assert (counted(play, "a"), counted(play, "b")) == want


def test_lent_room_comes_back_and_is_lent_again() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=4)
    play.submit(*many("b", 4, cpu=1))
    play.submit(unit("a/1", cpu=2))
    assert (counted(play, "a"), counted(play, "b")) == (1, 2)

    play.finish("a/1")

    assert counted(play, "b") == 4
    assert len(play.evictions) == 2, "nobody was evicted twice"


def test_only_one_is_admitted_under_the_max_of_a_parent_and_nobody_is_evicted() -> None:
    """Parent max 2 cpu and 4 memory, two children without limits, two units of just that."""
    play = Harness(
        quota("p", max={"cpu": 2, "memory": 4}), *tenant("a", parent="p"), *tenant("b", parent="p"), cpu=10, memory=10
    )
    play.submit(unit("a/1", cpu=2, memory=4), unit("b/1", cpu=2, memory=4))

    assert play.running == ["a/1"]
    assert play.why("b/1") == "Max"
    assert play.evictions == []


def test_a_gang_larger_than_a_fluid_share_claims_from_a_richer_branch() -> None:
    """Both deserve 5 of 10. A gang of 4 would be poorer than b without its victims: it may; one of 6 may not."""
    play = Harness(*tenant("a"), *tenant("b"), *tenant("c"), cpu=12)
    play.submit(*many("b", 12, cpu=1))
    play.submit(unit("c/waits", cpu=12))
    assert play.deserved("a") == {}

    play.submit(unit("a/gang", cpu=5))

    assert play.deserved("a") == amounts(cpu=4)
    assert "a/gang" in play.running, "5 of 12 is less than the 7 that b keeps"
    play.submit(unit("a/second", cpu=5))
    assert "a/second" not in play.running


def test_koordinator_knows_no_claim_beyond_deserved() -> None:
    play = Harness(*tenant("a"), *tenant("b"), *tenant("c"), share="koordinator", cpu=12)
    play.submit(*many("b", 12, cpu=1))
    play.submit(unit("c/waits", cpu=12))

    play.submit(unit("a/gang", cpu=5))

    assert play.evictions == []


def test_claims_are_made_at_the_nearest_common_ancestor() -> None:
    """Siblings settle between themselves first; a branch within its deserved is not touched."""
    play = Harness(
        quota("p"), quota("q"), *tenant("a", parent="p"), *tenant("b", parent="p"), *tenant("c", parent="q"), cpu=8
    )
    play.submit(*many("b", 4, cpu=1))
    play.submit(*many("c", 4, cpu=1))

    play.submit(unit("a/1", cpu=1))

    assert play.evictions == ["b/03"]
    assert counted(play, "c") == 4


def test_a_poor_child_of_a_rich_parent_does_not_claim_from_another_branch() -> None:
    """p has its half, all of it used by b: a takes from b, never from q."""
    play = Harness(
        quota("p"),
        quota("q"),
        *tenant("a", parent="p"),
        *tenant("b", parent="p", min={"cpu": 4}),
        *tenant("c", parent="q"),
        cpu=8,
    )
    play.submit(*many("b", 4, cpu=1))
    play.submit(*many("c", 4, cpu=1))

    play.submit(unit("a/1", cpu=1))

    assert play.evictions == []
    assert play.waiting == ["a/1"]


def test_a_failed_search_does_not_hide_a_branch_from_the_next_one() -> None:
    """The first claimant looked at a and gave up for lack of gpu; the second then did not find a any more."""
    settings = Settings(protected_ms=60_000)
    play = Harness(*tenant("a"), *tenant("b"), *tenant("c"), share="koordinator", settings=settings, cpu=6, gpu=2)
    play.submit(*many("a", 3, cpu=2))
    play.advance(100)
    play.submit(unit("b/protected", gpu=2))

    play.submit(unit("c/1", cpu=2, gpu=1), unit("c/2", cpu=2))

    assert "c/2" in play.running
    assert len(play.evictions) == 1


def test_after_a_failed_start_a_unit_does_not_claim_until_it_has_run() -> None:
    play = Harness(
        *tenant("a"), *tenant("b"), settings=Settings(start_timeout_ms=30_000, backoff_base_ms=10_000), cpu=4
    )
    play.unready.add("a/1")
    play.submit(unit("a/1", cpu=2))
    play.advance(30)
    assert play.phase("a/1") == "TimeoutBackoff"
    play.submit(*many("b", 4, cpu=1))

    play.advance(10)
    assert play.phase("a/1") == "Enqueued"
    assert play.evictions == ["a/1"], "only its own failed start"

    play.unready.clear()
    play.finish("b/00", "b/01")
    assert "a/1" in play.running
    play.apply(queue("a/a", quota="a"))
    assert counted(play, "b") == 2


def test_a_lowered_max_evicts_nobody_by_itself() -> None:
    play = Harness(*tenant("a"), cpu=10)
    play.submit(*many("a", 8, cpu=1))

    play.apply(quota("a", max={"cpu": 4}, namespaces=["a"]))

    assert counted(play, "a") == 8
    assert play.evictions == []
    play.submit(unit("a/more", cpu=1))
    assert play.why("a/more") == "Max"


def test_lost_capacity_stops_admission_but_evicts_only_for_a_claim() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(*many("a", 8, cpu=1))

    play.capacity(cpu=6)
    assert counted(play, "a") == 8
    play.submit(unit("a/more", cpu=1))
    assert play.waiting == ["a/more"]

    play.submit(unit("b/owner", cpu=2))
    assert "b/owner" in play.running
    assert counted(play, "a") == 4, "4 of 6 fit beside it"


def test_a_changed_weight_evicts_only_for_a_claim() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=8)
    play.submit(*many("a", 4, cpu=1))
    play.submit(*many("b", 4, cpu=1))

    play.apply(quota("a", weight=3, namespaces=["a"]))
    assert play.evictions == []

    play.submit(unit("a/more", cpu=2))
    assert "a/more" in play.running
    assert len(play.evictions) == 2
