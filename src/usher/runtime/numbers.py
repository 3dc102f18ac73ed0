"""What the loop counts: plain integers and simple histograms, so that counting costs next to nothing.

The loop and the writer call the methods; `usher.server.metrics` reads at scrape time. Nothing is kept per job. What is
kept per queue goes with `forget_queue`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, field

WAIT_SECONDS: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 150.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0)
"""From one second to ten hours."""
SHORT_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)


class Histogram:
    """How many observations were at most each bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


def _waits() -> dict[str, Histogram]:
    return {}


def _histogram(bounds: tuple[float, ...]) -> Callable[[], Histogram]:
    return lambda: Histogram(bounds)


class Numbers(Struct):
    """Everything that is counted. Only ever grows, except that queues which are gone are forgotten."""

    admissions: Counter[str] = field(default_factory=Counter)
    """By queue."""
    evictions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By queue and cause."""
    finished: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By queue and phase: Succeed or Failed."""
    waits: dict[str, Histogram] = field(default_factory=_waits)
    """By queue, in seconds: from being queued (again) to admission."""
    starts: dict[str, Histogram] = field(default_factory=_waits)
    """By queue, in seconds: from admission to all pods ready."""
    decisions: Histogram = field(default_factory=_histogram(SHORT_SECONDS))
    """How long the engine took for one batch."""
    batches: Histogram = field(default_factory=_histogram(SIZES))
    """How many events a batch had."""
    commands: Counter[str] = field(default_factory=Counter)
    """By the name of the command."""
    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """By method, resource (with its subresource, as in queueunits/status) and code; 0 where no answer came."""
    request_seconds: dict[str, Histogram] = field(default_factory=_waits)
    """By method."""
    reviews: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """At the doors: by question (mutate or validate), resource, and whether it was allowed or refused."""
    review_seconds: dict[str, Histogram] = field(default_factory=_waits)
    """By question."""
    watch_problems: Counter[str] = field(default_factory=Counter)
    """By resource: how often following it failed and was taken up again."""
    events_dropped: int = 0
    lag: Histogram = field(default_factory=_histogram(SHORT_SECONDS))
    """How late the event loop was."""
    lag_last: float = 0.0

    def admitted(self, queue: str, waited_ms: int) -> None:
        self.admissions[queue] += 1
        _observe(self.waits, queue, waited_ms / 1000, WAIT_SECONDS)

    def started(self, queue: str, after_ms: int) -> None:
        _observe(self.starts, queue, after_ms / 1000, WAIT_SECONDS)

    def evicted(self, queue: str, cause: str) -> None:
        self.evictions[queue, cause] += 1

    def ended(self, queue: str, phase: str) -> None:
        self.finished[queue, phase] += 1

    def decided(self, seconds: float, events: int, commands: Mapping[str, int]) -> None:
        """One call of the engine; `commands` counts its answer by name."""
        self.decisions.observe(seconds)
        self.batches.observe(events)
        self.commands.update(commands)

    def requested(self, method: str, resource: str, code: int, seconds: float) -> None:
        self.requests[method, resource, code] += 1
        _observe(self.request_seconds, method, seconds, SHORT_SECONDS)

    def reviewed(self, question: str, resource: str, answer: str, seconds: float) -> None:
        self.reviews[question, resource, answer] += 1
        _observe(self.review_seconds, question, seconds, SHORT_SECONDS)

    def lagged(self, seconds: float) -> None:
        self.lag_last = seconds
        self.lag.observe(seconds)

    def forget_queue(self, queue: str) -> None:
        """The queue is gone: its series end."""
        for by_queue in (self.admissions, self.waits, self.starts):
            by_queue.pop(queue, None)
        for by_two in (self.evictions, self.finished):
            for key in [key for key in by_two if key[0] == queue]:
                del by_two[key]


def _observe(by_key: dict[str, Histogram], key: str, value: float, bounds: tuple[float, ...]) -> None:
    histogram = by_key.get(key)
    if histogram is None:
        histogram = by_key[key] = Histogram(bounds)
    histogram.observe(value)
