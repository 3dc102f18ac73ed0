"""Parking and waking: a unit that does not fit is tried again when what stopped it changes, and only then."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from usher.core import events as e
from usher.core.commands import WakeAt
from usher.core.contest import Contest
from usher.core.engine import Engine
from usher.core.model import Settings, StopPolicy
from usher.policies.registry import plugins
from usher.testing.builders import queue, quota, tenant, unit
from usher.testing.harness import Harness


def full(*, share: str = "drf", settings: Settings | None = None) -> Harness:
    """Twelve cpus, all lent to b."""
    play = Harness(*tenant("a"), *tenant("b"), *tenant("c"), share=share, settings=settings, cpu=12)
    play.submit(*(unit(f"b/{i:02}", cpu=1) for i in range(12)))
    return play


def test_nothing_is_polled() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(*(unit(f"{tenant}/{i}", cpu=3) for i in range(5) for tenant in "ab"))

    with patch.object(Contest, "_try", side_effect=AssertionError("tried again though nothing changed")):
        for second in range(20):
            assert play.engine.handle([], play.now_ms + second * 1000) == []


def test_an_arrival_behind_a_parked_unit_does_not_try_that_one_again() -> None:
    play = Harness(*tenant("a", max={"cpu": 4}), cpu=10)
    play.submit(unit("a/runs", cpu=3), unit("a/parked", cpu=2))
    tried: list[str] = []
    inner = Contest._try

    def noting(self: Contest, *arguments: object) -> bool:
        tried.append(arguments[1].key)  # type: ignore[attr-defined]
        return inner(self, *arguments)  # type: ignore[arg-type]

    with patch.object(Contest, "_try", noting):
        play.submit(unit("a/alike", cpu=2))

    assert "a/alike" not in tried
    assert "a/alike" not in play.running


def test_a_release_wakes_whoever_fits_in_order() -> None:
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/x", cpu=4), unit("a/y", cpu=6))
    play.submit(unit("a/six", cpu=6))
    play.submit(unit("a/four", cpu=4))
    play.submit(unit("a/three", cpu=3))

    play.finish("a/x")
    assert play.running == ["a/four", "a/y"], "six does not fit in what came free; four is before three"
    play.finish("a/y")
    assert play.running == ["a/four", "a/six"]


def test_a_release_below_another_node_wakes_nobody() -> None:
    play = Harness(*tenant("a", max={"cpu": 4}), *tenant("b", max={"cpu": 4}), cpu=10)
    play.submit(unit("a/runs", cpu=4), unit("b/runs", cpu=4))
    play.submit(unit("a/waits", cpu=2))

    with patch.object(Contest, "_admit", side_effect=AssertionError):
        play.finish("b/runs")

    assert play.why("a/waits") == "Max"


def test_a_unit_that_is_stopped_elsewhere_next_time_is_parked_there() -> None:
    """First the quota's max stops it, then the capacity."""
    play = Harness(*tenant("a", max={"cpu": 4}), *tenant("b"), cpu=5)
    play.submit(unit("a/runs", cpu=3))
    play.submit(unit("a/waits", cpu=2))
    assert play.why("a/waits") == "Max"
    play.submit(unit("b/runs", cpu=2))
    play.apply(quota("a", max={"cpu": 5}, namespaces=["a"]))
    assert play.why("a/waits") == "Capacity"
    play.finish("b/runs")
    assert "a/waits" in play.running


@pytest.mark.parametrize("policy", ["FIFO", "Block", "Priority"])
def test_risen_deserved_wakes_a_unit_that_may_claim_then(policy: str) -> None:
    """A lane of a FIFO queue was not found below the quota whose deserved had risen."""
    play = Harness(*tenant("a", policy), *tenant("b"), *tenant("c"), share="koordinator", cpu=12)
    play.submit(*(unit(f"b/{i:02}", cpu=1) for i in range(12)))
    play.submit(unit("c/large", cpu=12))
    play.submit(unit("a/five", cpu=5))
    assert play.evictions == [], "a deserves 4 while c wants a third"

    play.delete("c/large")

    assert "a/five" in play.running
    assert len(play.evictions) == 5


def test_risen_deserved_wakes_the_only_unit_that_waits() -> None:
    """The queue that lost its head was looked at, and the quota that gained from it was not."""
    play = Harness(*tenant("a"), *tenant("b"), *tenant("c", "FIFO"), share="koordinator", cpu=12)
    play.submit(*(unit(f"b/{i:02}", cpu=1) for i in range(12)))
    play.submit(unit("c/large", cpu=12))
    play.submit(unit("a/five", cpu=5))

    play.delete("c/large")

    assert "a/five" in play.running


def test_a_branch_that_comes_above_deserved_wakes_whoever_could_claim_from_it() -> None:
    """While b was within its min there was nothing to take; then b borrows what c had left."""
    play = Harness(*tenant("a", min={"cpu": 4}), *tenant("b", min={"cpu": 4}), *tenant("c", min={"cpu": 4}), cpu=12)
    play.submit(unit("c/runs", cpu=4), unit("b/runs", cpu=4))
    play.submit(unit("a/small", cpu=3))
    play.submit(unit("a/one", cpu=1, created_s=1))

    assert play.running == ["a/one", "a/small", "b/runs", "c/runs"]
    play.finish("a/one", "a/small")
    play.submit(unit("b/borrows", cpu=4))
    assert "b/borrows" in play.running
    play.submit(unit("a/owner", cpu=4))
    assert "a/owner" in play.running
    assert play.evictions == ["b/borrows"]


