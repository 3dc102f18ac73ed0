"""Joins the quota sources into one tree and says what the engine must hear: only what differs from what it heard.

Names are unique in the tree: of two sources that bring the same one, the first in the list has it. The manager feeds
the sources, calls `take` after each batch, and writes what `problems` says to the objects' conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from usher.core.events import QuotaChanged, QuotaGone
from usher.core.model import Quota
from usher.quotas.placing import contested, misplaced, overpromised
from usher.quotas.source import Labels, Problem, QuotaSource

NAME_TAKEN: Final = "NameTaken"

ObjectRef = tuple[str, str]
"""Kind and key of an object that gives quotas."""


class QuotaTree:
    """The nodes of all sources."""

    def __init__(self, *sources: QuotaSource) -> None:
        self.sources = sources
        self._told: dict[str, Quota] = {}
        self._seen: list[int] = []
        """The revisions of the sources when they were last compared."""

    def namespace_changed(self, name: str, labels: Labels) -> None:
        for source in self.sources:
            source.namespace_changed(name, labels)

    def namespace_gone(self, name: str) -> None:
        for source in self.sources:
            source.namespace_gone(name)

    def quotas(self) -> dict[str, Quota]:
        """Every node as it is now, also those that have no place."""
        found: dict[str, Quota] = {}
        for source in self.sources:
            for name, quota in source.nodes().items():
                found.setdefault(name, quota)
        return found

    def take(self) -> list[QuotaChanged | QuotaGone]:
        """What changed since it was last asked, by name."""
        revisions = [source.revision for source in self.sources]
        if revisions == self._seen:
            return []
        self._seen = revisions
        now, told = self.quotas(), self._told
        events: list[QuotaChanged | QuotaGone] = [QuotaGone(name) for name in sorted(told) if name not in now]
        events.extend(
            QuotaChanged(quota)
            for name, quota in sorted(now.items())
            if (before := told.get(name)) is not quota and before != quota
        )
        self._told = now
        return events

    def problems(self) -> Mapping[ObjectRef, Sequence[Problem]]:
        """What is wrong with which object: by itself, or among the others. What is not here is as it should be."""
        found: dict[ObjectRef, list[Problem]] = {}
        owners: dict[str, QuotaSource] = {}
        for source in self.sources:
            for key, problems in source.problems().items():
                found.setdefault((source.kind, key), []).extend(problems)
            for name in source.nodes():
                first = owners.setdefault(name, source)
                if first is not source:
                    text = f"quota {name} is there already, from {first.kind} {first.object_of(name)}"
                    found.setdefault((source.kind, source.object_of(name)), []).append(Problem(NAME_TAKEN, text))
        quotas = self.quotas()
        astray = misplaced(quotas)
        placed = {name: quota for name, quota in quotas.items() if name not in astray}
        for each in (astray, overpromised(placed), contested(quotas)):
            for name, problem in each.items():
                source = owners[name]
                found.setdefault((source.kind, source.object_of(name)), []).append(problem)
        return found
