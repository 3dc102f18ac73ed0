"""The manager as a process: caches that are always warm, an election, and a term of the runtime whenever it is won.

A standby follows every kind and decides nothing. A new leader begins when the server refuses its predecessor's epoch,
and its caches have reached a read that was made after that; then everything is rebuilt from them. Losing the lease
ends the term, not the process: the caches stay warm for the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar, cast

from usher.app.cluster import LiveCluster
from usher.app.counting import Counting
from usher.app.doors import Doors
from usher.app.fence import unit_fence
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
from usher.app.shown import Shown
from usher.app.sources import KINDS_OF, Sources
from usher.app.tasks import cancelled, first_of
from usher.app.telling import Teller
from usher.core.engine import Engine
from usher.core.plugins import Plugins
from usher.jobkinds.base import JobKind
from usher.jobkinds.registry import ALWAYS, kinds_named
from usher.kube.client import Client
from usher.kube.config import Config
from usher.kube.election import Election, Term
from usher.kube.errors import Forbidden, KubeError, NotFound
from usher.kube.fencing import status_probe, wait_until_fenced
from usher.kube.informer import Informer
from usher.kube.lease import LeaseTimes
from usher.kube.store import Deleted, Delta
from usher.kube.transport import AiohttpTransport
from usher.kube.writer import Writer, WriterSettings
from usher.policies.registry import UnknownPluginError, plugins
from usher.runtime.audit import Auditor
from usher.runtime.capacity import Capacity
from usher.runtime.dryrun import Intent, intents
from usher.runtime.facts import Keys, PodFacts, Reading, read_pod, takes_part
from usher.runtime.foreign import Foreign
from usher.runtime.lag import watch_lag
from usher.runtime.making import Maker, MakingSettings
from usher.runtime.manager import Manager, ManagerSettings
from usher.runtime.numbers import Numbers
from usher.runtime.objects import EMPTY, JobObject, NodeObject
from usher.runtime.outside import OutsidePod, read_outside
from usher.runtime.port import Cluster
from usher.runtime.reading_units import UnitReader
from usher.runtime.report import ReportSettings
from usher.runtime.report_units import UnitReporter
from usher.runtime.reporter import Reporter
from usher.runtime.retention import Retention, RetentionSettings
from usher.runtime.surroundings import Charging, Surroundings
from usher.server.server import Server
from usher.settings.tree import Settings

log = logging.getLogger("usher.process")

T = TypeVar("T")

DRAIN_S = 5.0
EVENTS_DRAIN_S = 1.0


READ_BY_LAST: Final = RUNTIMES
"""The last of the kinds by which jobs are read."""


class ManagerProcess:
    """`async with` starts it; `run` leads whenever it may."""

    def __init__(
        self, config: Config, settings: Settings, wrap: Callable[[LiveCluster], Cluster] | None = None
    ) -> None:
        """`wrap` may put something between the runtime and the cluster: tests do."""
        self.settings = settings
        self._wrap = wrap or (lambda cluster: cluster)
        self._dead = False
        self.manager: Manager | None = None
        self.surroundings: Surroundings | None = None
        self.writer: Writer | None = None
        self.election: Election | None = None
        self.numbers = Numbers()
        self.server = Server(Shown(self).asked(), settings.server.address, settings.server.port)
        self.lease_seen_s = time.monotonic()
        """When it was last seen that the lease is held, or that nothing is decided without it."""
        self._config = config
        self._kinds: Sequence[JobKind] = [*kinds_named(settings.jobs.kinds), *ALWAYS]
        self._by_name = {f"{kind.group}/{kind.kind}": kind for kind in self._kinds}
        self._following = Following()
        self._plugins()  # what is not there is said now, not when we lead
        self._base = self._reading()
        self.doors = Doors(settings, self._base, lambda: not self._dead, self.numbers)
        self._read_unit = UnitReader()

    def client(self) -> Client:
        config = self._config
        transport = AiohttpTransport(config.server, server_name=config.server_name, proxy_url=config.proxy_url)
        return Client(
            config,
            user_agent="usher-manager",
            field_manager="usher",
            timeout_s=self.settings.writer.request_timeout_ms / 1000,
            transport=Counting(transport, self.numbers),
        )

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
        """What an informer brings goes to the doors, and to the term that is on, if any."""
        self.doors.hear(deltas)
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

    # -- leading ------------------------------------------------------------------------------------------------------

    async def run(self, begun: Callable[[], None] | None = None, ready: Callable[[], None] | None = None) -> None:
        """Follow, stand for election, lead when elected, until cancelled.

        `ready` is called once every kind has been listed, `begun` at each term's start. The server listens from the
        beginning to the end.
        """
        election_settings = self.settings.election
        times = LeaseTimes(
            duration_s=election_settings.lease_duration_ms / 1000,
            deadline_s=election_settings.renew_deadline_ms / 1000,
            renew_s=election_settings.retry_period_ms / 1000,
            retry_s=min(election_settings.retry_period_ms / 1000, 1.0),
        )
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self.server)
            log.info("listening on %s", self.server.url)
            for beside in (watch_lag(self.numbers), self._watch_lease()):
                stack.push_async_callback(cancelled, asyncio.ensure_future(beside))
            client = await stack.enter_async_context(self.client())
            self._follow(client)
            await self._following.listed(stack)
            await stack.enter_async_context(self.doors.open(client))
            if ready is not None:
                ready()
            self.election = await stack.enter_async_context(
                Election(
                    self.client,
                    namespace=self.settings.lease_namespace,
                    name=election_settings.lease_name,
                    identity=election_settings.identity or socket.gethostname(),
                    times=times,
                    epoch_floor=self._highest_epoch,
                )
            )
            while True:
                term = await self.election.acquired()
                log.info("leading in epoch %d", term.epoch)
                await self._lead(client, term, begun)
                log.info("epoch %d has ended", term.epoch)

    def die(self) -> None:
        """From now on nothing is written any more, the lease included: what SIGKILL leaves behind. For tests."""
        self._dead = True
        if self.election is not None:
            self.election.abandon()

    @property
    def synced(self) -> bool:
        return not self.unsynced()

    def unsynced(self) -> list[str]:
        """The kinds that were not listed yet."""
        return self._following.unsynced()

    def watch_ages(self) -> dict[str, float]:
        """By kind: for how many seconds nothing was heard of it."""
        return self._following.ages()

    def _highest_epoch(self) -> int:
        units = self._units().list()
        return max((facts.status.epoch or 0 for facts in units), default=0)

    async def _lead(self, client: Client, term: Term, begun: Callable[[], None] | None) -> None:
        fence = unit_fence(self.settings.lease_namespace, self.settings.election.lease_name)
        audits = self.settings.mode == "audit"  # nothing is written that would need a fence
        if not (audits or await self._fenced(client, fence, term)) or not await self._caught_up(client, term):
            return
        writer = Writer(
            client,
            settings=WriterSettings(concurrency=self.settings.writer.concurrency),
            fence=lambda: term.held() and not self._dead,
            refused_by_fence=fence.refused,
        )
        self.writer = writer
        assert self.election is not None
        teller = Teller(writer, self.election.holder, self.settings.events, self.numbers)
        cluster = self._wrap(LiveCluster(client, writer, teller))
        manager, around = self._new_term(cluster, term.epoch, Auditor if audits else Manager)
        try:
            self._tell_everything(manager, around)
            manager.begin()
            if begun is not None:
                begun()
            reports = [] if audits else self._reports(manager, around)
            await first_of(manager.run(), term.ended(), self._look_at_capacity(), *reports)
        finally:
            manager.stopped = True
            self.manager = self.surroundings = None
            if term.held() and not self._dead:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(EVENTS_DRAIN_S):
                        await teller.close()
            await writer.drain(DRAIN_S if term.held() and not self._dead else 0.0)

    def _new_term(self, cluster: Cluster, epoch: int, kind: type[Manager] = Manager) -> tuple[Manager, Surroundings]:
        jobs = self.settings.jobs
        manager = kind(
            cluster,
            Engine(self.settings.engine.core(), self._plugins()),
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
        around = Surroundings(settings.system_namespace, Capacity(settings.capacity_loss_grace_ms), foreign, charging)
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
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(self.client())
            self._follow(client)
            await asyncio.gather(*(client.list(each.informer.resource, limit=1) for each in self._following.watched))
            await self._following.listed(stack)
            manager, around = self._new_term(cast(Cluster, Silent()), epoch=0)
            try:
                self._tell_everything(manager, around)
                return ask(manager)
            finally:
                manager.stopped = True
                self.manager = self.surroundings = None

    def _reports(self, manager: Manager, around: Surroundings) -> list[Coroutine[Any, Any, None]]:
        """What is done beside deciding: showing, and cleaning up."""
        reports, jobs = self.settings.reports, self.settings.jobs
        settings = ReportSettings(
            interval_ms=reports.queue_status_interval_ms,
            items_max=reports.queue_items_max,
            names_of_others=reports.other_tenants_names,
            unit_interval_ms=reports.resource_report_interval_ms,
        )
        retention = RetentionSettings(jobs.finished_units_age_ms, jobs.finished_units_max)
        quotas = self.settings.quotas
        making = MakingSettings(self.settings.system_namespace, quotas.default_queues, quotas.resource_quota_pairs)
        return [
            Maker(manager, around, making).run(),
            Reporter(manager, around, settings).run(),
            UnitReporter(manager, settings).run(),
            Retention(manager, retention).run(),
        ]

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

    async def _fenced(self, client: Client, fence: Any, term: Term) -> bool:
        """See that the server refuses what an earlier leader writes; whether we still lead then."""
        try:
            await fence.install(client)
        except Forbidden as error:
            log.warning("the fence cannot be brought up to date: %s", error)
        except NotFound as error:
            log.warning("this server has no admission policies: writes are not fenced: %s", error)
            return term.held()
        units = self._units().list()
        if not units:
            return term.held()
        probe = status_probe(
            client,
            UNITS,
            units[0].name,
            units[0].namespace,
            lambda epoch: {"status": {"epoch": epoch, "message": f"is epoch {epoch} current?"}},
        )
        try:
            return await wait_until_fenced(fence, term.epoch, [probe], held=term.held)
        except NotFound:
            return await self._fenced(client, fence, term)

    async def _caught_up(self, client: Client, term: Term) -> bool:
        """See that the caches hold everything that was written before this term."""
        await self._following.caught_up(client)
        return term.held()

    async def _watch_lease(self) -> None:
        while True:
            if self.manager is None or self.election is None or self.election.term is not None:
                self.lease_seen_s = time.monotonic()
            await asyncio.sleep(1.0)

    async def _look_at_capacity(self) -> None:
        """Nodes that were lost are forgotten by time alone."""
        while True:
            await asyncio.sleep(1.0)
            self._take_surroundings()


class Silent:
    """Where there is no cluster to write to: nothing is said, and nothing else is asked of it."""

    def tell(self, *said: object) -> None:
        pass


def now_ms() -> int:
    """Since 1970: what is stored must mean the same to the next process."""
    return time.time_ns() // 1_000_000
