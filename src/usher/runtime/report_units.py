"""Keeps what a unit's status shows from growing old: what its pods really take, why it waits, notes for a restart.

All of it goes with writes that happen anyway. Where none comes, a unit is looked at once per interval, all of them
evenly spread over it, and written if what is stored says something else: not the numbers of a message, which change
with everybody's every step, but the reason. A unit that was written within the interval is left alone, so a short job
costs no write for this.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import ceil

from usher.api import names
from usher.api.conditions import find
from usher.core.phases import FINISHED
from usher.runtime.entry import Entry
from usher.runtime.facts import UnitFacts
from usher.runtime.manager import Manager
from usher.runtime.report import ReportSettings
from usher.runtime.status import with_report

TICK_MS = 1_000


class UnitReporter:
    """One leader's look at its units, again and again."""

    def __init__(self, manager: Manager, settings: ReportSettings) -> None:
        self._manager = manager
        self._settings = settings
        self._round: deque[str] = deque()
        self._share = 1

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(min(TICK_MS, self._settings.unit_interval_ms) / 1000)
            self.look()

    def look(self) -> None:
        """Look at the next units of this round, so many that a round takes an interval."""
        if not self._round:
            self._round.extend(self._manager.entries)
            ticks = max(1, self._settings.unit_interval_ms // TICK_MS)
            self._share = ceil(len(self._round) / ticks)
        for _ in range(min(self._share, len(self._round))):
            entry = self._manager.entries.get(self._round.popleft())
            if entry is not None and self.wants(entry):
                self._manager.refresh(entry)

    def wants(self, entry: Entry) -> bool:
        """Whether the status of this unit should be written for what it shows alone."""
        unit = entry.unit
        if unit is None or unit.deleting or entry.busy or entry.todo or unit.stored.phase in FINISHED:
            return False
        now_ms, settings = self._manager.clock_ms(), self._settings
        if entry.later and now_ms >= entry.later_ms + settings.unit_interval_ms:
            return True
        if now_ms < entry.written_ms + settings.unit_interval_ms:
            return False
        if unit.stored.grants:
            before, entry.outdated = entry.outdated, with_report(unit.status, entry.alive()) is not unit.status
            return before and entry.outdated  # what ends, starts or shrinks just now is written for that anyway
        return self._waits_otherwise(entry.key, unit)

    def _waits_otherwise(self, key: str, unit: UnitFacts) -> bool:
        """Whether it waits for another reason than its condition says."""
        said = find(unit.status.conditions, names.QUOTA_RESERVED)
        if said is None or said.status != "False" or unit.stored.inactive:
            return False
        return self._manager.engine.reason(key)[0] != said.reason
