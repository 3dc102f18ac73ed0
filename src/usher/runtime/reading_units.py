"""Reads units once: each write of ours comes twice, as its answer and by the watch, in either order."""

from __future__ import annotations

from collections import OrderedDict

from usher.api.queueunit import QueueUnit
from usher.runtime.facts import UnitFacts, read_unit

RECENT_MAX = 1024


class UnitReader:
    """`read_unit` with a short memory."""

    def __init__(self) -> None:
        self._recent: OrderedDict[tuple[str, str], UnitFacts] = OrderedDict()

    def __call__(self, found: QueueUnit) -> UnitFacts:
        key = (found.metadata.uid, found.metadata.resource_version)
        known = self._recent.pop(key, None)
        if known is not None:
            return known
        facts = self._recent[key] = read_unit(found)
        if len(self._recent) > RECENT_MAX:
            self._recent.popitem(last=False)
        return facts
