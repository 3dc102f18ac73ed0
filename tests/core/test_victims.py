"""Who goes, how many, when: victims, preemption inside one quota, protection, nominations."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from usher.core.commands import Nominate
from usher.core.model import Settings, StopPolicy, Unit
from usher.testing.builders import amounts, queue, quota, tenant, unit
from usher.testing.harness import Harness


def many(tenant_name: str, count: int, **request: str | int) -> Iterable[Unit]:
    return (unit(f"{tenant_name}/{i:02}", **request) for i in range(count))  # type: ignore[arg-type]


def lent(*units: Unit, cpu: int = 10) -> Harness:
    """All capacity is lent to b, one unit a second; a owns half."""
    play = Harness(*tenant("a"), *tenant("b"), cpu=cpu)
    for each in units:
        play.advance(1)
        play.submit(each)
    return play


VICTIMS = {
    "the lowest priority goes first": (
        [unit("b/low", cpu=5, priority=1), unit("b/high", cpu=5, priority=9)],
        5,
        ["b/low"],
    ),
    "of equal priority the latest start goes first": ([unit("b/old", cpu=5), unit("b/new", cpu=5)], 5, ["b/new"]),
    "only as many go as are needed": ([*many("b", 10, cpu=1)], 3, ["b/07", "b/08", "b/09"]),
    "what turns out not to be needed stays": (
        [unit("b/large", cpu=5), unit("b/middle", cpu=4), unit("b/small", cpu=1)],
        4,
        ["b/middle"],
    ),
    "a gang is one victim": ([unit("b/other", cpu=4), unit("b/gang", count=6, cpu=1)], 1, ["b/gang"]),
    "a unit that has nothing of what is lacking stays": (
        [unit("b/cpu", cpu=10), unit("b/memory", memory=1)],
        4,
        ["b/cpu"],
    ),
    "a unit that may not be preempted stays": (
        [unit("b/old", cpu=4), unit("b/more", cpu=4), unit("b/fixed", cpu=2, fixed=True)],
        3,
        ["b/more"],
    ),
}


@pytest.mark.parametrize("sentence", VICTIMS)
def test_which_units_go(sentence: str) -> None:
    units, asked, want = VICTIMS[sentence]
    play = Harness(*tenant("a"), *tenant("b", min={"cpu": 2}), cpu=10, memory=1)
    for each in units:
        play.advance(1)
        play.submit(each)
    assert play.waiting == []

    play.submit(unit("a/owner", cpu=asked))

    assert "a/owner" in play.running
    assert sorted(play.evictions) == want
    assert set(play.evictions).isdisjoint(play.running) or sentence == "a gang is one victim"


def test_the_richest_branch_gives_first() -> None:
    play = Harness(*tenant("a"), *tenant("b"), *tenant("c"), cpu=12)
    play.submit(*many("b", 5, cpu=1))
    play.submit(*many("c", 7, cpu=1))

    play.submit(unit("a/1", cpu=2))
    assert {key[0] for key in play.evictions} == {"c"}
    play.submit(unit("a/2", cpu=2))
    assert sorted(key[0] for key in play.evictions) == ["b", "c", "c", "c"]


def test_all_or_nothing_if_the_claimant_would_not_fit_nobody_goes() -> None:
    play = Harness(*tenant("a"), *tenant("b", min={"cpu": 8}), cpu=10)
    play.submit(unit("b/fixed", cpu=8, fixed=True), *(unit(f"b/{i}", cpu=1) for i in range(2)))

    play.submit(unit("a/owner", cpu=2))
    assert sorted(play.evictions) == ["b/0", "b/1"]

    play = Harness(*tenant("a"), *tenant("b", min={"cpu": 8}), cpu=10)
    play.submit(unit("b/fixed", cpu=8, fixed=True), *(unit(f"b/{i}", cpu=1) for i in range(2)))
    play.submit(unit("a/larger", cpu=3))
    assert play.evictions == []


def test_nobody_goes_before_its_protected_time() -> None:
    play = Harness(*tenant("a"), *tenant("b"), settings=Settings(protected_ms=60_000), cpu=2)
    play.submit(unit("b/old", cpu=1))
    play.advance(30)
    play.submit(unit("b/new", cpu=1))
    play.submit(unit("a/owner", cpu=1))
    assert play.evictions == []

    play.advance(29)
    assert play.evictions == []
    play.advance(1)

    assert play.evictions == ["b/old"], "the new one is still protected"
    assert "a/owner" in play.running


def test_victims_stay_charged_until_their_pods_are_gone() -> None:
    play = lent(*many("b", 10, cpu=1))
    play.lingering.update(play.running)

    play.submit(unit("a/owner", cpu=3))

    assert play.nominated == ["a/owner"]
    assert play.used("b") == amounts(cpu=10)
    assert play.quota("a").preempting == amounts(cpu=3), "shown as preempting until it starts"
    play.stop(*play.evictions[:2])
    assert play.nominated == ["a/owner"], "two of three are gone: it does not start yet"
    assert len(play.evictions) == 3, "and nobody else goes meanwhile"
    play.stop(play.evictions[2])
    assert "a/owner" in play.running
    assert play.quota("a").preempting == {}


def test_freed_room_is_kept_for_the_claimant_against_everybody() -> None:
    play = lent(*many("b", 10, cpu=1))
    play.lingering.update(play.running)
    play.submit(unit("a/owner", cpu=4))
    victims = list(play.evictions)

    play.stop(victims[0], victims[1])
    play.submit(unit("b/urgent", cpu=1, priority=99), unit("a/small", cpu=1))

    assert "b/urgent" not in play.running
    assert "a/small" not in play.running
    assert play.why("b/urgent") == "Held"


def test_two_claimants_never_spend_one_entitlement() -> None:
    """a deserves 5: one claim of 5 is made, the other waits."""
    play = lent(*many("b", 10, cpu=1))
    play.lingering.update(play.running)

    play.submit(unit("a/1", cpu=5), unit("a/2", cpu=5))

    assert play.nominated == ["a/1"]
    assert len(play.evictions) == 5


def test_two_nominations_never_hoard_halves() -> None:
    """Freed room goes whole to the first, whatever the order in which pods go."""
    for seed in range(6):
        play = Harness(*tenant("a"), *tenant("b"), *tenant("c"), cpu=12)
        play.submit(*many("b", 12, cpu=1))
        play.lingering.update(play.running)
        play.submit(unit("a/1", cpu=4))
        play.submit(unit("c/1", cpu=4))
        assert play.nominated == ["a/1", "c/1"]
        gone = list(play.evictions)
        Random(seed).shuffle(gone)

        play.stop(*gone[:4])
        assert "a/1" in play.running, "the older claim has the first four"
        assert play.nominated == ["c/1"]
        play.stop(*gone[4:])
        assert "c/1" in play.running
        assert len(play.evictions) == 8


def test_a_claim_lapses_when_its_queue_is_stopped_and_says_so() -> None:
    play = lent(*many("b", 10, cpu=1))
    play.lingering.update(play.running)
    play.submit(unit("a/owner", cpu=4))

    told = play.apply(queue("a/a", quota="a", stop=StopPolicy.HOLD))

    assert Nominate("a/owner", None) in told
    assert play.nominated == []
    assert play.quota("a").preempting == {}


def test_touching_a_nominated_unit_does_not_lose_its_room() -> None:
    play = lent(*many("b", 10, cpu=1))
    play.lingering.update(play.running)
    play.submit(unit("a/owner", cpu=4))
    evicted = list(play.evictions)

    told = play.apply(unit("a/owner", cpu=4, labels={"team": "x"}, priority=3))

    assert play.nominated == ["a/owner"]
    assert not [command for command in told if isinstance(command, Nominate)]
    play.apply(unit("a/owner", cpu=3))
    assert Nominate("a/owner", None) in play.commands, "another size is another claim"
    assert play.evictions == evicted


# -- inside one quota -------------------------------------------------------------------------------------------------


def test_a_higher_priority_takes_from_a_lower_one_where_the_queue_allows_it() -> None:
    for allows in (True, False):
        play = Harness(*tenant("a", max={"cpu": 4}, preempts=allows), cpu=10)
        play.submit(unit("a/low", cpu=4, priority=1))

        play.submit(unit("a/high", cpu=2, priority=5))

        assert play.evictions == (["a/low"] if allows else [])
        assert ("a/high" in play.running) is allows


PREEMPTION = {
    "an equal priority is not taken": ([("low", 2, 5)], (2, 5), []),
    "only lower ones go, the lowest first": ([("mid", 2, 3), ("low", 2, 1)], (2, 5), ["a/low"]),
    "as few as needed": ([("x", 1, 1), ("y", 1, 1), ("z", 2, 1)], (2, 5), ["a/z"]),
    "nobody if all lower ones together do not suffice": ([("high", 3, 9), ("low", 1, 1)], (2, 5), []),
}


@pytest.mark.parametrize("sentence", PREEMPTION)
def test_whom_priority_preempts_in_a_quota_of_four(sentence: str) -> None:
    running, (cpu, priority), want = PREEMPTION[sentence]
    play = Harness(*tenant("a", max={"cpu": 4}, preempts=True), cpu=10)
    for name, size, rank in running:
        play.advance(1)
        play.submit(unit(f"a/{name}", cpu=size, priority=rank))

    play.submit(unit("a/new", cpu=cpu, priority=priority))

    assert play.evictions == want
    assert {cause for _, cause, _ in play.evicted_for} <= {"Preempted"}


def test_preemption_never_raises_what_the_quota_borrows() -> None:
    """a deserves 5 of 10 and uses 5: a higher priority may replace as much as it needs, not grow."""
    play = Harness(*tenant("a", preempts=True), *tenant("b"), cpu=10)
    play.submit(*(unit(f"a/{i}", cpu=1, priority=1) for i in range(5)))
    play.submit(*many("b", 5, cpu=1))

    play.submit(unit("a/high", cpu=6, priority=9))
    assert play.evictions == []

    play.submit(unit("a/fits", cpu=5, priority=9))
    assert len(play.evictions) == 5
    assert play.used("a") == amounts(cpu=5)


def test_preemption_takes_more_rather_than_borrow_more() -> None:
    """One cpu is free; taking 2 for 3 would raise what a borrows, taking 4 does not."""
    play = Harness(*tenant("a", preempts=True), *tenant("b", min={"cpu": 6}), cpu=10)
    play.submit(unit("a/1", cpu=2, priority=1), unit("a/2", cpu=2, priority=1))
    play.submit(unit("b/1", cpu=5))
    play.submit(unit("b/wants", cpu=5, created_s=1))
    assert play.deserved("a") == amounts(cpu=4)

    play.submit(unit("a/high", cpu=3, priority=9))

    assert "a/high" in play.running
    assert sorted(play.evictions) == ["a/1", "a/2"]
    assert len(play.running) == 3, "what is still idle is lent again, to the lower priority"


def test_other_quotas_are_not_preempted_by_priority() -> None:
    play = Harness(*tenant("a", preempts=True), *tenant("b", preempts=True), cpu=10)
    play.submit(unit("a/low", cpu=5, priority=0), unit("b/low", cpu=5, priority=0))

    play.submit(unit("a/high", cpu=5, priority=9))

    assert play.evictions == ["a/low"]


def test_claims_come_before_preemption_in_the_own_quota() -> None:
    play = Harness(*tenant("a", preempts=True), *tenant("b"), cpu=10)
    play.submit(unit("a/low", cpu=2, priority=0), *many("b", 8, cpu=1))

    play.submit(unit("a/high", cpu=2, priority=9))

    assert {"a/low", "a/high"} <= set(play.running)
    assert {key[0] for key in play.evictions} == {"b"}


def test_without_entitlement_priority_still_preempts_in_its_quota() -> None:
    play = Harness(*tenant("a", max={"cpu": 4}, preempts=True), share="none", cpu=10)
    play.submit(unit("a/low", cpu=3, priority=1))

    play.submit(unit("a/high", cpu=4, priority=9))

    assert play.running == ["a/high"]


def test_a_tenants_own_backlog_never_costs_it_what_it_runs() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(*many("a", 5, cpu=1))
    play.submit(*many("b", 5, cpu=1))

    play.submit(*(unit(f"a/backlog{i}", cpu=1) for i in range(50)))
    play.submit(*(unit(f"a/large{i}", cpu=5, memory=1) for i in range(5)))

    assert play.evictions == []


def test_a_quota_at_its_min_is_safe_from_poorer_branches() -> None:
    play = Harness(*tenant("a"), *tenant("b", min={"cpu": 8}), cpu=10)
    play.submit(unit("b/1", cpu=8))
    play.submit(*many("a", 10, cpu=1))

    assert play.evictions == []
    assert play.used("b") == amounts(cpu=8)


def test_a_quota_that_lost_its_parent_is_not_a_victim() -> None:
    play = Harness(quota("p"), *tenant("b", parent="p"), *tenant("a"), cpu=4)
    play.submit(*many("b", 4, cpu=1))
    play.apply(quota("b", "gone", namespaces=["b"]))

    play.submit(unit("a/1", cpu=1))

    assert play.evictions == []
    assert len(play.running) == 4
