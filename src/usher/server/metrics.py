"""The metrics: one collector over plain numbers and the engine's views, read when somebody scrapes.

Names begin with `usher_`, but for those that every dashboard for controllers knows (`rest_client_…`,
`leader_election_master_status`, `process_…`, `python_…`). Amounts are in base units: cpu in cores, memory in bytes.
Labels are queues (`namespace/name`), quotas, resources and small closed sets; never jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from usher.core.views import QueueView, QuotaView
from usher.runtime.numbers import Histogram, Numbers

QUOTA_AMOUNTS: Final[Mapping[str, tuple[str, Callable[[QuotaView], Mapping[str, int]]]]] = {
    "min": ("What the quota is guaranteed", lambda view: view.min),
    "max": ("What the quota may use at most; of root: what the cluster offers", lambda view: view.max),
    "deserved": ("What the quota is entitled to now", lambda view: view.deserved),
    "used": ("What units hold in the quota", lambda view: view.used),
    "preempting": ("Room that is kept for nominated units of the quota", lambda view: view.preempting),
    "demand": ("What units of the quota hold or wait for, as far as it could run", lambda view: view.demand),
}
QUEUE_AMOUNTS: Final[Mapping[str, tuple[str, Callable[[QueueView], Mapping[str, int]]]]] = {
    "deserved": ("What the quotas of the queue's units are entitled to now", lambda view: view.deserved),
    "used": ("What units of the queue hold", lambda view: view.used),
    "preempting": ("Room that is kept for nominated units of the queue", lambda view: view.preempting),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """What the collector reads, at every scrape."""

    numbers: Numbers
    quotas: Callable[[], Iterable[QuotaView]]
    queues: Callable[[], Iterable[QueueView]]
    leading: Callable[[], bool]
    lease: str
    """The name of the Lease."""
    watch_ages: Callable[[], Mapping[str, float]] = field(default=dict)
    """By resource: seconds since its watch was last heard of."""
    writes_waiting: Callable[[], Mapping[str, int]] = field(default=dict)
    """By urgency: writes that wait to be sent."""
    writes_in_flight: Callable[[], int] = lambda: 0
    problems: Callable[[], Sequence[str]] = tuple
    """Of the engine: plug-ins that were disabled."""
    info: Mapping[str, str] = field(default_factory=dict)
    """Version, share policy and the like."""


class UsherCollector(Collector):
    """Everything of ours."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def describe(self) -> list[Metric]:
        """Nothing: the registry need not scrape once to learn our names."""
        return []

    def collect(self) -> Iterator[Metric]:
        watched = self._watched
        yield InfoMetricFamily("usher", "Which Usher this is", value=dict(watched.info))
        yield from _quotas(list(watched.quotas()))
        yield from _queues(list(watched.queues()))
        yield from _counted(watched.numbers)
        yield from _loop(watched)


