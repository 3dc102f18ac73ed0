"""The writer: every change to the cluster leaves through here, in order, at a bounded rate, and with an outcome.

    writer = Writer(client, fence=term.held)
    outcome = await writer.submit(Write(resource=PODS, verb=Verb.PATCH, name="a", namespace="b", body={...}))
    match outcome: ...

The rules: at most `concurrency` requests at once, one per object; writes to one object in the order they were given;
the urgent before the cosmetic, and what nobody waits for (`SPARE`) one at a time; a newer write replaces an older one
of its kind that still waits; the fence is asked right before each send. A server that says "too many requests" is heard
by all: nothing is sent for as long as it wishes, and fewer at once afterwards. Nothing here raises for what a server
may answer: outcomes are values (`writes`).

Whoever wants a change calls `submit`, from the event loop's thread. `counters` are plain ints for a collector.
"""

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

from usher.kube.client import Client
from usher.kube.errors import KubeError
from usher.kube.writer_delivery import Again, Cause, Delivery
from usher.kube.writer_queue import Entry, Lane, Queue
from usher.kube.writes import Dropped, Fenced, GaveUp, Outcome, Refused, Stopped, Superseded, Urgency, Verb, Write

T = TypeVar("T")

SPARE_AT_ONCE = 1
"""A server that is busy with what matters is not made slower by what does not."""


@dataclass(frozen=True)
class WriterSettings:
    """Limits of a writer. `patience_s` is how long a write is tried before its outcome is GaveUp."""

    concurrency: int = 32
    queue_max: int = 20_000
    patience_s: float = 300.0
    backoff_first_s: float = 0.1
    backoff_max_s: float = 10.0
    throttle_s: float = 1.0
    """How long all are quiet after a 429 that does not say."""


