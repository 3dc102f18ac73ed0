"""Runs as JSON. The schema is stable and documented in docs/simulate.md: fields are added, never renamed or removed.

One unit is one line, written as it is made: 200,000 units do not become one object in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from usher.core.amounts import Amounts, format_amounts
from usher.core.views import QueueView, QuotaView
from usher.sim.fairness import Shares, TenantShares
from usher.sim.outcome import Outcome, Summary, TenantRow, UnitRow, Waits


def render(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The text of one run, or of `{"runs": […]}` if there are several, in pieces."""
    if len(outcomes) == 1:
        yield from _run(outcomes[0], "")
    else:
        yield '{\n"runs": [\n'
        for number, outcome in enumerate(outcomes):
            lead = f'"share": {json.dumps(outcome.share)},\n"set": {json.dumps(outcome.settings)},\n'
            yield from _run(outcome, lead)
            yield ",\n" if number + 1 < len(outcomes) else "\n"
        yield "]\n}"
    yield "\n"


def _run(outcome: Outcome, lead: str) -> Iterator[str]:
    yield f'{{\n{lead}"units": '
    yield from _list(unit_of(row) for row in outcome.units())
    yield ',\n"queues": '
    yield from _list(queue_of(view, outcome.allocated[view.key]) for view in outcome.queues)
    yield ',\n"quotas": '
    yield from _list(quota_of(view) for view in outcome.quotas)
    yield ',\n"tenants": '
    yield from _list(tenant_of(row, outcome.shares.tenants.get(row.name)) for row in outcome.tenants)
    yield f',\n"summary": {json.dumps(summary_of(outcome.summary, outcome.share, outcome.shares))}'
    yield f',\n"shares": {json.dumps(shares_of(outcome.shares))}\n}}'


def _list(items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    lead = "[\n"
    for item in items:
        yield f"{lead}{json.dumps(item)}"
        lead = ",\n"
    yield "[]" if lead == "[\n" else "\n]"


def unit_of(row: UnitRow) -> dict[str, Any]:
    return {
        "namespace": row.namespace,
        "name": row.name,
        "queue": row.queue,
        "quota": row.quota,
        "arrived_s": seconds(row.arrived_ms),
        "admitted_s": None if row.admitted_ms is None else seconds(row.admitted_ms),
        "finished_s": None if row.finished_ms is None else seconds(row.finished_ms),
        "phase": row.phase,
        "evictions": row.evictions,
        "wait_s": seconds(row.wait_ms),
        "message": row.message,
    }


def queue_of(view: QueueView, allocated: Amounts) -> dict[str, Any]:
    namespace, _, name = view.key.rpartition("/")
    return {
        "namespace": namespace,
        "name": name,
        "policy": view.policy,
        "waiting": view.waiting,
        "holding": view.holding,
        "deserved": format_amounts(view.deserved),
        "used": format_amounts(view.used),
        "preempting": format_amounts(view.preempting),
        "message": view.problem,
        "allocated": format_amounts(allocated),
    }


def quota_of(view: QuotaView) -> dict[str, Any]:
    return {
        "name": view.name,
        "parent": view.parent,
        "weight": view.weight,
        "lendable": view.lends,
        "deserved": format_amounts(view.deserved),
        "used": format_amounts(view.used),
        "min": format_amounts(view.min),
        "max": format_amounts(view.max),
        "preempting": format_amounts(view.preempting),
        "demand": format_amounts(view.demand),
        "message": view.problem,
    }


def tenant_of(row: TenantRow, shares: TenantShares | None) -> dict[str, Any]:
    return {
        "name": row.name,
        "units": row.units,
        "finished": row.finished,
        "evictions": row.evictions,
        "wait_s": _waits(row.waits),
        "service": round(row.service, 4),
        "used_mean": format_amounts({resource: round(mean) for resource, mean in row.used.items()}),
        "dominant_share": None
        if shares is None
        else {
            "mean": round(shares.used, 4),
            "exact": round(shares.exact, 4),
            "below": round(shares.below, 4),
            "above": round(shares.above, 4),
            "asking_s": seconds(shares.ms),
        },
    }


def summary_of(summary: Summary, share: str, shares: Shares) -> dict[str, Any]:
    return {
        "share": share,
        "units": summary.units,
        "finished": summary.finished,
        "failed": summary.failed,
        "running": summary.running,
        "waiting": summary.waiting,
        "coming": summary.coming,
        "left": summary.left,
        "evictions": summary.evictions,
        "shrinks": summary.shrinks,
        "decisions": summary.decisions,
        "end_s": seconds(summary.end_ms),
        "makespan_s": seconds(summary.makespan_ms),
        "wait_s": _waits(summary.waits),
        "utilisation": {resource: round(part, 4) for resource, part in summary.utilisation.items()},
        "fairness": round(summary.fairness, 4),
        "stalled": summary.stalled,
        "problems": list(summary.problems),
        "evictions_per_hour": round(summary.evictions_per_hour, 4),
        "jain": _rounded(shares.jain),
        "jain_exact": _rounded(shares.jain_exact),
        "drf_gap": _rounded(shares.gap),
    }


def shares_of(shares: Shares) -> dict[str, Any]:
    """Dominant shares over time: columns, each value holds until the next moment; null: no demand."""
    moments = shares.moments

    def column(name: str, field: str) -> list[float | None]:
        found = (each.shares.get(name) for each in moments)
        return [None if share is None else round(getattr(share, field), 4) for share in found]

    return {
        "at_s": [seconds(each.at_ms) for each in moments],
        "jain": [_rounded(each.jain) for each in moments],
        "jain_exact": [_rounded(each.jain_exact) for each in moments],
        "tenants": [
            {"name": name, "share": column(name, "used"), "exact": column(name, "exact")} for name in shares.tenants
        ],
    }


def seconds(ms: int) -> int | float:
    """Seconds, whole where they are."""
    return ms / 1000 if ms % 1000 else ms // 1000


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _waits(waits: Waits) -> dict[str, Any]:
    return {
        "mean": seconds(waits.mean),
        "p50": seconds(waits.p50),
        "p95": seconds(waits.p95),
        "p99": seconds(waits.p99),
        "max": seconds(waits.max),
    }
