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
from typing import Any

from usher.app.cluster import LiveCluster
from usher.app.counting import Counting
from usher.app.doors import Doors
from usher.app.fence import unit_fence
from usher.app.looking import Looking
from usher.app.resources import UNITS
from usher.app.shown import Shown
from usher.app.tasks import cancelled, first_of
from usher.app.telling import Teller
from usher.kube.client import Client
from usher.kube.config import Config
from usher.kube.election import Election, Term
from usher.kube.errors import Forbidden, NotFound
from usher.kube.fencing import status_probe, wait_until_fenced
from usher.kube.lease import LeaseTimes
from usher.kube.store import Delta
from usher.kube.transport import AiohttpTransport
from usher.kube.writer import Writer, WriterSettings
from usher.runtime.audit import Auditor
from usher.runtime.lag import watch_lag
from usher.runtime.making import Maker, MakingSettings
from usher.runtime.manager import Manager
from usher.runtime.port import Cluster
from usher.runtime.report import ReportSettings
from usher.runtime.report_units import UnitReporter
from usher.runtime.reporter import Reporter
from usher.runtime.retention import Retention, RetentionSettings
from usher.runtime.surroundings import Surroundings
from usher.server.server import Server
from usher.settings.tree import Settings

log = logging.getLogger("usher.process")

DRAIN_S = 5.0
EVENTS_DRAIN_S = 1.0


class ManagerProcess(Looking):
    """`async with` starts it; `run` leads whenever it may."""

    def __init__(
        self, config: Config, settings: Settings, wrap: Callable[[LiveCluster], Cluster] | None = None
    ) -> None:
        """`wrap` may put something between the runtime and the cluster: tests do."""
        super().__init__(config, settings)
        self._wrap = wrap or (lambda cluster: cluster)
        self._dead = False
        self.writer: Writer | None = None
        self.election: Election | None = None
        self.server = Server(Shown(self).asked(), settings.server.address, settings.server.port)
        self.lease_seen_s = time.monotonic()
        """When it was last seen that the lease is held, or that nothing is decided without it."""
        self.doors = Doors(settings, self._base, lambda: not self._dead, self.numbers)

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

    def _hear(self, see: Callable[[Any, bool], None], deltas: Sequence[Delta[Any]]) -> None:
        """What an informer brings goes to the doors, too."""
        self.doors.hear(deltas)
        super()._hear(see, deltas)

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