@dataclass
class Counters:
    """What happened so far; only ever grows. Keys of `requests` are (verb, code), the code 0 where none came."""

    submitted: int = 0
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Time spent in requests, by verb."""
    retries: Counter[str] = field(default_factory=Counter)
    """By cause."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """By the name of the outcome."""


class Writer:
    """See the module. Made and used inside one event loop; `async with` drains it."""

    def __init__(
        self,
        client: Client,
        *,
        settings: WriterSettings | None = None,
        fence: Callable[[], bool] = lambda: True,
        refused_by_fence: Callable[[KubeError], bool] = lambda error: False,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counters = Counters()
        self.settings = settings or WriterSettings()
        self.in_flight = 0
        self._spare = 0
        self._client = client
        self._fence = fence
        self._refused_by_fence = refused_by_fence
        self._jitter = jitter
        self._clock = clock
        self._queue = Queue()
        self._number = 0
        self._allowance = float(self.settings.concurrency)
        self._quiet_until = 0.0
        self._pumping: asyncio.TimerHandle | None = None
        self._resting: dict[Lane, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> dict[Urgency, int]:
        """How many writes wait to be sent for the first time."""
        return {urgency: self._queue.waiting[urgency] for urgency in Urgency}

    @property
    def allowance(self) -> int:
        """How many requests may be under way at once now: less than the setting after throttling."""
        return int(self._allowance)

    def submit(
        self, write: Write[T], on_outcome: Callable[[Outcome[T]], None] | None = None
    ) -> "asyncio.Future[Outcome[T]]":
        """Take a write. The outcome comes by the future and, if given, by the callback first. Never blocks."""
        future: asyncio.Future[Outcome[T]] = asyncio.get_running_loop().create_future()

        def settle(outcome: Outcome[T]) -> None:
            self.counters.outcomes[type(outcome).__name__] += 1
            if not future.done():
                future.set_result(outcome)
            if on_outcome is not None:
                on_outcome(outcome)

        def fail(error: BaseException) -> None:
            if not future.done():
                future.set_exception(error)

        delivery = Delivery(self._client, write)  # a body that is no JSON is the caller's mistake, here and now
        self.counters.submitted += 1
        if self._closed:
            settle(Stopped())
            return future
        if len(self._queue) >= self.settings.queue_max:
            dropped = self._queue.make_room_for(write.urgency)
            if dropped is None:
                settle(Dropped())
                return future
            dropped.settle(Dropped())
        self._number += 1
        entry = Entry(delivery, self._number, settle, fail, self._clock() + self.settings.patience_s)
        self._idle.clear()
        replaced = self._queue.add(entry)
        if replaced is not None:
            replaced.settle(Superseded(write))
        self._pump()
        return future

    async def drain(self, within_s: float) -> bool:
        """Take nothing more and wait until everything has its outcome; what has none by then is Stopped.

        Returns whether everything had one.
        """
        self._closed = True
        try:
            async with asyncio.timeout(within_s):
                await self._idle.wait()
            return True
        except TimeoutError:
            await self._stop()
            return False

    async def __aenter__(self) -> "Writer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.drain(0.0 if error is not None else self.settings.patience_s)

    async def _stop(self) -> None:
        for handle in (*self._resting.values(), self._pumping):
            if handle is not None:
                handle.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for entry in list(self._queue.entries()):
            entry.settle(Stopped(unsure=entry.sending or entry.delivery.doubt))
        self._queue = Queue()
        self._resting.clear()
        self._idle.set()

    def _pump(self) -> None:
        """Send whatever may be sent now."""
        quiet_s = self._quiet_until - self._clock()
        if quiet_s > 0:
            if self._pumping is None:
                self._pumping = asyncio.get_running_loop().call_later(quiet_s, self._pump_again)
            return
        while self.in_flight < self.allowance:
            lane = self._queue.take(spare=self._spare < SPARE_AT_ONCE)
            if lane is None:
                break
            self.in_flight += 1
            self._spare += lane.spare
            task = asyncio.get_running_loop().create_task(self._try(lane))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _pump_again(self) -> None:
        self._pumping = None
        self._pump()

    async def _try(self, lane: Lane) -> None:
        """One request for the first write of a lane, and what follows from it."""
        entry = lane.entries[0]
        result: Outcome[Any] | Again | Exception
        try:
            result = await self._step(entry)
        except Exception as error:  # a mistake of ours: its submitter hears of it, and the others go on
            result = error
        finally:
            self.in_flight -= 1
            self._spare -= lane.spare
        try:
            if isinstance(result, Again):
                self._again(lane, result)
            elif isinstance(result, Exception):
                self._queue.finished(lane).fail(result)
            else:
                self._queue.finished(lane).settle(result)
        finally:
            if self._queue.idle:
                self._idle.set()
            self._pump()

    async def _step(self, entry: Entry) -> Outcome[Any] | Again:
        write, delivery = entry.write, entry.delivery
        if delivery.error is not None and self._clock() >= entry.give_up_at:
            return GaveUp(delivery.error, unsure=delivery.doubt)
        if delivery.sends_next and not (write.fence or self._fence)():
            return Fenced(unsure=delivery.doubt)
        verb = write.verb.value if delivery.sends_next else "get"
        began = self._clock()
        before = delivery.error
        entry.sending = delivery.sends_next
        result = await delivery.step()
        entry.sending = False
        self.counters.seconds[verb] += self._clock() - began
        failed = delivery.error if delivery.error is not before else None
        code = failed.status if failed else 201 if verb == Verb.CREATE.value else 200
        self.counters.requests[verb, code] += 1
        if isinstance(result, Refused) and self._refused_by_fence(result.error):
            # We hold the lease, as far as we know: then it is the server that has not heard of it yet.
            return Again(Cause.FENCE, result.error)
        if failed is None:
            limit = self.settings.concurrency
            self._allowance = min(limit, self._allowance + 1 / self._allowance)
        return result

    def _again(self, lane: Lane, result: Again) -> None:
        entry = lane.entries[0]
        if result.cause is None:
            self._queue.rested(lane)
            return
        self.counters.retries[result.cause.name.lower()] += 1
        asked_s = result.error.retry_after_s if result.error else None
        if result.cause is Cause.THROTTLED:
            self._slow_down(asked_s or self.settings.throttle_s)
            self._queue.rested(lane)  # it keeps its place; all are quiet
            return
        entry.tries += 1
        delay_s = min(self.settings.backoff_max_s, self.settings.backoff_first_s * 2 ** min(entry.tries - 1, 30))
        delay_s = max(delay_s * (0.5 + self._jitter() / 2), asked_s or 0.0)
        self._resting[lane] = asyncio.get_running_loop().call_later(delay_s, self._rested, lane)

    def _rested(self, lane: Lane) -> None:
        del self._resting[lane]
        self._queue.rested(lane)
        self._pump()

    def _slow_down(self, quiet_s: float) -> None:
        now = self._clock()
        if now >= self._quiet_until:  # those that were under way together say it once
            self._allowance = max(1.0, self._allowance / 2)
        self._quiet_until = max(self._quiet_until, now + quiet_s)
