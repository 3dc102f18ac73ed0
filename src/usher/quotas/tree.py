"""Joins the quota sources into one tree and says what the engine must hear: only what differs from what it heard.

Names are unique in the tree: of two sources that bring the same one, the first in the list has it. A source that
`yields` brings no quota for a namespace that an earlier one names. The manager feeds the sources, calls `take` after
each batch, and writes what `problems` says to the objects' conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from usher.core.amounts import Amounts
from usher.core.events import QuotaChanged, QuotaGone
from usher.core.model import Quota
from usher.quotas.placing import burdened, contested, misplaced, overpromised
from usher.quotas.source import Labels, Problem, QueueHint, QuotaSource

NAME_TAKEN: Final = "NameTaken"

ObjectRef = tuple[str, str]
"""Kind and key of an object that gives quotas."""


class QuotaTree:
    """The nodes of all sources."""

    def __init__(self, *sources: QuotaSource, taken: frozenset[str] = frozenset()) -> None:
        """`taken`: namespaces that quotas name which are none of these sources'."""
        self.sources = sources
        self._taken = taken
        self._told: dict[str, Quota] = {}
        self.outside: tuple[str, Amounts] = ("", {})
        """A quota, and what it is charged with beside units."""
        self._seen: list[object] = []
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
            taken = _namespaces(found) | self._taken if getattr(source, "yields", False) else frozenset()
            for name, quota in source.nodes().items():
                if not taken or not quota.namespaces & taken:
                    found.setdefault(name, quota)
        return found

    def owner(self, node: str) -> ObjectRef | None:
        """The object that a node comes from."""
        source = next((each for each in self.sources if node in each.nodes()), None)
        return None if source is None else (source.kind, source.object_of(node))

    def queue_hints(self) -> dict[str, QueueHint]:
        """By quota without children: how its default Queue should be; without those that get none."""
        quotas = self.quotas()
        parents = {quota.parent for quota in quotas.values()}
        found: dict[str, QueueHint] = {}
        for source in self.sources:
            for name in source.nodes():
                if name in quotas and name not in parents and name not in found:
                    hint = source.queue_hint(name)
                    if hint is not None:
                        found[name] = hint
        return found

    def take(self) -> list[QuotaChanged | QuotaGone]:
        """What changed since it was last asked, by name."""
        revisions: list[object] = [*(source.revision for source in self.sources), self.outside]
        if revisions == self._seen:
            return []
        self._seen = revisions
        now, told = burdened(self.quotas(), *self.outside), self._told
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


def _namespaces(quotas: Mapping[str, Quota]) -> frozenset[str]:
    return frozenset().union(*(quota.namespaces for quota in quotas.values()))
