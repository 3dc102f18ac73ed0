"""What a Queue asks for itself: a unit in small equal parts that stands for it, and what the engine is answered."""

from __future__ import annotations

import pytest

from usher.core import commands as c
from usher.core import events as ev
from usher.core.model import CheckState, Grant, Queue
from usher.core.phases import Cause
from usher.runtime.requests import answers, unit_for

PARTS = {
    "cores by thousandths": ({"cpu": 2_000}, 2_000, {"cpu": 1}),
    "memory by bytes": ({"memory": 10 << 30}, 10 << 30, {"memory": 1}),
    "two in proportion": ({"cpu": 2_000, "memory": 4 << 30}, 16, {"cpu": 125, "memory": 256 << 20}),
    "whole devices stay whole": ({"cpu": 16_000, "example.com/gpu": 4}, 4, {"cpu": 4_000, "example.com/gpu": 1}),
    "what cannot be divided is one part": ({"cpu": 1_001, "memory": 3}, 1, {"cpu": 1_001, "memory": 3}),
    "what is zero is not asked for": ({"cpu": 10, "memory": 0}, 10, {"cpu": 1}),
}


@pytest.mark.parametrize("what", PARTS)
def test_a_request_is_divided(what: str) -> None:
    request, parts, each = PARTS[what]
    unit = unit_for(Queue("ns", "q03", request=request), 7)
    (pods,) = unit.pod_sets
    assert (pods.count, pods.min_count, pods.request) == (parts, 1, each)
    assert (unit.key, unit.queue, unit.elastic, unit.created_ms) == ("ns/~q03", "q03", True, 7)


HALF = (Grant("main", 500),)
ANSWERS: dict[str, tuple[c.Command, list[ev.Event]]] = {
    "it is there at once": (c.Admit("u", 1, "q", HALF), [ev.Confirmed("u", 1), ev.UnitReady("u")]),
    "and more of it": (c.Grow("u", 1, HALF), [ev.Confirmed("u", 1)]),
    "it goes back at once": (c.Evict("u", 1, Cause.RECLAIMED, "x"), [ev.UnitStopped("u", 1)]),
    "or a part of it": (c.Shrink("u", 1, HALF, Cause.RECLAIMED, "x"), [ev.UnitShrunk("u", 1, HALF)]),
    "nothing that it could do is checked": (
        c.Reserve("u", 1, "q", HALF, ("budget",)),
        [ev.Confirmed("u", 1), ev.CheckAnswered("u", "budget", CheckState.READY)],
    ),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_whatever_the_engine_commands_is_done(what: str) -> None:
    command, want = ANSWERS[what]
    assert answers(command) == want
