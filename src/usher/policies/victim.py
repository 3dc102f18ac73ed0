"""The built-in order of victims inside one quota."""

from __future__ import annotations

from dataclasses import dataclass

from usher.core.plugins import Candidate


@dataclass(frozen=True, slots=True)
class LowestPriorityLatestStart:
    """The lowest priority first; among equals the one that has lost least, because it started last."""

    name: str = "lowest-priority-latest-start"

    def key(self, candidate: Candidate) -> tuple[int, ...]:
        return (candidate.unit.priority, -candidate.admitted_ms)
