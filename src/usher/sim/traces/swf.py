"""The Standard Workload Format of the Parallel Workloads Archive: a line per job, 18 columns, `;` begins the header.

A job is a gang of as many 1-cpu pods as it had processors: those it asked for, else those it got. It arrives at its
submit time (the first one is 0) and runs for its run time. The time it asked for, if it did, is its maximum execution
time, but never less than it ran: the log shows that it was let run. Left out, and counted: jobs that were cancelled
(status 5), pieces of a job that was swapped out (2, 3, 4; its whole is another line), jobs without a run time or
processors. Status 0 fails.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from usher.core.amounts import Amounts, quoted
from usher.core.events import CapacityChanged, Event
from usher.core.model import PodSet, Unit
from usher.sim.problems import BadInputError
from usher.sim.scenario import Scenario, Work
from usher.sim.traces.tenants import EVERYBODY, happenings, tenant_name

COLUMNS: Final = 18
COLUMN_OF: Final = {"user": 11, "group": 12, "queue": 14}
"""Where a tenant's number is, counted from 0."""

_SUBMIT, _RUN, _USED, _ASKED, _ASKED_TIME, _STATUS = 1, 3, 4, 7, 8, 10
_FAILED = 0
_LEFT_OUT: Final = {2: "pieces of a swapped job", 3: "pieces of a swapped job", 4: "pieces of a swapped job"}
_CANCELLED = 5
_HEADER: Final = re.compile(r";\s*(MaxProcs|MaxNodes):\s*([0-9]+)")
_ERRORS_MAX: Final = 20


def read(path: str, lines: Sequence[str], tenants: str | None, limit: int | None, capacity: Amounts | None) -> Scenario:
    """The scenario of a log; raises BadInputError with the lines that are not in the format."""
    by = tenants or "user"
    if by != "none" and by not in COLUMN_OF:
        raise BadInputError([f"--tenants: {path} has no {by}; it has {', '.join(COLUMN_OF)}"])
    rows, left_out = _rows(path, lines)
    rows = rows[:limit]
    if not rows:
        raise BadInputError([f"{path}: no job in it can be simulated"])
    column = COLUMN_OF.get(by)
    names: dict[int, str] = {}
    pod_sets: dict[int, tuple[PodSet, ...]] = {}
    first = rows[0][_SUBMIT]
    works: list[Work] = []
    for seq, row in enumerate(rows, 1):
        tenant = _tenant(by, None if column is None else row[column], names)
        procs = row[_ASKED] if row[_ASKED] > 0 else row[_USED]
        sets = pod_sets.get(procs)
        if sets is None:
            sets = pod_sets[procs] = (PodSet("main", procs, {"cpu": 1000}),)
        unit = Unit(
            tenant,
            f"job-{row[0]}",
            sets,
            tenant,
            tenant,
            created_ms=(row[_SUBMIT] - first) * 1000,
            seq=seq,
            max_execution_ms=max(row[_ASKED_TIME], row[_RUN]) * 1000 if row[_ASKED_TIME] > 0 else None,
        )
        works.append(Work(unit, row[_RUN] * 1000, fails=row[_STATUS] == _FAILED, renews=True))
    _distinct(path, works)
    events: list[tuple[int, Event]] = [*_capacity(path, lines, capacity), *happenings(names.values())]
    notes = [f"{path}: {count} jobs left out: {why}" for why, count in sorted(left_out.items())]
    return Scenario(tuple(works), tuple(events), notes=tuple(notes))


def _rows(path: str, lines: Sequence[str]) -> tuple[list[list[int]], Counter[str]]:
    """The jobs that can be simulated, in the order of their submission, and why others cannot."""
    rows: list[list[int]] = []
    left_out: Counter[str] = Counter()
    errors: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.startswith(";") or not line.strip():
            continue
        row = _numbers(line)
        if row is None or len(row) < COLUMNS:
            errors.append(f"{path}: line {number}: {quoted(line.strip())} is not {COLUMNS} numbers")
        elif row[_STATUS] == _CANCELLED:
            left_out["cancelled"] += 1
        elif row[_STATUS] in _LEFT_OUT:
            left_out[_LEFT_OUT[row[_STATUS]]] += 1
        elif row[_RUN] < 0:
            left_out["no run time"] += 1
        elif row[_ASKED] <= 0 and row[_USED] <= 0:
            left_out["no processors"] += 1
        else:
            rows.append(row)
    if errors:
        more = [f"{path}: and {len(errors) - _ERRORS_MAX} more"] if len(errors) > _ERRORS_MAX else []
        raise BadInputError([*errors[:_ERRORS_MAX], *more])
    rows.sort(key=lambda row: (row[_SUBMIT], row[0]))
    return rows, left_out


def _numbers(line: str) -> list[int] | None:
    parts = line.split()
    try:
        return [int(part) for part in parts]
    except ValueError:
        try:
            return [int(float(part)) for part in parts]
        except (ValueError, OverflowError):
            return None


def _tenant(by: str, value: int | None, names: dict[int, str]) -> str:
    if value is None:
        return names.setdefault(0, EVERYBODY)
    name = names.get(value)
    if name is None:
        name = names[value] = tenant_name(by, "unknown" if value < 0 else str(value))
    return name


def _distinct(path: str, works: list[Work]) -> None:
    keys = Counter(work.unit.key for work in works)
    twice = [key for key, count in keys.items() if count > 1]
    if twice:
        raise BadInputError([f"{path}: job {key} is there more than once" for key in twice[:_ERRORS_MAX]])


def _capacity(path: str, lines: Sequence[str], capacity: Amounts | None) -> list[tuple[int, Event]]:
    if capacity is not None:
        return [(0, CapacityChanged(capacity))]
    said: dict[str, int] = {}
    for line in lines:
        if not line.startswith(";"):
            break
        if header := _HEADER.match(line):
            said[header[1]] = int(header[2])
    processors = said.get("MaxProcs") or said.get("MaxNodes")
    if not processors:
        raise BadInputError([f"{path}: its header has no MaxProcs; say what the machine has: --capacity cpu=128"])
    return [(0, CapacityChanged({"cpu": processors * 1000}))]
