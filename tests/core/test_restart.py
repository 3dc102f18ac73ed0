"""A crash at any moment loses nothing: an engine that starts anew goes on where the last one was."""

from __future__ import annotations

from collections.abc import Callable

from usher.core import events as e
from usher.core.commands import Evict
from usher.core.model import CheckState, Settings, Stored
from usher.core.phases import Phase
from usher.testing.builders import amounts, queue, tenant, unit
from usher.testing.harness import Harness


def test_what_ran_runs_and_who_waited_waits_in_the_same_order() -> None:
    play = Harness(*tenant("a", "FIFO"), *tenant("b"), cpu=10)
    play.submit(unit("a/1", cpu=6), unit("a/2", cpu=8), unit("a/3", cpu=1), unit("b/1", cpu=2))
    seen = (play.running, play.waiting, play.used("a"), play.used("b"), play.engine.position("a/3"))

    play.restart()

    assert (play.running, play.waiting, play.used("a"), play.used("b"), play.engine.position("a/3")) == seen
    assert play.admissions == ["a/1", "b/1"], "nobody is admitted twice"
    play.finish("a/1")
    assert "a/2" in play.running


def test_a_restart_in_the_middle_of_a_claim_evicts_nobody_else() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(*(unit(f"b/{i}", cpu=1) for i in range(10)))
    play.lingering.update(play.running)
    play.submit(unit("a/owner", cpu=4))
    victims = sorted(play.evictions)
    play.stop(victims[0])

    play.restart()

    assert play.nominated == ["a/owner"]
    told = [command.key for command in play.commands if isinstance(command, Evict)]
    assert sorted(told) == victims[1:], "those under way are told again, nobody else"
    play.stop(*victims[1:])
    assert "a/owner" in play.running
    assert len(play.running) == 7


def test_a_restart_in_back_off_waits_for_the_rest_of_it() -> None:
    play = Harness(*tenant("a"), settings=Settings(start_timeout_ms=30_000, backoff_base_ms=60_000), cpu=2)
    play.unready.add("a/1")
    play.submit(unit("a/1", cpu=2))
    play.advance(30)
    assert play.phase("a/1") == "TimeoutBackoff"
    play.advance(20)

    play.restart()

    play.advance(39)
    assert play.phase("a/1") == "TimeoutBackoff"
    play.advance(1)
    assert play.phase("a/1") == "Dequeued"
    assert not play.engine.world.units["a/1"].claims, "it has not run since"


def test_a_restart_keeps_timeouts_and_execution_times() -> None:
    play = Harness(*tenant("a"), settings=Settings(start_timeout_ms=30_000), cpu=4)
    play.unready.add("a/stuck")
    play.submit(unit("a/stuck", cpu=2), unit("a/limited", cpu=2, max_s=100))
    play.advance(20)

    play.restart()

    play.advance(10)
    assert play.phase("a/stuck") == "TimeoutBackoff"
    play.advance(70)
    assert play.evicted_for[-1] == ("a/limited", "MaximumExecutionTimeExceeded", "")


def test_a_restart_while_checks_decide() -> None:
    play = Harness(queue("a/a", checks=["c", "d"]), cpu=2)
    play.submit(unit("a/1", cpu=2, queue="a"))

    play.restart()

    assert play.phase("a/1") == "Reserved"
    assert play.used("root") == amounts(cpu=2)
    play.answer("a/1", "c", CheckState.READY)
    play.answer("a/1", "d", CheckState.READY)
    assert play.phase("a/1") == "Running"


def test_a_unit_set_aside_stays_aside() -> None:
    play = Harness(*tenant("a"), cpu=2)
    play.submit(unit("a/1", cpu=2, max_s=10))
    play.advance(10)
    assert play.why("a/1") == "Inactive"

    play.restart()

    assert play.running == []
    assert play.why("a/1") == "Inactive"
    play.send(e.UnitReactivated("a/1"))
    assert play.running == ["a/1"]


def test_restarts_at_every_moment_end_in_the_same_state() -> None:
    """The same story, with and without an engine that is lost after every step."""

    def story(restarts: bool) -> Harness:
        play = Harness(*tenant("a"), *tenant("b"), *tenant("c", "FIFO", min={"cpu": 2}), cpu=10)
        steps: list[Callable[[], object]] = [
            lambda: play.submit(*(unit(f"b/{i}", cpu=1) for i in range(10))),
            lambda: play.submit(unit("a/1", cpu=3)),
            lambda: play.submit(unit("c/1", cpu=2), unit("c/2", cpu=3)),
            lambda: play.finish("a/1"),
            lambda: play.submit(unit("a/2", cpu=5, priority=3)),
            lambda: play.finish(play.running[0]),
        ]
        for step in steps:
            play.advance(1)
            step()
            if restarts:
                play.restart()
        return play

    with_restarts, without = story(restarts=True), story(restarts=False)

    assert with_restarts.running == without.running
    assert with_restarts.waiting == without.waiting
    assert sorted(with_restarts.evictions) == sorted(without.evictions)


def test_a_restart_does_not_make_an_overtaken_unit_wait_anew() -> None:
    """a/big was overtaken for nine minutes when the engine was lost: room is kept for it one minute later."""
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/runs", cpu=5))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/small", cpu=1))
    play.advance(9 * 60)

    play.restart()

    play.advance(59)
    assert play.nominated == []
    play.advance(1)
    assert play.nominated == ["a/big"]


def test_a_unit_whose_time_came_while_nobody_was_there_has_room_kept_at_once() -> None:
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/runs", cpu=5))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/small", cpu=1))
    play.now_ms += 3_600_000

    play.restart()

    assert play.nominated == ["a/big"]


def test_who_has_started_is_overtaken_no_longer_after_a_restart_either() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(unit("a/runs", cpu=5))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/small", cpu=1))
    play.advance(60)
    play.finish("a/runs")
    assert play.running == ["a/big", "a/small"]
    play.submit(unit("b/owner", cpu=5))
    assert play.waiting == ["a/big"], "evicted, it waits anew"

    play.restart()
    play.advance(3_600)

    assert play.nominated == []


def test_a_restart_keeps_the_long_protection_of_a_unit_that_was_overtaken() -> None:
    play = Harness(*tenant("a"), *tenant("b"), settings=Settings(reserve_after_ms=60_000), cpu=10)
    play.submit(unit("a/runs", cpu=5))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/small", cpu=1))
    play.advance(60)
    play.finish("a/runs", "a/small")
    assert play.running == ["a/big"]
    play.submit(unit("b/owner", cpu=5))
    play.advance(30)

    play.restart()

    play.advance(29)
    assert play.evictions == []
    play.advance(1)
    assert play.evictions == ["a/big"], "protected as long as without the restart, and no longer"


def test_a_unit_that_holds_nothing_is_taken_up_without_laying_the_tree_anew() -> None:
    play = Harness(*tenant("a"), cpu=4)
    play.submit(unit("a/runs", cpu=4))
    tree = play.engine.world.ledger.root

    play.send(
        e.UnitChanged(unit("a/new", cpu=1), Stored()),
        e.UnitChanged(unit("a/waits", cpu=1), Stored(Phase.TIMEOUT_BACKOFF, retries=1, requeue_at_ms=5_000)),
    )

    assert play.engine.world.ledger.root is tree, "that costs as much as there are units, whoever comes"
    assert play.engine.world.units["a/new"].phase is Phase.ENQUEUED
    assert play.engine.world.units["a/waits"].not_before_ms == 5_000
