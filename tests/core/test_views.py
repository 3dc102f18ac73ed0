"""What the engine shows of queues and quotas: counts by phase, the line, numbers rolled up the tree."""

from __future__ import annotations

from usher.core.phases import Phase
from usher.core.views import WaitingView
from usher.testing.builders import queue, quota, tenant, unit
from usher.testing.harness import Harness


def test_a_queue_counts_its_units_by_phase() -> None:
    play = Harness(*tenant("a"), cpu=4)
    play.submit(unit("a/x", cpu=2), unit("a/y", cpu=2))
    play.submit(unit("a/waits", cpu=1))

    view = play.engine.queues()[0]

    assert (view.waiting, view.holding) == (1, 2)
    assert sum(view.phases.values()) == 2
    assert Phase.ENQUEUED not in view.phases


def test_the_line_is_in_the_order_of_the_queue_and_no_longer_than_asked() -> None:
    play = Harness(*tenant("a"), cpu=1)
    play.submit(unit("a/holds", cpu=1))
    play.submit(unit("a/low", cpu=1, priority=1), unit("a/high", cpu=1, priority=9), unit("a/mid", cpu=1, priority=5))

    assert play.engine.line("a/a", 2) == [WaitingView("a", "high", 9), WaitingView("a", "mid", 5)]
    assert [each.name for each in play.engine.line("a/a", 10)] == ["high", "mid", "low"]
    assert play.engine.line("a/a", 0) == []
    assert play.engine.line("a/none", 10) == []


def test_a_quota_counts_what_waits_and_holds_below_it() -> None:
    play = Harness(
        quota("all"),
        quota("a", parent="all"),
        quota("b", parent="all"),
        queue("x/a", quota="a"),
        queue("x/b", quota="b"),
        cpu=2,
    )
    play.submit(unit("x/one", queue="a", cpu=1), unit("x/two", queue="b", cpu=1))
    play.submit(unit("x/three", queue="a", cpu=1))

    counts = {view.name: (view.waiting, view.holding) for view in play.engine.quotas()}

    assert counts == {"root": (1, 2), "all": (1, 2), "a": (1, 1), "b": (0, 1)}