def test_room_that_is_no_longer_kept_wakes_whoever_waits_for_it() -> None:
    play = full()
    play.lingering.update(play.running)
    play.submit(unit("a/claims", cpu=4))
    assert play.nominated == ["a/claims"]
    play.submit(unit("c/small", cpu=1))
    play.stop(*play.evictions)
    held = play.running

    assert "a/claims" in held
    play.finish("a/claims")
    assert "c/small" in play.running


def test_a_nominee_that_is_deleted_frees_the_room_at_once() -> None:
    play = full()
    play.lingering.update(play.running)
    play.submit(unit("a/claims", cpu=4))
    victims = list(play.evictions)
    play.stop(*victims[:3])
    assert play.nominated == ["a/claims"]

    play.delete("a/claims")

    assert play.nominated == []
    assert {f"{key}" for key in victims[:3]} <= set(play.running), "they had waited for the room that was kept"


def test_a_head_that_starts_wakes_the_next() -> None:
    play = Harness(*tenant("a", "FIFO"), cpu=10)
    play.submit(unit("a/first", cpu=6))
    play.submit(unit("a/big", cpu=8))
    play.submit(unit("a/small", cpu=2))

    play.finish("a/first")

    assert play.running == ["a/big", "a/small"]


def test_a_nominated_head_that_starts_wakes_the_next() -> None:
    """The lane stayed closed under the amount that the nominee had needed."""
    play = Harness(*tenant("a", "FIFO"), *tenant("b"), cpu=10)
    play.submit(*(unit(f"b/{i}", cpu=2) for i in range(5)))
    play.lingering.update(play.running)
    play.submit(unit("a/head", cpu=4))
    play.submit(unit("a/next", cpu=1))
    assert play.nominated == ["a/head"]
    assert "a/next" not in play.running

    play.lingering.clear()
    play.stop(*play.evictions)

    assert {"a/head", "a/next"} <= set(play.running)


def test_the_end_of_a_protection_wakes_the_claimant() -> None:
    play = full(settings=Settings(protected_ms=60_000))
    play.advance(10)
    play.submit(unit("a/claims", cpu=4))
    assert play.evictions == []
    assert play.wake_at_ms == 60_000

    play.advance(49)
    assert play.evictions == []
    play.advance(1)
    assert "a/claims" in play.running


def test_resuming_a_queue_wakes_its_units() -> None:
    play = Harness(*tenant("a"), cpu=10)
    play.apply(queue("a/a", quota="a", stop=StopPolicy.HOLD))
    play.submit(unit("a/waits", cpu=1))
    assert play.why("a/waits") == "QueueStopped"

    play.apply(queue("a/a", quota="a"))

    assert play.running == ["a/waits"]


def test_more_capacity_wakes_whoever_could_never_fit() -> None:
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/huge", cpu=11))
    assert play.why("a/huge") == "NeverFits"

    play.capacity(cpu=12)

    assert play.running == ["a/huge"]


def test_a_higher_priority_of_the_same_size_is_tried_at_once_where_it_may_preempt() -> None:
    """It joined a group that was parked, and the group was not opened for it."""
    play = Harness(*tenant("a", max={"cpu": 2}, preempts=True), *tenant("b"), cpu=10)
    play.submit(unit("a/runs", cpu=2, priority=5))
    play.submit(unit("a/equal", cpu=2, priority=5))
    play.submit(unit("b/other", cpu=1))

    play.submit(unit("a/above", cpu=2, priority=9))

    assert play.evictions == ["a/runs"]
    assert "a/above" in play.running


def test_nothing_is_decided_before_every_kind_was_listed() -> None:
    engine = Engine(Settings(), plugins())
    assert engine.handle([e.CapacityChanged({"cpu": 4000}), e.QueueChanged(queue("a/a"))], 0) == []
    assert engine.handle([e.UnitChanged(unit("a/j", queue="a", cpu=1))], 0) == []
    assert [type(command).__name__ for command in engine.handle([e.Synced()], 0)] == ["Admit"]


def test_what_happens_before_everything_is_listed_is_not_forgotten() -> None:
    """A job that ended while the engine started: the command that says so was thrown away."""
    engine = Engine(Settings(), plugins())
    engine.handle([e.QueueChanged(queue("a/a")), e.UnitChanged(unit("a/j", queue="a", cpu=1))], 0)
    assert engine.handle([e.UnitFinished("a/j", succeeded=True)], 0) == []

    assert [type(command).__name__ for command in engine.handle([e.Synced()], 0)] == ["SetPhase"]


def test_the_engine_asks_to_be_woken_once_per_time() -> None:
    play = full(settings=Settings(protected_ms=60_000))
    play.advance(10)

    assert [command for command in play.submit(unit("a/claims", cpu=4)) if isinstance(command, WakeAt)] == [
        WakeAt(60_000)
    ]
    assert not [command for command in play.submit(unit("a/behind", cpu=4)) if isinstance(command, WakeAt)]
