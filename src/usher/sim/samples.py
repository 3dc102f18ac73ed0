"""Deserved and used of every quota over time, at a bounded number of moments.

The first moments are all kept, so that a small run is drawn exactly. When there are too many, every second one is
dropped and from then on only those a step apart are taken; the step doubles each time. Asking the engine for deserved
may cost a computation: it is asked only then.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from usher.core.views import QuotaView

SAMPLES_MAX: Final = 400
RESOURCES_MAX: Final = 16
QUOTAS_MAX: Final = 1_000
"""More quotas than this are not followed (the first in the tree's order are)."""

_USED, _DESERVED = 0, 1


class Samples:
    """Columns of used and deserved, by quota and resource."""

    def __init__(self, step_ms: int = 0) -> None:
        self.times = array("q")
        self.resources: list[str] = []
        self.quotas: dict[str, str] = {}
        """Name to parent, in the order of first sight."""
        self._step_ms = step_ms
        self._due_ms = 0
        self._rows: list[dict[tuple[str, str], tuple[int, int]]] = []

    def due(self, now: int) -> bool:
        """Whether the state after this instant is wanted."""
        return now >= self._due_ms

    def add(self, now: int, views: Sequence[QuotaView]) -> None:
        """Keep the state after an instant."""
        row: dict[tuple[str, str], tuple[int, int]] = {}
        for view in views[:QUOTAS_MAX]:
            self.quotas.setdefault(view.name, view.parent)
            for resource in view.used.keys() | view.deserved.keys():
                pair = (view.used.get(resource, 0), view.deserved.get(resource, 0))
                if pair != (0, 0):
                    row[view.name, resource] = pair
                    if resource not in self.resources and len(self.resources) < RESOURCES_MAX:
                        self.resources.append(resource)
        if self.times and self.times[-1] == now:
            self._rows[-1] = row
            return
        self.times.append(now)
        self._rows.append(row)
        if len(self.times) > SAMPLES_MAX:
            self._thin()
        self._due_ms = now + self._step_ms if self._step_ms else now

    def series(self, quota: str, resource: str) -> tuple[list[int], list[int]]:
        """Used and deserved of one quota at each of `times`."""
        pairs = [row.get((quota, resource), (0, 0)) for row in self._rows]
        return [pair[_USED] for pair in pairs], [pair[_DESERVED] for pair in pairs]

    def _thin(self) -> None:
        span = self.times[-1] - self.times[0]
        self._step_ms = max(2 * self._step_ms, 2 * span // SAMPLES_MAX, 1)
        kept = range(0, len(self.times), 2)
        self._rows = [self._rows[i] for i in kept]
        self.times = array("q", [self.times[i] for i in kept])
