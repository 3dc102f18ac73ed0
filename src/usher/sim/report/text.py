"""Runs as text for a terminal: a summary, a table per quota, queue and tenant, what waits and why, and a timeline.

Long lists are cut, and say how much was cut.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from usher.core import events as e
from usher.core.amounts import Amounts, format_amount
from usher.core.durations import format_ms
from usher.core.model import ROOT
from usher.sim import records as r
from usher.sim.fairness import Shares
from usher.sim.outcome import Outcome, UnitRow, Waits

ROWS_MAX: Final = 30
WAITING_MAX: Final = 10
WIDTH: Final = 110

_VERBS: Final = {
    r.ARRIVED: "arrives",
    r.RESERVED: "reserved, checks are asked",
    r.ADMITTED: "admitted",
    r.GREW: "grows",
    r.SHRANK: "shrinks",
    r.EVICTED: "evicted",
    r.FINISHED: "finished",
    r.FAILED: "failed",
    r.LEFT: "deleted",
}


def render(outcomes: Sequence[Outcome], timeline: int) -> str:
    """The report of one run, or the comparison of several."""
    blocks = _one(outcomes[0], timeline) if len(outcomes) == 1 else _compared(outcomes)
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks if block) + "\n"


def table(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Rows as aligned lines; the columns in `right` are flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def shown(amounts: Amounts) -> str:
    """Amounts on one line, without zeros."""
    parts = [f"{name} {format_amount(name, amounts[name])}" for name in sorted(amounts) if amounts[name]]
    return ", ".join(parts) or "-"


def means(amounts: Mapping[str, float]) -> str:
    """Mean amounts on one line, in what people count: cores, GiB, devices."""
    parts = []
    for name in sorted(amounts):
        value = amounts[name] / 1000 if name == "cpu" else amounts[name]
        unit = ""
        if name in ("memory", "ephemeral-storage"):
            value, unit = value / 2**30, "Gi"
        parts.append(f"{name} {value:.1f}{unit}")
    return ", ".join(parts) or "-"


def _one(outcome: Outcome, timeline: int) -> list[list[str]]:
    return [
        _headline(outcome),
        _quotas(outcome),
        _queues(outcome),
        _tenants(outcome),
        _waiting(outcome),
        _timeline(outcome, timeline),
    ]


def _headline(outcome: Outcome) -> list[str]:
    summary = outcome.summary
    counts = {
        "finished": summary.finished - summary.failed,
        "failed": summary.failed,
        "running": summary.running,
        "waiting": summary.waiting,
        "deleted": summary.left,
        "still to come": summary.coming,
    }
    said = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    lines = [
        f"{_counted(summary.units, 'unit')} in {format_ms(summary.end_ms)}, share policy {outcome.label}: "
        f"{said or 'none'}; "
        f"{_counted(summary.evictions, 'eviction')}, {_counted(summary.decisions, 'decision')}"
    ]
    if summary.stalled:
        lines.append("Stopped: nothing but retries was left to happen.")
    used = ", ".join(f"{resource} {part:.1%}" for resource, part in summary.utilisation.items())
    rows = [
        ["  wait", _waits(summary.waits)],
        ["  used", used or "-"],
        ["  fairness", f"{summary.fairness:.3f}"],
        ["  shares", shares_line(outcome.shares)],
        ["  evictions", f"{summary.evictions_per_hour:.2f} per hour"],
        ["  makespan", format_ms(summary.makespan_ms) if summary.finished else "-"],
    ]
    return lines + table(rows)


def _waits(waits: Waits) -> str:
    return (
        f"mean {format_ms(waits.mean)}, p50 {format_ms(waits.p50)}, p95 {format_ms(waits.p95)}, "
        f"p99 {format_ms(waits.p99)}, max {format_ms(waits.max)}"
    )


def shares_line(shares: Shares) -> str:
    """How near the dominant shares were to exact DRF, on one line."""
    if shares.gap is None:
        return "-"
    index = "" if shares.jain is None else f"Jain {shares.jain:.3f} (exact DRF {_index(shares.jain_exact)}), "
    return f"{index}{shares.gap:.1%} of the cluster off exact DRF"


def _index(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _quotas(outcome: Outcome) -> list[str]:
    depth: dict[str, int] = {}
    rows = [["QUOTA", "WEIGHT", "DESERVED", "USED", "MIN", "MAX"]]
    for view in outcome.quotas[: ROWS_MAX + 1]:
        depth[view.name] = depth.get(view.parent, -1) + 1 if view.name != ROOT else 0
        indent = "  " * depth[view.name]
        name = f"{indent}{view.name}" + (f"  ({view.problem})" if view.problem else "")
        weight = "" if view.name == ROOT else str(view.weight)
        rows.append([name, weight, shown(view.deserved), shown(view.used), shown(view.min), shown(view.max)])
    return table(rows, frozenset({1})) + _more(len(outcome.quotas) - ROWS_MAX - 1, "quotas")


def _queues(outcome: Outcome) -> list[str]:
    if not outcome.queues:
        return []
    rows = [["QUEUE", "POLICY", "WAITING", "HOLDING", "ALLOCATED"]]
    for view in outcome.queues[:ROWS_MAX]:
        name = view.key + (f"  ({view.problem})" if view.problem else "")
        allocated = shown(outcome.allocated[view.key])
        rows.append([name, view.policy, f"{view.waiting:,}", f"{view.holding:,}", allocated])
    return table(rows, frozenset({2, 3})) + _more(len(outcome.queues) - ROWS_MAX, "queues")


def _tenants(outcome: Outcome) -> list[str]:
    head = ["TENANT", "UNITS", "FINISHED", "EVICTIONS", "WAIT MEAN", "P50", "P95", "SERVED", "SHARE", "EXACT"]
    rows = [[*head, "USED (MEAN)"]]
    for row in sorted(outcome.tenants, key=lambda each: -each.units)[:ROWS_MAX]:
        waits = (row.waits.mean, row.waits.p50, row.waits.p95)
        shares = outcome.shares.tenants.get(row.name)
        rows.append(
            [
                row.name or "(none)",
                f"{row.units:,}",
                f"{row.finished:,}",
                f"{row.evictions:,}",
                *(format_ms(wait) for wait in waits),
                f"{row.service:.0%}",
                _part(shares.used if shares else None),
                _part(shares.exact if shares else None),
                means(row.used),
            ]
        )
    if len(rows) == 1:
        return []
    return table(rows, frozenset(range(1, 10))) + _more(len(outcome.tenants) - ROWS_MAX, "tenants")


def _waiting(outcome: Outcome) -> list[str]:
    waiting = [
        index for index, (phase, _, _, _) in outcome.states.items() if phase.value not in ("Running", "Dequeued")
    ]
    if not waiting:
        return []
    lines = [f"NOT ADMITTED ({len(waiting):,})"]
    for index in waiting[:WAITING_MAX]:
        row = outcome.unit(index)
        key = f"{row.namespace}/{row.name}"
        text = f"{key}  {row.phase or 'new'}: {row.message.removeprefix(f'{key} is ')}"
        lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)
    return lines + _more(len(waiting) - WAITING_MAX, "units")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _timeline(outcome: Outcome, count: int) -> list[str]:
    if count <= 0:
        return []
    total = outcome.simulation.records.lines_count
    rows = [_line(outcome, line) for line in islice(outcome.simulation.records.lines(), count)]
    if not rows:
        return []
    return ["TIMELINE", *table(rows, frozenset({0})), *_more(total - count, "events (--timeline N shows more)")]


def _line(outcome: Outcome, line: r.Line) -> list[str]:
    at = f"  {format_ms(line.at_ms)}"
    if line.what == r.HAPPENED:
        return [at, *_happening(outcome.simulation.scenario.happenings[line.index][1])]
    row: UnitRow = outcome.unit(line.index)
    verb = _VERBS[line.what]
    if line.what == r.ADMITTED:
        verb = f"{verb} ({row.quota})" if row.quota else verb
    elif line.cause is not None:
        verb = f"{verb}: {line.cause.value}{f', for {line.by}' if line.by else ''}"
    return [at, f"{row.namespace}/{row.name}", verb]


def _happening(event: e.Event) -> tuple[str, str]:
    match event:
        case e.CapacityChanged(amounts):
            return "capacity", shown(amounts)
        case e.QuotaChanged(quota):
            return quota.name, "quota"
        case e.QueueChanged(queue):
            return queue.key, f"queue, {queue.policy}"
        case e.QuotaGone(name):
            return name, "quota deleted"
        case e.QueueGone(key):
            return key, "queue deleted"
        case _:
            return "", type(event).__name__


def _compared(outcomes: Sequence[Outcome]) -> list[list[str]]:
    rows = [["", *(outcome.label for outcome in outcomes)]]
    rows += [[name, *values] for name, values in _metrics(outcomes)]
    right = frozenset(range(1, len(outcomes) + 1))
    names = {row.name: -row.units for outcome in outcomes for row in outcome.tenants}
    by_size = sorted(names, key=lambda name: (names[name], name))
    tenants = [["WAIT P50 / P95, SERVED", *(outcome.label for outcome in outcomes)]]
    tenants += [
        [f"  {name or '(none)'}", *(_tenant_cell(outcome, name) for outcome in outcomes)] for name in by_size[:ROWS_MAX]
    ]
    cut = _more(len(by_size) - ROWS_MAX, "tenants")
    shares = [["DOMINANT SHARE / EXACT DRF", *(outcome.label for outcome in outcomes)]]
    shares += [[f"  {name}", *(shares_cell(outcome, name) for outcome in outcomes)] for name in by_size[:ROWS_MAX]]
    return [table(rows, right), table(tenants, right) + cut, table(shares, right) + cut, _deserved(outcomes)]


def _metrics(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, list[str]]]:
    summaries = [outcome.summary for outcome in outcomes]
    yield "units", [f"{each.units:,}" for each in summaries]
    yield "finished", [f"{each.finished:,}" for each in summaries]
    yield "waiting", [f"{each.waiting:,}" for each in summaries]
    yield "evictions", [f"{each.evictions:,}" for each in summaries]
    yield "decisions", [f"{each.decisions:,}" for each in summaries]
    yield "makespan", [format_ms(each.makespan_ms) if each.finished else "-" for each in summaries]
    for name in ("mean", "p50", "p95", "p99", "max"):
        yield f"wait {name}", [format_ms(getattr(each.waits, name)) for each in summaries]
    for resource in sorted({resource for each in summaries for resource in each.utilisation}):
        yield f"used {resource}", [f"{each.utilisation.get(resource, 0):.1%}" for each in summaries]
    yield "fairness", [f"{each.fairness:.3f}" for each in summaries]
    yield from shares_metrics(outcomes)


def shares_metrics(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, list[str]]]:
    """What comparisons say of shares."""
    shares = [outcome.shares for outcome in outcomes]
    yield "evictions per hour", [f"{outcome.summary.evictions_per_hour:.2f}" for outcome in outcomes]
    yield "Jain of shares", [_index(each.jain) for each in shares]
    yield "Jain of exact DRF", [_index(each.jain_exact) for each in shares]
    yield "off exact DRF", [_part(each.gap) for each in shares]


def shares_cell(outcome: Outcome, name: str) -> str:
    """A tenant's dominant share beside the exact one, both over the time in which it had demand."""
    shares = outcome.shares.tenants.get(name)
    return f"{_part(shares.used)} / {_part(shares.exact)}" if shares else "-"


def _tenant_cell(outcome: Outcome, name: str) -> str:
    for row in outcome.tenants:
        if row.name == name:
            return f"{format_ms(row.waits.p50)} / {format_ms(row.waits.p95)}, {row.service:.0%}"
    return "-"


def _deserved(outcomes: Sequence[Outcome]) -> list[str]:
    """Deserved at the end, where a run was stopped while somebody deserved something."""
    views: list[Mapping[str, str]] = [
        {view.name: shown(view.deserved) for view in outcome.quotas if view.name != ROOT} for outcome in outcomes
    ]
    names = [name for name in views[0] if any(view.get(name, "-") != "-" for view in views)]
    if not names:
        return []
    rows = [["DESERVED AT THE END", *(outcome.label for outcome in outcomes)]]
    rows += [[f"  {name}", *(view.get(name, "-") for view in views)] for name in names[:ROWS_MAX]]
    return table(rows) + _more(len(names) - ROWS_MAX, "quotas")


def _more(count: int, what: str) -> list[str]:
    return [f"  … and {count:,} more {what}"] if count > 0 else []


def lines_of(notes: Iterable[str]) -> str:
    """Notes for standard error."""
    return "".join(f"note: {note}\n" for note in notes)
