"""Admission checks: the quota is held while third parties decide."""

from __future__ import annotations

from usher.core import events as e
from usher.core.commands import Admit, Evict, Reserve
from usher.core.model import Check, CheckState, Operator, Requirement, Settings
from usher.core.phases import Cause
from usher.testing.builders import queue, tenant, unit
from usher.testing.harness import Harness

READY, RETRY, REJECTED = CheckState.READY, CheckState.RETRY, CheckState.REJECTED


def checked(settings: Settings | None = None) -> Harness:
    return Harness(queue("a/a", checks=["budget", "image"]), settings=settings, cpu=2)


def test_checks_hold_the_quota_while_they_decide() -> None:
    play = checked()
    told = play.submit(unit("a/1", cpu=2, queue="a"))
    play.submit(unit("a/2", cpu=2, queue="a"))

    assert next(command for command in told if isinstance(command, Reserve)).checks == ("budget", "image")
    assert play.phase("a/1") == "Reserved"
    assert play.waiting == ["a/2"]
    play.answer("a/1", "budget", READY)
    assert play.phase("a/1") == "Reserved", "one of two"
    told = play.answer("a/1", "image", READY)
    assert [command.key for command in told if isinstance(command, Admit)] == ["a/1"]
    assert play.phase("a/1") == "Running"


def test_a_check_applies_to_the_units_it_selects() -> None:
    gpu = Check("gpu", (Requirement("gpu", Operator.EXISTS),))
    play = Harness(queue("a/a", checks=[gpu]), cpu=2)
    play.submit(unit("a/plain", cpu=1, queue="a"), unit("a/gpu", cpu=1, queue="a", labels={"gpu": "yes"}))

    assert play.phase("a/plain") == "Running"
    assert play.phase("a/gpu") == "Reserved"


def test_retry_backs_off_and_rejected_sets_aside() -> None:
    play = checked(Settings(backoff_base_ms=5_000))
    play.submit(unit("a/1", cpu=2, queue="a"))
    play.answer("a/1", "budget", RETRY)
    assert play.phase("a/1") == "TimeoutBackoff"
    assert play.used("root") == {}
    play.advance(5)
    assert play.phase("a/1") == "Reserved", "asked again"

    play.answer("a/1", "image", REJECTED)
    assert play.phase("a/1") == "Enqueued"
    assert play.why("a/1") == "Inactive"
    assert "rejected" in play.text("a/1")
    play.submit(unit("a/2", cpu=2, queue="a"))
    assert play.phase("a/2") == "Reserved", "it keeps its place but blocks nobody"
    assert play.engine.position("a/1") == 1
    play.finish("a/2")
    play.send(e.UnitReactivated("a/1"))
    assert play.phase("a/1") == "Reserved"


def test_a_check_that_does_not_answer_in_time() -> None:
    play = checked(Settings(check_timeout_ms=30_000))
    play.submit(unit("a/1", cpu=2, queue="a"))
    play.advance(29)
    assert play.phase("a/1") == "Reserved"
    play.advance(1)
    assert play.phase("a/1") == "TimeoutBackoff"


def test_a_refused_reservation_is_forgotten_like_any_other() -> None:
    """It cost a back-off, and the right to claim."""
    play = checked()
    play.refusing.add("a/1")
    play.submit(unit("a/1", cpu=2, queue="a"))
    assert play.phase("a/1") == "Enqueued"
    play.refusing.clear()
    play.advance(1)
    assert play.phase("a/1") == "Reserved"
    assert play.engine.world.units["a/1"].claims


def test_a_unit_whose_checks_agree_is_not_told_to_go_in_the_same_call() -> None:
    play = Harness(queue("b/b", quota="b", checks=["c"]), tenant("b")[1], *tenant("a"), cpu=2)
    play.submit(unit("b/1", cpu=2))
    claim = e.UnitChanged(unit("a/1", cpu=1, seq=9))

    told = play.engine.handle([e.CheckAnswered("b/1", "c", READY), claim], 0)

    assert [command.key for command in told if isinstance(command, Admit)] == ["b/1"]
    assert not [command for command in told if isinstance(command, Evict)]
    assert [command.key for command in play.send(e.Confirmed("b/1", 1)) if isinstance(command, Evict)] == ["b/1"]


def test_a_unit_that_is_deactivated_as_its_checks_agree_does_not_start() -> None:
    play = Harness(queue("b/b", checks=["c"]), cpu=2)
    play.submit(unit("b/1", cpu=2, queue="b"))

    told = play.send(
        e.CheckAnswered("b/1", "c", READY), e.UnitChanged(unit("b/1", cpu=2, queue="b", active=False, seq=1))
    )

    assert not [command for command in told if isinstance(command, Admit)]
    assert [command.cause for command in told if isinstance(command, Evict)] == [Cause.DEACTIVATED]
