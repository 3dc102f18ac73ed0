"""Leader election with a Lease: at most one process at a time believes that it leads, and each term has an epoch.

    election = Election(connect, namespace="me", name="me", identity=hostname)
    async with election:
        term = await election.acquired()
        writer = Writer(client, fence=term.held)
        await term.ended()

The promises. `term.held()` is true only before a local deadline that lies before the moment when anybody else may take
over: it counts from before the renewal was *sent*, by a clock that nothing sets, and others count from when they *saw*
it. So a leader that hears nothing steps down by itself, in time, and wall clocks may differ as they like. Every
acquisition has a new, higher epoch, also by a process of the same name: each process adds something of its own to its
identity, and takes over from its former self only as from anybody else.

Renewal runs in a thread of its own with a loop and a connection of its own, made by `connect`: the main loop may decide
or decode for long, and its pool of connections may be full, without the lease being lost.

What a lease cannot do is stop a process that was frozen between looking at its deadline and sending: see `fencing`.
"""

import asyncio
import contextlib
import datetime
import secrets
import threading
from collections.abc import Callable
from types import TracebackType

from usher.kube.client import Client
from usher.kube.errors import Conflict, KubeError, NotFound
from usher.kube.lease import (
    LEASES,
    Lease,
    LeaseTimes,
    Observation,
    boot_clock,
    epoch_of,
    holder_of,
    released,
    renewed,
    taken,
)
from usher.kube.moments import utc_now


class Term:
    """One time of leading. Ask `held` right before whatever only a leader may do; from any thread."""

    def __init__(self, election: "Election", epoch: int, deadline: float, *, over: bool) -> None:
        self.epoch = epoch
        self._election = election
        self._deadline = deadline
        self._over = over

    def held(self) -> bool:
        """Whether this process leads, for sure, at this moment."""
        return not self._over and self._election.clock() < self._deadline

    @property
    def remaining_s(self) -> float:
        """How long it leads if nothing is heard any more; 0 when it does not."""
        return 0.0 if self._over else max(0.0, self._deadline - self._election.clock())

    async def ended(self) -> None:
        """Wait until it does not lead any more, in this term."""
        while self.held():
            await self._election.changed(self.remaining_s)


