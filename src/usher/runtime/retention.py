"""Units of jobs that have ended are kept for a time and up to a number; then the leader deletes them, the oldest first.

Their jobs stay as long as their owners want, and get no new unit: a job that has ended takes no part
(`usher.runtime.entry.next_step`). What is deleted leaves the manager's memory with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from usher.api import names
from usher.api.conditions import find
from usher.api.times import ms_of
from usher.core.phases import FINISHED
from usher.runtime.facts import UnitFacts
from usher.runtime.manager import Manager
from usher.runtime.port import Vanished, Written

log = logging.getLogger("usher.retention")

EVERY_S = 2.0
AT_ONCE_MAX = 100
"""How many are deleted in one go: the others have their turn in the next."""


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """For how long, and how many."""

    age_ms: int = 86_400_000
    most: int = 1_000


def ended_ms(unit: UnitFacts) -> int | None:
    """When the job of a unit ended; None: it has not."""
    if unit.stored.phase not in FINISHED or unit.deleting:
        return None
    finished = find(unit.status.conditions, names.FINISHED)
    return ms_of(finished.last_transition_time) if finished is not None else ms_of(unit.status.last_update_time)


def surplus(units: Iterable[UnitFacts], now_ms: int, settings: RetentionSettings) -> list[UnitFacts]:
    """Those that are to go, the oldest first."""
    ended = sorted(
        ((at_ms, unit.key, unit) for unit in units if (at_ms := ended_ms(unit)) is not None), key=lambda each: each[:2]
    )
    too_many = max(0, len(ended) - settings.most)
    return [
        unit for number, (at_ms, _, unit) in enumerate(ended) if number < too_many or at_ms + settings.age_ms <= now_ms
    ]


class Retention:
    """One leader's housekeeping."""

    def __init__(self, manager: Manager, settings: RetentionSettings) -> None:
        self._manager = manager
        self._settings = settings

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Delete what is to go, as much as may go at once."""
        units = (entry.unit for entry in self._manager.entries.values() if entry.unit is not None)
        going = surplus(units, self._manager.clock_ms(), self._settings)[:AT_ONCE_MAX]
        await asyncio.gather(*(self._delete(unit) for unit in going))

    async def _delete(self, unit: UnitFacts) -> None:
        outcome = await self._manager.cluster.delete_unit(unit.namespace, unit.name, unit.uid)
        if isinstance(outcome, Written | Vanished):
            self._manager.see_unit(unit, gone=True)
        else:
            log.debug("the unit %s was not deleted: %s", unit.key, outcome)
