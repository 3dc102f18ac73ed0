"""The charts of how fairly a run shared: dominant shares beside exact DRF, Jain's index, evictions per hour.

They draw what `sim.fairness` measured, at as many of its moments as `Detail` allows. Called by `report.html`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from usher.core.durations import format_ms
from usher.core.phases import BACKOFF_CAUSES
from usher.sim import records as r
from usher.sim.fairness import Moment
from usher.sim.outcome import HOUR_MS, Outcome
from usher.sim.report import svg
from usher.sim.report.charts import WIDTH, Detail, clock, legend, picked, plain

COLUMNS_MAX: Final = 100
_MINUTE: Final = 60_000
_BUCKETS_MS: Final = (
    *(minutes * _MINUTE for minutes in (1, 5, 15)),
    *(hours * HOUR_MS for hours in (1, 2, 6, 24, 7 * 24, 30 * 24)),
)


def shares(outcome: Outcome, detail: Detail) -> str:
    """For each of the tenants with the largest shares, its dominant share (filled) and the exact one (a line)."""
    moments = _drawn(outcome, detail)
    if len(moments) < 2:
        return ""
    measured = outcome.shares.tenants
    names = sorted(
        measured, key=lambda name: (-measured[name].ms * max(measured[name].used, measured[name].exact), name)
    )
    parts = []
    times = [float(moment.at_ms) for moment in moments]
    for place, name in enumerate(names[: detail.panels]):
        found = [moment.shares.get(name) for moment in moments]
        used = [share.used * 100 if share else 0.0 for share in found]
        exact = [share.exact * 100 if share else 0.0 for share in found]
        frame = svg.Frame(340, 150, _span(outcome), svg.nice_ceiling(max(*used, *exact)), left=44)
        body = svg.axes(frame, clock, _percent, y_ticks=2, x_step=svg.time_step(frame.x_max) * 2)
        body += svg.steps(frame, times, used, f"area c{place % svg.COLOURS}", f"dominant share of {name}", fill=True)
        body += svg.steps(frame, times, exact, "line due", f"exact DRF for {name}")
        mean = measured[name]
        said = f"{mean.used:.1%}, exact {mean.exact:.1%}"
        parts.append(f"<figure><figcaption>{escape(name)} <small>{said} while it asked</small></figcaption>")
        parts.append(svg.chart(frame, body, f"dominant share of {name} beside exact DRF") + "</figure>")
    cut = len(names) - detail.panels
    note = f"<p>The {detail.panels} largest of {len(names):,} tenants.</p>" if cut > 0 else ""
    note += (
        "<p>Exact DRF is what a perfectly divisible cluster would give for the demand of that moment "
        "(weights, min and max included).</p>"
    )
    return legend([("dominant share", "c0"), ("exact DRF", "due")]) + f'<div class="grid3">{"".join(parts)}</div>{note}'


def index(outcome: Outcome, detail: Detail) -> str:
    """Jain's index over time, and that of exact DRF, where there was anybody to compare."""
    moments = _drawn(outcome, detail)
    if outcome.shares.jain is None or len(moments) < 2:
        return ""
    frame = svg.Frame(WIDTH, 160, _span(outcome), 1.0)
    body = svg.axes(frame, clock, lambda value: f"{value:.2f}")
    for field, css, title in (("jain", "line c0", "Jain's index"), ("jain_exact", "line due", "of exact DRF")):
        values = [getattr(moment, field) for moment in moments]
        for first, last in _known(values):
            times = [float(moment.at_ms) for moment in moments[first:last]]
            end = float(moments[last].at_ms) if last < len(moments) else frame.x_max
            body += svg.steps(frame, times, values[first:last], css, title, end=end)
    lines = legend([("Jain's index of the dominant shares", "c0"), ("of exact DRF", "due")])
    return lines + "<figure>" + svg.chart(frame, body, "Jain's index over time") + "</figure>"


def evictions(outcome: Outcome) -> str:
    """Evictions per hour over time."""
    end = outcome.simulation.end_ms
    if not outcome.summary.evictions or not end:
        return ""
    bucket = next((each for each in _BUCKETS_MS if end / each <= COLUMNS_MAX), end // COLUMNS_MAX + 1)
    counts = [0] * (end // bucket + 1)
    for line in outcome.simulation.records.lines():
        if line.what == r.EVICTED and line.cause not in BACKOFF_CAUSES:
            counts[line.at_ms // bucket] += 1
    if not counts[-1] and len(counts) > 1:
        counts.pop()  # nothing in the instant at which the run ended
    step = max(1, round(svg.time_step(float(end)) / bucket))
    labels = [format_ms(place * bucket) if place % step == 0 else "" for place in range(len(counts))]
    titles = [f"{n:,} from {format_ms(p * bucket)} to {format_ms((p + 1) * bucket)}" for p, n in enumerate(counts)]
    rates = [count * HOUR_MS / bucket for count in counts]
    frame = svg.Frame(WIDTH, 160, 1.0, svg.nice_ceiling(max(rates)))
    body = svg.axes(frame, lambda _: "", plain, x_step=2.0)
    body += svg.columns(frame, rates, labels, titles, "bar c1")
    return "<figure>" + svg.chart(frame, body, "evictions per hour over time") + "</figure>"


def _drawn(outcome: Outcome, detail: Detail) -> list[Moment]:
    moments = outcome.shares.moments
    return [moments[place] for place in picked(len(moments), detail.points)]


def _known(values: Sequence[float | None]) -> Iterator[tuple[int, int]]:
    """Where values are known without a break: first, and one behind the last."""
    first = None
    for place, value in enumerate([*values, None]):
        if value is not None and first is None:
            first = place
        elif value is None and first is not None:
            yield first, place
            first = None


def _span(outcome: Outcome) -> float:
    return float(outcome.simulation.end_ms) or 1.0


def _percent(value: float) -> str:
    return f"{plain(value)}%"