class Collected:
    """Families that were collected, for an encoder."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        return self._families


def gatherer(watched: Watched) -> Callable[[], Iterable[Metric]]:
    """What `Asked.metrics` is: all of ours, and what Python and the process say of themselves, one after the other."""
    registry = CollectorRegistry()
    registry.register(UsherCollector(watched))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry.collect


def in_base_units(resource: str, amount: int) -> float:
    return amount / 1000 if resource == "cpu" else amount


def _quotas(views: Sequence[QuotaView]) -> Iterator[Metric]:
    for name, (about, amounts_of) in QUOTA_AMOUNTS.items():
        family = GaugeMetricFamily(f"usher_quota_{name}", about, labels=["quota", "resource"])
        for view in views:
            for resource, amount in sorted(amounts_of(view).items()):
                family.add_metric([view.name, resource], in_base_units(resource, amount))
        yield family
    weight = GaugeMetricFamily("usher_quota_weight", "Its part of what is shared", labels=["quota"])
    active = GaugeMetricFamily("usher_quota_active", "1: it has its place in the tree", labels=["quota"])
    for view in views:
        if view.parent or view.problem:
            weight.add_metric([view.name], view.weight)
        active.add_metric([view.name], float(not view.problem))
    yield weight
    yield active


def _queues(views: Sequence[QueueView]) -> Iterator[Metric]:
    waiting = GaugeMetricFamily("usher_queue_waiting_units", "Units that wait", labels=["queue"])
    holding = GaugeMetricFamily("usher_queue_holding_units", "Units that hold quota", labels=["queue"])
    for view in views:
        waiting.add_metric([view.key], view.waiting)
        holding.add_metric([view.key], view.holding)
    yield waiting
    yield holding
    for name, (about, amounts_of) in QUEUE_AMOUNTS.items():
        family = GaugeMetricFamily(f"usher_queue_{name}", about, labels=["queue", "resource"])
        for view in views:
            for resource, amount in sorted(amounts_of(view).items()):
                family.add_metric([view.key, resource], in_base_units(resource, amount))
        yield family


def _counted(numbers: Numbers) -> Iterator[Metric]:
    admissions = CounterMetricFamily("usher_admissions", "Units that were admitted", labels=["queue"])
    for queue, count in sorted(numbers.admissions.items()):
        admissions.add_metric([queue], count)
    yield admissions
    evictions = CounterMetricFamily("usher_evictions", "Units that had to give back", labels=["queue", "cause"])
    for (queue, cause), count in sorted(numbers.evictions.items()):
        evictions.add_metric([queue, cause], count)
    yield evictions
    finished = CounterMetricFamily("usher_finished", "Units whose job ended", labels=["queue", "phase"])
    for (queue, phase), count in sorted(numbers.finished.items()):
        finished.add_metric([queue, phase], count)
    yield finished
    commands = CounterMetricFamily("usher_commands", "What the engine wanted done", labels=["command"])
    for command, count in sorted(numbers.commands.items()):
        commands.add_metric([command], count)
    yield commands
    yield _histograms("usher_admission_wait_seconds", "From being queued to being admitted", "queue", numbers.waits)
    yield _histograms("usher_start_wait_seconds", "From being admitted to all pods ready", "queue", numbers.starts)
    yield _histogram("usher_decision_duration_seconds", "What one batch took the engine", numbers.decisions)
    yield _histogram("usher_decision_events", "How many events a batch had", numbers.batches)


def _loop(watched: Watched) -> Iterator[Metric]:
    numbers = watched.numbers
    requests = CounterMetricFamily(
        "rest_client_requests", "Requests to the API server", labels=["code", "method", "resource"]
    )
    for (method, resource, code), count in sorted(numbers.requests.items()):
        requests.add_metric([str(code) if code else "<error>", method, resource], count)
    yield requests
    yield _histograms("rest_client_request_duration_seconds", "What requests took", "verb", numbers.request_seconds)
    reviews = CounterMetricFamily(
        "usher_reviews", "Questions of the API server at the doors", labels=["question", "resource", "answer"]
    )
    for (question, resource, answer), count in sorted(numbers.reviews.items()):
        reviews.add_metric([question, resource, answer], count)
    yield reviews
    yield _histograms("usher_review_duration_seconds", "What an answer took", "question", numbers.review_seconds)
    waiting = GaugeMetricFamily("usher_writes_waiting", "Writes that wait to be sent", labels=["urgency"])
    for urgency, count in sorted(watched.writes_waiting().items()):
        waiting.add_metric([urgency], count)
    yield waiting
    yield GaugeMetricFamily("usher_writes_in_flight", "Writes under way", value=watched.writes_in_flight())
    yield CounterMetricFamily("usher_events_dropped", "Events that were not written", value=numbers.events_dropped)
    yield _histogram("usher_loop_lag_seconds", "How late the event loop was", numbers.lag)
    ages = GaugeMetricFamily("usher_watch_age_seconds", "Since a watch was last heard of", labels=["resource"])
    for resource, age in sorted(watched.watch_ages().items()):
        ages.add_metric([resource], age)
    yield ages
    problems = CounterMetricFamily("usher_watch_problems", "How often a watch failed", labels=["resource"])
    for resource, count in sorted(numbers.watch_problems.items()):
        problems.add_metric([resource], count)
    yield problems
    leading = GaugeMetricFamily("leader_election_master_status", "1: this one leads", labels=["name"])
    leading.add_metric([watched.lease], float(watched.leading()))
    yield leading
    yield GaugeMetricFamily("usher_engine_problems", "Plug-ins that were disabled", value=len(watched.problems()))


def _histograms(name: str, about: str, label: str, by_key: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(name, about, labels=[label])
    for key, histogram in sorted(by_key.items()):
        family.add_metric([key], _buckets(histogram), histogram.total)
    return family


def _histogram(name: str, about: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(name, about, buckets=_buckets(histogram), sum_value=histogram.total)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    total = 0
    found: list[tuple[str, float]] = []
    for bound, count in zip((*map(repr, histogram.bounds), "+Inf"), histogram.counts, strict=True):
        total += count
        found.append((bound, total))
    return found
