"""Small charts as inline SVG: steps, stacked areas, bars and a Gantt chart. No script, no library, no network.

Colours are classes (`c0` to `c7`), so that the page's light and dark themes apply. Every shape that stands for
something has a `<title>`, which browsers show on hover. Called by `report.html`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

COLOURS: Final = 8
LEFT, RIGHT, TOP, BOTTOM = 56, 10, 10, 24

Formatter = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Frame:
    """The place of a chart: pixels, and the range of its axes."""

    width: int
    height: int
    x_max: float
    y_max: float
    left: int = LEFT

    def x(self, value: float) -> float:
        return self.left + (self.width - self.left - RIGHT) * value / (self.x_max or 1)

    def y(self, value: float) -> float:
        return TOP + (self.height - TOP - BOTTOM) * (1 - value / (self.y_max or 1))


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a Gantt row."""

    start: float
    end: float
    css: str
    title: str
    thin: bool = False


def number(value: float) -> str:
    """A coordinate, as short as it can be."""
    return f"{value:.1f}".removesuffix(".0")


def nice_ceiling(value: float) -> float:
    """A round number that is not below `value`."""
    if value <= 0:
        return 1.0
    power = 10.0 ** len(str(int(value))) if value >= 1 else 1.0
    for part in (0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0):
        if power * part >= value:
            return power * part
    return power


def time_step(span_ms: float) -> float:
    """A step that gives an axis of time four to eight ticks at round times."""
    second, minute, hour = 1_000, 60_000, 3_600_000
    day = 24 * hour
    steps = [s * second for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)]
    steps += [m * minute for m in (1, 2, 5, 10, 15, 30)] + [h * hour for h in (1, 2, 3, 6, 12)]
    steps += [d * day for d in (1, 2, 5, 7, 14, 30, 60, 90, 180, 365)]
    return next((float(step) for step in steps if span_ms / step <= 8), span_ms / 6 or 1.0)


def axes(frame: Frame, x_text: Formatter, y_text: Formatter, y_ticks: int = 4, x_step: float = 0.0) -> str:
    """Grid lines and their numbers."""
    parts = []
    for tick in range(y_ticks + 1):
        value = frame.y_max * tick / y_ticks
        y = number(frame.y(value))
        parts.append(f'<line class="grid" x1="{frame.left}" x2="{frame.width - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{frame.left - 6}" y="{y}" dy="4" text-anchor="end">{y_text(value)}</text>')
    step = x_step or time_step(frame.x_max)
    value = 0.0
    while value <= frame.x_max * 1.0001:
        x = number(frame.x(value))
        text = escape(x_text(value))
        parts.append(f'<text class="tick" x="{x}" y="{frame.height - 6}" text-anchor="middle">{text}</text>')
        value += step
    return "".join(parts)


def steps(
    frame: Frame,
    xs: Sequence[float],
    ys: Sequence[float],
    css: str,
    title: str,
    fill: bool = False,
    end: float | None = None,
) -> str:
    """A value that holds until the next one; the last holds to `end`, or to the end of the axis."""
    path = _steps_path(frame, xs, ys, fill, frame.x_max if end is None else end)
    return f'<path class="{css}" d="{path}"><title>{escape(title)}</title></path>'


def stacked(
    frame: Frame, xs: Sequence[float], layers: Sequence[Sequence[float]], titles: Sequence[str], css: Sequence[str]
) -> str:
    """Layers on top of each other, as steps."""
    parts = []
    floor: list[float] = [0.0] * len(xs)
    for layer, title, style in zip(layers, titles, css, strict=True):
        ceiling = [low + value for low, value in zip(floor, layer, strict=True)]
        upper = _steps_points(frame, xs, ceiling, frame.x_max)
        lower = _steps_points(frame, xs, floor, frame.x_max)
        path = "M" + "L".join(upper) + "L" + "L".join(reversed(lower)) + "Z"
        parts.append(f'<path class="area {style}" d="{path}"><title>{escape(title)}</title></path>')
        floor = ceiling
    return "".join(parts)


def columns(frame: Frame, values: Sequence[float], labels: Sequence[str], titles: Sequence[str], css: str) -> str:
    """Vertical bars next to each other, each with its label below."""
    room = (frame.width - frame.left - RIGHT) / max(1, len(values))
    parts = []
    for place, (value, label, title) in enumerate(zip(values, labels, titles, strict=True)):
        x, y = frame.left + room * place, frame.y(value)
        height = number(max(0.0, frame.y(0) - y))
        parts.append(
            f'<rect class="{css}" x="{number(x + 2)}" y="{number(y)}" width="{number(room - 4)}" height="{height}" '
            f'rx="2"><title>{escape(title)}</title></rect>'
            f'<text class="tick" x="{number(x + room / 2)}" y="{frame.height - 6}" text-anchor="middle">'
            f"{escape(label)}</text>"
        )
    return "".join(parts)


def gantt(frame: Frame, rows: Sequence[tuple[str, Sequence[Bar]]], row_height: int) -> str:
    """A row of bars for each name."""
    parts = []
    for place, (name, bars) in enumerate(rows):
        top = TOP + place * row_height
        middle = top + row_height / 2
        short = name if len(name) <= 28 else f"{name[:27]}…"
        parts.append(
            f'<text class="tick" x="{frame.left - 6}" y="{number(middle)}" dy="3.5" text-anchor="end">{escape(short)}'
            f"<title>{escape(name)}</title></text>"
        )
        for bar in bars:
            x, end = frame.x(bar.start), frame.x(bar.end)
            inset = row_height * 0.42 if bar.thin else row_height * 0.14
            width = number(max(1.0, end - x))
            parts.append(
                f'<rect class="{bar.css}" x="{number(x)}" y="{number(top + inset)}" width="{width}" '
                f'height="{number(row_height - 2 * inset)}"><title>{escape(bar.title)}</title></rect>'
            )
    return "".join(parts)


def chart(frame: Frame, body: str, label: str) -> str:
    """The whole drawing."""
    said = escape(label, quote=True)
    return f'<svg viewBox="0 0 {frame.width} {frame.height}" role="img" aria-label="{said}">{body}</svg>'


def _steps_points(frame: Frame, xs: Sequence[float], ys: Sequence[float], end: float) -> list[str]:
    points: list[str] = []
    last = ""
    for place, (x, y) in enumerate(zip(xs, ys, strict=True)):
        x_text, y_text = number(frame.x(x)), number(frame.y(y))
        if y_text == last and place + 1 < len(xs):
            continue
        if last:
            points.append(f"{x_text} {last}")
        points.append(f"{x_text} {y_text}")
        last = y_text
    if last:
        points.append(f"{number(frame.x(end))} {last}")
    return points


def _steps_path(frame: Frame, xs: Sequence[float], ys: Sequence[float], fill: bool, end: float) -> str:
    points = _steps_points(frame, xs, ys, end)
    if not points:
        return ""
    path = "M" + "L".join(points)
    if fill:
        base = number(frame.y(0))
        path += f"L{points[-1].split()[0]} {base}L{points[0].split()[0]} {base}Z"
    return path
