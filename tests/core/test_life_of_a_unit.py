"""From assume to the end: outcomes, timeouts, back-off, deactivation, execution time."""

from __future__ import annotations

import pytest

from usher.core import events as e
from usher.core.commands import SetPhase
from usher.core.model import CheckState, Settings
from usher.core.phases import TRANSITIONS, Cause, IllegalTransitionError, Phase, after
from usher.testing.builders import amounts, tenant, unit
from usher.testing.harness import Harness

READY = CheckState.READY


# -- assume, confirm, forget ------------------------------------------------------------------------------------------


def test_quota_is_charged_when_the_command_is_issued() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=2)
    play.slow = True

    play.submit(unit("a/1", cpu=2))
    play.submit(unit("b/1", cpu=2))

    assert play.used("a") == amounts(cpu=2)
    assert play.admissions == ["a/1"]


def test_a_confirmation_changes_nothing_but_that_it_is_confirmed() -> None:
    play = Harness(*tenant("a"), cpu=2)
    play.slow = True
    play.submit(unit("a/1", cpu=2))
    before = play.used("a")

    play.deliver(twice=True)

    assert play.used("a") == before
    assert play.phase("a/1") == "Running"


def test_a_refused_admission_is_forgotten_and_tried_again_after_a_pause() -> None:
    settings = Settings(refused_base_ms=100, refused_max_ms=300)
    play = Harness(*tenant("a"), *tenant("b"), settings=settings, cpu=2)
    play.refusing.add("a/1")
    play.submit(unit("a/1", cpu=2))

    assert play.used("root") == {}
    assert play.phase("a/1") == "Enqueued"
    assert play.why("a/1") == "Backoff"
    times = []
    for _ in range(5):
        assert play.wake_at_ms is not None
        times.append(play.wake_at_ms - play.now_ms)
        play.advance(times[-1] / 1000)
    assert times == [100, 200, 300, 300, 300], "doubled up to the cap"
    play.refusing.clear()
    play.advance(1)
    assert play.running == ["a/1"]


def test_room_of_a_refused_admission_goes_to_the_next() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=2)
    play.refusing.add("a/1")
    play.submit(unit("a/1", cpu=2))
    play.submit(unit("b/1", cpu=2))

    assert play.running == ["b/1"]
    assert play.waiting == ["a/1"]


def test_outcomes_of_an_earlier_admission_are_ignored() -> None:
    play = Harness(*tenant("a"), cpu=2)
    play.refusing.add("a/1")
    play.submit(unit("a/1", cpu=2))
    play.refusing.clear()
    play.advance(1)
    assert play.running == ["a/1"]
    generation = play.engine.world.units["a/1"].generation

    for stale in range(generation):
        play.send(e.Refused("a/1", stale), e.UnitStopped("a/1", stale), e.Confirmed("a/1", stale))

    assert play.running == ["a/1"]
    assert play.phase("a/1") == "Running"


def test_a_refusal_that_comes_after_the_confirmation_is_ignored() -> None:
    play = Harness(*tenant("a"), cpu=2)
    play.submit(unit("a/1", cpu=2))
    play.send(e.Refused("a/1", play.engine.world.units["a/1"].generation))
    assert play.running == ["a/1"]


@pytest.mark.parametrize(
    "event",
    [
        e.UnitGone("a/none"),
        e.UnitReady("a/none"),
        e.UnitUnready("a/none"),
        e.UnitStopped("a/none", 1),
        e.UnitPaused("a/none"),
        e.UnitShrunk("a/none", 1, ()),
        e.UnitFinished("a/none", succeeded=True),
        e.UnitReactivated("a/none"),
        e.CheckAnswered("a/none", "x", READY),
        e.Confirmed("a/none", 1),
        e.Refused("a/none", 1),
        e.QueueGone("a/none"),
        e.QuotaGone("none"),
        e.UnitStopped("a/1", 1),
        e.UnitReady("a/1"),
        e.UnitUnready("a/1"),
        e.CheckAnswered("a/1", "x", READY),
    ],
    ids=lambda event: f"{type(event).__name__}-{getattr(event, 'key', '')}",
)
def test_events_that_say_nothing_new_change_nothing(event: e.Event) -> None:
    play = Harness(*tenant("a"), cpu=2)
    play.submit(unit("a/1", cpu=2), unit("a/2", cpu=2))
    before = (play.running, play.waiting, play.phase("a/1"))

    assert play.send(event) == []

    assert (play.running, play.waiting, play.phase("a/1")) == before


