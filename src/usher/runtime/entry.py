"""One unit and its job: what is known of both, what the engine must hear of it, and what must be done next.

The rule of the whole runtime: **the stored status of the unit decides, and its job follows.** Commands of the engine
only ever change the unit's status; whether a job is held or released is read from the status as it is stored. So a
crash between any two writes needs no code of its own: whoever comes next looks at the same two objects.

`observe` and `next_step` are pure; `usher.runtime.manager` tells and carries out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field

from usher.core import events as ev
from usher.core.commands import Command
from usher.core.model import CheckState, Grant, Stored
from usher.core.phases import FINISHED, WAITING, Cause, Phase
from usher.jobkinds.base import Allocation
from usher.runtime import podless
from usher.runtime.facts import JobFacts, PodFacts, UnitFacts

if TYPE_CHECKING:
    from usher.runtime.worker import Task

LOOSE = frozenset({Phase.DEQUEUED, Phase.RUNNING})
"""The phases in which a unit's job may run."""


class Step(Enum):
    """What the objects of an entry call for."""

    NAME = "give the job its queue"
    CREATE = "create the unit"
    FOLLOW = "let the unit say what its job says"
    DROP = "delete the unit of a job that takes no part any more"
    HOLD = "suspend the job"
    CLEAR = "clear what is left in the status of the job"
    RELEASE = "resume the job"
    RESIZE = "bring the job back to what it was granted"
    LET_IN = "open the gate of pods that were granted"
    TAKE_BACK = "evict pods that must go"
    GIVE_BACK = "record that it holds less"
    ALLOCATE = "say what may be used"


class Entry(Struct):
    """What is known of a unit and its job."""

    key: str
    unit: UnitFacts | None = None
    job: JobFacts | None = None
    job_uid: str = ""
    pods: dict[str, PodFacts] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    """Pods that do not count any more: they are to go, and their node is not there to say so."""
    known: bool = False
    """The engine has heard of it."""
    spec_generation: int = 0
    """Of the unit's spec, as the engine knows it."""
    ran_before: bool = False
    """Its job ran when we began."""
    adopted: bool = False
    """Its job runs without a unit: it is charged, not held, and its unit is made."""
    left: bool = False
    """Its job ran when we came, and such jobs are left alone."""
    gone_uids: set[str] = field(default_factory=set)
    """Of its job or units that were deleted: what is read of them later is older than that."""
    first_version: int = 0
    """Of its job when it was first seen: its place among those of the same second."""
    job_gone: bool = False
    """Its job was deleted."""
    last: Stored | None = None
    """The past that a unit which is made (again) is given."""
    released: int = -1
    """The admission in which its job was seen released."""
    started: int = -1
    """The admission in which the job's own controller was seen to act on that."""
    held_ms: int = -1
    """When the job was last told to stop."""
    evict_generation: int = 0
    gave_back: tuple[int, Mapping[str, int]] = (-1, MappingProxyType({}))
    """What the engine was told that it holds at most, in which admission."""
    opened: set[str] = field(default_factory=set)
    """Pods whose gate we opened, until that is seen."""
    answers: dict[str, CheckState] = field(default_factory=dict)
    """What checks said, as the engine was told."""
    told: tuple[ev.Event, ...] = ()
    """What the engine was told last, so that it is not told again."""
    drawn: Mapping[str, int] = field(default_factory=dict)
    """What other jobs use of its allocation (`usher.runtime.drawing`)."""
    notice_ms: int = 0
    """How long before it falls an allocation is said to."""
    looked_ms: int = 0
    """When it was last looked at: notices end by it."""
    stuck_since: dict[str, int] = field(default_factory=dict)
    look_at_ms: int = -1
    # What the worker needs.
    todo: deque[Task] = field(default_factory=deque)
    later: list[Command] = field(default_factory=list)
    """Commands that go with the next write; they are not worth one of their own."""
    later_ms: int = 0
    """Since when they wait."""
    refresh: bool = False
    """What its status shows is to be brought up to date."""
    written_ms: int = 0
    outdated: bool = False
    """Its pods took something else than its status said when that was last compared."""
    """When its status was last written."""
    queue: str = ""
    """The Queue that it was last seen in."""
    busy: bool = False
    rests_until_ms: int = 0
    rest_ms: int = 0
    complaint: tuple[str, str] = ("", "")

    @property
    def runs(self) -> bool:
        """Whether its job may run, by what is stored."""
        stored = self.unit.stored if self.unit is not None else None
        return stored is not None and stored.phase in LOOSE and bool(stored.grants) and not stored.evicting

    def alive(self) -> list[PodFacts]:
        """Its pods that take room."""
        return [
            pod
            for pod in self.pods.values()
            if pod.alive and (not pod.gated or pod.uid in self.opened) and pod.uid not in self.lost
        ]

    def gated(self) -> list[PodFacts]:
        """Its pods that wait to be let in, by name."""
        found = [pod for pod in self.pods.values() if pod.alive and pod.gated and not pod.deleting]
        return sorted((pod for pod in found if pod.uid not in self.opened), key=lambda pod: pod.key)

    def remember(self) -> None:
        """Keep what later looks would not show any more."""
        unit, job = self.unit, self.job
        if job is not None:
            self.job_uid = job.uid
        self.opened.intersection_update(uid for uid, pod in self.pods.items() if pod.gated)
        if unit is None or job is None or not unit.stored.grants:
            return
        self.adopted = False
        if not job.suspended:
            self.released = unit.stored.generation
            if job.progress.started:
                self.started = unit.stored.generation
        elif unit.stored.phase is Phase.RUNNING:
            self.released = self.started = unit.stored.generation
        elif job.admission == unit.admission:
            self.released = unit.stored.generation


