"""A cluster as a manager sees it, without leading: caches of every kind, and a term that is told all they hold.

`Looking.look` asks something of a term that would begin now, for `usher explain` and `usher manager --dry-run`: the
same reading, the same engine, and nothing is written. `usher.app.process` leads on top of it. What only a leader needs
(aiohttp, the doors, the server) is not imported here, because a command should not wait for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from usher.app.following import Following, Watched
from usher.app.resources import (
    CLASSES,
    LIMITS,
    NAMESPACES,
    NODES,
    PODS,
    QUEUES,
    QUOTAS,
    RESOURCE_QUOTAS,
    RUNTIMES,
    UNITS,
    resource_of,
)
from usher.app.sources import KINDS_OF, Sources
from usher.core.engine import Engine
from usher.core.plugins import Plugins
from usher.jobkinds.base import JobKind
from usher.jobkinds.registry import ALWAYS, kinds_named
from usher.kube.client import Client
from usher.kube.config import Config
from usher.kube.errors import KubeError
from usher.kube.informer import Informer
from usher.kube.plain import for_commands
from usher.kube.store import Deleted, Delta
from usher.policies.registry import UnknownPluginError, plugins
from usher.runtime.capacity import Capacity
from usher.runtime.dryrun import Intent, intents
from usher.runtime.facts import Keys, PodFacts, Reading, read_pod, takes_part
from usher.runtime.foreign import Foreign
from usher.runtime.manager import Manager, ManagerSettings
from usher.runtime.numbers import Numbers
from usher.runtime.objects import EMPTY, JobObject, NodeObject
from usher.runtime.outside import OutsidePod, read_outside
from usher.runtime.port import Cluster
from usher.runtime.reading_units import UnitReader
from usher.runtime.surroundings import Charging, Surroundings
from usher.settings.tree import Settings

log = logging.getLogger("usher.process")

T = TypeVar("T")

READ_BY_LAST: Final = RUNTIMES
"""The last of the kinds by which jobs are read."""


class Looking:
    """One cluster, with one configuration."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self.settings = settings
        self.manager: Manager | None = None
        self.surroundings: Surroundings | None = None
        self.numbers = Numbers()
        self._config = config
        self._kinds: Sequence[JobKind] = [*kinds_named(settings.jobs.kinds), *ALWAYS]
        self._by_name = {f"{kind.group}/{kind.kind}": kind for kind in self._kinds}
        self._following = Following()
        self._plugins()  # what is not there is said now, not when we lead
        self._base = self._reading()
        self._read_unit = UnitReader()

    def client(self) -> Client:
        timeout_s = self.settings.writer.request_timeout_ms / 1000
        transport = for_commands(self._config)
        return Client(self._config, user_agent="usher", field_manager="usher", timeout_s=timeout_s, transport=transport)

    def _reading(self) -> Reading:
        labels = self.settings.labels
        keys = Keys(
            queue=labels.queue,
            quota=labels.quota,
            priority=labels.priority,
            preemptible=labels.preemptible,
            min_count=labels.min_count,
            elastic=labels.elastic,
            max_execution=labels.max_execution_time,
        )
        return Reading(keys, managed=frozenset(self.settings.managed_namespaces), kinds=frozenset(self._by_name))

    # -- following ----------------------------------------------------------------------------------------------------

    def _follow(self, client: Client) -> None:
        """One informer for each kind. The order is that in which a new term is told."""

        def add(resource: Any, see: Callable[[Any, bool], None], transform: Callable[[Any], Any] | None = None) -> None:
            informer: Informer[Any] = Informer(
                client, resource, transform=transform, on_problem=lambda error: self._complain(resource.plural, error)
            )
            informer.listen(lambda deltas: self._hear(see, deltas))
            self._following.watched.append(Watched(informer, see))

        add(NAMESPACES, lambda found, gone: self._around().see_namespace(found, gone))
        add(CLASSES, lambda found, gone: self._around().see_class(found, gone))
        add(LIMITS, lambda found, gone: self._around().see_limits(found, gone))
        add(RUNTIMES, lambda found, gone: self._around().see_runtime(found, gone))
        add(NODES, self._see_node)
        if QUOTAS.plural in self.settings.quotas.sources:
            add(QUOTAS, lambda found, gone: self._around().see_quota(found, gone))
        if RESOURCE_QUOTAS.plural in self.settings.quotas.sources:
            add(RESOURCE_QUOTAS, lambda found, gone: self._see_foreign("ResourceQuota", found, gone))
        self._following.sources = Sources(
            client, self.settings.quotas.sources, self._see_foreign, self._hear, self._complain
        )
        add(QUEUES, lambda found, gone: self._around().see_queue(found, gone))
        add(UNITS, lambda facts, gone: self._term().see_unit(facts, gone), self._read_unit)
        add(PODS, self._see_pod, lambda pod: read_pod(pod, self._by_name) or read_outside(pod))
        for kind in self._kinds:
            add(resource_of(kind), self._see_job_of(kind), self._slim if kind.part == "spec" else None)

    def _see_foreign(self, kind: str, found: Any, gone: bool) -> None:
        self._around().see_foreign(kind, found, gone)

    def _units(self) -> Any:
        return self._following.store_of(UNITS)

    def _slim(self, found: JobObject) -> JobObject:
        """Of a job that takes no part only the name stays in memory."""
        return found if takes_part(found, self._base) else JobObject(metadata=found.metadata, spec=EMPTY, status=EMPTY)

    def _see_job_of(self, kind: JobKind) -> Callable[[JobObject, bool], None]:
        return lambda found, gone: self._term().see_job(kind, found, gone)

    def _see_pod(self, pod: PodFacts | OutsidePod, gone: bool) -> None:
        self._around().outside.see(pod, gone)
        if isinstance(pod, PodFacts):
            self._term().see_pod(pod, gone)

    def _see_node(self, node: NodeObject, gone: bool) -> None:
        ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
        self._around().see_node(node, now_ms(), gone)
        self._term().see_node(node.metadata.name, None if gone else ready)

    def _term(self) -> Manager:
        assert self.manager is not None
        return self.manager

    def _around(self) -> Surroundings:
        assert self.surroundings is not None
        return self.surroundings

    def _hear(self, see: Callable[[Any, bool], None], deltas: Sequence[Delta[Any]]) -> None:
        """What an informer brings goes to the term that is on, if any."""
        if self.manager is None:
            return
        for delta in deltas:
            see(delta.object, isinstance(delta, Deleted))
        self._take_surroundings()

    def _take_surroundings(self) -> None:
        manager, around = self._term(), self._around()
        reading = around.reading(self._base)
        if reading != manager.reading:
            manager.read_again(reading)
        events = around.take(now_ms())
        if events:
            manager.see(*events)

    def _complain(self, plural: str, error: KubeError) -> None:
        self.numbers.watch_problems[plural] += 1
        log.warning("watching %s: %s", plural, error)

    # -- a term -------------------------------------------------------------------------------------------------------

    def _new_term(self, cluster: Cluster, epoch: int, kind: type[Manager] = Manager) -> tuple[Manager, Surroundings]:
        jobs = self.settings.jobs
        manager = kind(
            cluster,
            Engine(replace(self.settings.engine.core(), oversell=(1, 1)), self._plugins()),  # `Capacity` applies it
            self._base,
            self._kinds,
            epoch,
            now_ms,
            ManagerSettings(
                settle_ms=jobs.pause_settle_ms,
                adopt=jobs.adopt == "charge",
                stuck_ms=jobs.terminating_grace_ms,
                notice_ms=jobs.queue_job_notice_ms,
            ),
            self.numbers,
            self._read_unit,
        )
        settings = self.settings
        kinds = [KINDS_OF[each] for each in settings.quotas.sources]
        foreign = Foreign(settings.system_namespace, settings.managed_namespaces, kinds)
        charging = Charging(settings.quotas.outside_pods == "count", settings.quotas.outside_quota, manager.queued)
        capacity = Capacity(settings.capacity_loss_grace_ms, settings.engine.oversell.as_integer_ratio())
        around = Surroundings(settings.system_namespace, capacity, foreign, charging)
        manager.pod_labels = around.pod_labels
        self.manager, self.surroundings = manager, around
        return manager, around

    def _tell_everything(self, manager: Manager, around: Surroundings) -> None:
        """All that the caches hold; by what jobs are read comes before the jobs."""
        for watched in self._following.everything():
            for delta in watched.informer.store.everything():
                watched.see(delta.object, False)
            if watched.informer.resource is READ_BY_LAST:
                manager.reading = around.reading(self._base)
        manager.see(*around.take(now_ms()))

    async def dry_run(self) -> list[Intent]:
        """What a term that began now would do first."""
        return await self.look(intents)

    async def look(self, ask: Callable[[Manager], T]) -> T:
        """Ask something of a term that would begin now; nothing is written, and nobody needs to lead.

        Raises what keeps us from reading, as Forbidden; a manager would go on trying.
        """
        async with self.client() as client:
            self._follow(client)
            await self._following.listed_once()
            manager, around = self._new_term(cast(Cluster, Silent()), epoch=0)
            try:
                self._tell_everything(manager, around)
                return ask(manager)
            finally:
                manager.stopped = True
                self.manager = self.surroundings = None

    def _plugins(self) -> Plugins:
        """What the settings choose, new for each term; raises PluginError."""
        chosen = self.settings.plugins
        found = plugins(
            chosen.share,
            chosen.victims,
            mappings=chosen.mappings,
            filters=chosen.filters,
            scores=chosen.scores,
            reservers=chosen.reservers,
        )
        default = self.settings.engine.default_policy
        if default not in found.queue_policies:
            known = ", ".join(sorted(found.queue_policies))
            raise UnknownPluginError(f"engine.defaultPolicy: there is no queue policy {default}; there is: {known}")
        return found


class Silent:
    """Where there is no cluster to write to: nothing is said, and nothing else is asked of it."""

    def tell(self, *said: object) -> None:
        pass


def now_ms() -> int:
    """Since 1970: what is stored must mean the same to the next process."""
    return time.time_ns() // 1_000_000
