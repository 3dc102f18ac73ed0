"""Drives the production engine with a fake cluster in virtual time.

    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(unit("a/j1", cpu=4))
    assert play.running == ["a/j1"]

The cluster carries out every command at once: it confirms, makes ready, stops. What a test wants otherwise it says:
`refusing` and `unready` name units, `slow` keeps outcomes back until `deliver`, in whatever order and number. After
every call of the engine its invariants are checked, and what must hold of the commands of one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from usher.core import commands as c
from usher.core import events as e
from usher.core.engine import Engine
from usher.core.invariants import violations
from usher.core.model import CheckState, Queue, Quota, Settings, Unit
from usher.core.phases import Phase
from usher.core.plugins import Plugins
from usher.core.views import QuotaView, UnitView
from usher.policies.registry import plugins as chosen
from usher.testing.builders import amounts
from usher.testing.store import Store

ROUNDS_MAX = 100
"""An engine that still commands after so many calls at one instant will never stop."""


class Harness:
    """An engine, its cluster and their clock."""

    def __init__(
        self,
        *objects: Queue | Quota | Unit,
        share: str = "drf",
        settings: Settings | None = None,
        plugins: Plugins | None = None,
        **capacity: str | int,
    ) -> None:
        self._settings = settings or Settings()
        self._plugins = plugins or chosen(share)
        self.engine = Engine(self._settings, self._plugins)
        self.store = Store()
        self.now_ms = 0
        self.refusing: set[str] = set()
        """Units whose admissions the cluster refuses."""
        self.unready: set[str] = set()
        """Units whose pods do not become ready."""
        self.lingering: set[str] = set()
        """Units whose pods do not go away when told."""
        self.slow = False
        """Keep outcomes back until `deliver`."""
        self.pending: list[e.Event] = []
        self.admissions: list[str] = []
        """Every admission and reservation, in order."""
        self.evictions: list[str] = []
        self.evicted_for: list[tuple[str, str, str]] = []
        """Every eviction and shrinking as (unit, cause, for whom)."""
        self.commands: list[c.Command] = []
        """Those of the last `send`, `advance` or `deliver`."""
        self.wake_at_ms: int | None = None
        self._seq = 0
        self._inbox: list[e.Event] = []
        self.send(e.CapacityChanged(amounts(**capacity)), *self._events(objects), e.Synced())

    # -- what happens ---------------------------------------------------------------------------------------------

    def send(self, *events: e.Event) -> list[c.Command]:
        """Let this happen in one batch, and everything that follows at this instant."""
        self.commands = []
        self._inbox += events
        self._settle()
        return self.commands

    def apply(self, *objects: Queue | Quota | Unit) -> list[c.Command]:
        """Objects appear or change."""
        return self.send(*self._events(objects))

    submit = apply

    def capacity(self, **offered: str | int) -> list[c.Command]:
        return self.send(e.CapacityChanged(amounts(**offered)))

    def finish(self, *keys: str) -> list[c.Command]:
        return self.send(*(e.UnitFinished(key, succeeded=True) for key in keys))

    def delete(self, *keys: str) -> list[c.Command]:
        return self.send(*(e.UnitGone(key) for key in keys))

    def answer(self, key: str, check: str, state: CheckState) -> list[c.Command]:
        return self.send(e.CheckAnswered(key, check, state))

    def advance(self, seconds: float) -> list[c.Command]:
        """Let time pass; whatever the engine asked to be woken for happens on the way."""
        self.commands = []
        until_ms = self.now_ms + round(seconds * 1000)
        while self.wake_at_ms is not None and self.wake_at_ms <= until_ms:
            self.now_ms = max(self.now_ms, self.wake_at_ms)
            self._settle()
        self.now_ms = until_ms
        return self.commands

    def deliver(self, order: Random | None = None, most: int | None = None, twice: bool = False) -> list[c.Command]:
        """Report outcomes that were kept back: in order, or shuffled; perhaps only some; perhaps twice."""
        self.commands = []
        if order is not None:
            order.shuffle(self.pending)
        count = len(self.pending) if most is None else most
        now, self.pending = self.pending[:count], self.pending[count:]
        self._inbox += [*now, *now] if twice else now
        self._settle()
        return self.commands

    def stop(self, *keys: str) -> list[c.Command]:
        """The pods of evicted units that lingered are gone."""
        self.lingering.difference_update(keys)
        return self.send(*(e.UnitStopped(key, self.engine.world.units[key].generation) for key in keys))

    def restart(self, plugins: Plugins | None = None) -> None:
        """The engine is lost; a new one starts from what is stored, perhaps with other plug-ins."""
        objects: list[e.Event] = [e.QueueChanged(queue.spec) for queue in self.engine.world.queues.values()]
        objects += [e.QuotaChanged(quota) for quota in self.engine.world.quotas.values()]
        objects += [e.CapacityChanged(self.engine.world.capacity, self.engine.world.capacity_shared)]
        objects += self.store.units()
        self._plugins = plugins or self._plugins
        self.engine = Engine(self._settings, self._plugins)
        self.wake_at_ms = None
        self.pending.clear()
        self.send(*objects, e.Synced())

    # -- what is seen ---------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[str]:
        """Units that hold quota and were not told to go."""
        units = self.engine.world.units.values()
        return sorted(unit.key for unit in units if unit.grants and unit.evicting is None)

    @property
    def waiting(self) -> list[str]:
        units = self.engine.world.units.values()
        return sorted(unit.key for unit in units if not unit.grants and unit.phase not in (Phase.SUCCEED, Phase.FAILED))

    @property
    def nominated(self) -> list[str]:
        return sorted(self.engine.world.nominated)

    def unit(self, key: str) -> UnitView:
        found = self.engine.unit(key)
        assert found is not None, f"there is no unit {key}"
        return found

    def phase(self, key: str) -> Phase:
        return self.unit(key).phase

    def quota(self, name: str) -> QuotaView:
        return next(view for view in self.engine.quotas() if view.name == name)

    def deserved(self, name: str) -> dict[str, int]:
        return {resource: amount for resource, amount in self.quota(name).deserved.items() if amount}

    def used(self, name: str) -> dict[str, int]:
        return dict(self.quota(name).used)

    def why(self, key: str) -> str:
        """The check that stops it, or nothing."""
        explained = self.engine.explain(key)
        assert explained is not None, f"there is no unit {key}"
        return explained.blocked.check if explained.blocked is not None else ""

    def text(self, key: str) -> str:
        explained = self.engine.explain(key)
        assert explained is not None, f"there is no unit {key}"
        return explained.text()

    def counts(self, key: str) -> list[int]:
        """How many pods of each set it was granted."""
        return [grant.count for grant in self.unit(key).grants]

    # -- the cluster ----------------------------------------------------------------------------------------------

    def _events(self, objects: Iterable[Queue | Quota | Unit]) -> list[e.Event]:
        found: list[e.Event] = []
        for each in objects:
            match each:
                case Queue():
                    found.append(e.QueueChanged(each))
                case Quota():
                    found.append(e.QuotaChanged(each))
                case Unit():
                    found.append(e.UnitChanged(self._seen(each)))
        return found

    def _seen(self, spec: Unit) -> Unit:
        """Units without an age are as old as they are new here."""
        known = self.store.specs.get(spec.key)
        if known is not None:
            spec = replace(spec, created_ms=known.created_ms, seq=known.seq)
        elif not spec.seq:
            self._seq += 1
            spec = replace(spec, created_ms=spec.created_ms or self.now_ms, seq=self._seq)
        return spec

    def _settle(self) -> None:
        for _ in range(ROUNDS_MAX):
            events, self._inbox = self._inbox, []
            self._call(events)
            due = self.wake_at_ms is not None and self.wake_at_ms <= self.now_ms
            if not self._inbox and not due:
                return
        raise AssertionError(f"after {ROUNDS_MAX} calls at one instant the engine still commands: {self.commands[-5:]}")

    def _call(self, events: Sequence[e.Event]) -> None:
        if self.wake_at_ms is not None and self.wake_at_ms <= self.now_ms:
            self.wake_at_ms = None
        for event in events:
            self.store.observe(event)
        commands = self.engine.handle(events, self.now_ms)
        self.commands += commands
        assert violations(self.engine) == []
        self._check(commands)
        for command in commands:
            refused = isinstance(command, c.Admit | c.Reserve | c.Grow) and command.key in self.refusing
            if not refused:
                self.store.carry_out(command, self.now_ms)
            if isinstance(command, c.WakeAt):
                self.wake_at_ms = command.at_ms
            outcomes = self._outcomes(command)
            if self.slow:
                self.pending += outcomes
            else:
                self._inbox += outcomes

    def _outcomes(self, command: c.Command) -> list[e.Event]:
        match command:
            case c.Admit(key, generation) | c.Reserve(key, generation) | c.Grow(key, generation):
                if not isinstance(command, c.Grow):
                    self.admissions.append(key)
                if key in self.refusing:
                    return [e.Refused(key, generation, "conflict")]
                ready = isinstance(command, c.Admit) and key not in self.unready
                return [e.Confirmed(key, generation), *([e.UnitReady(key)] if ready else [])]
            case c.Evict(key, generation, cause, by):
                self.evictions.append(key)
                self.evicted_for.append((key, cause.value, by))
                return [] if key in self.lingering else [e.UnitStopped(key, generation)]
            case c.Shrink(key, generation, grants, cause, by):
                self.evicted_for.append((key, cause.value, by))
                return [] if key in self.lingering else [e.UnitShrunk(key, generation, grants)]
            case _:
                return []

    # -- what must hold of one call -------------------------------------------------------------------------------

    def _check(self, commands: Sequence[c.Command]) -> None:
        admitted = {command.key for command in commands if isinstance(command, c.Admit | c.Reserve | c.Grow)}
        told = {command.key for command in commands if isinstance(command, c.Evict | c.Shrink)}
        assert not admitted & told, f"admitted and evicted in one call: {admitted & told}"
        stored: set[str] = set()
        for command in commands:
            if isinstance(command, c.Nominate) and command.nomination is not None:
                stored.add(command.key)
            if isinstance(command, c.Evict | c.Shrink) and command.by and command.by != command.key:
                assert command.by in stored, f"{command.key} goes for {command.by}, for which no room is kept"
        for key in admitted:
            unit = self.engine.world.units[key]
            assert unit.leaf is not None
            for node in unit.leaf.path:
                for resource in unit.charged:
                    limit = node.limit.get(resource, None if node.parent else 0)
                    used = node.used[resource]
                    assert limit is None or used <= limit, f"{key} brings {node.name} to {used} of {limit} {resource}"
