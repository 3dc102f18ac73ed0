"""Writes for the entries, one thing at a time in each: the engine's word first, then what follows from it.

A worker never decides anything. What it wrote it reads back from the answer, so the next look starts from there; what
was refused it says, and rests before it tries again. Called by `usher.runtime.manager`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, structs

from usher.api import names
from usher.api.conditions import find
from usher.api.times import ms_of, time_of
from usher.core import commands as c
from usher.core import events as ev
from usher.core.model import Stored
from usher.core.phases import FINISHED, Cause, Phase
from usher.jobkinds.additions import Additions
from usher.jobkinds.base import Allocation, PodlessKind
from usher.runtime.checks import added, with_labels
from usher.runtime.entry import Entry, Step, allocation, holds, limits, loose_pods, next_step, outdated, targets, wanted
from usher.runtime.facts import Draft, JobFacts, UnitFacts, draft, read_job
from usher.runtime.marks import ADMISSION_ANNOTATION, GATE, QUOTA_ANNOTATION, REDUCED_ANNOTATION, UNIT_ANNOTATION
from usher.runtime.objects import JobObject
from usher.runtime.podless import one_unit
from usher.runtime.port import (
    Fenced,
    Outcome,
    Regarding,
    Rejected,
    Severity,
    Stale,
    Urgency,
    Vanished,
    Written,
)
from usher.runtime.status import WORDS, fold, status_after, status_patch, with_report

if TYPE_CHECKING:
    from usher.runtime.manager import Manager

Admission = c.Admit | c.Reserve | c.Grow
ATTEMPTS_MAX = 8
"""How often a write is tried anew on an object that keeps changing, before it rests."""
OPTIONAL = ("queue", "quota", "maximumExecutionTimeSeconds", "preemptible", "priorityClassName")


class Barrier:
    """Nominations of one call: whoever must stop for them is told only when they are stored."""

    def __init__(self, keys: set[str], start: Callable[[Entry], None]) -> None:
        self._missing = keys
        self._start = start
        self.waiting: list[Entry] = []

    @property
    def open(self) -> bool:
        return not self._missing

    def stored(self, key: str) -> None:
        self._missing.discard(key)
        if self.open:
            waiting, self.waiting = self.waiting, []
            for entry in waiting:
                self._start(entry)


class Task(Struct):
    """A command on its way into a status."""

    command: c.Command
    barrier: Barrier
    waits_for: Barrier | None = field(default=None)

    @property
    def ready(self) -> bool:
        return self.waits_for is None or self.waits_for.open


class Worker:
    """Carries out what the entries call for."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self.group: asyncio.TaskGroup | None = None

    def start(self, entry: Entry) -> None:
        """See that somebody works on this entry, if there is something to do."""
        if entry.busy or self.group is None or self._manager.stopped or not self._has_work(entry):
            return
        entry.busy = True
        self.group.create_task(self._work(entry))

    def _has_work(self, entry: Entry) -> bool:
        if entry.rests_until_ms > self._manager.clock_ms():
            return False
        if entry.refresh or _revives(entry) or next_step(entry) is not None:
            return True
        return bool(entry.todo and entry.todo[0].ready)

    async def _work(self, entry: Entry) -> None:
        manager = self._manager
        try:
            while not manager.stopped and entry.rests_until_ms <= manager.clock_ms():
                if _revives(entry):
                    await self._write(entry, [])
                elif entry.todo and entry.todo[0].ready:
                    await self._write(entry, self._ready(entry))
                elif (step := next_step(entry)) is not None:
                    await self._take(entry, step)
                elif entry.refresh:
                    await self._write(entry, [])
                else:
                    break
        finally:
            entry.busy = False
        manager.mark(entry)

    def _ready(self, entry: Entry) -> list[Task]:
        tasks: list[Task] = []
        while entry.todo and entry.todo[0].ready:
            tasks.append(entry.todo.popleft())
        return tasks

    # -- the unit's status --------------------------------------------------------------------------------------------

    async def _write(self, entry: Entry, tasks: list[Task]) -> None:
        """Carry commands into the status, together; every admission among them is answered."""
        commands = [*entry.later, *(task.command for task in tasks)]
        entry.later, entry.refresh = [], False
        for _ in range(ATTEMPTS_MAX):
            unit = entry.unit
            if unit is None or unit.stored.phase in FINISHED:
                self._refuse(commands, "the unit is gone")
                break
            late = unit.generation != entry.spec_generation or outdated(entry)
            if late and any(isinstance(each, Admission) for each in commands):
                self._refuse(commands, "the unit has changed")
                commands = [each for each in commands if not isinstance(each, Admission)]
            outcome = await self._send_status(entry, unit, commands)
            if isinstance(outcome, Written):
                self._done(entry, unit, commands)
                break
            if isinstance(outcome, Stale):
                continue
            self._refuse(commands, self._why(entry, outcome))
            entry.later = [each for each in commands if isinstance(each, c.NoteOvertaken)]
            break
        else:
            self._refuse(commands, "the unit keeps changing")
        for task in tasks:
            if isinstance(task.command, c.Nominate):
                task.barrier.stored(entry.key)

    async def _send_status(self, entry: Entry, unit: UnitFacts, commands: list[c.Command]) -> Outcome[Any]:
        manager, now_ms = self._manager, self._manager.clock_ms()
        past = self._past(entry, unit)
        stored = fold(past, commands, now_ms)
        waits = ("", "")
        if not stored.grants and stored.phase not in FINISHED:
            waits = manager.engine.reason(entry.key)
        status = status_after(unit, stored, commands, waits, now_ms)
        status = with_report(status, entry.alive())
        body = status_patch(unit.status, status, manager.epoch, unit.version)
        if not body:
            return Written(None)
        outcome = await manager.cluster.patch_unit_status(unit.namespace, unit.name, body, _urgency(commands))
        if isinstance(outcome, Written | Stale):
            manager.take_unit(entry, outcome.object)
        if isinstance(outcome, Written):
            entry.last = None
            entry.written_ms = now_ms
            if past.grants != unit.stored.grants and stored.generation == unit.stored.generation:
                manager.answer(ev.UnitShrunk(entry.key, stored.generation, past.grants))
        return outcome

    def _past(self, entry: Entry, unit: UnitFacts) -> Stored:
        """What is stored or, where the unit was made anew, what it must be given first."""
        if not _revives(entry) or entry.last is None:
            return replace(unit.stored, grants=holds(entry))
        view = self._manager.engine.unit(entry.key)
        return replace(entry.last, quota=entry.last.quota or (view.quota if view is not None else ""))

    def _done(self, entry: Entry, before: UnitFacts, commands: list[c.Command]) -> None:
        manager = self._manager
        for command in commands:
            self._count(entry, before, command)
            if isinstance(command, Admission):
                manager.answer(ev.Confirmed(command.key, command.generation))
                if not isinstance(command, c.Reserve) and (entry.job is None or entry.job.allocation is None):
                    pods = sum(grant.count for grant in command.grants)
                    many = "1 pod" if pods == 1 else f"{pods} pods"
                    self._tell(entry, Severity.NORMAL, "Admitted", f"May start with {many}.")
            elif isinstance(command, c.Evict):
                text = WORDS.get(command.cause, command.cause.value) + (f" for {command.by}" if command.by else "")
                self._tell(entry, Severity.WARNING, "Evicted", f"{text}.")
            elif isinstance(command, c.SetPhase) and command.cause is Cause.NOT_ADMITTED:
                self._tell(entry, Severity.NORMAL, "Waiting", manager.engine.reason(entry.key)[1] or "It waits.")

    def _count(self, entry: Entry, before: UnitFacts, command: c.Command) -> None:
        """What happened, as a number."""
        manager, now_ms = self._manager, self._manager.clock_ms()
        entry.queue = manager.engine.queue_of(entry.key) or entry.queue
        match command:
            case c.Admit():
                manager.numbers.admitted(entry.queue, max(0, now_ms - waits_since(before, entry.job)))
            case c.Evict():
                manager.numbers.evicted(entry.queue, command.cause.value)
            case c.SetPhase(phase=Phase.RUNNING) if before.stored.phase is not Phase.RUNNING:
                manager.numbers.started(entry.queue, max(0, now_ms - before.stored.admitted_ms))
            case c.SetPhase(phase=phase) if phase in FINISHED:
                manager.numbers.ended(entry.queue, phase.value)
            case _:
                pass

    def _refuse(self, commands: list[c.Command], why: str) -> None:
        for command in commands:
            if isinstance(command, Admission):
                self._manager.answer(ev.Refused(command.key, command.generation, why))

    # -- the job and the unit's spec ----------------------------------------------------------------------------------

    async def _take(self, entry: Entry, step: Step) -> None:
        job, unit = entry.job, entry.unit
        outcome: Outcome[Any]
        match step:
            case Step.DROP:
                assert unit is not None
                outcome = await self._manager.cluster.delete_unit(unit.namespace, unit.name, unit.uid)
                if isinstance(outcome, Written) and entry.unit is unit:
                    entry.unit = structs.replace(unit, deleting=True)
            case Step.CREATE | Step.FOLLOW:
                assert job is not None
                outcome = await self._change_unit(entry, job, step)
            case Step.CLEAR:
                assert job is not None
                meta = job.found.metadata
                outcome = await self._manager.cluster.patch_job(job.kind, meta.namespace, meta.name, job.cleared())
                if isinstance(outcome, Written | Stale):
                    self._took(outcome.object, job)
            case Step.NAME | Step.HOLD | Step.RELEASE | Step.RESIZE:
                assert job is not None
                outcome = await self._change_job(entry, job, step)
            case Step.ALLOCATE:
                assert job is not None
                outcome = await self._allocate(entry, job)
            case Step.LET_IN | Step.TAKE_BACK:
                outcome = await self._change_pod(entry, step)
            case Step.GIVE_BACK:
                assert unit is not None
                outcome = await self._send_status(entry, unit, [])
        if isinstance(outcome, Written):
            entry.rest_ms = 0
        elif not isinstance(outcome, Stale):
            why = self._why(entry, outcome)
            if not isinstance(outcome, Vanished | Fenced):
                self.complain(entry, "Failed", f"Could not {step.value}: {why}")
            self._rest(entry)

    async def _change_unit(self, entry: Entry, job: JobFacts, step: Step) -> Outcome[Any]:
        manager, meta = self._manager, job.found.metadata
        unit = entry.unit
        said = draft(job.kind, job.decoded(), job.found, manager.reading)
        assert said is not None
        outcome: Outcome[Any]
        if step is Step.CREATE:
            said.body["spec"]["sequence"] = entry.first_version  # not after what others wrote into it meanwhile
            outcome = await manager.cluster.create_unit(meta.namespace, said.body)
        else:
            assert unit is not None
            body = _followed(unit, job, said)
            outcome = await manager.cluster.patch_unit(unit.namespace, unit.name, body)
        if isinstance(outcome, Written | Stale):
            manager.take_unit(entry, outcome.object)
        return outcome

    async def _change_job(self, entry: Entry, job: JobFacts, step: Step) -> Outcome[Any]:
        manager, meta, unit = self._manager, job.found.metadata, entry.unit
        decoded = job.decoded()
        notes: dict[str, str | None] = {}
        labels: dict[str, str] = {}
        if step is Step.NAME:
            patch, labels = {}, {manager.reading.keys.queue[0]: job.lacks}
        elif step is Step.HOLD:
            patch = job.kind.hold(decoded, job.full_counts())
            if job.reduced:
                notes = {REDUCED_ANNOTATION: None}
        elif step is Step.RELEASE:
            assert unit is not None
            grants = {grant.pod_set: grant.count for grant in unit.stored.grants}
            marks = {UNIT_ANNOTATION: unit.name, QUOTA_ANNOTATION: unit.stored.quota}
            pods = with_labels(added(unit), unit, manager.pod_labels(unit.stored.quota))
            patch = job.kind.release(decoded, grants, Additions(marks, GATE, unit.unit.elastic, pods))
            notes = {ADMISSION_ANNOTATION: unit.admission}
            if names.PAUSED in meta.annotations:
                notes[names.PAUSED] = None
            fewer = [f"{name}={grants[name]}/{n}" for name, n in job.counts.items() if grants.get(name, n) < n]
            if fewer and not unit.unit.elastic:
                notes[REDUCED_ANNOTATION] = ",".join(fewer)
        else:
            patch = job.kind.resize(decoded, limits(entry))
        metadata: dict[str, Any] = {"resourceVersion": meta.resource_version}
        metadata |= {"annotations": notes} if notes else {"labels": labels} if labels else {}
        body = {"metadata": metadata, job.kind.part: patch}
        if job.kind.part == "status":
            patch["epoch"] = manager.epoch
        outcome = await manager.cluster.patch_job(job.kind, meta.namespace, meta.name, body)
        if isinstance(outcome, Written | Stale):
            self._took(outcome.object, job)
        if isinstance(outcome, Written) and step is Step.HOLD:
            entry.held_ms = manager.clock_ms()
        if isinstance(outcome, Written) and step is Step.RESIZE:
            text = "A job that runs may grow only if it is elastic: it was brought back to what it was granted."
            self.complain(entry, "GrowthRefused", text)
        return outcome

    async def _allocate(self, entry: Entry, job: JobFacts) -> Outcome[Any]:
        """Tell a job without pods what it may use, or what it must give back and when."""
        manager, kind, unit, meta = self._manager, job.kind, entry.unit, job.found.metadata
        given, before = allocation(entry), job.allocation
        assert isinstance(kind, PodlessKind)
        assert unit is not None
        assert given is not None
        assert before is not None
        status = kind.allocate(job.decoded(), given, one_unit(unit), manager.clock_ms())
        status |= {"epoch": manager.epoch, "observedGeneration": meta.generation}
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        outcome = await manager.cluster.patch_job(kind, meta.namespace, meta.name, body)
        if isinstance(outcome, Written | Stale):
            self._took(outcome.object, job)
        if isinstance(outcome, Written):
            self._tell_allocation(entry, before, given)
        return outcome

    def _tell_allocation(self, entry: Entry, before: Allocation, given: Allocation) -> None:
        if given.shrink_to is not None and given.shrink_to != before.shrink_to:
            gone, at = given.units - given.shrink_to, time_of(given.shrink_at_ms)
            text = f"Must give back {gone} of its {given.units} units; they are taken at {at}."
            self._tell(entry, Severity.WARNING, "Shrinking", text)
        elif given.units < before.units:
            self._tell(entry, Severity.NORMAL, "Shrunk", f"Has {given.units} units, after {before.units}.")
        elif given.units > before.units:
            self._tell(entry, Severity.NORMAL, "Allocated", f"May use {given.units} units.")

    def _took(self, found: JobObject, job: JobFacts) -> None:
        self._manager.take_job(read_job(job.kind, found, self._manager.reading, job))

    async def _change_pod(self, entry: Entry, step: Step) -> Outcome[Any]:
        most, loose = targets(entry), loose_pods(entry)
        cluster = self._manager.cluster
        outcome: Outcome[Any]
        if step is Step.LET_IN:
            pod = next(pod for pod in entry.gated() if loose.get(pod.pod_set, 0) < most.get(pod.pod_set, 0))
            namespace, _, name = pod.key.partition("/")
            outcome = await cluster.open_gate(namespace, name, pod.uid, GATE)
            if isinstance(outcome, Written):
                entry.opened.add(pod.uid)
            elif isinstance(outcome, Vanished):
                entry.pods.pop(pod.uid, None)
            return outcome
        staying = [pod for pod in entry.alive() if not pod.deleting]
        over = {name: sum(p.pod_set == name for p in staying) - count for name, count in most.items()}
        youngest = max((pod for pod in staying if over.get(pod.pod_set, 0) > 0), key=lambda p: (p.created_ms, p.key))
        pod = youngest
        namespace, _, name = pod.key.partition("/")
        outcome = await cluster.evict_pod(namespace, name, pod.uid, entry.job.kind.finalizer if entry.job else "")
        if isinstance(outcome, Vanished):
            entry.pods.pop(pod.uid, None)
        elif isinstance(outcome, Written) and entry.pods.get(pod.uid) is pod:  # it may be gone already
            entry.pods[pod.uid] = structs.replace(pod, deleting=True)
        return outcome

    # -- words --------------------------------------------------------------------------------------------------------

    def _why(self, entry: Entry, outcome: Outcome[Any]) -> str:
        match outcome:
            case Fenced():
                self._manager.stopped = True
                self._manager.wake()
                return "we are not the leader any more"
            case Vanished():
                return "it is gone"
            case Rejected(reason, message):
                return f"{reason}: {message}"
            case _:
                return "it has changed"

    def _rest(self, entry: Entry) -> None:
        settings, now_ms = self._manager.settings, self._manager.clock_ms()
        entry.rest_ms = min(max(2 * entry.rest_ms, settings.step_rest_ms), settings.step_rest_max_ms)
        entry.rests_until_ms = now_ms + entry.rest_ms
        self._manager.look_at(entry, entry.rests_until_ms)

    def complain(self, entry: Entry, reason: str, text: str) -> None:
        """Say it on the job, once while it stays the same."""
        if entry.complaint != (reason, text):
            entry.complaint = (reason, text)
            self._tell(entry, Severity.WARNING, reason, text)

    def _tell(self, entry: Entry, severity: Severity, reason: str, note: str) -> None:
        job = entry.job
        if job is not None:
            kind, meta = job.kind, job.found.metadata
            api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
            regarding = Regarding(api_version, kind.kind, meta.namespace, meta.name, meta.uid)
            self._manager.cluster.tell(regarding, severity, reason, "Queueing", note[:1024])


