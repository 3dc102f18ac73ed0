"""What a driver of a live cluster needs besides: jobs that ran before Usher came, jobs that change on their way."""

from __future__ import annotations

from usher.core import events as e
from usher.core.model import Grant, Stored
from usher.core.phases import Cause, Phase
from usher.testing.builders import amounts, tenant, unit
from usher.testing.harness import Harness


def test_a_job_that_ran_before_is_charged_to_the_quota_it_belongs_to() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=4)
    ran = unit("a/old", cpu=3)
    stored = Stored(phase=Phase.RUNNING, grants=(Grant(ran.pod_sets[0].name, 1),), generation=1, has_run=True)

    play.send(e.UnitChanged(ran, stored))

    assert play.used("a") == amounts(cpu=3)
    view = play.engine.unit("a/old")
    assert view is not None
    assert view.quota == "a"
    play.submit(unit("b/new", cpu=3))
    assert play.waiting == ["b/new"]


def test_a_job_that_changed_before_it_could_start_competes_again_at_once() -> None:
    play = Harness(*tenant("a"), cpu=4)
    play.submit(unit("a/1", cpu=3))
    assert play.running == ["a/1"]

    play.send(e.UnitPaused("a/1", Cause.CHANGED))

    assert play.admissions == ["a/1", "a/1"]
    assert play.running == ["a/1"]


def test_a_job_that_its_owner_suspended_stays_out_until_told() -> None:
    play = Harness(*tenant("a"), cpu=4)
    play.submit(unit("a/1", cpu=3))

    play.send(e.UnitPaused("a/1"))

    assert play.used("root") == {}
    assert play.why("a/1") == "Inactive"
    play.send(e.UnitReactivated("a/1"))
    assert play.running == ["a/1"]
