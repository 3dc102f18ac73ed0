"""Writes the statuses of Queues and QueueQuotas: what changed, at a bounded rate, after everything that is urgent.

Looks once per interval, if anything has happened since; builds what each status should say (`usher.runtime.report`),
and writes those that differ from what is stored, the longest unwritten first. Run beside the manager, by the wiring.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from usher.api import names
from usher.api.conditions import find
from usher.api.meta import Condition, ObjectMeta
from usher.api.queue import Queue, QueueStatus
from usher.api.queuequota import QueueQuota
from usher.core.amounts import add
from usher.core.views import QueueView, QuotaView, WaitingView
from usher.quotas.source import ACCEPTED, Problem
from usher.quotas.tree import ObjectRef
from usher.runtime.manager import Manager
from usher.runtime.port import Outcome, Regarding, Severity, Written
from usher.runtime.report import (
    STOPPED,
    ReportSettings,
    patch_between,
    queue_items,
    queue_status,
    queue_verdict,
    quota_status,
)
from usher.runtime.surroundings import KnownQueue, Surroundings

log = logging.getLogger("usher.reporter")

SLICE = 50
"""How many statuses are built before others get a turn of the loop."""

Send = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Pending:
    """A status that should be written."""

    key: str
    since_ms: int
    send: Send


@dataclass(slots=True)
class _Past:
    """When things were last written, by object; what is gone is forgotten with it."""

    status_ms: dict[str, int] = field(default_factory=dict)
    items_ms: dict[str, int] = field(default_factory=dict)

    def keep(self, keys: set[str]) -> None:
        for each in (self.status_ms, self.items_ms):
            for key in [key for key in each if key not in keys]:
                del each[key]


class Reporter:
    """One leader's reports."""

    def __init__(self, manager: Manager, around: Surroundings, settings: ReportSettings) -> None:
        self._manager = manager
        self._around = around
        self._settings = settings
        self._past = _Past()
        self._seen: tuple[int, int] = (-1, -1)
        self._behind = True
        """Something that should be written was not, or is not due yet."""
        self._problems: tuple[int, dict[ObjectRef, list[Problem]]] = (-1, {})
        self._told: dict[ObjectRef, frozenset[str]] = {}
        """By object of another system: the reasons that were told."""
        self._queues: set[str] = set()
        self._built: dict[str, tuple[object, ...]] = {}
        """By queue: what its stored status was last compared with, and found to say."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._settings.interval_ms / 1000)
            await self.look()

    async def look(self) -> None:
        """Write what has changed since the last look."""
        now = (self._manager.turns, self._around.changes)
        if now == self._seen and not self._behind:
            return
        self._seen, self._behind = now, False
        quotas = {view.name: view for view in self._manager.engine.quotas()}
        self._tell_others()
        pending = [*await self._look_at_queues(quotas), *await self._look_at_quotas(quotas)]
        pending.sort(key=lambda each: (each.since_ms, each.key))
        self._behind = self._behind or len(pending) > self._settings.writes_max
        await asyncio.gather(*(each.send() for each in pending[: self._settings.writes_max]))

    # -- queues -------------------------------------------------------------------------------------------------------

    async def _look_at_queues(self, nodes: Mapping[str, QuotaView]) -> list[_Pending]:
        manager = self._manager
        self._forget({*self._around.queues, *self._around.quota_objects})
        views = {view.key: view for view in manager.engine.queues()}
        queues = self._around.queues
        manager.requests.look((known.queue, views[key]) for key, known in queues.items() if key in views)
        quotas = {name: view.problem for name, view in nodes.items()}
        used = self._really_used()
        pending: list[_Pending] = []
        for number, (key, known) in enumerate(list(self._around.queues.items())):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            view = views.get(key)
            if view is not None:
                view = manager.requests.shown(known.queue, view)
                found = self._queue(key, known, view, used.get(key, {}), quotas)
                if found is not None:
                    pending.append(found)
        return pending

    def _really_used(self) -> dict[str, dict[str, int]]:
        """By queue: what pods take that are on a node."""
        engine = self._manager.engine
        used: dict[str, dict[str, int]] = {}
        for entry in self._manager.entries.values():
            if entry.pods:
                queue = engine.queue_of(entry.key)
                if queue:
                    sums = used.setdefault(queue, {})
                    for pod in entry.alive():
                        if pod.node:
                            add(sums, pod.request)
        for key, pod in self._manager.drawing.pods():
            if pod.node:
                add(used.setdefault(engine.queue_of(key), {}), pod.request)
        return used

    def _queue(
        self, key: str, known: KnownQueue, view: QueueView, used: dict[str, int], quotas: dict[str, str]
    ) -> _Pending | None:
        now_ms = self._manager.clock_ms()
        line = self._line(key, known, view, now_ms)
        active = queue_verdict(known, view, quotas, self._problems_behind(known))
        basis = (known.object, view, line, used, active)
        if self._built.get(key) == basis:
            return None
        hidden = known.queue.shared and not self._settings.names_of_others
        items = None if line is None else queue_items(line, hidden)
        status = queue_status(known, view, items, used, active, now_ms)
        before = known.object.status
        body = patch_between(before, status)
        if not body:
            self._built[key] = basis
            return None
        meta = known.object.metadata

        async def send() -> None:
            self._past.status_ms[key] = now_ms
            if "queueItemDetails" in body["status"]:
                self._past.items_ms[key] = now_ms
            self._tell("Queue", meta, before.conditions if before is not None else (), status.conditions)
            outcome = await self._manager.cluster.patch_queue_status(meta.namespace, meta.name, body)
            if isinstance(outcome, Written) and isinstance(outcome.object, Queue):
                self._around.see_queue(outcome.object)
            self._note(outcome)

        return _Pending(key, self._past.status_ms.get(key, 0), send)

    def _line(self, key: str, known: KnownQueue, view: QueueView, now_ms: int) -> list[WaitingView] | None:
        """Those that wait, if their list may be written now; else None."""
        settings = self._settings
        shown = min(view.waiting, settings.items_max)
        before = (known.object.status or QueueStatus()).queue_item_details
        if not shown:
            return []
        slower = max(1, shown // settings.items_per_interval)
        if before and now_ms < self._past.items_ms.get(key, 0) + slower * settings.interval_ms:
            self._behind = True
            return None
        return self._manager.engine.line(key, settings.items_max)

    # -- quotas -------------------------------------------------------------------------------------------------------

    async def _look_at_quotas(self, views: Mapping[str, QuotaView]) -> list[_Pending]:
        objects = self._around.quota_objects
        problems = self._quota_problems()
        now_ms = self._manager.clock_ms()
        pending: list[_Pending] = []
        for number, (name, found) in enumerate(list(objects.items())):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            view = views.get(name)
            status = quota_status(found, view, problems.get(("QueueQuota", name), ()), now_ms)
            body = patch_between(found.status, status)
            if body:
                pending.append(_Pending(name, self._past.status_ms.get(name, 0), self._sender(found, status, body)))
        return pending

    def _sender(self, found: QueueQuota, status: object, body: dict[str, object]) -> Send:
        meta = found.metadata
        before = found.status.conditions if found.status is not None else ()
        after: tuple[Condition, ...] = getattr(status, "conditions", ())

        async def send() -> None:
            self._past.status_ms[meta.name] = self._manager.clock_ms()
            self._tell("QueueQuota", meta, before, after)
            outcome = await self._manager.cluster.patch_quota_status(meta.name, body)
            if isinstance(outcome, Written) and isinstance(outcome.object, QueueQuota):
                self._around.see_quota(outcome.object)
            self._note(outcome)

        return send

    def _quota_problems(self) -> dict[ObjectRef, list[Problem]]:
        changes = self._around.changes
        if self._problems[0] != changes:
            found = self._around.quotas.problems()
            self._problems = (changes, {key: list(each) for key, each in found.items()})
        return self._problems[1]

    # -- quotas of others ---------------------------------------------------------------------------------------------

    def _problems_behind(self, known: KnownQueue) -> Sequence[Problem]:
        """What is wrong with the objects of other systems that feed a Queue: they have no conditions of ours."""
        around, problems = self._around, self._quota_problems()
        quota = known.object.spec.quota
        ref = around.quotas.owner(quota) if quota else None
        if ref is not None:
            return problems.get(ref, ()) if ref[0] != "QueueQuota" else ()
        if quota or known.queue.shared:
            return ()
        within = f"{known.object.metadata.namespace}/"
        return [
            Problem(each.reason, f"{kind} {key}: {each.message}", takes_part=True)
            for (kind, key), found in problems.items()
            if kind == "ResourceQuota" and key.startswith(within)
            for each in found
        ]

    def _tell_others(self) -> None:
        """An Event on each object of another system with which something is newly wrong."""
        foreign = self._around.foreign
        found = {ref: each for ref, each in self._quota_problems().items() if ref in foreign.metas}
        for ref, problems in found.items():
            before = self._told.get(ref, frozenset())
            regarding = foreign.regarding(ref)
            for problem in problems:
                if problem.reason not in before and regarding is not None:
                    severity = Severity.WARNING
                    self._manager.cluster.tell(regarding, severity, problem.reason, "Reporting", problem.message)
        self._told = {ref: frozenset(each.reason for each in problems) for ref, problems in found.items()}

    # -- both ---------------------------------------------------------------------------------------------------------

    def _tell(self, kind: str, meta: ObjectMeta, before: tuple[Condition, ...], after: tuple[Condition, ...]) -> None:
        """An Event where a problem has appeared."""
        was, now = find(before, names.ACTIVE), find(after, names.ACTIVE)
        if now is None or now.reason == ACCEPTED or (was is not None and was.reason == now.reason):
            return
        regarding = Regarding(names.API_VERSION, kind, meta.namespace, meta.name, meta.uid)
        severity = Severity.NORMAL if now.reason == STOPPED else Severity.WARNING
        self._manager.cluster.tell(regarding, severity, now.reason, "Reporting", now.message)

    def _note(self, outcome: Outcome[object]) -> None:
        if not isinstance(outcome, Written):
            self._behind = True
            log.debug("a status was not written: %s", outcome)

    def _forget(self, keys: set[str]) -> None:
        self._past.keep(keys)
        for gone in self._queues - keys:
            self._built.pop(gone, None)
            self._manager.numbers.forget_queue(gone)
        self._queues = set(self._around.queues)
