"""The Alibaba GPU cluster trace of 2023: a CSV of pods and a CSV of nodes.

A pod asks for cpu, memory and thousandths of GPUs (`alibabacloud.com/gpu-milli`, a whole GPU being 1000: most pods take
a part of one). It arrives at its creation (the first one is 0) and runs from when it was scheduled to when it was
deleted. Left out, and counted: pods that were never scheduled, as nobody knows how long they would have run. Phase
Failed fails; Running, which is how it stood when the log was taken, and Succeeded succeed.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from usher.core.amounts import Amounts, add, quoted
from usher.core.events import CapacityChanged, Event
from usher.core.model import PodSet, Unit
from usher.sim.problems import BadInputError
from usher.sim.scenario import Scenario, Work
from usher.sim.traces.tenants import EVERYBODY, happenings, tenant_name

GPU: Final = "alibabacloud.com/gpu-milli"
POD_COLUMNS: Final = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu")
_MIB: Final = 2**20
_ERRORS_MAX: Final = 20


def read_pods(
    path: str, lines: Sequence[str], tenants: str | None, limit: int | None, capacity: Amounts | None
) -> Scenario:
    """The scenario of a pod list; raises BadInputError. Its capacity comes from elsewhere."""
    by = tenants or "qos"
    if by not in ("qos", "none"):
        raise BadInputError([f"--tenants: {path} has no {by}; it has qos"])
    reading = _Reading(path)
    left_out: Counter[str] = Counter()
    rows = []
    for number, row in reading.rows(lines, POD_COLUMNS):
        created, deleted = reading.number(number, row, "creation_time"), reading.number(number, row, "deletion_time")
        if not row["scheduled_time"] or not row["deletion_time"]:
            left_out["never scheduled" if not row["scheduled_time"] else "no end"] += 1
            continue
        ran = deleted - reading.number(number, row, "scheduled_time")
        if ran < 0:
            left_out["deleted before it was scheduled"] += 1
            continue
        rows.append((created, ran, reading.request(number, row), row))
    reading.stop_if_any()
    rows.sort(key=lambda each: (each[0], each[3]["name"]))
    rows = rows[:limit]
    if not rows:
        raise BadInputError([f"{path}: no pod in it can be simulated"])
    works, names = [], set()
    for seq, (created, ran, request, row) in enumerate(rows, 1):
        tenant = EVERYBODY if by == "none" else tenant_name(by, row["qos"])
        names.add(tenant)
        pod_sets = (PodSet("main", 1, request),)
        created_ms = (created - rows[0][0]) * 1000
        unit = Unit(tenant, row["name"], pod_sets, tenant, tenant, created_ms=created_ms, seq=seq)
        works.append(Work(unit, ran * 1000, fails=row["pod_phase"] == "Failed", renews=True))
    events: list[tuple[int, Event]] = [] if capacity is None else [(0, CapacityChanged(capacity))]
    notes = [f"{path}: {count} pods left out: {why}" for why, count in sorted(left_out.items())]
    return Scenario(tuple(works), (*events, *happenings(names)), notes=tuple(notes))


def read_nodes(path: str, lines: Sequence[str]) -> dict[str, int]:
    """What all nodes of a node list offer together; raises BadInputError."""
    reading = _Reading(path)
    total: dict[str, int] = {}
    for number, row in reading.rows(lines, NODE_COLUMNS):
        offered = {
            "cpu": reading.number(number, row, "cpu_milli"),
            "memory": reading.number(number, row, "memory_mib") * _MIB,
            GPU: reading.number(number, row, "gpu") * 1000,
        }
        add(total, offered)
    reading.stop_if_any()
    return total


class _Reading:
    """One CSV file and what is wrong in it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._errors: list[str] = []
        self._requests: dict[tuple[str, ...], dict[str, int]] = {}

    def rows(self, lines: Sequence[str], columns: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
        """Every row with its line number."""
        reader = csv.DictReader(lines, restval="")
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise BadInputError([f"{self._path}: line 1: the columns {', '.join(missing)} are missing"])
        return [(reader.line_num, row) for row in reader]

    def number(self, line: int, row: Mapping[str, str], column: str) -> int:
        text = row[column] or "0"
        try:
            value = int(float(text))
        except (ValueError, OverflowError):
            value = -1
        if value < 0:
            self._errors.append(f"{self._path}: line {line}: {column}: {quoted(text)} is not a number")
        return value

    def request(self, line: int, row: Mapping[str, str]) -> dict[str, int]:
        """What a pod asks for; pods that ask for the same share one dict."""
        texts = (row["cpu_milli"], row["memory_mib"], row["num_gpu"], row["gpu_milli"])
        found = self._requests.get(texts)
        if found is None:
            gpus = self.number(line, row, "num_gpu")
            found = {
                "cpu": self.number(line, row, "cpu_milli"),
                "memory": self.number(line, row, "memory_mib") * _MIB,
                **({GPU: gpus * self.number(line, row, "gpu_milli")} if gpus else {}),
            }
            self._requests[texts] = found
        return found

    def stop_if_any(self) -> None:
        if self._errors:
            more = len(self._errors) - _ERRORS_MAX
            tail = [f"{self._path}: and {more} more"] if more > 0 else []
            raise BadInputError([*self._errors[:_ERRORS_MAX], *tail])
