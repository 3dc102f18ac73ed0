"""Opening a trace: plain or gzipped, and which format it is. Called by the command line."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Final

from usher.core.amounts import Amounts, quoted
from usher.sim.problems import BadInputError
from usher.sim.scenario import Scenario, Work
from usher.sim.traces import gpu, swf

GZIP_MAGIC = b"\x1f\x8b"


TIME_LIMITS: Final = ("requested", "run", "none")
"""What the maximum execution time of a trace's job is: as it asked, exactly as long as it runs, or unlimited."""
_SHORTEST_MS: Final = 1000


def load_trace(
    path: str,
    tenants: str | None = None,
    limit: int | None = None,
    time_limits: str = "requested",
    capacity: Amounts | None = None,
) -> Scenario:
    """The scenario of a Standard Workload Format log or an Alibaba GPU pod list; raises BadInputError.

    `capacity` stands for what the trace says of its machine. Without `tenants` they are what the format knows best:
    users in SWF, qos classes in the pod list.
    """
    lines = read_lines(path)
    head = next((line for line in lines if line.strip()), "")
    reader = gpu.read_pods if "," in head and not head.startswith(";") else swf.read
    scenario = reader(path, lines, tenants, limit, capacity)
    if time_limits == "requested":
        return scenario
    return replace(scenario, works=tuple(_limited(work, time_limits == "run") for work in scenario.works))


def _limited(work: Work, runs: bool) -> Work:
    most_ms = max(work.runs_ms, _SHORTEST_MS) if runs else None
    return replace(work, unit=replace(work.unit, max_execution_ms=most_ms))


def load_nodes(path: str) -> dict[str, int]:
    """What the nodes of an Alibaba GPU node list offer together; raises BadInputError."""
    return gpu.read_nodes(path, read_lines(path))


def read_lines(path: str) -> list[str]:
    """The lines of a text, unpacked if need be."""
    try:
        data = Path(path).read_bytes()
        if data.startswith(GZIP_MAGIC):
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise BadInputError([f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"]) from None
    lines = data.decode("utf-8", errors="replace").splitlines()
    if not lines:
        raise BadInputError([f"{path}: is empty; {quoted('.swf')} and {quoted('.csv')} traces can be read"])
    return lines
