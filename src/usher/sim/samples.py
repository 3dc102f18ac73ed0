"""Every quota over time, at a bounded number of moments: used, deserved, and what its units ask for.

The state after every instant is kept, so that a small run is drawn and measured exactly. When that is too much, moments
are chosen instead, a step apart on average, and the state that held then is kept; the step doubles each time that there
are too many. They are chosen by chance (always the same), because a state that comes back at regular times would be
seen always or never, and apart from what happens, because states that hold for long must be seen more often. Asking the
engine for deserved may cost a computation: it is asked only then.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from random import Random
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
        self._chance = Random(1)  # noqa: S311 (no secret depends on it)
        self._rows: list[dict[tuple[str, str], tuple[int, int]]] = []
        self._known: dict[str, Seen] = {}

    def passed(self, now: int) -> bool:
        """Whether the state before this instant is wanted: a chosen moment lies between the last one and it."""
        return bool(self.times) and self._step_ms > 0 and self._due_ms < now

    def add_passed(self, now: int, views: Sequence[QuotaView]) -> None:
        """Keep the state that holds until this instant, for the moment that was chosen."""
        self._keep(self._due_ms, views)
        self._choose(now)

    def due(self, now: int) -> bool:
        """Whether the state after this instant is wanted."""
        return not self.times or not self._step_ms or self._due_ms == now

    def add(self, now: int, views: Sequence[QuotaView]) -> None:
        """Keep the state after an instant."""
        self._keep(now, views)
        self._choose(now + 1)

    def _keep(self, now: int, views: Sequence[QuotaView]) -> None:
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

    def _choose(self, first: int) -> None:
        """The next moment, not before `first`."""
        if self._step_ms:
            self._due_ms += max(0, first - self._due_ms) // self._step_ms * self._step_ms
            while self._due_ms < first:
                self._due_ms += self._stride()

    def _stride(self) -> int:
        return self._step_ms // 2 + self._chance.randint(1, self._step_ms)

    def _thin(self) -> None:
        """Keep what held at moments further apart."""
        span = self.times[-1] - self.times[0]
        self._step_ms = max(2 * self._step_ms, 2 * span // SAMPLES_MAX, 1)
        moments, kept = [self.times[0]], [0]
        moment = moments[0] + self._stride()
        while moment <= self.times[-1]:
            place = bisect_right(self.times, moment) - 1
            if place > kept[-1]:
                moments.append(moment)
                kept.append(place)
            moment += self._stride()
        self._due_ms = moment
        self._rows = [self._rows[i] for i in kept]
        self.trees = [self.trees[i] for i in kept]
        self.times = array("q", moments)