def test_a_job_may_end_before_it_was_seen_to_run_or_even_start() -> None:
    play = Harness(*tenant("a"), cpu=2)
    play.unready.update(["a/1"])
    play.submit(unit("a/1", cpu=2), unit("a/2", cpu=2))

    play.send(e.UnitFinished("a/1", succeeded=False), e.UnitFinished("a/2", succeeded=True))

    assert play.phase("a/1") == "Failed"
    assert play.phase("a/2") == "Succeed"
    assert play.used("root") == {}
    assert play.finish("a/1") == [], "an end is said once"


# -- timeouts ---------------------------------------------------------------------------------------------------------


def test_a_unit_that_does_not_run_in_time_backs_off_longer_each_time() -> None:
    settings = Settings(start_timeout_ms=60_000, backoff_base_ms=10_000, backoff_max_ms=30_000)
    play = Harness(*tenant("a"), settings=settings, cpu=2)
    play.unready.add("a/1")
    play.submit(unit("a/1", cpu=2))

    pauses = []
    for _ in range(4):
        told = play.advance(60)
        pauses += [c.requeue_at_ms - play.now_ms for c in told if isinstance(c, SetPhase) and c.requeue_at_ms]
        assert play.phase("a/1") == "TimeoutBackoff"
        assert play.used("root") == {}
        play.advance(pauses[-1] / 1000)
        assert play.phase("a/1") == "Dequeued"
    assert pauses == [10_000, 20_000, 30_000, 30_000]


def test_having_run_starts_the_back_off_anew() -> None:
    settings = Settings(start_timeout_ms=60_000, recovery_timeout_ms=30_000, backoff_base_ms=10_000)
    play = Harness(*tenant("a"), settings=settings, cpu=2)
    play.unready.add("a/1")
    play.submit(unit("a/1", cpu=2))
    play.advance(60)
    play.unready.clear()
    play.advance(10)
    assert play.phase("a/1") == "Running"

    play.send(e.UnitUnready("a/1"))
    play.advance(30)

    assert play.phase("a/1") == "TimeoutBackoff"
    play.advance(10)
    assert play.phase("a/1") == "Running"


def test_a_unit_in_back_off_keeps_its_position_and_holds_nobody_up() -> None:
    settings = Settings(start_timeout_ms=60_000, backoff_base_ms=10_000)
    play = Harness(*tenant("a", "FIFO"), settings=settings, cpu=2)
    play.unready.add("a/1")
    play.submit(unit("a/1", cpu=2))
    play.submit(unit("a/2", cpu=2))

    play.advance(60)

    assert play.running == ["a/2"]
    assert play.engine.position("a/1") == 1
    assert play.why("a/1") == "Backoff"


def test_pods_that_recover_in_time_are_left_alone() -> None:
    play = Harness(*tenant("a"), settings=Settings(recovery_timeout_ms=30_000), cpu=2)
    play.submit(unit("a/1", cpu=2))
    play.send(e.UnitUnready("a/1"))
    play.advance(29)
    play.send(e.UnitReady("a/1"))
    play.advance(60)
    assert play.running == ["a/1"]

    play.send(e.UnitUnready("a/1"))
    play.advance(29)
    assert play.running == ["a/1"], "the time counts from the last loss"
    play.advance(1)
    assert play.phase("a/1") == "TimeoutBackoff"


