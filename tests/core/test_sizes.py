"""Sizes that vary: starting with fewer pods, growing, shrinking, giving back pods before giving up."""

from __future__ import annotations

from dataclasses import replace

from usher.core import events as e
from usher.core.commands import Grow, Shrink
from usher.core.model import Grant
from usher.testing.builders import amounts, pods, tenant, unit
from usher.testing.harness import Harness


def test_full_size_first_else_the_largest_that_fits() -> None:
    """A holder of 3 in a quota of 4: 3 pods, at least 1, start as 1; 4 pods, at least 3, wait."""
    play = Harness(*tenant("a", max={"cpu": 4}), cpu=10)
    play.submit(unit("a/holder", count=3, cpu=1))
    play.submit(unit("a/partial", count=3, least=1, cpu=1))
    play.submit(unit("a/pending", count=4, least=3, cpu=1))

    assert play.counts("a/holder") == [3]
    assert play.counts("a/partial") == [1]
    assert play.used("a") == amounts(cpu=4)
    assert play.waiting == ["a/pending"]
    play.finish("a/holder")
    assert play.counts("a/pending") == [3], "three are free"
    assert play.counts("a/partial") == [1], "a rigid unit keeps the size it started with"


def test_pod_sets_without_a_minimum_keep_their_count() -> None:
    """A master of 1 and four workers of 2, at least one worker: 3 cpus are enough."""
    play = Harness(*tenant("a", max={"cpu": 4}), cpu=10)
    play.submit(unit("a/job", pods=(pods("master", 1, cpu=1), pods("worker", 4, least=1, cpu=2))))

    assert play.counts("a/job") == [1, 1]
    assert play.used("a") == amounts(cpu=3)


def test_full_size_claims_before_a_smaller_size_is_taken() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(*(unit(f"b/{i}", cpu=1) for i in range(8)))

    play.submit(unit("a/gang", count=5, least=1, cpu=1))

    assert play.counts("a/gang") == [5]
    assert len(play.evictions) == 3


def test_a_smaller_size_evicts_nobody() -> None:
    play = Harness(*tenant("a"), *tenant("b", min={"cpu": 8}), cpu=10)
    play.submit(*(unit(f"b/{i}", cpu=1) for i in range(8)))

    play.submit(unit("a/gang", count=5, least=1, cpu=1))

    assert play.counts("a/gang") == [2]
    assert play.evictions == []


def test_a_unit_whose_least_size_was_stopped_elsewhere_is_woken_there() -> None:
    """Its full size is stopped by its quota, its least by the gpus of the cluster: it slept on at the quota."""
    play = Harness(*tenant("a", max={"cpu": 7}), *tenant("b"), share="none", cpu=20, gpu=4)
    play.submit(unit("b/1", gpu=3, cpu=1))
    play.submit(unit("a/gang", count=4, least=1, cpu=4, gpu=2))
    assert play.why("a/gang") == "Capacity"

    play.finish("b/1")

    assert play.counts("a/gang") == [1]


# -- elastic ----------------------------------------------------------------------------------------------------------


def test_an_elastic_unit_grows_when_there_is_room() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(unit("a/holder", cpu=5))
    play.submit(unit("b/spark", count=8, least=1, cpu=1, elastic=True))
    assert play.counts("b/spark") == [5]

    told = play.finish("a/holder")

    assert [command.grants for command in told if isinstance(command, Grow)] == [(Grant("main", 8),)]
    assert play.used("b") == amounts(cpu=8)


def test_growing_goes_as_far_as_there_is_room() -> None:
    play = Harness(*tenant("b"), cpu=10)
    play.submit(unit("b/spark", count=2, least=1, cpu=1, elastic=True))
    play.apply(unit("b/spark", count=50, least=1, cpu=1, elastic=True))
    assert play.counts("b/spark") == [10]


def test_an_owner_that_wants_less_gives_back_at_once() -> None:
    play = Harness(*tenant("b"), cpu=10)
    play.submit(unit("b/spark", count=8, least=1, cpu=1, elastic=True))

    told = play.apply(unit("b/spark", count=3, least=1, cpu=1, elastic=True))

    assert [command.grants for command in told if isinstance(command, Shrink)] == [(Grant("main", 3),)]
    assert play.used("b") == amounts(cpu=3)


def test_a_refused_growth_leaves_it_as_it_was_and_tries_again() -> None:
    play = Harness(*tenant("b"), cpu=10)
    play.submit(unit("b/spark", count=2, least=1, cpu=1, elastic=True))
    play.refusing.add("b/spark")
    play.apply(unit("b/spark", count=5, least=1, cpu=1, elastic=True))
    assert play.counts("b/spark") == [2]
    assert play.used("b") == amounts(cpu=2)

    play.refusing.clear()
    play.advance(1)
    assert play.counts("b/spark") == [5]


def test_elastic_units_that_come_at_once_and_each_want_everything_share_it() -> None:
    """The first starts with all; the others may take back a part of it in the next call, not in the same one."""
    play = Harness(*tenant("a"), *tenant("b"), *tenant("c"), cpu=8)

    play.submit(*(unit(f"{name}/spark", count=8, least=1, cpu=1, elastic=True) for name in "abc"))

    assert sorted(play.counts(f"{name}/spark") for name in "abc") == [[2], [3], [3]]
    assert play.evictions == []


