"""What `usher top` shows: quotas, queues and jobs as lines that fit a terminal. Pure: objects in, lines out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from usher.cli.columns import Beside, as_tree, state
from usher.cli.kinds import Object
from usher.cli.printing import age, quantities, table, text
from usher.cli.units import FINISHED, at, holds_quota, job_name, key_of, phase, positions, request
from usher.core.amounts import AmountsError, parse_amounts

LINES_MIN: Final = 3
"""Of each table, however small the terminal is: two objects and their headers."""
BAR: Final = 12


@dataclass(frozen=True)
class Shown:
    """The objects of one moment; None: we may not see them."""

    now_ms: int
    quotas: Sequence[Object] | None = ()
    queues: Sequence[Object] | None = ()
    units: Sequence[Object] | None = ()
    problems: Sequence[str] = field(default=())


def frame(shown: Shown, width: int | None = None, height: int | None = None) -> list[str]:
    """The whole picture, cut to the terminal; without a size, all of it."""
    units = [each for each in shown.units or () if phase(each) not in FINISHED]
    lines = [_summary(shown, units), *shown.problems]
    tables = [
        _limited("QUOTAS", shown.quotas, _quotas(shown)),
        _limited("QUEUES", shown.queues, _queues(shown)),
        _limited("JOBS", shown.units, _jobs(shown, units)),
    ]
    room = None if height is None else height - len(lines) - len(tables)
    for part in _fitted(tables, room):
        lines += ["", *part]
    cut = lines if height is None else lines[:height]
    return cut if width is None else [line if len(line) <= width else line[: width - 1] + "…" for line in cut]


def _summary(shown: Shown, units: Sequence[Object]) -> str:
    counts = Counter(phase(each) for each in units)
    waiting = sum(not holds_quota(each) for each in units)
    running = counts.get("Running", 0)
    starting = len(units) - waiting - running
    ended = len(shown.units or ()) - len(units)
    return f"{running} running, {starting} starting, {waiting} waiting, {ended} ended"


def _limited(title: str, found: Sequence[Object] | None, lines: list[str]) -> list[str]:
    if found is None:
        return [f"{title}: you may not list them"]
    return lines if len(lines) > 1 else [f"{title}: none"]


def _fitted(tables: Sequence[list[str]], room: int | None) -> list[list[str]]:
    """Tables cut so that all fit: the shorter ones whole, the others alike."""
    if room is None or sum(len(part) for part in tables) <= room:
        return list(tables)
    given = dict.fromkeys(range(len(tables)), 0)
    left, open_ = room, sorted(given, key=lambda index: len(tables[index]))
    for number, index in enumerate(open_):
        share = max(left // (len(open_) - number), LINES_MIN)
        given[index] = min(len(tables[index]), share)
        left -= given[index]
    return [_cut(part, given[index]) for index, part in enumerate(tables)]


def _cut(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"… and {len(lines) - most + 1} more"]


def _quotas(shown: Shown) -> list[str]:
    ordered, depths = as_tree(shown.quotas or ())
    rows = [
        (
            "  " * depths.get(each["metadata"]["name"], 0) + each["metadata"]["name"],
            bar(each),
            quantities(at(each, "status.used")),
            quantities(at(each, "status.deserved")),
            quantities(at(each, "spec.max")),
            str(at(each, "status.waiting") or 0),
            str(at(each, "status.holding") or 0),
        )
        for each in ordered
    ]
    return table(("QUOTA", "", "USED", "DESERVED", "MAX", "WAITING", "HOLDING"), rows)


def bar(quota: Object) -> str:
    """How much of what it deserves it uses, by the resource of which it uses most; + is beyond."""
    try:
        used = parse_amounts(at(quota, "status.used"), "")
        deserved = parse_amounts(at(quota, "status.deserved"), "")
    except AmountsError:
        return ""
    parts = [(amount, deserved.get(resource, 0)) for resource, amount in used.items() if amount]
    if not parts:
        return "[" + "." * BAR + "]"
    if any(entitled == 0 for _, entitled in parts):
        return "[" + "|" * (BAR - 1) + "+]"
    most = max(BAR * amount // entitled for amount, entitled in parts)
    if any(amount > entitled for amount, entitled in parts):
        return "[" + "|" * (BAR - 1) + "+]"
    return "[" + ("|" * max(most, 1)).ljust(BAR, ".") + "]"


def _queues(shown: Shown) -> list[str]:
    rows = [
        (
            key_of(each),
            text(at(each, "spec.queuePolicy")),
            str(at(each, "status.counts.waiting") or 0),
            str(at(each, "status.counts.running") or 0),
            quantities(at(each, "status.allocated")),
            quantities(at(each, "status.deserved")),
            state(each),
        )
        for each in sorted(shown.queues or (), key=key_of)
    ]
    return table(("QUEUE", "POLICY", "WAITING", "RUNNING", "ALLOCATED", "DESERVED", "STATE"), rows)


def _jobs(shown: Shown, units: Sequence[Object]) -> list[str]:
    """Those that hold quota first, the newest first; then those that wait, in their order."""
    beside = Beside(shown.now_ms, positions(shown.queues))

    def rank(unit: Object) -> tuple[bool, int, str, str]:
        place = beside.positions.get(key_of(unit), 2**31)
        return not holds_quota(unit), place if not holds_quota(unit) else 0, str(at(unit, "spec.queue")), key_of(unit)

    rows = [
        (
            f"{each['metadata']['namespace']}/{job_name(each)}",
            text(at(each, "spec.queue")),
            phase(each),
            text(beside.positions.get(key_of(each))),
            str(at(each, "spec.priority") or 0),
            quantities(request(each)),
            age(at(each, "metadata.creationTimestamp"), shown.now_ms),
            text(at(each, "status.message")),
        )
        for each in sorted(units, key=rank)
    ]
    return table(("JOB", "QUEUE", "PHASE", "POSITION", "PRIORITY", "REQUEST", "AGE", "MESSAGE"), rows)
