"""What Queues ask for themselves: `spec.request` of a Queue that has neither QueueJobs nor units (seed 002).

It is charged like everybody's: the engine hears of a unit that stands for the request, elastic in small equal parts,
and is answered as if whatever it commands were done, for there is nobody to tell but the Queue's own status. What it
was granted shows as `status.allocated`. It goes as soon as something else is in the Queue. Nothing of it is stored: a
new leader asks again. The reporter says once per interval what each Queue has; the manager brings the commands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING, Final

from usher.api.names import DEFAULT_POD_SET
from usher.core import commands as c
from usher.core import events as ev
from usher.core.model import CheckState, PodSet, Queue, Unit
from usher.core.views import QueueView

if TYPE_CHECKING:
    from usher.runtime.manager import Manager

MARK: Final = "~"
"""Begins the names of such units; no object can be called so."""


def key_of(queue: Queue) -> str:
    return f"{queue.namespace}/{MARK}{queue.name}"


def unit_for(queue: Queue, created_ms: int) -> Unit:
    """The unit that stands for a request: as many equal parts as whole numbers allow, of which one is enough.

    Of one resource it can so get exactly what it deserves. How many parts there are costs nothing: sizes are searched
    by halves.
    """
    amounts = {name: amount for name, amount in queue.request.items() if amount > 0}
    parts = gcd(*amounts.values())
    request = {name: amount // parts for name, amount in amounts.items()}
    return Unit(
        queue.namespace,
        f"{MARK}{queue.name}",
        (PodSet(DEFAULT_POD_SET, parts, request, min_count=1),),
        queue=queue.name,
        created_ms=created_ms,
        elastic=True,
    )


def answers(command: c.Command) -> list[ev.Event]:
    """What comes of a command where nobody has to do anything."""
    match command:
        case c.Admit(key=key, generation=generation):
            return [ev.Confirmed(key, generation), ev.UnitReady(key)]
        case c.Reserve(key=key, generation=generation, checks=checks):
            agreed = [ev.CheckAnswered(key, check, CheckState.READY) for check in checks]
            return [ev.Confirmed(key, generation), *agreed]
        case c.Grow(key=key, generation=generation):
            return [ev.Confirmed(key, generation)]
        case c.Shrink(key=key, generation=generation, grants=grants):
            return [ev.UnitShrunk(key, generation, grants)]
        case c.Evict(key=key, generation=generation):
            return [ev.UnitStopped(key, generation)]
        case _:
            return []


class Requests:
    """The requests of all Queues, in one leader's term."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._asking: dict[str, Unit] = {}

    def look(self, queues: Iterable[tuple[Queue, QueueView]]) -> None:
        """Ask for those that have nothing else in them, and no more for the others."""
        asking: dict[str, Unit] = {}
        for queue, view in queues:
            key = key_of(queue)
            others = view.waiting + view.holding - (key in self._asking)
            if others <= 0 and any(amount > 0 for amount in queue.request.values()):
                known = self._asking.get(key)
                asking[key] = unit_for(queue, known.created_ms if known else self._manager.clock_ms())
        for key in self._asking.keys() - asking.keys():
            self._manager.see(ev.UnitGone(key))
        for key, unit in asking.items():
            if self._asking.get(key) != unit:
                self._manager.see(ev.UnitChanged(unit))
        self._asking = asking

    def carry_out(self, command: c.Command) -> None:
        """Answer the engine, if this is about a request."""
        if not isinstance(command, c.WakeAt) and command.key in self._asking:
            self._manager.answer(*answers(command))

    def shown(self, queue: Queue, view: QueueView) -> QueueView:
        """A Queue without its own request among the units that are counted."""
        own = self._manager.engine.unit(key_of(queue)) if key_of(queue) in self._asking else None
        if own is None:
            return view
        holds = bool(own.grants)
        phases = {phase: count - (phase is own.phase and holds) for phase, count in view.phases.items()}
        return replace(view, waiting=view.waiting - (not holds), holding=view.holding - holds, phases=phases)
