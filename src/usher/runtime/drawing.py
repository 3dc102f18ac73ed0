"""Jobs that draw on the allocation of a QueueJob: no unit, no charge of their own, and never more than it has.

A job names its QueueJob by a label. It is held until what the QueueJob has, less what draws on it already, covers the
job; when the allocation falls, the youngest are held again. The mark of an admission says on which QueueJob (its uid) a
job was let start: suspended with the mark, its owner holds it; without, it waits for us. What it says is read from the
objects alone, so a new leader goes on where the last one stopped. Fed, and given its turns, by `usher.runtime.manager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from usher.core.amounts import Amounts, add, raise_to
from usher.jobkinds.additions import Additions
from usher.runtime.checks import with_labels
from usher.runtime.entry import Entry
from usher.runtime.facts import JobFacts, PodFacts, read_job
from usher.runtime.marks import ADMISSION_ANNOTATION, GATE
from usher.runtime.podless import one_unit
from usher.runtime.port import Body, Fenced, Outcome, Regarding, Rejected, Severity, Stale, Written

if TYPE_CHECKING:
    from usher.runtime.manager import Manager


class Drawer(Struct):
    """A job that draws, and its pods."""

    job: JobFacts
    pods: dict[str, PodFacts] = field(default_factory=dict)
    gone: bool = False
    busy: bool = False
    rests_until_ms: int = 0
    rest_ms: int = 0
    told: tuple[str, str] = ("", "")

    @property
    def key(self) -> str:
        """Of the QueueJob that it names."""
        return f"{self.job.found.metadata.namespace}/{self.job.draws_on}"

    @property
    def over(self) -> bool:
        return self.gone or self.job.deleting or self.job.progress.succeeded is not None

    @property
    def age(self) -> tuple[int, str]:
        return self.job.created_ms, self.job.found.metadata.name

    @property
    def alive(self) -> bool:
        """Whether it still has pods, as we see them or by its controller's count."""
        return self.job.progress.alive > 0 or any(pod.alive for pod in self.pods.values())

    @property
    def clears(self) -> bool:
        """Whether what its controller left in its status is to go: not before its pods, and not if it is over."""
        return bool(self.job.progress.leaves) and not self.over and not self.alive

    @property
    def stands(self) -> bool:
        """It is held, and nothing of it is left that must go first."""
        return self.job.suspended and not self.over and not self.takes() and not self.job.progress.leaves

    def takes(self) -> dict[str, int]:
        """What it uses, or may begin to use: all it asks for until its controller is seen to hold it."""
        total: dict[str, int] = {}
        for pod in self.pods.values():
            if pod.alive:
                add(total, pod.request)
        progress = self.job.progress
        if not self.over and not (self.job.suspended and progress.held and not progress.alive):
            raise_to(total, self.job.asks)
        return {name: amount for name, amount in total.items() if amount}


class Room(Struct, frozen=True):
    """A QueueJob, as those that draw on it see it."""

    uid: str
    keeps: Amounts
    """What may go on."""
    starts: Amounts
    """What may be begun: without what must be given back."""


def room_of(entry: Entry) -> Room | None:
    """What an entry's QueueJob has; None: there is none."""
    job = entry.job
    if job is None or job.allocation is None or job.deleting:
        return None
    each = job.asks if entry.unit is None else one_unit(entry.unit)
    units, least = job.allocation.units, job.allocation.shrink_to
    return Room(job.uid, _times(each, units), _times(each, units if least is None else min(units, least)))


def plan(room: Room | None, drawers: Iterable[Drawer]) -> tuple[list[Drawer], list[Drawer]]:
    """Which of those that name a QueueJob are to be held, and which let start, oldest first.

    When there is too little the youngest are held. One that does not fit is passed over.
    """
    known = sorted(drawers, key=lambda each: each.age)
    used, kept = dict[str, int](), dict[str, int]()
    held, started = list[Drawer](), list[Drawer]()
    full = False
    for each in known:
        add(used, each.takes())
        if each.over or each.job.suspended:
            continue
        if room is None or each.job.admission != room.uid:
            held.append(each)  # nobody let it start on this
            continue
        full = full or not _fits(each.job.asks, kept, room.keeps)
        if full:
            held.append(each)
        add(kept, each.job.asks)
    for each in known:
        if room is None or not each.stands or each.job.admission == room.uid:
            continue
        if _fits(each.job.asks, used, room.starts):
            started.append(each)
            add(used, each.job.asks)
    return held, started