def observe(entry: Entry, now_ms: int, settle_ms: int) -> list[ev.Event]:
    """What the engine must know of it now."""
    unit, job = entry.unit, entry.job
    if unit is None or unit.stored.phase in FINISHED:
        return []
    stored, key = unit.stored, entry.key
    if job is not None and job.progress.succeeded is not None:
        return [ev.UnitFinished(key, job.progress.succeeded)]
    if stored.evicting:
        return [ev.UnitStopped(key, entry.evict_generation)] if stopped(entry, now_ms, settle_ms) else []
    if job is None or job.deleting:
        return []
    if stored.phase is Phase.RESERVED:
        return [ev.UnitPaused(key, Cause.CHANGED)] if _changed(entry) else []
    if entry.runs:
        seen = _observe_running if job.allocation is None else podless.observe
        return seen(entry, unit, job)
    if stored.phase in WAITING and stored.inactive:
        wants = not job.suspended if job.allocation is None else sum(job.counts.values()) > 0
        resumed = stored.inactive == PAUSED and (wants or job.resumed)
        if resumed or not unit.unit.active:  # whoever makes it inactive himself takes over: what was before is over
            return [ev.UnitReactivated(key)]
    return []


PAUSED = "its owner suspended the job"
"""As the engine says it (`usher.core.lifecycle.SET_ASIDE`)."""


def _observe_running(entry: Entry, unit: UnitFacts, job: JobFacts) -> list[ev.Event]:
    stored, key = unit.stored, entry.key
    if job.suspended:
        if entry.released == stored.generation:
            return [ev.UnitPaused(key)]
        return [ev.UnitPaused(key, Cause.CHANGED)] if _changed(entry) else []
    events: list[ev.Event] = []
    shrunk = holds(entry)
    if shrunk != stored.grants and _step_running(entry, unit, job) is not Step.GIVE_BACK:
        events.append(ev.UnitShrunk(key, stored.generation, shrunk))
    ready, done = job.progress.ready, job.progress.done
    if stored.phase is Phase.DEQUEUED:
        if all(ready.get(g.pod_set, 0) + done.get(g.pod_set, 0) >= g.count for g in stored.grants):
            events.append(ev.UnitReady(key))
    elif all(ready.get(g.pod_set, 0) >= g.count for g in shrunk):
        events.append(ev.UnitReady(key))
    else:
        events.append(ev.UnitUnready(key))
    return events


