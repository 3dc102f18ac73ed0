"""A finished run as rows and numbers: what every report shows, computed once.

Definitions (docs/simulate.md has them for users): a unit *waits* from its arrival, or from when its pods are gone after
an eviction, until it is admitted. *Utilisation* is what admitted units held over what the nodes offered, both over
time. A *tenant* is the quota that a unit is charged to. *Fairness* is Jain's index over tenants of the part of their
units' time that was spent running: 1 if all are served alike, 1/n if one has everything. How fairly resources were
shared at each moment is in `sim.fairness`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from usher.core.amounts import Amounts
from usher.core.durations import format_ms
from usher.core.events import CapacityChanged
from usher.core.phases import HOLDING, Phase
from usher.core.views import QueueView, QuotaView
from usher.sim import records as r
from usher.sim.cluster import Simulation
from usher.sim.fairness import Shares, jain, measure

HOUR_MS: Final = 3_600_000
EXPLAINED_MAX: Final = 10_000
"""More units than this that have not ended are reported without a message."""


@dataclass(frozen=True, slots=True)
class UnitRow:
    """One unit as reports show it."""

    namespace: str
    name: str
    queue: str
    quota: str
    arrived_ms: int
    admitted_ms: int | None
    finished_ms: int | None
    phase: str
    evictions: int
    wait_ms: int
    message: str


@dataclass(frozen=True, slots=True)
class Waits:
    """Waiting times in milliseconds."""

    mean: int = 0
    p50: int = 0
    p95: int = 0
    p99: int = 0
    max: int = 0


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One tenant as reports show it."""

    name: str
    units: int
    finished: int
    evictions: int
    waits: Waits
    service: float
    """The part of its units' time that was spent running."""
    used: Mapping[str, float]
    """Mean amount of each resource, over the whole run."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The run in numbers."""

    units: int
    finished: int
    failed: int
    running: int
    waiting: int
    coming: int
    left: int
    evictions: int
    shrinks: int
    decisions: int
    end_ms: int
    makespan_ms: int
    waits: Waits
    utilisation: Mapping[str, float]
    fairness: float
    stalled: bool
    problems: Sequence[str]
    """Plug-ins that were disabled, and why."""

    @property
    def evictions_per_hour(self) -> float:
        return self.evictions * HOUR_MS / self.end_ms if self.end_ms else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that reports need; `simulation` has the rest."""

    share: str
    settings: Mapping[str, str]
    """What `--set` changed."""
    summary: Summary
    tenants: Sequence[TenantRow]
    quotas: Sequence[QuotaView]
    queues: Sequence[QueueView]
    allocated: Mapping[str, Amounts]
    """By Queue: what its units use, or what it has of its own request."""
    shares: Shares
    simulation: Simulation
    states: Mapping[int, tuple[Phase, str, str, str]] = field(repr=False)
    """Of units that have not ended: phase, queue, quota, message."""

    @property
    def label(self) -> str:
        """Which run this is, among others."""
        return " ".join([self.share, *(f"{key}={value}" for key, value in self.settings.items())])

    def units(self) -> Iterator[UnitRow]:
        """Every unit, in the order of arrival."""
        for index in range(len(self.simulation.scenario.works)):
            yield self.unit(index)

    def unit(self, index: int) -> UnitRow:
        """One unit, by its place in the order of arrival."""
        records, work = self.simulation.records, self.simulation.scenario.works[index]
        unit = work.unit
        phase, queue, quota, message = self.states.get(index, (Phase.NEW, "", "", ""))
        if records.finished[index] != r.NEVER:
            phase = Phase.FAILED if work.fails else Phase.SUCCEED
        elif records.left[index] != r.NEVER:
            phase = self.simulation.phases_left[index]
            message = f"deleted at {format_ms(records.left[index])}"
        elif index not in self.states:
            message = f"arrives at {format_ms(unit.created_ms)}" if unit.created_ms > self.summary.end_ms else ""
        return UnitRow(
            namespace=unit.namespace,
            name=work.name or unit.name,
            queue=unit.queue or queue.rpartition("/")[2],
            quota=records.quota[index] or unit.quota or quota,
            arrived_ms=unit.created_ms,
            admitted_ms=_or_none(records.admitted[index]),
            finished_ms=_or_none(records.finished[index]),
            phase=phase.value,
            evictions=records.evictions[index],
            wait_ms=records.waited[index],
            message=message,
        )


def outcome(simulation: Simulation, share: str, settings: Mapping[str, str]) -> Outcome:
    """What a run that is over came to."""
    states = _states(simulation)
    tenants = _tenants(simulation, states)
    engine, queues = simulation.engine, simulation.engine.queues()
    return Outcome(
        share=share,
        settings=dict(settings),
        summary=_summary(simulation, states, tenants),
        tenants=tenants,
        quotas=engine.quotas(),
        queues=[simulation.requests.shown(view, engine.unit) for view in queues],
        allocated={view.key: view.used for view in queues},
        shares=measure(simulation.samples, simulation.end_ms),
        simulation=simulation,
        states=states,
    )


def waits_of(values: Sequence[int]) -> Waits:
    """Mean, nearest-rank percentiles and maximum."""
    if not values:
        return Waits()
    ordered = sorted(values)

    def at(percent: int) -> int:
        return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]

    return Waits(round(sum(ordered) / len(ordered)), at(50), at(95), at(99), ordered[-1])


def _states(simulation: Simulation) -> dict[int, tuple[Phase, str, str, str]]:
    """How every unit that came and has not ended stands, and why."""
    records, engine = simulation.records, simulation.engine
    found: dict[int, tuple[Phase, str, str, str]] = {}
    for index, work in enumerate(simulation.scenario.works):
        if not _is_there(records, index):
            continue
        view = engine.unit(work.unit.key)
        if view is None:
            continue
        explained = engine.explain(work.unit.key) if len(found) < EXPLAINED_MAX else None
        found[index] = (view.phase, view.queue, view.quota, explained.text() if explained else "")
    return found


def _is_there(records: r.Records, index: int) -> bool:
    ended = records.finished[index] != r.NEVER or records.left[index] != r.NEVER
    return not ended and (records.waiting_since[index] != r.NEVER or records.running_since[index] != r.NEVER)


def _tenants(simulation: Simulation, states: Mapping[int, tuple[Phase, str, str, str]]) -> list[TenantRow]:
    records, end_ms = simulation.records, max(1, simulation.end_ms)
    for index, (_, _, quota, _) in states.items():
        records.quota[index] = records.quota[index] or quota
    return [
        TenantRow(
            name=name,
            units=tenant.units,
            finished=tenant.finished,
            evictions=tenant.evictions,
            waits=waits_of(tenant.waits),
            service=tenant.ran_ms / (tenant.ran_ms + tenant.waited_ms) if tenant.ran_ms + tenant.waited_ms else 1.0,
            used={resource: amount_ms / end_ms for resource, amount_ms in sorted(tenant.used.items())},
        )
        for name, tenant in records.tenants().items()
    ]


def _summary(
    simulation: Simulation, states: Mapping[int, tuple[Phase, str, str, str]], tenants: Sequence[TenantRow]
) -> Summary:
    records, works = simulation.records, simulation.scenario.works
    finished = sum(at != r.NEVER for at in records.finished)
    left = sum(at != r.NEVER for at in records.left)
    running = sum(phase in HOLDING for phase, _, _, _ in states.values())
    coming = len(works) - finished - left - len(states)
    waited = records.waited if not coming else [records.waited[i] for i in range(len(works)) if _came(records, i)]
    return Summary(
        units=len(works),
        finished=finished,
        failed=sum(work.fails and records.finished[index] != r.NEVER for index, work in enumerate(works)),
        running=running,
        waiting=len(states) - running,
        coming=coming,
        left=left,
        evictions=sum(records.evictions),
        shrinks=records.shrinks,
        decisions=records.decisions,
        end_ms=simulation.end_ms,
        makespan_ms=max(records.finished, default=0) if finished else 0,
        waits=waits_of(waited),
        utilisation=_utilisation(simulation),
        fairness=jain([tenant.service for tenant in tenants]),
        stalled=simulation.stalled,
        problems=tuple(simulation.engine.problems()),
    )


def _came(records: r.Records, index: int) -> bool:
    return _is_there(records, index) or records.finished[index] != r.NEVER or records.left[index] != r.NEVER


def _utilisation(simulation: Simulation) -> dict[str, float]:
    offered: dict[str, int] = {}
    changes = [
        (at, event.amounts) for at, event in simulation.scenario.happenings if isinstance(event, CapacityChanged)
    ]
    for (at_ms, amounts), (next_ms, _) in zip(changes, [*changes[1:], (simulation.end_ms, {})], strict=True):
        for resource, amount in amounts.items():
            offered[resource] = offered.get(resource, 0) + amount * max(0, min(next_ms, simulation.end_ms) - at_ms)
    used: dict[str, int] = {}
    for amounts_ms in simulation.records.used.values():
        for resource, amount_ms in amounts_ms.items():
            used[resource] = used.get(resource, 0) + amount_ms
    return {resource: used[resource] / offered[resource] for resource in sorted(used) if offered.get(resource)}


def _or_none(at_ms: int) -> int | None:
    return None if at_ms == r.NEVER else at_ms
