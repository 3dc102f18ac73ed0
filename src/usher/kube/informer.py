"""A cache of all objects of a kind that follows the API server, whatever happens on the way.

    async with Informer(client, PODS, indexers={"node": lambda pod: [pod.spec.node_name]}) as pods:
        await pods.synced.wait()
        async for batch in pods.subscribe(): ...

It begins with a watch-list (all objects as a stream) or, where the server cannot, with a list in pages, and goes on
with a watch from the version that was reached. A watch that ends, breaks or falls silent is taken up again at that
version; a version that the server no longer has (410, in the answer or in the stream) means to list again, and what
changed in between comes out as deltas. No object is delivered twice in the same version, none is missed. It never gives
up: what is wrong is in `problem`, and `on_problem` hears of it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from usher.kube.client import PAGE, Client
from usher.kube.errors import BadRequest, ConnectionLost, Gone, Invalid, KubeError, Timeout
from usher.kube.pacing import Backoff, Pacing
from usher.kube.resource import Resource
from usher.kube.store import Delta, Index, Listing, Store
from usher.kube.subscription import Subscription
from usher.kube.watching import Watch
from usher.kube.wire import WatchEvent

T = TypeVar("T")

Listener = Callable[[Sequence[Delta[T]]], None]

SHORT_S = 1.0
"""A watch that ends sooner and said nothing did not work."""


class Informer(Generic[T]):
    """One kind, in one namespace or all, filtered by selectors or not.

    `transform` makes what is kept out of what was read, so that only what is needed stays in memory.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[Any],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        transform: Callable[[Any], T] | None = None,
        indexers: Mapping[str, Index[T]] | None = None,
        pacing: Pacing | None = None,
        page: int = PAGE,
        watch_list: bool = True,
        on_problem: Callable[[KubeError], None] | None = None,
    ) -> None:
        self.resource = resource
        self.store: Store[T] = Store(transform or _as_it_is, indexers or {})
        self.synced = asyncio.Event()
        self.problem: KubeError | None = None
        self.heard_at: float | None = None
        """When the server last said something, by the clock of `pacing`; bookmarks count."""
        self._client = client
        self._where: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        self._pacing = pacing or Pacing()
        self._page = page
        self._watch_list = watch_list
        self._on_problem = on_problem
        self._listeners: list[Listener[T]] = []
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []
        self._must_list = True
        self._listed_at = float("-inf")
        self._interrupted = False
        self._reading: asyncio.Timeout | None = None
        self._group: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Informer[T]":
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._task = self._group.create_task(self.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        assert self._task is not None
        self._task.cancel()
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if group.exceptions != (error,):  # what the body raised goes on as it is
                raise

    def listen(self, listener: Listener[T]) -> None:
        """Call `listener` with what changes, at once; first with everything there is. It must be quick."""
        self._listeners.append(listener)
        if len(self.store):
            listener(self.store.everything())

    def subscribe(self) -> Subscription[T]:
        """What changes, in batches; first everything there is."""
        subscription: Subscription[T] = Subscription()
        self.listen(subscription.push)
        return subscription

    async def reached(self, resource_version: str) -> None:
        """Wait until the cache has everything up to a version, e.g. that of a read made just now.

        A bookmark is provoked, for nothing may have changed here while the version grew elsewhere.
        """
        wanted = int(resource_version)
        if self._version() >= wanted:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited.append((wanted, future))
        if self._reading is not None:  # the watch that is read may stay silent for a minute: take up another
            self._interrupted = True
            self._reading.reschedule(asyncio.get_running_loop().time())
        try:
            await future
        finally:
            self._awaited = [each for each in self._awaited if each[1] is not future]

    async def run(self) -> None:
        """Follow the server until cancelled. What it cannot mend (a type that does not fit) is raised."""
        backoff = Backoff(self._pacing)
        clock = self._pacing.clock
        while True:
            began = clock()
            wait_s = 0.0
            try:
                of_use = await (self._start() if self._must_list else self._follow())
                if not of_use and clock() - began < SHORT_S:
                    wait_s = backoff.next_s()
            except KubeError as error:
                self._note(error)
                wait_s = backoff.next_s(error.retry_after_s)
                if isinstance(error, Gone):
                    if not self._must_list and clock() - self._listed_at >= self._pacing.good_s:
                        wait_s = 0.0  # nothing is wrong, we were away too long
                    self._must_list = True
            if clock() - began >= self._pacing.good_s:
                backoff.reset()
            if wait_s:
                await asyncio.sleep(wait_s)

    async def _start(self) -> bool:
        """List everything, one way or the other, and then follow."""
        if self._watch_list:
            try:
                return await self._start_with_watch_list()
            except _CannotStartError as cannot:
                self._note(cannot.error)
                if isinstance(cannot.error, BadRequest | Invalid):
                    self._watch_list = False  # this server does not know it, and will not learn
        await self.list_once()
        return True

    async def list_once(self) -> None:
        """Take in everything that is there now. For who does not want to follow it; raises what keeps us from it."""
        listing = Listing(self.store)
        version = ""
        async for page in self._client.pages(self.resource, **self._where, limit=self._page):
            for each in page.items:
                listing.add(each)
            for rejected in page.rejected:
                listing.reject(rejected)
            version = page.resource_version
        self._replace(listing, version)

    async def _start_with_watch_list(self) -> bool:
        """All objects as a stream, then what happens to them, on one connection."""
        listing = Listing(self.store)
        watch = self._client.watch(
            self.resource, **self._where, send_initial_events=True, timeout_s=self._pacing.watch_timeout_s()
        )
        async with watch:
            rest: Sequence[WatchEvent[Any]] | None = None
            try:
                while rest is None:
                    async with asyncio.timeout(self._pacing.start_silence_s):
                        events = await watch.batch()
                    if not events:
                        raise Timeout("the watch ended before it had listed everything")
                    rest = self._listed(listing, events)
            except TimeoutError as error:
                raise _CannotStartError(Timeout("nothing came of the watch-list")) from error
            except KubeError as error:
                broken = isinstance(error, ConnectionLost)
                if isinstance(error, BadRequest | Invalid) or (watch.began and not broken):
                    raise _CannotStartError(error) from error
                raise
            self._take(rest)
            return await self._read(watch, may_interrupt=True)

    def _listed(self, listing: Listing[T], events: Sequence[WatchEvent[Any]]) -> Sequence[WatchEvent[Any]] | None:
        """Take events into the listing; when it is complete, the events that came after it."""
        for number, event in enumerate(events):
            if event.initial_end:
                self._replace(listing, event.resource_version)
                return events[number + 1 :]
            listing.apply(event)
        return None

    async def _follow(self) -> bool:
        """Take up the watch at the version that was reached."""
        hurry = bool(self._awaited)
        watch = self._client.watch(
            self.resource,
            **self._where,
            resource_version=self.store.resource_version,
            timeout_s=self._pacing.hurry_s if hurry else self._pacing.watch_timeout_s(),
        )
        async with watch:
            await watch.connected()
            if hurry:  # a read moves the server's cache on: of a version that it had before, it sends no bookmark
                await self._client.list(self.resource, self._where["namespace"], limit=1)
            self.problem = None
            return await self._read(watch, may_interrupt=not hurry)

    async def _read(self, watch: Watch[Any], *, may_interrupt: bool) -> bool:
        """Take in what a watch says until it ends; whether it was of use."""
        of_use = False
        while not (may_interrupt and self._awaited):
            self._interrupted = False
            try:
                async with asyncio.timeout(self._pacing.silence_s) as reading:
                    self._reading = reading if may_interrupt else None
                    events = await watch.batch()
            except TimeoutError as error:
                if self._interrupted:
                    return True
                raise Timeout(f"nothing was heard for {self._pacing.silence_s:.0f} s") from error
            finally:
                self._reading = None
            if not events:
                return of_use
            of_use = True
            self._take(events)
        return True

    def _replace(self, listing: Listing[T], resource_version: str) -> None:
        deltas = self.store.replace(listing, resource_version)
        self._must_list = False
        self._listed_at = self.heard_at = self._pacing.clock()
        self.problem = None
        self._tell(deltas)
        self.synced.set()

    def _take(self, events: Sequence[WatchEvent[Any]]) -> None:
        self.heard_at = self._pacing.clock()
        deltas: list[Delta[T]] = []
        for event in events:
            deltas += self.store.apply(event)
        self._tell(deltas)

    def _tell(self, deltas: Sequence[Delta[T]]) -> None:
        if deltas:
            for listener in self._listeners:
                listener(deltas)
        if self._awaited:
            version = self._version()
            for wanted, future in self._awaited:
                if version >= wanted and not future.done():
                    future.set_result(None)

    def _version(self) -> int:
        return int(self.store.resource_version or -1)

    def _note(self, error: KubeError) -> None:
        self.problem = error
        if self._on_problem is not None:
            self._on_problem(error)


class _CannotStartError(Exception):
    """The server did not complete a watch-list: list in pages instead."""

    def __init__(self, error: KubeError) -> None:
        super().__init__(str(error))
        self.error = error


def _as_it_is(object_: Any) -> Any:
    return object_
