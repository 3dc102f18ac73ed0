"""The charts of the HTML report, from a run's records and samples. How much of a big run is drawn is `Detail`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil
from typing import Final

from usher.core.amounts import format_amount
from usher.core.durations import format_ms
from usher.core.model import ROOT
from usher.sim import records as r
from usher.sim.outcome import Outcome
from usher.sim.report import svg
from usher.sim.samples import Samples

WIDTH: Final = 1040
OTHERS: Final = "others"
RESOURCES_MAX: Final = 3

_WAIT_EDGES_MS: Final = (
    0,
    1_000,
    10_000,
    60_000,
    300_000,
    900_000,
    3_600_000,
    14_400_000,
    86_400_000,
    604_800_000,
)


@dataclass(frozen=True, slots=True)
class Detail:
    """How much is drawn."""

    points: int
    rows: int
    panels: int

    @classmethod
    def of(cls, runs: int) -> Detail:
        """Less of each run when there are several on the page."""
        return cls(points=max(200, 400 // runs), rows=max(40, 140 // runs), panels=max(8, 12 // runs))


def usage(outcome: Outcome, detail: Detail) -> str:
    """Per resource, what each quota uses, on top of each other, and what the cluster has."""
    samples = outcome.simulation.samples
    places, times = _moments(samples, detail)
    if len(times) < 2:
        return ""
    names, parts = _ranked(outcome), []
    drawn = names[: svg.COLOURS - 1] if len(names) > svg.COLOURS else names
    for resource in _resources(outcome):
        layers = [_taken(samples.series(name, resource)[0], places) for name in drawn]
        total = _taken(samples.series(ROOT, resource)[0], places)
        rest = [whole - sum(values) for whole, *values in zip(total, *layers, strict=True)]
        titles, styles = list(drawn), [f"c{place}" for place in range(len(drawn))]
        if any(value > 0 for value in rest):
            layers.append([max(0.0, value) for value in rest])
            titles.append(OTHERS)
            styles.append("cx")
        limit = float(next((view.max.get(resource, 0) for view in outcome.quotas if view.name == ROOT), 0))
        top = svg.nice_ceiling(_unit(resource, max(limit, *total)))
        frame = svg.Frame(WIDTH, 220, float(outcome.simulation.end_ms) or 1.0, top)
        scaled = [[_unit(resource, value) for value in layer] for layer in layers]
        body = svg.axes(frame, clock, plain) + svg.stacked(frame, times, scaled, titles, styles)
        if limit:
            offered = _unit(resource, limit)
            body += svg.steps(frame, [0.0], [offered], "line limit", f"offered: {format_amount(resource, int(limit))}")
        parts.append(f"<figure><figcaption>{escape(_titled(resource))}</figcaption>")
        parts.append(svg.chart(frame, body, f"usage of {resource} over time") + "</figure>")
    colours = [*zip(drawn, (f"c{place}" for place in range(len(drawn))), strict=True)]
    if len(names) > len(drawn):
        colours.append((f"{len(names) - len(drawn)} others", "cx"))
    return legend(colours) + "".join(parts) if parts else ""


def deserved(outcome: Outcome, detail: Detail) -> str:
    """For each of the largest quotas, used (filled) and deserved (a line), of the resource that matters most to it."""
    samples = outcome.simulation.samples
    places, times = _moments(samples, detail)
    if len(times) < 2:
        return ""
    names, parts = _ranked(outcome), []
    for place, name in enumerate(names[: detail.panels]):
        resource = _dominant(outcome, name)
        if not resource:
            continue
        used, due = (
            [_unit(resource, value) for value in _taken(series, places)] for series in samples.series(name, resource)
        )
        frame = svg.Frame(
            340, 150, float(outcome.simulation.end_ms) or 1.0, svg.nice_ceiling(max(*used, *due)), left=44
        )
        body = svg.axes(frame, clock, plain, y_ticks=2, x_step=svg.time_step(frame.x_max) * 2)
        body += svg.steps(frame, times, used, f"area c{place % svg.COLOURS}", f"used by {name}", fill=True)
        body += svg.steps(frame, times, due, "line due", f"deserved by {name}")
        parts.append(f"<figure><figcaption>{escape(name)} <small>{escape(_titled(resource))}</small></figcaption>")
        parts.append(svg.chart(frame, body, f"used and deserved of {name}") + "</figure>")
    if not parts:
        return ""
    cut = len(names) - detail.panels
    note = f"<p>The {detail.panels} largest of {len(names):,} quotas.</p>" if cut > 0 else ""
    return legend([("used", "c0"), ("deserved", "due")]) + f'<div class="grid3">{"".join(parts)}</div>{note}'


def waits(outcome: Outcome) -> str:
    """How many units waited how long."""
    records = outcome.simulation.records
    counts = [0] * len(_WAIT_EDGES_MS)
    for index, wait in enumerate(records.waited):
        if records.admitted[index] != r.NEVER or records.waiting_since[index] != r.NEVER:
            counts[max(place for place, edge in enumerate(_WAIT_EDGES_MS) if wait >= edge)] += 1
    if not sum(counts):
        return ""
    last = max(place for place, count in enumerate(counts) if count)
    counts = counts[: max(last + 1, 4)]
    labels = [f"< {format_ms(edge)}" for edge in _WAIT_EDGES_MS[1 : len(counts) + 1]]
    labels += [f"≥ {format_ms(_WAIT_EDGES_MS[-1])}"] * (len(counts) - len(labels))
    total = sum(counts)
    titles = [
        f"{count:,} units ({count / total:.1%}) waited {label}" for count, label in zip(counts, labels, strict=True)
    ]
    step = max(1.0, svg.nice_ceiling(max(counts) / 4))  # of whole units, so that no number at the axis is rounded
    frame = svg.Frame(WIDTH, 200, 1.0, 4 * float(ceil(step)))
    body = svg.axes(frame, lambda _: "", lambda value: f"{value:,.0f}", x_step=2.0)
    body += svg.columns(frame, [float(count) for count in counts], labels, titles, "bar c0")
    return "<figure>" + svg.chart(frame, body, "how long units waited") + "</figure>"


def timeline(outcome: Outcome, detail: Detail) -> str:
    """When units waited (thin) and ran (thick), coloured by quota."""
    records, end = outcome.simulation.records, outcome.simulation.end_ms
    came = [i for i, work in enumerate(records.works) if work.arrives_ms <= end]
    if not came or not end:
        return ""
    longest = sorted(came, key=lambda i: -(records.waited[i] + records.ran[i]))[: detail.rows]
    chosen = sorted(longest)
    colour = {name: f"c{place}" for place, name in enumerate(_ranked(outcome)[: svg.COLOURS - 1])}
    bars: dict[int, list[svg.Bar]] = {index: [] for index in chosen}
    spells: dict[int, list[tuple[int, int]]] = {index: [] for index in chosen}
    for place, index in enumerate(records.spells_unit):
        if index in spells:
            spells[index].append((records.spells_from[place], records.spells_to[place]))
    for index in chosen:
        unit, since = outcome.unit(index), records.works[index].arrives_ms
        style = colour.get(unit.quota, "cx")
        runs = sorted(spells[index])
        for number, (start, stop) in enumerate(runs):
            if start > since:
                bars[index].append(_wait_bar(since, start))
            lost = number + 1 < len(runs) or (unit.finished_ms is None and unit.phase not in ("Running", "Dequeued"))
            said = f"{unit.name} ({unit.quota}) {format_ms(start)} – {format_ms(stop)}{', evicted' if lost else ''}"
            bars[index].append(svg.Bar(start, stop, f"run {style}{' lost' if lost else ''}", said))
            since = stop
        if records.waiting_since[index] != r.NEVER and end > since:
            bars[index].append(_wait_bar(since, end))
    row_height = 14 if len(chosen) <= 60 else 9
    frame = svg.Frame(WIDTH, svg.TOP + svg.BOTTOM + row_height * len(chosen), float(end), 1.0, left=190)
    rows = [(f"{records.works[i].unit.namespace}/{outcome.unit(i).name}", bars[i]) for i in chosen]
    body = svg.axes(frame, clock, lambda _: "", y_ticks=1) + svg.gantt(frame, rows, row_height)
    note = f"<p>The {len(chosen):,} of {len(came):,} units that took longest.</p>" if len(chosen) < len(came) else ""
    colours = [*colour.items(), ("waits", "wait"), ("evicted", "lost")]
    return legend(colours) + "<figure>" + svg.chart(frame, body, "timeline of units") + f"</figure>{note}"


def _wait_bar(start: int, end: int) -> svg.Bar:
    return svg.Bar(start, end, "wait", f"waits {format_ms(start)} – {format_ms(end)}", thin=True)


def _ranked(outcome: Outcome) -> list[str]:
    """Leaves of the tree that ever used or deserved anything, the largest part of anything first."""
    samples = outcome.simulation.samples
    parents = set(samples.quotas.values())
    size: dict[str, float] = {}
    whole = {resource: max(1, *samples.series(ROOT, resource)[0]) for resource in samples.resources}
    for name in samples.quotas:
        if name == ROOT or name in parents:
            continue
        parts = [
            sum(samples.series(name, resource)[0]) / whole[resource]
            + max(samples.series(name, resource)[1], default=0) / 10**18
            for resource in samples.resources
        ]
        if max(parts, default=0.0) > 0:
            size[name] = max(parts)
    return sorted(size, key=lambda name: (-size[name], name))


def _resources(outcome: Outcome) -> list[str]:
    ranked = sorted(outcome.summary.utilisation.items(), key=lambda item: -item[1])
    return [resource for resource, _ in ranked[:RESOURCES_MAX]]


def _dominant(outcome: Outcome, name: str) -> str:
    samples = outcome.simulation.samples
    limits = next((view.max for view in outcome.quotas if view.name == ROOT), {})
    best, size = "", 0.0
    for resource in samples.resources:
        used, due = samples.series(name, resource)
        part = max(*used, *due) / (limits.get(resource) or max(1, *samples.series(ROOT, resource)[0]))
        if part > size:
            best, size = resource, part
    return best


def _moments(samples: Samples, detail: Detail) -> tuple[list[int], list[float]]:
    """Which samples are drawn, and when they were taken."""
    places = picked(len(samples.times), detail.points)
    return places, [float(samples.times[i]) for i in places]


def picked(count: int, most: int) -> list[int]:
    """Places of at most so many, evenly, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({place * (count - 1) // (most - 1) for place in range(most)})


def _taken(values: Sequence[int], picked: Sequence[int]) -> list[float]:
    return [float(values[i]) for i in picked]


def _unit(resource: str, value: float) -> float:
    """In what people count: cores, GiB, devices."""
    if resource == "cpu":
        return value / 1000
    return value / 2**30 if resource in ("memory", "ephemeral-storage") else value


def _titled(resource: str) -> str:
    names = {"cpu": "cpu (cores)", "memory": "memory (GiB)", "ephemeral-storage": "ephemeral-storage (GiB)"}
    return names.get(resource, resource)


def legend(items: Sequence[tuple[str, str]]) -> str:
    """Names and the classes that colour them."""
    cells = "".join(f'<span><i class="{css}"></i>{escape(name)}</span>' for name, css in items)
    return f'<div class="legend">{cells}</div>'


def clock(value: float) -> str:
    """A time at an axis."""
    return format_ms(int(value))


def plain(value: float) -> str:
    """A number at an axis."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
