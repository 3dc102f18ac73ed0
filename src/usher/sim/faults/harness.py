"""The fake cluster and the process around the engine: delays, refusals, losses, duplicates, crashes.

Two kinds of things are planned. Those of the *cluster* (pods become ready, end, go away; checks answer; owners act)
happen whatever happens to us. Those of the *process* (a write on its way, an event on its way to the engine, a timer)
die with it. Events of one unit keep their order, and so do writes to one unit; nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from random import Random

from usher.core import commands as c
from usher.core import events as e
from usher.core.engine import Engine
from usher.core.invariants import violations
from usher.core.model import CheckState, Grant, Queue, Quota, Settings, Unit
from usher.core.phases import HOLDING, Cause, Phase
from usher.policies.registry import plugins
from usher.sim.faults import checks
from usher.sim.faults.store import Record

SHOWN_MAX = 400


@dataclass(slots=True)
class Faults:
    """How much goes wrong; all zero is a perfect day."""

    refused: float = 0.08
    lost: float = 0.04
    late: float = 0.1
    doubled: float = 0.1
    delay_ms: int = 3_000


class Harness:
    """One engine after the other, one cluster."""

    def __init__(self, rng: Random, settings: Settings, share: str, log: Callable[[str], None] | None = None) -> None:
        self.rng = rng
        self.settings = settings
        self.share = share
        self.faults = Faults()
        self.now = 0
        self.records: dict[str, Record] = {}
        self.quotas: dict[str, Quota] = {}
        self.queues: dict[str, Queue] = {}
        self.capacity: dict[str, int] = {}
        self.endless = False
        """Jobs do not end by themselves: to see whether evictions come to rest."""
        self.taken_back = 0
        self.timed_out = 0
        """Units that had to go because their own time was over: then others may have their turn, and take back."""
        self.under_way = 0
        """Writes and events on their way."""
        self.engine = self._new_engine()
        self._log = log
        self._epoch = 0
        self._planned = 0
        self._heap: list[tuple[int, int, int | None, bool, Callable[[], None]]] = []
        self._events: list[e.Event] = []
        self._told: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._coming: dict[str, tuple[Grant, ...]] = {}
        self._wake_at: int | None = None
        self._uid = 0

    # -- time -----------------------------------------------------------------------------------------------------

    def plan(self, at_ms: int, action: Callable[[], None], process: bool = False, counts: bool = True) -> None:
        """Something will happen; what the process planned is void after a crash."""
        self._planned += 1
        counts = counts and process
        self.under_way += counts
        heappush(self._heap, (max(at_ms, self.now), self._planned, self._epoch if process else None, counts, action))

    def step(self) -> bool:
        """Everything of the next instant; False if nothing is left to happen."""
        if not self._heap:
            return False
        self.now = self._heap[0][0]
        woken = False
        while self._heap and self._heap[0][0] == self.now:
            _, _, epoch, counted, action = heappop(self._heap)
            if epoch is None or epoch == self._epoch:
                self.under_way -= counted
                action()
                woken |= action == self._wake
        if self._events or woken:
            self.call()
        return True

    def next_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def later(self) -> int:
        return self.now + self.rng.randint(0, self.faults.delay_ms) if self.faults.delay_ms else self.now

    # -- the engine -----------------------------------------------------------------------------------------------

    def _new_engine(self) -> Engine:
        return Engine(self.settings, plugins(share=self.share))

    def call(self) -> None:
        """One call of the engine, everything checked, everything it commands on its way."""
        events, self._events = self._events, []
        commands = self.engine.handle(events, self.now)
        if self._log is not None:
            for line in (*(f"  < {event}" for event in events), *(f"  > {command}" for command in commands)):
                self._log(f"{self.now:>8} {line[:SHOWN_MAX]}")
        wrong = violations(self.engine)
        if wrong:
            raise checks.BrokenError("; ".join(wrong))
        checks.admitted_or_evicted_once(commands)
        for command in commands:
            if isinstance(command, c.Admit | c.Reserve | c.Grow) and command.key in self.records:
                self._coming[command.key] = command.grants
        limits = checks.root_limits(self.capacity, self.settings)
        checks.within_limits(commands, self.records, self._coming, self.quotas, limits)
        self._dispatch(commands)

    def tell(self, event: e.Event, key: str = "") -> None:
        """An event on its way to the engine; those of one unit arrive in order."""
        at = max(self.later(), self._told.get(key, 0)) if key else self.now
        self._told[key] = at
        twice = self.rng.random() < self.faults.doubled
        record = self.records.get(key)
        grown = record.grown if record is not None else 0

        def arrive() -> None:
            if isinstance(event, e.UnitChanged) and record is not None:
                record.known = event.unit
            if isinstance(event, e.UnitShrunk) and record is not None and record.grown != grown:
                return  # older than a write of ours: a driver sees that by the resourceVersion
            self._events += [event, event] if twice else [event]

        self.plan(at, arrive, process=True)

    def crash(self) -> None:
        """The process dies; another starts from what is stored."""
        if self._log is not None:
            self._log(f"{self.now:>8} CRASH")
        self._epoch += 1
        self.under_way = 0
        self._events, self._told, self._written, self._coming, self._wake_at = [], {}, {}, {}, None
        self.engine = self._new_engine()
        listed: list[e.Event] = [e.CapacityChanged(dict(self.capacity))]
        listed += [e.QuotaChanged(quota) for quota in self.quotas.values()]
        listed += [e.QueueChanged(queue) for queue in self.queues.values()]
        listed += [e.UnitChanged(record.spec, record.stored()) for record in self.records.values()]
        for record in self.records.values():
            record.known = record.spec
        self.rng.shuffle(listed)
        self._events = listed
        if self.rng.random() < 0.5:
            self.call()
        self._events.append(e.Synced())
        self.call()
        for record in self.records.values():
            self._take_up(record)

    def _take_up(self, record: Record) -> None:
        """What a new process sees of a job, and finishes for its predecessor."""
        key = record.key
        if record.succeeded is not None:
            self.tell(e.UnitFinished(key, record.succeeded), key)
        elif record.phase in (Phase.DEQUEUED, Phase.RUNNING) and not record.evicting:
            if not record.resumed:
                self._resume(record)
            elif record.ready:
                self.tell(e.UnitReady(key), key)

    # -- commands -------------------------------------------------------------------------------------------------

    def _dispatch(self, commands: Sequence[c.Command]) -> None:
        stored_at = self.now
        for command in commands:
            if isinstance(command, c.WakeAt):
                if command.at_ms != self._wake_at:
                    self._wake_at = command.at_ms
                    self.plan(command.at_ms, self._wake, process=True, counts=False)
                continue
            at = max(self.later(), self._written.get(command.key, 0))
            if isinstance(command, c.Nominate):
                stored_at = max(stored_at, at)
            elif isinstance(command, c.Evict | c.Shrink):
                at = max(at, stored_at)
                self.taken_back += command.cause in (Cause.RECLAIMED, Cause.PREEMPTED)
                self.timed_out += command.cause is Cause.MAXIMUM_EXECUTION_TIME
            self._written[command.key] = at
            record = self.records.get(command.key)
            based_on = record.known if record is not None else None
            self.plan(at, partial(self._carry_out, command, record, based_on), process=True)

    def _wake(self) -> None:
        self._wake_at = None

    def _carry_out(self, command: c.Command, record: Record | None, based_on: Unit | None) -> None:
        if record is None or self.records.get(record.key) is not record:
            return
        match command:
            case c.Admit() | c.Reserve() | c.Grow():
                self._let_in(command, record, record.spec == based_on)
            case c.Evict():
                self._evict(command, record)
            case c.Shrink():
                self._shrink(command, record)
            case c.Nominate() | c.NoteOvertaken():
                if not record.deleting:
                    record.write(command, self.now)
            case c.SetPhase():
                record.write(command, self.now)
            case _:
                raise checks.BrokenError(f"nobody carries out {command}")

    def _let_in(self, command: c.Admit | c.Reserve | c.Grow, record: Record, current: bool) -> None:
        self._coming.pop(command.key, None)
        chance = self.rng.random()
        refused = not current or not record.takes(command) or chance < self.faults.refused
        lost = self.faults.refused <= chance < self.faults.refused + self.faults.lost
        late = self.rng.random() < self.faults.late
        if refused or lost:
            outcome: e.Event = e.Refused(command.key, command.generation, "conflict")
        else:
            outcome = e.Confirmed(command.key, command.generation)
            self._apply(command, record)
        wait_ms = self.rng.randint(5_000, 30_000) if self.faults.delay_ms and (lost or late) else 0
        at = self.now + wait_ms
        self._written[command.key] = max(at, self._written.get(command.key, 0))
        uid, twice = record.uid, self.rng.random() < self.faults.doubled

        def answer() -> None:
            if command.key in self.records and self.records[command.key].uid == uid:
                self._events += [outcome, outcome] if twice else [outcome]

        self.plan(at, answer, process=True)

    def _apply(self, command: c.Admit | c.Reserve | c.Grow, record: Record) -> None:
        record.write(command, self.now)
        if isinstance(command, c.Grow):
            record.pods = command.grants
            record.grown += 1
        elif isinstance(command, c.Reserve):
            for check in command.checks:
                self._ask(record, check)
        else:
            self.plan(self.later(), lambda: self._resume(record), process=True)

    def _ask(self, record: Record, check: str) -> None:
        """A check controller of its own answers in the store, some time or never."""
        generation, uid = record.generation, record.uid
        states = [CheckState.READY] * 8 + ([CheckState.RETRY, CheckState.REJECTED] if self.faults.delay_ms else [])
        state = self.rng.choice(states)
        if self.faults.delay_ms and self.rng.random() < 0.1 and self.settings.check_timeout_ms:
            return

        def answer() -> None:
            same = self.records.get(record.key) is record and record.uid == uid and record.generation == generation
            if same and record.phase is Phase.RESERVED and not record.evicting:
                record.change(checks={**record.past.checks, check: state})
                self.tell(e.CheckAnswered(record.key, check, state), record.key)

        self.plan(self.later(), answer)

    def _resume(self, record: Record) -> None:
        """The job's pods are created, become ready, and end some time."""
        holds = record.phase in (Phase.DEQUEUED, Phase.RUNNING) and not record.evicting
        if record.resumed or not holds or record.succeeded is not None or record.deleting:
            return
        record.resumed, record.pods = True, record.grants
        record.spell += 1
        if not (self.faults.delay_ms and self.rng.random() < 0.1 and self.settings.start_timeout_ms):
            self._of_spell(record, self.later(), lambda: self._ready(record))

    def _ready(self, record: Record) -> None:
        record.ready = True
        self.tell(e.UnitReady(record.key), record.key)
        if not self.endless:
            self.run_on(record)

    def recover(self, record: Record) -> None:
        """Pods that were lost are back, some time."""
        self._of_spell(record, self.later(), lambda: self._back(record))

    def _back(self, record: Record) -> None:
        record.ready = True
        self.tell(e.UnitReady(record.key), record.key)

    def run_on(self, record: Record) -> None:
        """Its job ends after its time."""
        self._of_spell(record, self.now + record.runs_ms, lambda: self.finish(record))

    def _of_spell(self, record: Record, at_ms: int, action: Callable[[], None]) -> None:
        """Something about these pods; void if they are gone by then."""
        spell = record.spell

        def act() -> None:
            if record.spell == spell and self.records.get(record.key) is record and record.succeeded is None:
                action()

        self.plan(at_ms, act)

    def _evict(self, command: c.Evict, record: Record) -> None:
        record.write(command, self.now)
        if not record.pods:
            self.tell(e.UnitStopped(command.key, command.generation), command.key)
            if record.evicting:
                record.pods_gone()
            return

        def gone() -> None:
            record.pods_gone()
            self.tell(e.UnitStopped(command.key, command.generation), command.key)

        self._of_spell(record, self.later(), gone)

    def _shrink(self, command: c.Shrink, record: Record) -> None:
        if command.generation != record.generation or record.evicting or record.succeeded is not None:
            return
        if not record.resumed:
            self.plan(self.now + 500, partial(self._carry_out, command, record, None), process=True)
            return

        def gone() -> None:
            if not record.evicting:
                has = {grant.pod_set: grant.count for grant in record.pods}  # some may have ended meanwhile
                left = tuple(Grant(g.pod_set, min(g.count, has.get(g.pod_set, 0))) for g in command.grants)
                record.pods = left
                record.change(grants=left)
                self.tell(e.UnitShrunk(command.key, command.generation, left), command.key)

        self._of_spell(record, self.later(), gone)

    # -- owners ---------------------------------------------------------------------------------------------------

    def add(self, record: Record) -> None:
        self._uid += 1
        record.uid = self._uid
        self.records[record.key] = record
        self._written.pop(record.key, None)
        self.tell(e.UnitChanged(record.spec), record.key)

    def change(self, record: Record, spec: Unit) -> None:
        """Its owner writes something else."""
        record.spec = spec
        self.tell(e.UnitChanged(spec), record.key)

    def finish(self, record: Record, succeeded: bool = True) -> None:
        record.succeeded, record.pods, record.ready = succeeded, (), False
        self.tell(e.UnitFinished(record.key, succeeded), record.key)

    def delete(self, record: Record) -> None:
        """The unit goes once its pods are gone."""
        if record.deleting:
            return
        record.deleting = True

        def gone() -> None:
            if self.records.get(record.key) is record:
                del self.records[record.key]
                self._coming.pop(record.key, None)
                self.tell(e.UnitGone(record.key), record.key)

        self.plan(self.later(), gone)

    def holding(self) -> list[Record]:
        return [record for record in self.records.values() if record.phase in HOLDING and record.succeeded is None]
