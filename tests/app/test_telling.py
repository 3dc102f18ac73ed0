"""Events: at most so many in the long run, and none when they are turned off."""

from __future__ import annotations

from usher.app.telling import Teller
from usher.kube.client import Client
from usher.kube.config import Config
from usher.kube.writer import Writer
from usher.runtime.numbers import Numbers
from usher.runtime.port import Regarding, Severity
from usher.settings.tree import Events

JOB = Regarding("batch/v1", "Job", "a", "one", "u")


async def told(settings: Events, *at_s: float) -> tuple[int, int]:
    """How many of the Events at these times are handed on to a writer, and how many are counted as dropped."""
    numbers, times = Numbers(), iter([0.0, *at_s])
    async with Client(Config("http://127.0.0.1:1"), user_agent="test", field_manager="test") as client:
        writer = Writer(client, fence=lambda: False)  # nothing is sent
        teller = Teller(writer, "me", settings, numbers, clock=lambda: next(times))
        for number in range(len(at_s)):
            teller(JOB, Severity.NORMAL, f"Reason{number}", "Queueing", "text")
        await writer.drain(5)
        return writer.counters.submitted, numbers.events_dropped


async def test_a_burst_passes_and_the_rest_is_dropped_and_counted() -> None:
    assert await told(Events(per_second=1, burst=3), 0, 0, 0, 0, 0) == (3, 2)


async def test_time_makes_room_again() -> None:
    assert await told(Events(per_second=1, burst=2), 0, 0, 0.5, 1.2, 1.3, 100, 100, 100) == (5, 3)


async def test_nothing_is_told_when_events_are_off() -> None:
    numbers = Numbers()
    async with Client(Config("http://127.0.0.1:1"), user_agent="test", field_manager="test") as client:
        writer = Writer(client, fence=lambda: False)
        Teller(writer, "me", Events(enabled=False), numbers)(JOB, Severity.NORMAL, "Reason", "Queueing", "text")
        assert (writer.counters.submitted, numbers.events_dropped) == (0, 0)
