"""Nobody starves: being overtaken, the room that is kept then, protection, and backfill."""

from __future__ import annotations

from usher.core.lanes import Group, Lane, QueueState
from usher.core.model import Settings, StopPolicy, Unit
from usher.core.state import UnitState
from usher.policies.registry import plugins as chosen
from usher.testing.builders import queue, quota, tenant, unit
from usher.testing.harness import Harness

MINUTE = 60


def overtaken() -> Harness:
    """10 cpus; a/big (8) waits and small units go past it."""
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/runs", cpu=5))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/small", cpu=1))
    assert "a/small" in play.running
    return play


def two_overtaken() -> Harness:
    """10 cpus; a/big1 (8) and a/big2 (9) wait and a small unit goes past them."""
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/runs", cpu=5))
    play.submit(unit("a/big1", cpu=8))
    play.submit(unit("a/big2", cpu=9))
    play.submit(unit("a/small", cpu=1))
    return play


def test_an_overtaken_unit_gets_the_room_that_comes_free() -> None:
    play = overtaken()
    play.advance(10 * MINUTE - 1)
    assert play.nominated == []
    play.advance(1)

    assert play.nominated == ["a/big"]
    assert play.evictions == [], "without evicting anybody"
    play.submit(unit("a/late", cpu=1))
    assert "a/late" not in play.running
    play.finish("a/runs")
    assert play.running == ["a/big", "a/late", "a/small"]


def test_a_unit_that_nobody_passes_is_not_overtaken() -> None:
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/runs", cpu=5))
    play.submit(unit("a/big", cpu=8))

    play.advance(60 * MINUTE)

    assert play.nominated == []


def test_a_unit_before_it_in_the_order_does_not_overtake_it() -> None:
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/runs", cpu=5))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/urgent", cpu=1, priority=5))

    play.advance(60 * MINUTE)

    assert play.nominated == []


def test_a_unit_that_passes_elsewhere_does_not_overtake_it() -> None:
    """The quota's max stops the big one; what another quota starts does not go through that node."""
    play = Harness(*tenant("a", max={"cpu": 8}), *tenant("b"), cpu=100)
    play.submit(unit("a/runs", cpu=5))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("b/other", cpu=1))

    play.advance(60 * MINUTE)

    assert play.nominated == []


def test_a_unit_of_a_richer_quota_overtakes_it() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(unit("b/fixed", cpu=5), unit("b/also", cpu=1))
    play.submit(unit("a/big", cpu=10))
    play.submit(unit("b/small", cpu=1))
    assert "b/small" in play.running

    play.advance(10 * MINUTE)

    assert play.nominated == ["a/big"]


def test_a_queue_may_turn_it_off_or_choose_its_own_time() -> None:
    for seconds, want in ((0, []), (30, ["a/big"])):
        play = Harness(queue("a/a", quota="a", reserve_after_s=seconds), quota("a", namespaces=["a"]), cpu=10)
        play.submit(unit("a/runs", cpu=5))
        play.submit(unit("a/big", cpu=8))
        play.submit(unit("a/small", cpu=1))
        play.advance(60)
        assert play.nominated == want


def test_at_one_node_room_is_kept_for_one_overtaken_unit_at_a_time() -> None:
    play = two_overtaken()

    play.advance(11 * MINUTE)
    assert play.nominated == ["a/big1"]

    play.finish("a/runs", "a/small")
    assert "a/big1" in play.running
    assert play.nominated == ["a/big2"], "the next in line, without waiting again"


def test_units_overtaken_too_long_are_not_forgotten_when_a_quota_changes() -> None:
    play = two_overtaken()
    play.advance(11 * MINUTE)

    play.apply(quota("elsewhere"))
    assert play.nominated == ["a/big1"]
    play.delete("a/big1")

    assert play.nominated == ["a/big2"]


def test_what_it_then_starts_is_protected_and_longer_after_each_eviction() -> None:
    play = Harness(*tenant("a"), *tenant("b"), settings=Settings(reserve_after_ms=60_000), cpu=10)
    play.submit(unit("a/runs", cpu=5))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/small", cpu=1))
    play.advance(60)
    play.finish("a/runs", "a/small")
    assert play.running == ["a/big"]

    play.submit(unit("b/owner", cpu=5))
    play.advance(59)
    assert play.evictions == []
    play.advance(1)
    assert play.evictions == ["a/big"], "protected for reserveAfter, and no longer"


def test_a_nominated_unit_may_start_smaller() -> None:
    """Its full size never fits; the room kept for it kept everybody out for ever."""
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(unit("b/runs", cpu=5))
    play.submit(unit("a/gang", count=12, least=8, cpu=1))
    play.submit(unit("b/small", cpu=1))
    play.advance(11 * MINUTE)
    assert play.nominated == ["a/gang"]

    play.finish("b/runs")

    assert "a/gang" in play.running
    assert play.counts("a/gang") == [9]


def test_a_blocking_queue_waits_for_its_nominated_head() -> None:
    play = Harness(*tenant("a", "Block"), *tenant("b"), cpu=10)
    play.submit(unit("b/runs", cpu=5), unit("b/1", cpu=1))
    play.submit(unit("a/head", cpu=8))
    play.submit(unit("a/next", cpu=1))
    play.submit(unit("b/small", cpu=1))
    play.advance(11 * MINUTE)
    assert play.nominated == ["a/head"]
    assert "a/next" not in play.running

    play.finish("b/runs", "b/1", "b/small")

    assert {"a/head", "a/next"} <= set(play.running)