def _fits(asks: Amounts, used: Mapping[str, int], room: Amounts) -> bool:
    return all(used.get(name, 0) + amount <= room.get(name, 0) for name, amount in asks.items() if amount)


def _times(each: Amounts, count: int) -> dict[str, int]:
    return {name: amount * count for name, amount in each.items()}


class Drawing:
    """All jobs that draw, in one leader's term."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._drawers: dict[str, Drawer] = {}
        self._queue_jobs: dict[str, Entry] = {}
        """By namespace and name: the one that is there now."""
        self._drawn: dict[str, Entry] = {}
        """Those on which something draws."""
        self._dirty: set[str] = set()

    # -- seeing -------------------------------------------------------------------------------------------------------

    def see_job(self, facts: JobFacts, gone: bool, pods: Mapping[str, PodFacts]) -> bool:
        """A job; whether it draws. `pods`: those that came before it."""
        known = self._drawers.get(facts.uid)
        if known is not None:
            self._dirty.add(known.key)
            if facts.version >= known.job.version:
                known.job, known.gone = facts, gone or known.gone
        elif facts.draws_on and not gone:
            known = self._drawers[facts.uid] = Drawer(facts, dict(pods))
        else:
            return False
        if not known.job.draws_on:
            del self._drawers[facts.uid]
            return False
        self._dirty.add(known.key)
        self._manager.wake()
        return True

    def see_queue_job(self, entry: Entry, facts: JobFacts, gone: bool) -> None:
        """A QueueJob as it is now."""
        key = f"{facts.found.metadata.namespace}/{facts.found.metadata.name}"
        if not gone:
            self._queue_jobs[key] = entry
        elif self._queue_jobs.get(key) is entry:
            del self._queue_jobs[key]
        self._dirty.add(key)

    def see_pod(self, pod: PodFacts, gone: bool) -> bool:
        """A pod; whether it is of a job that draws."""
        drawer = self._drawers.get(pod.owner)
        if drawer is None:
            return False
        if gone:
            drawer.pods.pop(pod.uid, None)
        else:
            drawer.pods[pod.uid] = pod
        self._dirty.add(drawer.key)
        self._manager.wake()
        return True

    def read_again(self) -> None:
        for drawer in self._drawers.values():
            drawer.job = read_job(drawer.job.kind, drawer.job.found, self._manager.reading)
            self._dirty.add(drawer.key)

    def charged(self, uid: str) -> bool:
        """Whether what a job's pods use is charged by a QueueJob's unit."""
        drawer = self._drawers.get(uid)
        return drawer is not None and self._charges(drawer) is not None

    def pods(self) -> Iterable[tuple[str, PodFacts]]:
        """Pods that use what a QueueJob has, with the key of its entry."""
        for drawer in self._drawers.values():
            entry = self._charges(drawer)
            for pod in drawer.pods.values() if entry is not None else ():
                if pod.alive and entry is not None:
                    yield entry.key, pod

    def _charges(self, drawer: Drawer) -> Entry | None:
        """The entry that pays for it: that of the QueueJob it was started on, else of the one it names."""
        return self._manager.entry_of(drawer.job.admission) or self._queue_jobs.get(drawer.key)

    # -- turns --------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """The same, hold what is too much, and let start what fits."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, set()
        for uid in [uid for uid, each in self._drawers.items() if each.gone and not each.takes()]:
            del self._drawers[uid]
        self.sum_up()
        naming: dict[str, list[Drawer]] = {}
        for drawer in self._drawers.values():
            if drawer.key in dirty:
                naming.setdefault(drawer.key, []).append(drawer)
        for key, drawers in naming.items():
            self._carry_out(key, drawers)

    def sum_up(self) -> None:
        """Tell entries what draws on them."""
        drawn: dict[str, dict[str, int]] = {}
        entries = dict(self._drawn)
        for drawer in self._drawers.values():
            entry = self._charges(drawer)
            if entry is not None and (takes := drawer.takes()):
                entries[entry.key] = entry
                add(drawn.setdefault(entry.key, {}), takes)
        for key, entry in entries.items():
            now = drawn.get(key, {})
            if entry.drawn != now:
                entry.drawn = now
                self._manager.mark(entry)
        self._drawn = {key: entry for key, entry in entries.items() if key in drawn}

    def _carry_out(self, key: str, drawers: list[Drawer]) -> None:
        entry = self._queue_jobs.get(key)
        room = None if entry is None else room_of(entry)
        held, started = plan(room, drawers)
        for drawer in held:
            text = f"Held until QueueJob {drawer.job.draws_on} has enough for it."
            self._begin(drawer, _held(drawer.job), (Severity.WARNING, "Held", text))
        for drawer in started:
            assert entry is not None
            text = f"May start on QueueJob {drawer.job.draws_on}."
            self._begin(drawer, self._started(drawer.job, entry), (Severity.NORMAL, "Started", text))
        for drawer in drawers:
            if drawer.clears:
                self._begin(drawer, drawer.job.cleared())
            if drawer.job.suspended and drawer not in started and not drawer.over:
                self._say_why(drawer, room)

    def _say_why(self, drawer: Drawer, room: Room | None) -> None:
        name = drawer.job.draws_on
        if room is None:
            self._tell(drawer, Severity.WARNING, "NoQueueJob", f"Waits: there is no QueueJob {name} in its namespace.")
        elif drawer.job.admission != room.uid:
            text = f"Waits until QueueJob {name} has enough that nothing else uses."
            self._tell(drawer, Severity.NORMAL, "Waiting", text)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _begin(self, drawer: Drawer, body: Body, told: tuple[Severity, str, str] | None = None) -> None:
        """Change a job and, when that is done, say so."""
        group = self._manager.group
        if group is None or drawer.busy or self._manager.stopped:
            return
        if drawer.rests_until_ms > self._manager.clock_ms():
            return
        drawer.busy = True
        group.create_task(self._change(drawer, body, told))

    async def _change(self, drawer: Drawer, body: Body, told: tuple[Severity, str, str] | None) -> None:
        manager, job, meta = self._manager, drawer.job, drawer.job.found.metadata
        try:
            outcome = await manager.cluster.patch_job(job.kind, meta.namespace, meta.name, body)
        finally:
            drawer.busy = False
        self._dirty.add(drawer.key)
        if isinstance(outcome, Written | Stale):
            manager.take_job(read_job(job.kind, outcome.object, manager.reading))
        if isinstance(outcome, Written):
            drawer.rest_ms = 0
            if told is not None:
                self._tell(drawer, *told)
        elif not isinstance(outcome, Stale):
            self._failed(drawer, outcome)
        manager.wake()

    def _started(self, job: JobFacts, on: Entry) -> Body:
        """The patch by which a job starts on a QueueJob."""
        pods = with_labels({}, on.unit, self._manager.pod_labels(on.unit.stored.quota)) if on.unit else {}
        return _marked(job, job.kind.release(job.decoded(), job.counts, Additions({}, GATE, False, pods)), on.job_uid)

    def _failed(self, drawer: Drawer, outcome: Outcome[Any]) -> None:
        manager, settings = self._manager, self._manager.settings
        if isinstance(outcome, Fenced):
            manager.stopped = True
        elif isinstance(outcome, Rejected):
            why = f"{outcome.reason}: {outcome.message}"
            self._tell(drawer, Severity.WARNING, "Failed", f"Could not be held, cleared or let start: {why}")
        drawer.rest_ms = min(max(2 * drawer.rest_ms, settings.step_rest_ms), settings.step_rest_max_ms)
        drawer.rests_until_ms = manager.clock_ms() + drawer.rest_ms
        manager.call_at(drawer.rests_until_ms, lambda: self._again(drawer))

    def _again(self, drawer: Drawer) -> None:
        self._dirty.add(drawer.key)
        self._manager.wake()

    def _tell(self, drawer: Drawer, severity: Severity, reason: str, note: str) -> None:
        """Say it on the job, once while it stays the same."""
        if drawer.told == (reason, note):
            return
        drawer.told = (reason, note)
        kind, meta = drawer.job.kind, drawer.job.found.metadata
        api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
        regarding = Regarding(api_version, kind.kind, meta.namespace, meta.name, meta.uid)
        self._manager.cluster.tell(regarding, severity, reason, "Queueing", note[:1024])


def _held(job: JobFacts) -> Body:
    """The patch by which a job waits for us."""
    return _marked(job, job.kind.hold(job.decoded(), job.full_counts()), None)


def _marked(job: JobFacts, patch: dict[str, Any], mark: str | None) -> Body:
    metadata = {"resourceVersion": job.found.metadata.resource_version, "annotations": {ADMISSION_ANNOTATION: mark}}
    return {"metadata": metadata, job.kind.part: patch}