def test_room_that_one_elastic_unit_grew_into_is_shared_with_another() -> None:
    """Both want all that is freed: whoever is first takes it, and gives the other's part back in the next call."""
    play = Harness(*tenant("a"), *tenant("b"), *tenant("c"), cpu=9)
    play.submit(unit("a/ends", cpu=3))
    for name in "bc":
        play.submit(unit(f"{name}/spark", count=90, least=1, cpu="100m", elastic=True))
    assert [play.counts(f"{name}/spark") for name in "bc"] == [[30], [30]]

    play.finish("a/ends")

    assert [play.counts(f"{name}/spark") for name in "bc"] == [[45], [45]]
    assert play.evictions == []


def test_an_elastic_victim_shrinks_before_anybody_is_evicted() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(unit("b/spark", count=10, least=2, cpu=1, elastic=True))

    told = play.submit(unit("a/owner", cpu=4))

    assert [command.grants for command in told if isinstance(command, Shrink)] == [(Grant("main", 6),)]
    assert play.evictions == []
    assert play.running == ["a/owner", "b/spark"]
    assert play.counts("b/spark") == [6]


def test_it_shrinks_to_its_least_and_goes_only_if_that_is_not_enough() -> None:
    play = Harness(*tenant("a", min={"cpu": 10}), *tenant("b"), cpu=10)
    play.submit(unit("b/spark", count=10, least=4, cpu=1, elastic=True))

    play.submit(unit("a/part", cpu=6))
    assert play.counts("b/spark") == [4]
    assert play.evictions == []

    play.submit(unit("a/rest", cpu=4))
    assert play.evictions == ["b/spark"]
    assert play.running == ["a/part", "a/rest"]


def test_it_does_not_grow_back_what_it_gave() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(unit("b/spark", count=10, least=2, cpu=1, elastic=True))
    play.submit(unit("a/owner", cpu=5))
    before = list(play.evicted_for)
    play.advance(3600)

    assert play.counts("b/spark") == [5]
    assert play.evicted_for == before
    play.finish("a/owner")
    assert play.counts("b/spark") == [10]


def test_an_answer_about_some_pods_does_not_end_the_shrinking() -> None:
    """One pod ended by itself while four were being given back: the claim lapsed and took from somebody else."""
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(unit("b/spark", count=10, least=2, cpu=1, elastic=True))
    play.lingering.add("b/spark")
    play.submit(unit("a/owner", cpu=4))
    generation = play.engine.world.units["b/spark"].generation

    play.send(e.UnitShrunk("b/spark", generation, (Grant("main", 9),)))

    assert play.nominated == ["a/owner"]
    assert len(play.evicted_for) == 1
    play.send(e.UnitShrunk("b/spark", generation, (Grant("main", 6),)))
    assert "a/owner" in play.running


def test_an_owner_that_wants_a_little_less_does_not_undo_a_claim() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(unit("b/spark", count=10, least=2, cpu=1, elastic=True))
    play.lingering.add("b/spark")
    play.submit(unit("a/owner", cpu=4))

    told = play.apply(unit("b/spark", count=8, least=2, cpu=1, elastic=True))

    assert not [command for command in told if isinstance(command, Shrink)], "it is on its way to 6 already"
    assert play.nominated == ["a/owner"]


def test_pods_of_a_rigid_unit_that_have_ended_are_given_back() -> None:
    play = Harness(*tenant("a"), cpu=4)
    play.submit(unit("a/job", count=4, cpu=1))
    play.submit(unit("a/next", cpu=2))
    generation = play.engine.world.units["a/job"].generation

    play.send(e.UnitShrunk("a/job", generation, (Grant("main", 2),)))

    assert play.running == ["a/job", "a/next"]
    assert play.used("a") == amounts(cpu=4)


def test_a_growing_unit_is_not_grown_and_shrunk_in_one_call() -> None:
    """Its turn to grow came after it had been told to give back."""
    play = Harness(*tenant("a", min={"cpu": 6}), *tenant("b"), cpu=10)
    play.submit(unit("b/spark", count=12, least=1, cpu=1, elastic=True))
    play.submit(unit("b/other", cpu=1, priority=-1))

    play.submit(*(unit(f"a/{i}", cpu=3) for i in range(2)))

    assert play.counts("b/spark") == [4]
    assert {"a/0", "a/1"} <= set(play.running)


def test_growing_past_the_max_of_its_quota_waits_without_harm() -> None:
    play = Harness(*tenant("b", max={"cpu": 4}), cpu=10)
    play.submit(unit("b/spark", count=4, least=1, cpu=1, elastic=True))
    play.apply(unit("b/spark", count=6, least=1, cpu=1, elastic=True))
    play.submit(unit("b/next", cpu=1))

    assert play.counts("b/spark") == [4]
    play.apply(replace(unit("b/spark", count=3, least=1, cpu=1, elastic=True)))
    assert "b/next" in play.running