def test_quota_is_released_once_the_pods_are_gone() -> None:
    play = Harness(*tenant("a"), settings=Settings(start_timeout_ms=60_000), cpu=2)
    play.unready.add("a/1")
    play.lingering.add("a/1")
    play.submit(unit("a/1", cpu=2))
    play.submit(unit("a/2", cpu=2))
    play.advance(60)

    assert play.phase("a/1") == "Dequeued"
    assert play.used("a") == amounts(cpu=2)
    play.stop("a/1")
    assert play.running == ["a/2"]


# -- out of the game --------------------------------------------------------------------------------------------------


def test_a_deactivated_unit_gives_back_and_keeps_its_place() -> None:
    play = Harness(*tenant("a"), cpu=2)
    play.submit(unit("a/1", cpu=2))
    play.submit(unit("a/2", cpu=2))

    play.apply(unit("a/1", cpu=2, active=False))

    assert play.evicted_for == [("a/1", "Deactivated", "")]
    assert play.running == ["a/2"]
    play.apply(unit("a/1", cpu=2))
    assert play.engine.position("a/1") == 1
    play.finish("a/2")
    assert play.running == ["a/1"]


def test_a_job_suspended_by_hand_waits_until_its_owner_wants_it() -> None:
    play = Harness(*tenant("a"), cpu=2)
    play.submit(unit("a/1", cpu=2))
    play.send(e.UnitPaused("a/1"))

    assert play.evicted_for == [("a/1", "Paused", "")]
    assert play.why("a/1") == "Inactive"
    play.send(e.UnitReactivated("a/1"))
    assert play.running == ["a/1"]


def test_execution_time_adds_up_over_admissions() -> None:
    play = Harness(*tenant("a"), *tenant("b", min={"cpu": 2}), cpu=2)
    play.submit(unit("a/1", cpu=2, max_s=100))
    play.advance(60)
    play.submit(unit("b/owner", cpu=2))
    assert play.running == ["b/owner"]
    play.advance(50)
    play.finish("b/owner")
    assert play.running == ["a/1"]

    play.advance(39)
    assert play.running == ["a/1"]
    play.advance(1)

    assert play.evicted_for[-1] == ("a/1", "MaximumExecutionTimeExceeded", "")
    assert play.why("a/1") == "Inactive"
    play.advance(1000)
    assert play.running == []


def test_a_raised_execution_time_counts_for_what_runs() -> None:
    """It was ended at the old time."""
    play = Harness(*tenant("a"), cpu=2)
    play.submit(unit("a/1", cpu=2, max_s=60))
    play.advance(30)
    play.apply(unit("a/1", cpu=2, max_s=600))
    play.advance(569)
    assert play.running == ["a/1"]
    play.advance(1)
    assert play.running == []


def test_a_lowered_execution_time_counts_for_what_runs() -> None:
    play = Harness(*tenant("a"), cpu=2)
    play.submit(unit("a/1", cpu=2))
    play.advance(30)
    play.apply(unit("a/1", cpu=2, max_s=60))
    play.advance(29)
    assert play.running == ["a/1"]
    play.advance(1)
    assert play.running == []


def test_time_used_up_while_being_stopped_does_not_start_the_unit_again() -> None:
    play = Harness(*tenant("a"), *tenant("b", min={"cpu": 2}), cpu=2)
    play.submit(unit("a/1", cpu=2, max_s=100))
    play.lingering.add("a/1")
    play.advance(90)
    play.submit(unit("b/owner", cpu=2))
    play.advance(20)
    play.stop("a/1")
    play.finish("b/owner")

    assert play.running == []
    assert play.why("a/1") == "Inactive"


# -- the table --------------------------------------------------------------------------------------------------------


def test_a_step_that_the_table_does_not_have_stops_the_process() -> None:
    with pytest.raises(IllegalTransitionError, match="no transition from Succeed by Admitted"):
        after(Phase.SUCCEED, Cause.ADMITTED)


def test_nothing_follows_an_end() -> None:
    assert not [phase for phase, _ in TRANSITIONS if phase in (Phase.SUCCEED, Phase.FAILED)]