def test_backfill_uses_the_room_if_it_is_sure_to_be_gone_in_time() -> None:
    """The room comes at 1000 s at the latest: a unit of 100 s may use what is free, one of 2000 s may not."""
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/runs", cpu=5, max_s=1000))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/small", cpu=1, max_s=1000))
    play.advance(10 * MINUTE)
    assert play.nominated == ["a/big"]

    play.submit(unit("a/long", cpu=1, max_s=2000))
    play.submit(unit("a/endless", cpu=1))
    play.submit(unit("a/brief", cpu=1, max_s=100))

    assert play.running == ["a/brief", "a/runs", "a/small"]
    play.advance(400)
    assert "a/big" in play.running


def test_where_the_start_cannot_be_told_there_is_no_backfill() -> None:
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/runs", cpu=5))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/small", cpu=1, max_s=1000))
    play.advance(10 * MINUTE)
    assert play.nominated == ["a/big"]

    play.submit(unit("a/brief", cpu=1, max_s=10))

    assert "a/brief" not in play.running


def waits_with_room_kept(*waiting: Unit) -> Harness:
    """Room is kept for a/big; these came when nothing was free, and then 4 cpus come free until 2000 s."""
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/runs", cpu=5, max_s=2000))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/small", cpu=1, max_s=1000), unit("a/third", cpu=4, max_s=2000))
    play.advance(10 * MINUTE)
    assert play.nominated == ["a/big"]
    play.submit(*waiting)
    assert play.running == ["a/runs", "a/small", "a/third"]
    play.finish("a/third")
    return play


def test_a_release_wakes_units_that_could_backfill() -> None:
    """They waited under an amount that room kept for another would never leave free."""
    play = waits_with_room_kept(unit("a/brief", cpu=3, max_s=100))

    assert "a/brief" in play.running
    assert play.nominated == ["a/big"]


def test_those_behind_a_long_unit_that_asks_for_the_same_may_backfill() -> None:
    brief = [unit(f"a/brief{number}", cpu=1, max_s=100 + number) for number in range(4)]

    play = waits_with_room_kept(unit("a/long", cpu=1, max_s=3000), unit("a/endless", cpu=1), *brief)

    assert play.running == [*(f"a/brief{number}" for number in range(4)), "a/runs", "a/small"]
    assert play.nominated == ["a/big"]


def test_a_unit_backfills_when_it_is_its_own_turn() -> None:
    """Not when it is that of the unit which asks for the same."""
    play = waits_with_room_kept(
        unit("a/long", cpu=3, max_s=3000, priority=3),
        unit("a/second", cpu=2, max_s=100, priority=2),
        unit("a/third-in-line", cpu=3, max_s=100, priority=1),
    )

    assert play.running == ["a/runs", "a/second", "a/small"]


def test_a_group_forgets_units_with_a_time_limit_when_they_have_gone() -> None:
    """Or a queue that is never empty would remember all that ever waited in it."""
    lane = Lane(QueueState(queue("a/a"), chosen("drf").queue_policies["Priority"]), None)
    group = Group(lane, ())
    for number in range(1_000):
        state = UnitState(unit(f"a/{number}", cpu=1, max_s=1 + number % 300))
        state.order = (number,)
        group.add(state)
        if number >= 10:
            first = group.top()
            assert first is not None
            first.group = None

    assert group.top() is not None
    assert sum(len(heap) for heap in group._ending.values()) <= 2 * 10


def test_where_the_head_blocks_nobody_behind_it_backfills() -> None:
    play = Harness(*tenant("a"), *tenant("b", policy="PriorityBlocking"), cpu=10)
    play.submit(unit("a/runs", cpu=5, max_s=2000))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/small", cpu=1, max_s=1000))
    play.advance(10 * MINUTE)
    assert play.nominated == ["a/big"]

    play.submit(unit("b/long", cpu=1, max_s=3000), unit("b/brief", cpu=1, max_s=100))

    assert play.running == ["a/runs", "a/small"]


def test_a_unit_that_was_set_aside_when_its_time_came_is_not_forgotten() -> None:
    """Its queue was on hold at that moment; afterwards it was overtaken for ever."""
    play = overtaken()
    play.advance(5 * MINUTE)
    play.apply(queue("a/a", quota="a", stop=StopPolicy.HOLD))
    play.advance(30 * MINUTE)
    assert play.nominated == []

    play.apply(queue("a/a", quota="a"))

    assert play.nominated == ["a/big"]
    play.submit(unit("a/again", cpu=1))
    assert "a/again" not in play.running


def test_a_unit_that_waits_for_its_turn_to_have_room_kept_is_not_forgotten_when_its_owner_edits_it() -> None:
    play = two_overtaken()
    play.advance(11 * MINUTE)
    assert play.nominated == ["a/big1"]

    play.apply(unit("a/big2", cpu=9, labels={"team": "x"}))
    play.delete("a/big1")

    assert play.nominated == ["a/big2"]


def test_a_unit_that_gave_up_its_place_and_came_back_is_compared_with_itself() -> None:
    """Its new group met the outdated place of its old one, with the same rank and ticket, and the engine stopped."""
    play = Harness(*tenant("a"), *tenant("b"), *tenant("z", min={"cpu": 9}), cpu=10)
    play.submit(unit("z/1", cpu=5, fixed=True))
    play.submit(unit("a/1", cpu=6), unit("b/1", cpu=6))
    play.submit(unit("z/2", cpu=1))
    play.apply(unit("a/1", cpu=6, active=False))
    play.apply(unit("a/1", cpu=6))

    play.submit(unit("z/3", cpu=1))

    assert play.running == ["z/1", "z/2", "z/3"]
    assert play.waiting == ["a/1", "b/1"]
