"""What Queues ask for themselves, in a run: `spec.request` of a Queue that has nothing else in it (seed 002).

As in a cluster (`usher.runtime.requests`, whose unit and answers these are) it is charged like everybody's, goes as
soon as something is queued there, and comes back when the Queue is empty again; here that is looked at after every
instant. What it holds counts as used in the books of its quota. The driver (`cluster.Simulation`) calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from usher.core import commands as c
from usher.core import events as e
from usher.core.amounts import Amounts, scaled
from usher.core.model import Unit
from usher.core.views import QueueView, UnitView
from usher.runtime.requests import answers, key_of, unit_for

Charge = Callable[[str, Amounts, int], None]
"""Told a quota, amounts, and for how many milliseconds they were held."""


class Requests:
    """The requests of all Queues of one run."""

    def __init__(self, charge: Charge) -> None:
        self._charge = charge
        self._units: dict[str, Unit] = {}
        """By Queue that has a request: the unit that stands for it."""
        self._asking: dict[str, Unit] = {}
        """By unit, those that the engine knows."""
        self._holds: dict[str, tuple[int, str, Amounts]] = {}
        """Since when, of which quota, what."""

    def __bool__(self) -> bool:
        return bool(self._units or self._asking)

    def happen(self, event: e.Event, now: int) -> None:
        """A Queue came, changed or went."""
        match event:
            case e.QueueChanged(queue) if any(amount > 0 for amount in queue.request.values()):
                before = self._asking.get(key_of(queue))
                self._units[queue.key] = unit_for(queue, before.created_ms if before else now)
            case e.QueueChanged(queue):
                self._units.pop(queue.key, None)
            case e.QueueGone(key):
                self._units.pop(key, None)

    def look(self, queues: Sequence[QueueView], now: int) -> list[e.Event]:
        """What the engine must hear: ask for Queues that have nothing else in them, and no more for the others."""
        asking: dict[str, Unit] = {}
        for view in queues:
            unit = self._units.get(view.key)
            if unit is not None and view.waiting + view.holding <= (unit.key in self._asking):
                asking[unit.key] = unit
        gone = sorted(self._asking.keys() - asking.keys())
        changed = [unit for key, unit in asking.items() if self._asking.get(key) != unit]
        for key in gone:
            self._hold(key, now, "", {})
        self._asking = asking
        return [*(e.UnitGone(key) for key in gone), *(e.UnitChanged(unit) for unit in changed)]

    def answer(self, command: c.Command, now: int) -> list[e.Event] | None:
        """What comes of a command; None: it is not about a request."""
        if isinstance(command, c.WakeAt) or command.key not in self._asking:
            return None
        match command:
            case c.Admit(key=key, quota=quota, grants=grants) | c.Reserve(key=key, quota=quota, grants=grants):
                self._hold(key, now, quota, scaled(self._asking[key].pod_sets[0].request, grants[0].count))
            case c.Grow(key=key, grants=grants) | c.Shrink(key=key, grants=grants):
                quota = self._holds[key][1]
                self._hold(key, now, quota, scaled(self._asking[key].pod_sets[0].request, grants[0].count))
            case c.Evict(key=key):
                self._hold(key, now, "", {})
        return answers(command)

    def close(self, now: int) -> None:
        """The run is over: what is still held is counted up to here."""
        for key, (_, quota, amounts) in list(self._holds.items()):
            self._hold(key, now, quota, amounts)

    def shown(self, view: QueueView, own: Callable[[str], UnitView | None]) -> QueueView:
        """A Queue without its own request among its units and what they use."""
        unit = self._units.get(view.key)
        found = own(unit.key) if unit is not None and unit.key in self._asking else None
        if found is None:
            return view
        holds = bool(found.grants)
        used = {name: much - found.charged.get(name, 0) for name, much in view.used.items()}
        used = {name: much for name, much in used.items() if much}
        return replace(view, waiting=view.waiting - (not holds), holding=view.holding - holds, used=used)

    def _hold(self, key: str, now: int, quota: str, amounts: Amounts) -> None:
        """From now on it holds this; what it held is charged."""
        before = self._holds.pop(key, None)
        if before is not None:
            self._charge(before[1], before[2], now - before[0])
        if amounts:
            self._holds[key] = (now, quota, amounts)
