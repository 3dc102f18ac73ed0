"""The loop: objects become events, the engine decides, commands become writes, their outcome becomes events again.

A `Manager` is made when we become the leader, told all that the caches hold (`see_…`), and then begun. Everything
happens in one thread: seeing an object only marks its entry; a turn of the loop looks at what was marked, calls the
engine once, and starts a worker for each entry that has something to write. A worker writes for one entry, one thing
at a time: first what the engine decided, then what the job needs to follow (see `usher.runtime.entry`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msgspec import Struct

from usher.api.queueunit import QueueUnit
from usher.core import commands as c
from usher.core import events as ev
from usher.core.engine import Engine
from usher.core.model import Grant, Stored
from usher.core.phases import FINISHED, Phase
from usher.jobkinds.base import JobKind
from usher.runtime.checks import heard
from usher.runtime.drawing import Drawing
from usher.runtime.entry import Entry, observe, unsettled
from usher.runtime.facts import JobFacts, PodFacts, Reading, UnitFacts, provisional, read_job, read_unit, version_of
from usher.runtime.leftovers import left_behind, past_of
from usher.runtime.numbers import Numbers
from usher.runtime.objects import JobObject
from usher.runtime.podless import announced
from usher.runtime.port import Cluster
from usher.runtime.requests import Requests
from usher.runtime.worker import Barrier, Task, Worker

log = logging.getLogger("usher.manager")

BATCH_MAX = 2_000
"""Entries that one turn looks at; more wait for the next, so that the lease and the watches get their time."""


class ManagerSettings(Struct, frozen=True):
    """What the loop itself must know."""

    settle_ms: int = 3_000
    """How long a job that was held before its controller was seen to start it may still bring pods."""
    adopt: bool = True
    """Jobs that run when we come are charged; else they are left alone."""
    stuck_ms: int = 300_000
    """After how long a pod that is to go, on a node that is not ready, does not count any more; 0: never."""
    notice_ms: int = 30_000
    """How long before units of a QueueJob are taken back its owner is told."""
    step_rest_ms: int = 1_000
    step_rest_max_ms: int = 60_000


class Manager:
    """One leader's term: from what the caches hold to the end of the lease."""

    def __init__(
        self,
        cluster: Cluster,
        engine: Engine,
        reading: Reading,
        kinds: Sequence[JobKind],
        epoch: int,
        clock_ms: Callable[[], int],
        settings: ManagerSettings | None = None,
        numbers: Numbers | None = None,
        read_unit: Callable[[QueueUnit], UnitFacts] = read_unit,
    ) -> None:
        self.engine = engine
        self.read_unit = read_unit
        self.cluster = cluster
        self.epoch = epoch
        self.clock_ms = clock_ms
        self.settings = settings or ManagerSettings()
        self.numbers = numbers or Numbers()
        self.reading = reading
        self.kinds: Mapping[str, JobKind] = {f"{kind.group}/{kind.kind}": kind for kind in kinds}
        self.pod_labels: Callable[[str], Mapping[str, str]] = lambda quota: {}
        """What the pods of a unit that is charged to a quota carry, for a scheduler that knows the quota, too."""
        self.entries: dict[str, Entry] = {}
        self.begun = False
        self.stopped = False
        self.turns = 0
        self._by_job: dict[str, Entry] = {}
        self._nodes: dict[str, bool] = {}
        """Nodes that are there, and whether they are ready."""
        self._dirty: dict[str, Entry] = {}
        self._events: list[ev.Event] = []
        self._orphans: dict[str, dict[str, PodFacts]] = {}
        """Pods by their owner, where the job is not known (yet)."""
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at_ms: int | None = None
        self._worker = Worker(self)
        self.drawing = Drawing(self)
        self.requests = Requests(self)

    # -- seeing -------------------------------------------------------------------------------------------------------

    def see_job(self, kind: JobKind, found: JobObject, gone: bool = False) -> None:
        entry = self._by_job.get(found.metadata.uid)
        before = entry.job if entry is not None else None
        if before is not None and not gone and version_of(found.metadata.resource_version) <= before.version:
            return  # what came of a write of ours, and is known
        self.take_job(read_job(kind, found, self.reading, before), gone)

    def take_job(self, facts: JobFacts, gone: bool = False) -> None:
        """A job as it is now, whoever read or wrote it; one that is older than what is known changes nothing."""
        entry = self._by_job.get(facts.uid) or self.entries.get(facts.unit_key)
        if entry is None and self.drawing.see_job(facts, gone, self._orphans.get(facts.uid, {})):
            self._orphans.pop(facts.uid, None)
            return
        if entry is None:
            if gone or facts.digest is None or facts.progress.succeeded is not None:
                return
            entry = self._entry(facts.unit_key)
        if entry.job is not None and entry.job.uid == facts.uid and facts.version < entry.job.version:
            return
        if facts.uid in entry.gone_uids:
            return  # the answer to a write that came before its end, and was overtaken
        entry.job, entry.job_gone = (None, True) if gone else (facts, False)
        if gone:
            entry.gone_uids.add(facts.uid)
        if entry.job_uid != facts.uid:
            entry.first_version = facts.version
        entry.job_uid = facts.uid
        self._by_job[facts.uid] = entry
        entry.pods.update(self._orphans.pop(facts.uid, {}))
        if facts.allocation is not None:
            self.drawing.see_queue_job(entry, facts, gone)
        if facts.problem and not gone:
            self._worker.complain(entry, "BadJob", facts.problem)
        if not self.begun and not gone and not facts.suspended and facts.progress.started:
            entry.ran_before = True
        self.mark(entry)

    def see_unit(self, facts: UnitFacts, gone: bool = False) -> None:
        entry = self._entry(facts.key)
        known = entry.unit
        if gone:
            entry.gone_uids.add(facts.uid)
            if known is not None and known.uid == facts.uid:
                entry.unit = None
                entry.last = known.stored
        elif facts.uid in entry.gone_uids or _older(facts, known):
            return
        else:
            entry.unit = facts
            if facts.consumer_uid:
                entry.job_uid = entry.job_uid or facts.consumer_uid
                self._by_job.setdefault(facts.consumer_uid, entry)
                entry.pods.update(self._orphans.pop(facts.consumer_uid, {}))
        self.mark(entry)

    def see_pod(self, pod: PodFacts, gone: bool = False) -> None:
        if self.drawing.see_pod(pod, gone):
            return
        entry = self._by_job.get(pod.owner)
        if entry is None and pod.unit:
            entry = self.entries.get(f"{pod.key.partition('/')[0]}/{pod.unit}")
        pods = entry.pods if entry is not None else self._orphans.setdefault(pod.owner, {})
        if gone:
            pods.pop(pod.uid, None)
            if entry is None and not pods:
                del self._orphans[pod.owner]
        else:
            pods[pod.uid] = pod
        if entry is not None:
            self.mark(entry)

    def see_node(self, name: str, ready: bool | None) -> None:
        """None: the node is gone."""
        before = self._nodes.get(name)
        if ready is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = ready
        if before != ready and self.begun:
            for entry in self.entries.values():
                if any(pod.node == name and pod.deleting for pod in entry.pods.values()):
                    self.mark(entry)

    def see(self, *events: ev.Event) -> None:
        """Queues, quotas, capacity: what the engine hears as it is."""
        self._events.extend(events)
        self.wake()

    def read_again(self, reading: Reading) -> None:
        """Something that all jobs are read by has changed (priority classes)."""
        self.reading = reading
        for entry in list(self.entries.values()):
            if entry.job is not None:
                entry.job = read_job(entry.job.kind, entry.job.found, reading)
                self.mark(entry)
        self.drawing.read_again()

    def _entry(self, key: str) -> Entry:
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(key, notice_ms=self.settings.notice_ms)
        return entry

    def mark(self, entry: Entry) -> None:
        """Look at this one in the next turn."""
        self._dirty[entry.key] = entry
        self.wake()

    def wake(self) -> None:
        self._wake.set()

    # -- turns --------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Every kind has been seen once: decide from here on."""
        self._count_orphans()
        self.drawing.sum_up()
        for entry in self.entries.values():
            if entry.unit is not None and entry.job is None and entry.unit.consumer_kind in self.kinds:
                entry.job_gone = True
        for entry in self.in_order():
            self._look(entry)
        self._dirty.clear()
        self.begun = True
        self._decide([*self._take_events(), ev.Synced()])
        for entry in self.in_order():
            self.mark(entry)

    def in_order(self) -> list[Entry]:
        """As jobs came: units that are made anew get their place by it."""

        def age(entry: Entry) -> tuple[int, int, str]:
            job = entry.job
            return (0, 0, entry.key) if job is None else (job.created_ms, job.version, entry.key)

        return sorted(self.entries.values(), key=age)

    async def run(self) -> None:
        """Turn until cancelled; what must not happen (a broken invariant, a bug) is raised, and ends the process."""
        async with asyncio.TaskGroup() as group:
            self._worker.group = group
            try:
                while not self.stopped:
                    await self._wake.wait()
                    self._wake.clear()
                    self.turn()
                    await asyncio.sleep(0)
            finally:
                self.stopped = True
                if self._timer is not None:
                    self._timer.cancel()

    def turn(self) -> None:
        """Look at what was marked, decide once, and set workers going."""
        if not self.begun:
            return
        self.turns += 1
        self.drawing.turn()
        looked = list(self._dirty.values())[:BATCH_MAX]
        for entry in looked:
            del self._dirty[entry.key]
            self._look(entry)
        now_ms = self.clock_ms()
        due = self._wake_at_ms is not None and now_ms >= self._wake_at_ms
        events = self._take_events()
        if events or due:
            self._decide(events)
        for entry in looked:
            self._worker.start(entry)
        if self._dirty:
            self.wake()

    def _take_events(self) -> list[ev.Event]:
        events, self._events = self._events, []
        return events

    def _look(self, entry: Entry) -> None:
        """Tell the engine what it does not know of this entry."""
        now_ms, settle_ms = self.clock_ms(), self.settings.settle_ms
        entry.lost, entry.looked_ms = self._lost(entry, now_ms), now_ms
        entry.remember()
        if not self._introduce(entry):
            return
        events = tuple(observe(entry, now_ms, settle_ms))
        if events != entry.told:
            entry.told = events
            self._events.extend(events)
            self._note(entry, events, now_ms)
        for at_ms in (unsettled(entry, now_ms, settle_ms), announced(entry)):
            if at_ms is not None:
                self.look_at(entry, at_ms)

    def _note(self, entry: Entry, events: Sequence[ev.Event], now_ms: int) -> None:
        for event in events:
            if isinstance(event, ev.UnitShrunk):
                generation, least = entry.gave_back
                before = least if generation == event.generation else {}
                now = {g.pod_set: min(g.count, before.get(g.pod_set, g.count)) for g in event.grants}
                entry.gave_back = (event.generation, now)
            elif isinstance(event, ev.UnitPaused):
                entry.held_ms = now_ms

    def _introduce(self, entry: Entry) -> bool:
        """See that the engine knows of the unit, in its present form; whether it does."""
        unit, job = entry.unit, entry.job
        if unit is None:
            self._without_unit(entry)
            return False
        if unit.stored.phase in FINISHED:
            if entry.known and not any(isinstance(told, ev.UnitFinished) for told in entry.told):
                self._events.append(ev.UnitFinished(entry.key, unit.stored.phase is Phase.SUCCEED))
            entry.known = entry.known and bool(entry.told)
            return False
        if entry.known and entry.spec_generation == unit.generation:
            self._hear_checks(entry, unit)
            return True
        spec = unit.unit if job is None else replace(unit.unit, created_ms=job.created_ms)
        if entry.known:
            self._events.append(ev.UnitChanged(spec))
        else:
            self._events.append(ev.UnitChanged(spec, past_of(entry, unit)))
            entry.known, entry.told = True, ()
        entry.spec_generation = unit.generation
        self._hear_checks(entry, unit)
        return True

    def _hear_checks(self, entry: Entry, unit: UnitFacts) -> None:
        """What check controllers wrote into the unit since."""
        if unit.stored.phase is not Phase.RESERVED:
            entry.answers = {}
            return
        for answer in unit.status.admission_checks:
            if entry.answers.get(answer.name, answer.state) is not answer.state or answer.name not in entry.answers:
                entry.answers[answer.name] = answer.state
                self._events.append(heard(answer, unit, entry.job))

    def _without_unit(self, entry: Entry) -> None:
        """Its unit is gone, or is not made yet."""
        job = entry.job
        takes_part = job is not None and bool(job.digest) and not job.deleting and job.progress.succeeded is None
        runs = job is not None and takes_part and not job.suspended
        entry.left = runs and not entry.known and self._left_alone(entry)
        entry.adopted = runs and not entry.left and (entry.known or entry.ran_before)
        if entry.adopted:  # it goes on: its unit is made anew and gets its past back
            if not entry.known:
                self._charge(entry)
            return
        if entry.alive() or entry.drawn:
            return  # they are still charged
        if entry.known:
            self._events.append(ev.UnitGone(entry.key))
            entry.known, entry.told, entry.last = False, (), None
        ended = job is None or job.progress.succeeded is not None
        if not takes_part and ended and not entry.busy:
            self.entries.pop(entry.key, None)
            self._by_job.pop(entry.job_uid, None)

    def _left_alone(self, entry: Entry) -> bool:
        """Whether it ran when we came, we did not let it in, and such jobs are none of ours."""
        if self.settings.adopt or not entry.ran_before or (entry.job is not None and entry.job.allocation is not None):
            return False
        return not any(pod.unit for pod in entry.pods.values())

    def _charge(self, entry: Entry) -> None:
        """Tell the engine of a job that runs without a unit, as if it had one: before anything is decided."""
        job = entry.job
        unit = None if job is None else provisional(job, self.reading)
        if job is None or unit is None:
            return
        grants = tuple(Grant(pods.name, job.holding.get(pods.name, pods.count)) for pods in unit.pod_sets)
        entry.last = Stored(Phase.DEQUEUED, grants, generation=1, admitted_ms=self.clock_ms())
        self._events.append(ev.UnitChanged(replace(unit, created_ms=job.created_ms), entry.last))
        entry.known, entry.told = True, ()

    def _count_orphans(self) -> None:
        """Pods that were let in and have outlived job and unit: charged until they are gone."""
        for owner, pods in list(self._orphans.items()):
            pod = next((each for each in pods.values() if each.unit and each.alive), None)
            if pod is None:
                continue
            namespace = pod.key.partition("/")[0]
            entry = self._entry(f"{namespace}/{pod.unit}")
            if entry.unit is not None or entry.known:
                continue
            entry.job_uid, entry.pods = owner, self._orphans.pop(owner)
            self._by_job[owner] = entry
            self._events.append(left_behind(namespace, pod.unit, pod.quota, entry.alive()))
            entry.known = True

    def _lost(self, entry: Entry, now_ms: int) -> frozenset[str]:
        """Pods that are to go on a node that is gone, or not ready for long."""
        lost: set[str] = set()
        for pod in entry.pods.values():
            if not pod.deleting or not pod.node or not pod.alive:
                continue
            ready = self._nodes.get(pod.node)
            if ready is None and self.begun:
                lost.add(pod.uid)
            elif ready is False and self.settings.stuck_ms:
                since = entry.stuck_since.setdefault(pod.uid, now_ms)
                if now_ms >= since + self.settings.stuck_ms:
                    lost.add(pod.uid)
                else:
                    self.look_at(entry, since + self.settings.stuck_ms)
        return frozenset(lost)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def _decide(self, events: Sequence[ev.Event]) -> None:
        """One call of the engine; everything it commands is on its way."""
        now_ms = self.clock_ms()
        if self._wake_at_ms is not None and now_ms >= self._wake_at_ms:
            self._wake_at_ms = None
        began = time.perf_counter()
        commands = self.engine.handle(events, now_ms)
        self.numbers.decided(
            time.perf_counter() - began, len(events), Counter(type(each).__name__ for each in commands)
        )
        nominations = [each for each in commands if isinstance(each, c.Nominate) and each.nomination is not None]
        barrier = Barrier({each.key for each in nominations if each.key in self.entries}, self._worker.start)
        for command in commands:
            if isinstance(command, c.WakeAt):
                self._wake_at(command.at_ms)
                continue
            entry = self.entries.get(command.key)
            if entry is None:
                self.requests.carry_out(command)
                continue
            if isinstance(command, c.NoteOvertaken):
                entry.later_ms = entry.later_ms if entry.later else now_ms
                entry.later = [command]
                continue
            if isinstance(command, c.Evict):
                entry.evict_generation = command.generation
                entry.told = ()
            waits_for = barrier if isinstance(command, c.Evict | c.Shrink) and not barrier.open else None
            entry.todo.append(Task(command, barrier, waits_for))
            if waits_for is not None:
                barrier.waiting.append(entry)
            self._worker.start(entry)

    def _wake_at(self, at_ms: int) -> None:
        self._wake_at_ms = at_ms  # the engine says when it must be called next, whatever it said before
        delay_s = max(0.0, (at_ms - self.clock_ms()) / 1000)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay_s, self.wake)

    def look_at(self, entry: Entry, at_ms: int) -> None:
        """Mark it at this time."""
        if at_ms > entry.look_at_ms:
            entry.look_at_ms = at_ms
            self.call_at(at_ms, lambda: self.mark(entry))

    def call_at(self, at_ms: int, call: Callable[[], None]) -> None:
        """Call this then."""
        asyncio.get_running_loop().call_later(max(0.0, (at_ms - self.clock_ms()) / 1000), call)

    @property
    def group(self) -> asyncio.TaskGroup | None:
        """Where writes are tasks, while the loop runs."""
        return self._worker.group

    def entry_of(self, uid: str) -> Entry | None:
        """The entry of the job of this uid."""
        return self._by_job.get(uid)

    def queued(self, uid: str) -> bool:
        """Whether the job of this uid takes part: its pods are charged by its unit."""
        entry = self._by_job.get(uid)
        return self.drawing.charged(uid) or (
            entry is not None and not entry.left and (entry.known or (entry.job is not None and bool(entry.job.digest)))
        )

    # -- for the worker -----------------------------------------------------------------------------------------------

    def refresh(self, entry: Entry) -> None:
        """Bring what its status shows up to date."""
        entry.refresh = True
        self._worker.start(entry)

    def answer(self, *events: ev.Event) -> None:
        """The outcome of a write."""
        self._events.extend(events)
        self.wake()

    def take_unit(self, entry: Entry, found: QueueUnit) -> None:
        """A unit as a write has left it."""
        self.see_unit(self.read_unit(found))


def _older(facts: UnitFacts, known: UnitFacts | None) -> bool:
    return known is not None and known.uid == facts.uid and facts.version <= known.version
