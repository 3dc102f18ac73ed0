"""What commands print: tables as kubectl's, ages, amounts, and objects as JSON, YAML or names.

Pure functions: values in, text out. `emit` is where text leaves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click

from usher.core.amounts import AmountsError, format_amounts, parse_amounts

GAP: Final = 3
NONE: Final = "-"
FIRST: Final = {"cpu": 0, "memory": 1}
"""Resources that are shown before the others."""

Object = dict[str, Any]
Row = Sequence[str]


def table(headers: Row, rows: Iterable[Row], *, headed: bool = True, widths: Sequence[int] = ()) -> list[str]:
    """Lines with columns under each other; `widths` are what earlier lines had, so that later ones go on under them."""
    lines = [[plain(cell) for cell in line] for line in ([headers, *rows] if headed else [*rows])]
    wide = [
        max([len(line[column]) for line in lines] + ([widths[column]] if widths else []))
        for column in range(len(headers))
    ]
    return ["".join(_padded(line, wide)).rstrip() for line in lines]


def plain(value: str) -> str:
    """A text that stays in its line: what others wrote may hold newlines, and worse, for a terminal."""
    return value if value.isprintable() else "".join(each if each.isprintable() else " " for each in value)


def widths_of(headers: Row, rows: Iterable[Row]) -> list[int]:
    """How wide the columns of a table are."""
    lines = [headers, *rows]
    return [max(len(line[column]) for line in lines) for column in range(len(headers))]


def _padded(line: Row, widths: Sequence[int]) -> list[str]:
    return [text.ljust(width + GAP) for text, width in zip(line, widths, strict=True)]


def age(then: str | None, now_ms: int) -> str:
    """How long ago that was, as short as kubectl says it."""
    if not then:
        return "<unknown>"
    from usher.api.times import ms_of

    return duration(max(now_ms - ms_of(then), 0) // 1000)


def duration(seconds: int) -> str:
    """Two units at most, and the smaller only where it matters."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    return _two(years, "y", rest, "d") if years < 8 else f"{years}y"


def _two(large: int, unit: str, small: int, below: str) -> str:
    return f"{large}{unit}{small}{below}" if small else f"{large}{unit}"


def quantities(given: Mapping[str, Any] | None) -> str:
    """Amounts for people: `cpu 6, memory 2Gi`."""
    if not given:
        return NONE
    try:
        shown: Mapping[str, Any] = format_amounts(parse_amounts(given, ""))
    except AmountsError:
        shown = given
    ordered = sorted(shown, key=lambda name: (FIRST.get(name, 2), name))
    return ", ".join(f"{name} {shown[name]}" for name in ordered)


def text(value: object) -> str:
    """A cell."""
    return NONE if value is None or value == "" else str(value)


def clean(found: Object) -> Object:
    """An object as kubectl prints it: without the book-keeping of who owns which field."""
    meta = {key: value for key, value in found.get("metadata", {}).items() if key != "managedFields"}
    return {**found, "metadata": meta}


def dumped(found: Sequence[Object], output: str, *, single: bool) -> str:
    """Objects as JSON or YAML: one that was asked for by name as it is, others as a List."""
    cleaned = [clean(each) for each in found]
    body: Object = (
        cleaned[0] if single and len(cleaned) == 1 else {"apiVersion": "v1", "items": cleaned, "kind": "List"}
    )
    return as_text(body, output)


def as_text(body: Any, output: str) -> str:
    """A value as JSON or YAML."""
    if output == "json":
        return json.dumps(body, indent=4, ensure_ascii=False)
    import yaml

    return yaml.safe_dump(body, sort_keys=True, allow_unicode=True, width=120).rstrip("\n")


def name_of(found: Object) -> str:
    """As in `queue.scheduling.x-k8s.io/main`."""
    group = str(found.get("apiVersion", "")).rpartition("/")[0]
    kind = str(found.get("kind", "")).lower()
    return f"{kind}.{group}/{found['metadata']['name']}" if group else f"{kind}/{found['metadata']['name']}"


def emit(lines: str | Iterable[str]) -> None:
    """Print to standard output."""
    click.echo(lines if isinstance(lines, str) else "\n".join(lines))


def note(line: str) -> None:
    """Say something to people that is no output."""
    click.echo(line, err=True)
