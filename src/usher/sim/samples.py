"""Every quota over time, at a bounded number of moments: used, deserved, and what its units ask for.

The first moments are all kept, so that a small run is drawn and measured exactly. When there are too many, every second
one is dropped and from then on only those a step apart are taken; the step doubles each time. Asking the engine for
deserved may cost a computation: it is asked only then.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from usher.core.amounts import Amounts, Signature
from usher.core.model import ROOT
from usher.core.views import QuotaView

SAMPLES_MAX: Final = 1_000
RESOURCES_MAX: Final = 16
QUOTAS_MAX: Final = 1_000
"""More quotas than this are not followed (the first in the tree's order are)."""
TREES_MAX: Final = 200
"""Of more quotas than this, what they ask for is not kept: exact shares cannot be computed."""

_USED, _DESERVED = 0, 1


class Seen(NamedTuple):
    """One quota of the tree at one moment."""

    name: str
    parent: str
    weight: int
    min: Amounts
    max: Amounts
    """At the root: what the cluster offers."""
    lends: bool
    wants: Mapping[Signature, Amounts]
    """What its own units ask for."""


class Samples:
    """Columns of used and deserved, by quota and resource."""

    def __init__(self, step_ms: int = 0) -> None:
        self.times = array("q")
        self.resources: list[str] = []
        self.quotas: dict[str, str] = {}
        """Name to parent, in the order of first sight."""
        self.trees: list[Sequence[Seen]] = []
        """For each moment the tree, root first; empty if it is too large."""
        self._step_ms = step_ms
        self._due_ms = 0
        self._rows: list[dict[tuple[str, str], tuple[int, int]]] = []
        self._known: dict[str, Seen] = {}

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
        tree = [self._seen(view) for view in views if not view.problem] if len(views) <= TREES_MAX else []
        if self.times and self.times[-1] == now:
            self._rows[-1], self.trees[-1] = row, tree
            return
        self.times.append(now)
        self._rows.append(row)
        self.trees.append(tree)
        if len(self.times) > SAMPLES_MAX:
            self._thin()
        self._due_ms = now + self._step_ms if self._step_ms else now

    def series(self, quota: str, resource: str) -> tuple[list[int], list[int]]:
        """Used and deserved of one quota at each of `times`."""
        pairs = [row.get((quota, resource), (0, 0)) for row in self._rows]
        return [pair[_USED] for pair in pairs], [pair[_DESERVED] for pair in pairs]

    def used(self, moment: int, quota: str) -> dict[str, int]:
        """What a quota used at one of `times`, by the place of that."""
        row = self._rows[moment]
        return {name: row[quota, name][_USED] for name in self.resources if (quota, name) in row}

    def offered(self, moment: int) -> Amounts:
        """What the cluster offered then."""
        tree = self.trees[moment]
        return tree[0].max if tree and tree[0].name == ROOT else {}

    def _seen(self, view: QuotaView) -> Seen:
        """The same object as before where nothing changed: most of most trees."""
        seen = Seen(view.name, view.parent, view.weight, view.min, dict(view.max), view.lends, view.wants)
        if self._known.get(view.name) != seen:
            self._known[view.name] = seen
        return self._known[view.name]

    def _thin(self) -> None:
        span = self.times[-1] - self.times[0]
        self._step_ms = max(2 * self._step_ms, 2 * span // SAMPLES_MAX, 1)
        kept = range(0, len(self.times), 2)
        self._rows = [self._rows[i] for i in kept]
        self.trees = [self.trees[i] for i in kept]
        self.times = array("q", [self.times[i] for i in kept])