def holds(entry: Entry) -> tuple[Grant, ...]:
    """What it still holds of what it was granted: by its own word or, where pods wait at a gate, by those let in."""
    unit, job = entry.unit, entry.job
    if unit is not None and job is not None and entry.runs and job.allocation is not None:
        return podless.holds(entry, sum(targets(entry).values()))
    if unit is None or job is None or not entry.runs or job.suspended:
        return unit.stored.grants if unit is not None else ()
    needed = job.progress.needed
    if unit.unit.elastic:
        loose = loose_pods(entry)
        needed = {name: max(count, loose.get(name, 0)) for name, count in targets(entry).items()}
    return tuple(Grant(g.pod_set, min(g.count, needed.get(g.pod_set, g.count))) for g in unit.stored.grants)


def loose_pods(entry: Entry) -> dict[str, int]:
    """Pods that take room, by pod set."""
    counts: dict[str, int] = {}
    for pod in entry.alive():
        counts[pod.pod_set] = counts.get(pod.pod_set, 0) + 1
    return counts


def targets(entry: Entry) -> dict[str, int]:
    """How many pods of each set a unit may have: as granted, wanted, and not to be given back."""
    unit = entry.unit
    if unit is None:
        return {}
    if unit.stored.evicting:
        return {grant.pod_set: 0 for grant in unit.stored.grants}
    most = {grant.pod_set: grant.count for grant in unit.stored.grants}
    for pods in unit.unit.pod_sets:
        most[pods.name] = min(most.get(pods.name, 0), pods.count)
    for admission in unit.status.admissions:
        if admission.reclaim_state is not None:
            most[admission.name] = min(most.get(admission.name, 0), admission.reclaim_state.replicas)
    return most


def _changed(entry: Entry) -> bool:
    """Whether the job says something else than its unit, which cannot follow while quota is reserved."""
    unit, job = entry.unit, entry.job
    return unit is not None and job is not None and bool(job.digest) and job.digest != unit.digest


def outdated(entry: Entry) -> bool:
    """Whether its unit must follow its job before it may be let in."""
    unit, job = entry.unit, entry.job
    return (
        _changed(entry)
        and unit is not None
        and unit.stored.phase is not Phase.RESERVED
        and job is not None
        and job.suspended
    )


def stopped(entry: Entry, now_ms: int, settle_ms: int) -> bool:
    """Whether no pod of it is active or terminating, and none is about to come."""
    unit, job = entry.unit, entry.job
    if entry.alive() or entry.drawn or unit is None:
        return False
    if job is None:
        return True
    if job.allocation is not None:
        return job.suspended
    if job.deleting and entry.started == unit.stored.generation:
        return _without_pods(entry, job)  # and its controller starts none any more
    if not job.suspended or job.reduced:
        return False
    if entry.released != unit.stored.generation:
        return True  # it never started
    if not _held(entry, job):
        return False
    acted = entry.started == unit.stored.generation
    return acted or now_ms >= entry.held_ms + settle_ms  # its controller may have begun before it saw our second word


def unsettled(entry: Entry, now_ms: int, settle_ms: int) -> int | None:
    """When to look again, if only time is missing for it to count as stopped."""
    unit, job = entry.unit, entry.job
    if unit is None or job is None or not unit.stored.evicting or not job.suspended or entry.held_ms < 0:
        return None
    at_ms = entry.held_ms + settle_ms
    return at_ms if _held(entry, job) and not entry.alive() and at_ms > now_ms else None


def _held(entry: Entry, job: JobFacts) -> bool:
    """Whether its controller has seen that it is suspended, and keeps no pod of it but those that do not count."""
    return job.progress.held and _without_pods(entry, job)


def _without_pods(entry: Entry, job: JobFacts) -> bool:
    return job.progress.alive <= sum(uid in entry.lost for uid in entry.pods)


