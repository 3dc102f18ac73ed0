"""What a manager would do with the jobs it finds, without doing it: for `usher manager --dry-run` and `usher explain`.

The same reading, the same engine and the same rules as in a real term, up to the first decision. Nothing is written,
because no worker is set going: a manager whose loop does not run only decides.
"""

from __future__ import annotations

from msgspec import Struct, structs

from usher.core import commands as c
from usher.core import events as ev
from usher.core.explain import Explanation
from usher.core.phases import FINISHED, Phase
from usher.runtime.entry import Entry, Step, next_step
from usher.runtime.facts import provisional
from usher.runtime.manager import Manager
from usher.runtime.status import WORDS


class Intent(Struct, frozen=True):
    """What would become of one job."""

    job: str
    """Its namespace and name."""
    action: str
    """`adopt`, `leave`, `suspend`, `start`, `check`, `wait` or `stop`."""
    detail: str


def intents(manager: Manager) -> list[Intent]:
    """Begin the term of a manager that has seen everything, and say what it would do, jobs in order of their age."""
    begin(manager)
    found = (_intent(manager, entry) for entry in manager.in_order())
    return [intent for intent in found if intent is not None]


def explained(manager: Manager, namespace: str, name: str) -> tuple[Explanation, Phase] | None:
    """Begin that term, and say how a job stands, or the unit of that name; None if nobody knows it.

    The phase is what its stored status says: where the answer's is further on, it has just been decided.
    """
    begin(manager)
    for entry in manager.in_order():
        meta = entry.job.found.metadata if entry.job is not None else None
        if entry.key == f"{namespace}/{name}" or (meta and (meta.namespace, meta.name) == (namespace, name)):
            explanation = manager.engine.explain(entry.key)
            if explanation is not None:
                return explanation, entry.unit.stored.phase if entry.unit is not None else Phase.NEW
    return None


def begin(manager: Manager) -> None:
    """Begin a term in which jobs that have no unit yet are known by the one that they would get."""
    for entry in manager.entries.values():
        if entry.unit is None and _queued(entry) and not entry.ran_before:
            unit = provisional(entry.job, manager.reading) if entry.job is not None else None
            if unit is not None:
                manager.see(ev.UnitChanged(unit))
    manager.begin()


def _queued(entry: Entry) -> bool:
    job = entry.job
    return job is not None and bool(job.digest) and not job.deleting and job.progress.succeeded is None


def _intent(manager: Manager, entry: Entry) -> Intent | None:
    job = entry.job
    if job is None or not _queued(entry) or (entry.unit is not None and entry.unit.stored.phase in FINISHED):
        return None
    name = f"{job.found.metadata.namespace}/{job.found.metadata.name}"
    if entry.left:
        return Intent(name, "leave", "It runs, and is not managed.")
    view = manager.engine.unit(entry.key)
    if entry.adopted:
        quota = f" It is charged to {view.quota}." if view is not None and view.quota else ""
        return Intent(name, "adopt", f"It runs, and goes on.{quota}")
    stop = next((task.command for task in entry.todo if isinstance(task.command, c.Evict)), None)
    if stop is not None:
        return Intent(name, "stop", f"{WORDS.get(stop.cause, stop.cause.value)}.")
    decided = any(isinstance(task.command, c.Admit | c.Reserve) for task in entry.todo)
    if entry.unit is not None and not decided:
        return None if next_step(entry) is not Step.HOLD else Intent(name, "suspend", "It runs, and must wait.")
    intent = _decided(manager, entry, name)
    if next_step(entry) is Step.HOLD and intent.action == "wait":
        return structs.replace(intent, action="suspend")
    return intent


def _decided(manager: Manager, entry: Entry, name: str) -> Intent:
    view = manager.engine.unit(entry.key)
    phase = view.phase if view is not None else Phase.NEW
    if phase is Phase.DEQUEUED:
        return Intent(name, "start", "There is room for it.")
    if phase is Phase.RESERVED:
        return Intent(name, "check", "There is room for it; its admission checks are asked.")
    return Intent(name, "wait", manager.engine.reason(entry.key)[1] or "It waits.")