def _followed(unit: UnitFacts, job: JobFacts, said: Draft) -> dict[str, Any]:
    """The change by which a unit says what its job says; while it holds quota only the size of elastic sets may."""
    if unit.stored.grants:
        sizes = wanted(unit, job)
        pod_sets = [{**each, "count": sizes.get(each["name"], each["count"])} for each in said.body["spec"]["podSets"]]
        return {"metadata": {"resourceVersion": str(unit.version)}, "spec": {"podSets": pod_sets}}
    spec = {**dict.fromkeys(OPTIONAL), **said.body["spec"]}
    spec.pop("sequence")
    spec.pop("consumerRef")
    labels = {**dict.fromkeys(unit.unit.labels), **said.body["metadata"]["labels"]}
    return {"metadata": {"resourceVersion": str(unit.version), "labels": labels}, "spec": spec}


def waits_since(unit: UnitFacts, job: JobFacts | None) -> int:
    """When it was queued: for the first time with its job, later when it gave its quota back."""
    reserved = find(unit.status.conditions, names.QUOTA_RESERVED)
    if unit.status.attempts and reserved is not None and reserved.status == "False":
        return ms_of(reserved.last_transition_time)
    return job.created_ms if job is not None else unit.unit.created_ms


def _urgency(commands: Sequence[c.Command]) -> Urgency:
    if any(isinstance(each, Admission | c.Evict | c.Nominate) for each in commands):
        return Urgency.DECISION
    return Urgency.RECORD if any(not isinstance(each, c.NoteOvertaken) for each in commands) else Urgency.REPORT


def _revives(entry: Entry) -> bool:
    """Whether its unit was made anew, and lacks the past that its running job has."""
    unit = entry.unit
    return entry.adopted and entry.last is not None and unit is not None and unit.stored.phase is Phase.NEW