def next_step(entry: Entry) -> Step | None:
    """What must be done with its job or unit now."""
    unit, job = entry.unit, entry.job
    if job is None:
        leaves = entry.job_gone and unit is not None and not unit.deleting and not entry.alive() and not entry.drawn
        return Step.DROP if leaves else None
    if job.progress.succeeded is not None or entry.left:
        return None
    if job.progress.leaves and ((job.digest and not job.deleting) or (unit is not None and unit.stored.grants)):
        return Step.CLEAR if not entry.alive() and _without_pods(entry, job) else None
    if job.deleting and _must_end(entry, job):
        return Step.TAKE_BACK
    if job.digest is None or job.deleting:
        return Step.DROP if unit is not None and not unit.stored.grants and not unit.deleting else None
    if not job.digest:
        return None
    if job.suspended and job.lacks and (unit is None or not unit.stored.grants):
        return Step.NAME
    if unit is None:
        return _step_without_unit(entry, job)
    if unit.deleting or unit.stored.phase in FINISHED or (entry.adopted and unit.stored.phase is Phase.NEW):
        return None
    if job.allocation is not None and allocation(entry) not in (None, job.allocation):
        return Step.ALLOCATE
    if entry.runs:
        return _step_running(entry, unit, job)
    if job.allocation is None and (not job.suspended or job.reduced):
        return Step.HOLD
    return Step.FOLLOW if not unit.stored.grants and job.digest != unit.digest else None


def _must_end(entry: Entry, job: JobFacts) -> bool:
    """Whether it is evicted and has pods that nobody else stops: of a job that is being deleted, the controller starts
    and stops none, and the garbage collector waits until its owner's finalizers are gone."""
    if entry.unit is None or not entry.unit.stored.evicting or job.allocation is not None:
        return False
    sets = targets(entry)
    return any(not pod.deleting and pod.pod_set in sets for pod in entry.alive())


def _step_without_unit(entry: Entry, job: JobFacts) -> Step | None:
    """One that must be held is queued when nothing of it runs any more."""
    if entry.adopted:
        return Step.CREATE
    if not job.suspended:
        return Step.HOLD
    stopping = entry.alive() or (entry.held_ms >= 0 and not _held(entry, job))
    return None if stopping else Step.CREATE


def allocation(entry: Entry) -> Allocation | None:
    """What the status of a job without pods should say; None: it stays as it is."""
    return podless.allocation(entry, sum(targets(entry).values()) if entry.runs else 0)


def _step_running(entry: Entry, unit: UnitFacts, job: JobFacts) -> Step | None:
    if job.allocation is not None:
        return _step_elastic(entry, unit, job) if podless.wanted_units(unit, job) else None
    if job.suspended:
        return None if entry.released == unit.stored.generation or _changed(entry) else Step.RELEASE
    if unit.unit.elastic:
        return _step_elastic(entry, unit, job)
    granted = limits(entry)
    if any(count > granted.get(name, 0) for name, count in job.progress.usable.items()):
        return Step.RESIZE
    held = {grant.pod_set: grant.count for grant in holds(entry)}
    lowered = (
        held.get(grant.pod_set, 0) < grant.count and job.counts.get(grant.pod_set, 0) < grant.count
        for grant in unit.stored.grants
    )  # by its owner, who might raise it again: others may have the room then
    return Step.GIVE_BACK if any(lowered) else None


def limits(entry: Entry) -> dict[str, int]:
    """The most pods that a job which is not elastic may have: as granted, without what it gave back."""
    unit = entry.unit
    if unit is None:
        return {}
    generation, least = entry.gave_back
    kept = least if generation == unit.stored.generation else {}
    return {g.pod_set: min(g.count, kept.get(g.pod_set, g.count)) for g in unit.stored.grants}


def _step_elastic(entry: Entry, unit: UnitFacts, job: JobFacts) -> Step | None:
    if any(wanted(unit, job).get(pods.name, pods.count) != pods.count for pods in unit.unit.pod_sets):
        return Step.FOLLOW
    if holds(entry) != unit.stored.grants:
        return Step.GIVE_BACK
    loose, most = loose_pods(entry), targets(entry)
    if any(loose.get(pod.pod_set, 0) < most.get(pod.pod_set, 0) for pod in entry.gated()):
        return Step.LET_IN
    leaving = [pod for pod in entry.alive() if not pod.deleting]
    if any(sum(p.pod_set == name for p in leaving) > count for name, count in most.items()):
        return Step.TAKE_BACK
    return None


def wanted(unit: UnitFacts, job: JobFacts) -> dict[str, int]:
    """How many pods an elastic job wants while it runs, and can still use."""
    usable = job.progress.usable
    least = {pods.name: pods.min_count or 0 for pods in unit.unit.pod_sets}
    return {name: max(min(count, usable.get(name, count)), least.get(name, 0)) for name, count in job.counts.items()}