class Election:
    """A candidate. `async with` starts it, and releases the lease at the end: stop writing before that."""

    def __init__(
        self,
        connect: Callable[[], Client],
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
        epoch_floor: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = boot_clock,
        wall: Callable[[], datetime.datetime] = utc_now,
    ) -> None:
        """`epoch_floor` is asked (from another thread) for the highest epoch known from elsewhere: somebody may
        have deleted the Lease, and epochs must not begin anew."""
        self.holder = f"{identity}_{secrets.token_hex(4)}"
        self.clock = clock
        self.times = times or LeaseTimes()
        self.renewals = 0
        self.terms = 0
        self.last_error: KubeError | None = None
        self._connect = connect
        self._place = (name, namespace)
        self._floor = epoch_floor
        self._wall = wall
        self._term: Term | None = None
        self._lease: Lease | None = None
        self._epoch_seen = 0
        self._taking = False
        self._closing = False
        self._failed: BaseException | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease-{name}", daemon=True)

    @property
    def term(self) -> Term | None:
        """The term that is held now."""
        term = self._term
        return term if term is not None and term.held() else None

    async def acquired(self) -> Term:
        """Wait until this process leads."""
        while (term := self.term) is None:
            if self._failed is not None:
                raise RuntimeError(f"the election of {self.holder} broke down") from self._failed
            if self._closing:
                raise RuntimeError(f"{self.holder} does not stand for election any more")
            await self.changed(None)
        return term

    async def changed(self, within_s: float | None) -> None:
        """Wait until a term begins or ends, or for so long."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=within_s)
        finally:
            self._waiters.discard(waiter)

    async def start(self) -> None:
        """Begin to stand."""
        self._outer = asyncio.get_running_loop()
        self._thread.start()
        await asyncio.to_thread(self._ready.wait)

    async def stop(self) -> None:
        """Step down now, release the lease so that another can take it at once, and end the thread."""
        self._closing = True
        self._end_term()
        with contextlib.suppress(RuntimeError):  # the thread ended by itself
            self._inner.call_soon_threadsafe(self._stopping.set)
        await asyncio.to_thread(self._thread.join)

    def abandon(self) -> None:
        """Stop believing in the term and never write to the lease again: it runs out, as if the process had died."""
        self._lease = None
        self._end_term()

    async def __aenter__(self) -> "Election":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # What follows runs in the thread.

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._failed = error
        finally:
            self._ready.set()
            self._end_term()

    async def _main(self) -> None:
        self._inner = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._nudge = asyncio.Event()
        self._ready.set()
        async with self._connect() as client:
            standing = asyncio.create_task(self._stand(client))
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait((standing, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            standing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await standing
            await self._release(client)

    async def _stand(self, client: Client) -> None:
        while not self._closing:
            term = await self._win(client)
            await self._keep(client, term)
            self._end_term()

    async def _win(self, client: Client) -> Term:
        observation = Observation(self.clock)
        watching = asyncio.create_task(self._watch(client))
        try:
            while True:
                wait_s = self.times.retry_s
                try:
                    free_in_s = await self._look(client, observation)
                    if free_in_s <= 0:
                        return await self._take(client)
                    wait_s = min(wait_s, free_in_s)
                except (KubeError, TimeoutError) as error:
                    self._note(error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._nudge.wait()
                self._nudge.clear()
        finally:
            watching.cancel()

    async def _look(self, client: Client, observation: Observation) -> float:
        """Read the lease; how long until it may be taken."""
        try:
            async with self._in_time():
                lease = self._lease = await client.get(LEASES, *self._place)
        except NotFound:
            self._lease = None
            return 0.0
        self._epoch_seen = max(self._epoch_seen, epoch_of(lease))
        if holder_of(lease) == self.holder:
            return 0.0  # we took it and the answer was lost, or we lost it by silence: nobody else has it
        return observation.free_in_s(lease, self.times.duration_s)

    async def _take(self, client: Client) -> Term:
        """Take the lease as it was read, for a new term. Raises Conflict if somebody was faster."""
        name, namespace = self._place
        epoch = max(self._epoch_seen, self._floor()) + 1
        body = taken(self._lease, name, self.holder, epoch, self.times, self._wall())
        sent = self.clock()
        self._taking = True
        async with self._in_time():
            if self._lease is None:
                self._lease = await client.create(LEASES, body, namespace)
            else:
                self._lease = await client.replace(LEASES, name, namespace, body)
        self._taking = False
        self._epoch_seen = epoch
        self.terms += 1
        term = self._term = Term(self, epoch, sent + self.times.deadline_s, over=self._closing)
        if self._closing:  # looked at again: whoever stops us by now sees the term, or we see that they do
            term._over = True
        self._tell()
        return term

    async def _keep(self, client: Client, term: Term) -> None:
        """Renew until the term is over: by its deadline, or because the lease is somebody else's."""
        name, namespace = self._place
        pause_s = self.times.renew_s
        while term.held():
            await asyncio.sleep(min(pause_s, term.remaining_s))
            if not term.held() or self._lease is None:
                return
            pause_s = self.times.retry_s
            try:
                sent = self.clock()
                async with self._in_time(term.remaining_s):
                    self._lease = await client.replace(LEASES, name, namespace, renewed(self._lease, self._wall()))
                term._deadline = sent + self.times.deadline_s
                self.renewals += 1
                pause_s = self.times.renew_s
            except NotFound:
                return
            except Conflict as error:
                self._note(error)
                if not await self._still_ours(client, term):
                    return
                pause_s = 0.0
            except (KubeError, TimeoutError) as error:
                self._note(error)

    async def _still_ours(self, client: Client, term: Term) -> bool:
        """Whether a conflict was about a renewal of ours whose answer was lost, or about somebody's label."""
        try:
            async with self._in_time(term.remaining_s):
                self._lease = await client.get(LEASES, *self._place)
        except NotFound:
            return False
        except (KubeError, TimeoutError) as error:
            self._note(error)
            return True  # not known: the deadline decides
        return holder_of(self._lease) == self.holder and epoch_of(self._lease) == term.epoch

    async def _release(self, client: Client) -> None:
        """Give the lease back if it is ours; where that fails it runs out by itself."""
        name, namespace = self._place
        read = self._taking  # the answer to our taking it was not awaited
        for _ in range(3):
            try:
                async with self._in_time():
                    if read:
                        self._lease = await client.get(LEASES, *self._place)
                    if self._lease is not None and holder_of(self._lease) == self.holder:
                        await client.replace(LEASES, name, namespace, released(self._lease, self._wall()))
                    return
            except NotFound:
                return
            except (KubeError, TimeoutError) as error:
                self._note(error)
                read = True

    async def _watch(self, client: Client) -> None:
        """Look at once when the lease changes; without this, a candidate looks every `retry_s`."""
        name, namespace = self._place
        while True:
            with contextlib.suppress(KubeError):
                selector = f"metadata.name={name}"
                async with client.watch(
                    LEASES, namespace, field_selector=selector, allow_bookmarks=False, timeout_s=300
                ) as watch:
                    async for _ in watch:
                        self._nudge.set()
            await asyncio.sleep(self.times.retry_s)

    def _in_time(self, at_most_s: float | None = None) -> asyncio.Timeout:
        """A request that takes longer is tried again, while there is time for it."""
        limit_s = max(self.times.renew_s, self.times.deadline_s / 2)
        return asyncio.timeout(limit_s if at_most_s is None else min(limit_s, at_most_s))

    def _note(self, error: KubeError | TimeoutError) -> None:
        if isinstance(error, KubeError):
            self.last_error = error

    def _end_term(self) -> None:
        term = self._term
        if term is not None:
            term._over = True
        self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop of those who wait has ended: so have they
            self._outer.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
