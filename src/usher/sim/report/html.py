"""Runs as one HTML page that needs nothing else: numbers, usage against deserved, shares against exact DRF, waits, a
timeline, tables.

Big runs are thinned out (fewer moments, the units that took longest, the largest quotas), so that the page stays below
2 MB; it says where. Called by the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Final

from usher.core.amounts import Amounts, format_amounts
from usher.core.durations import format_ms
from usher.core.model import ROOT
from usher.sim.outcome import Outcome
from usher.sim.report import charts, sharecharts
from usher.sim.report.text import means, shares_cell, shares_metrics

ROWS_MAX: Final = 40
MESSAGES_MAX: Final = 40
RUNS_DRAWN_MAX: Final = 6
"""Runs beyond this are in the comparison only."""


def render(outcomes: Sequence[Outcome]) -> str:
    """The page."""
    style = files("usher.sim.report").joinpath("style.css").read_text(encoding="utf-8")
    several = len(outcomes) > 1
    body = [_comparison(outcomes)] if several else []
    detail = charts.Detail.of(min(len(outcomes), RUNS_DRAWN_MAX))
    body += [_run(outcome, detail, titled=several) for outcome in outcomes[:RUNS_DRAWN_MAX]]
    title = "Usher simulation: " + (" against ".join(each.label for each in outcomes) if several else outcomes[0].label)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{style}</style></head>'
        f"<body><main><h1>{escape(title)}</h1>{''.join(body)}</main></body></html>\n"
    )


def _run(outcome: Outcome, detail: charts.Detail, titled: bool) -> str:
    parts = [f"<h2>{escape(outcome.label)}</h2>"] if titled else []
    parts.append(_tiles(outcome))
    parts.append(_section("Usage by quota", charts.usage(outcome, detail)))
    parts.append(_section("Used against deserved", charts.deserved(outcome, detail)))
    parts.append(_section("Dominant shares against exact DRF", sharecharts.shares(outcome, detail)))
    parts.append(_section("Jain's index of the dominant shares", sharecharts.index(outcome, detail)))
    parts.append(_section("Evictions per hour", sharecharts.evictions(outcome)))
    parts.append(_section("Waiting times", charts.waits(outcome)))
    parts.append(_section("Timeline of units", charts.timeline(outcome, detail)))
    parts.append(_section("Tenants", _tenants(outcome)))
    parts.append(_section("Quotas at the end", _quotas(outcome)))
    parts.append(_section("Not admitted at the end", _waiting(outcome)))
    return "".join(parts)


def _section(title: str, content: str) -> str:
    return f"<section><h3>{escape(title)}</h3>{content}</section>" if content else ""


def _tiles(outcome: Outcome) -> str:
    summary = outcome.summary
    tiles = [
        ("units", f"{summary.units:,}"),
        ("finished", f"{summary.finished:,}"),
        ("waiting", f"{summary.waiting:,}"),
        ("evictions", f"{summary.evictions:,}"),
        ("evictions per hour", f"{summary.evictions_per_hour:.2f}"),
        ("makespan", format_ms(summary.makespan_ms)),
        ("wait p50", format_ms(summary.waits.p50)),
        ("wait p95", format_ms(summary.waits.p95)),
        ("fairness", f"{summary.fairness:.3f}"),
    ]
    shares = outcome.shares
    if shares.jain is not None and shares.jain_exact is not None:
        tiles += [("Jain of shares", f"{shares.jain:.3f}"), ("Jain of exact DRF", f"{shares.jain_exact:.3f}")]
    tiles += [("off exact DRF", f"{shares.gap:.1%}")] if shares.gap is not None else []
    tiles += [(f"{name} used", f"{part:.1%}") for name, part in list(summary.utilisation.items())[:4]]
    cells = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in tiles)
    note = "<p>Stopped: nothing but retries was left to happen.</p>" if summary.stalled else ""
    note += "".join(f"<p>{escape(problem)}</p>" for problem in summary.problems)
    return f'<div class="tiles">{cells}</div>{note}'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], cut: int = 0, what: str = "") -> str:
    """Rows as a table; columns of numbers are flush right by their content."""
    if not rows:
        return ""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    more = f"<p>… and {cut:,} more {escape(what)}</p>" if cut > 0 else ""
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>{more}'


def _tenants(outcome: Outcome) -> str:
    ordered = sorted(outcome.tenants, key=lambda row: -row.units)
    rows = [
        [
            row.name or "(none)",
            f"{row.units:,}",
            f"{row.finished:,}",
            f"{row.evictions:,}",
            format_ms(row.waits.mean),
            format_ms(row.waits.p50),
            format_ms(row.waits.p95),
            f"{row.service:.0%}",
            shares_cell(outcome, row.name),
            means(row.used),
        ]
        for row in ordered[:ROWS_MAX]
    ]
    head = [
        "tenant",
        "units",
        "finished",
        "evictions",
        "wait mean",
        "p50",
        "p95",
        "served",
        "share / exact",
        "used (mean)",
    ]
    return table(head, rows, len(ordered) - ROWS_MAX, "tenants")


def _quotas(outcome: Outcome) -> str:
    rows = [
        [
            view.name,
            view.parent if view.name != ROOT else "",
            str(view.weight),
            _amounts(view.deserved),
            _amounts(view.used),
            _amounts(view.min),
            _amounts(view.max),
        ]
        for view in outcome.quotas[:ROWS_MAX]
    ]
    head = ["quota", "parent", "weight", "deserved", "used", "min", "max"]
    return table(head, rows, len(outcome.quotas) - ROWS_MAX, "quotas")


def _waiting(outcome: Outcome) -> str:
    waiting = [index for index, state in outcome.states.items() if state[0].value not in ("Running", "Dequeued")]
    found = [outcome.unit(index) for index in waiting[:MESSAGES_MAX]]
    rows = [
        [f"{row.namespace}/{row.name}", row.phase or "new", row.queue, row.quota, format_ms(row.wait_ms), row.message]
        for row in found
    ]
    return table(["unit", "phase", "queue", "quota", "waits", "why"], rows, len(waiting) - MESSAGES_MAX, "units")


def _comparison(outcomes: Sequence[Outcome]) -> str:
    summaries = [outcome.summary for outcome in outcomes]
    rows = [
        ["finished", *(f"{each.finished:,}" for each in summaries)],
        ["waiting", *(f"{each.waiting:,}" for each in summaries)],
        ["evictions", *(f"{each.evictions:,}" for each in summaries)],
        ["makespan", *(format_ms(each.makespan_ms) for each in summaries)],
        *(
            [f"wait {name}", *(format_ms(getattr(each.waits, name)) for each in summaries)]
            for name in ("mean", "p50", "p95", "p99", "max")
        ),
        *(
            [f"used {resource}", *(f"{each.utilisation.get(resource, 0):.1%}" for each in summaries)]
            for resource in sorted({name for each in summaries for name in each.utilisation})
        ),
        ["fairness", *(f"{each.fairness:.3f}" for each in summaries)],
        *([name, *values] for name, values in shares_metrics(outcomes)),
    ]
    names = sorted({name for outcome in outcomes for name in outcome.shares.tenants})
    shares = [[name, *(shares_cell(outcome, name) for outcome in outcomes)] for name in names[:ROWS_MAX]]
    head = [outcome.label for outcome in outcomes]
    beside = table(["dominant share / exact DRF", *head], shares, len(names) - ROWS_MAX, "tenants")
    return _section("Comparison", table(["", *head], rows) + beside)


def _amounts(amounts: Amounts) -> str:
    return ", ".join(f"{name} {value}" for name, value in format_amounts(amounts).items() if value != "0") or "–"
