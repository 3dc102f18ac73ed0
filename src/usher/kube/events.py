"""Events (`events.k8s.io/v1`): what happened to an object, for people, repeated ones as one series.

    recorder = Recorder(writer, controller="example.org/manager", instance=hostname)
    recorder.record(pod_ref, type_=NORMAL, reason="Started", action="Start", note="It runs on node n1.")

The rules. `record` never blocks and never raises for what the cluster does: events are the first to be dropped, and
dropped ones are counted. Events that differ at most in their note are one series: the first is created, the second
makes it a series at once, later ones are only counted and written every `refresh_s`, when they stop for `finish_s`,
and at `flush`. The first note stays (the API lets nobody change it). Texts too long for the API are cut.

Give it a writer of its own, or one whose urgent writes go first: events are `Urgency.SPARE`.
"""

import asyncio
import datetime
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from usher.kube.moments import micro_time, utc_now
from usher.kube.resource import untyped
from usher.kube.writer import Writer
from usher.kube.writes import Done, Dropped, Outcome, Superseded, Urgency, Vanished, Verb, Write

EVENTS = untyped("events.k8s.io", "v1", "events", "Event", namespaced=True)
NORMAL = "Normal"
WARNING = "Warning"
NOTE_BYTES_MAX = 1024
WORD_BYTES_MAX = 128
NAME_MAX = 253
NO_NAMESPACE = "default"
"""Where events about objects without a namespace go."""


class Reference(NamedTuple):
    """Which object an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    def body(self) -> dict[str, str]:
        """As the API wants it."""
        given = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name}
        more = {"namespace": self.namespace, "uid": self.uid}
        return given | {key: value for key, value in more.items() if value}


@dataclass(frozen=True)
class RecorderSettings:
    """Limits: how many series are remembered, how many writes may be under way, and when series are written."""

    series_max: int = 4096
    pending_max: int = 1000
    finish_s: float = 360.0
    refresh_s: float = 1800.0


@dataclass
class EventCounters:
    """What became of events: recorded ones are created, counted into a series, or dropped."""

    recorded: int = 0
    created: int = 0
    counted: int = 0
    dropped: int = 0
    failed: int = 0
    """Writes that the server did not do."""


class _Key(NamedTuple):
    type: str
    action: str
    reason: str
    regarding: Reference
    related: Reference | None


@dataclass(eq=False)
class _Series:
    name: str
    namespace: str
    count: int = 1
    written: int = 1
    last_at: float = 0.0
    last_seen: datetime.datetime = field(default_factory=utc_now)
    written_at: float = 0.0


class Recorder:
    """See the module. Used from the event loop's thread."""

    def __init__(
        self,
        writer: Writer,
        *,
        controller: str,
        instance: str,
        settings: RecorderSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime.datetime] = utc_now,
    ) -> None:
        self.counters = EventCounters()
        self.settings = settings or RecorderSettings()
        self._writer = writer
        self._reporting = {
            "reportingController": _cut(controller, WORD_BYTES_MAX),
            "reportingInstance": _cut(instance, WORD_BYTES_MAX),
        }
        self._clock = clock
        self._wall = wall
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        """The one that was seen longest ago first."""
        self._pending: set[asyncio.Future[Outcome[dict[str, Any]]]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pending(self) -> int:
        """How many writes have no outcome yet."""
        return len(self._pending)

    def record(
        self,
        regarding: Reference,
        *,
        type_: str,
        reason: str,
        action: str,
        note: str,
        related: Reference | None = None,
    ) -> None:
        """Something happened to an object."""
        self.counters.recorded += 1
        key = _Key(type_, _cut(action, WORD_BYTES_MAX), _cut(reason, WORD_BYTES_MAX), regarding, related)
        now, seen = self._clock(), self._wall()
        series = self._series.get(key)
        if series is None:
            self._begin(key, note, now, seen)
            return
        self.counters.counted += 1
        series.count += 1
        series.last_at, series.last_seen = now, seen
        self._series.move_to_end(key)
        if series.written == 1 or now - series.written_at >= self.settings.refresh_s:
            self._write_series(key, series, now)

    async def flush(self) -> None:
        """Write what is only counted so far, and wait for everything under way."""
        now = self._clock()
        for key, series in list(self._series.items()):
            if series.written < series.count:
                self._write_series(key, series, now, even_if_busy=True)
        while self._pending:
            await asyncio.wait(self._pending)

    async def close(self) -> None:
        """Flush, and forget all series."""
        await self.flush()
        self._series.clear()
        if self._timer is not None:
            self._timer.cancel()

    def finish_idle(self) -> None:
        """End series that did not go on for `finish_s`: they are written a last time. Called by a timer."""
        now = self._clock()
        while self._series:
            key, series = next(iter(self._series.items()))
            if now - series.last_at < self.settings.finish_s:
                break
            self._end(key, series, now)

    def _begin(self, key: _Key, note: str, now: float, seen: datetime.datetime) -> None:
        if self.pending >= self.settings.pending_max:
            self.counters.dropped += 1
            return
        if len(self._series) >= self.settings.series_max:
            self._end(*next(iter(self._series.items())), now)
        regarding = key.regarding
        suffix = f".{secrets.token_hex(8)}"
        name = regarding.name[: NAME_MAX - len(suffix)].rstrip("-.") + suffix
        series = _Series(name, regarding.namespace or NO_NAMESPACE, last_at=now, last_seen=seen, written_at=now)
        self._series[key] = series
        body = {
            "metadata": {"name": name, "namespace": series.namespace},
            "eventTime": micro_time(seen),
            "type": key.type,
            "reason": key.reason,
            "action": key.action,
            "note": _cut(note, NOTE_BYTES_MAX),
            "regarding": regarding.body(),
            **self._reporting,
        }
        if key.related is not None:
            body["related"] = key.related.body()
        write = Write(
            resource=EVENTS,
            verb=Verb.CREATE,
            name=name,
            namespace=series.namespace,
            body=body,
            urgency=Urgency.SPARE,
        )
        self._submit(write, lambda outcome: self._created(key, series, outcome))
        self._wake_later()

    def _created(self, key: _Key, series: _Series, outcome: Outcome[dict[str, Any]]) -> None:
        if isinstance(outcome, Done):
            self.counters.created += 1
            return
        self._judge(key, series, outcome)
        self._forget(key, series)  # what comes next begins anew

    def _write_series(self, key: _Key, series: _Series, now: float, *, even_if_busy: bool = False) -> None:
        if self.pending >= self.settings.pending_max and not even_if_busy:
            return  # it stays counted, and is written later
        series.written, series.written_at = series.count, now
        body = {"series": {"count": series.count, "lastObservedTime": micro_time(series.last_seen)}}
        write = Write(
            resource=EVENTS,
            verb=Verb.PATCH,
            name=series.name,
            namespace=series.namespace,
            body=body,
            urgency=Urgency.SPARE,
            coalesce="series",
        )
        self._submit(write, lambda outcome: self._judge(key, series, outcome))

    def _end(self, key: _Key, series: _Series, now: float) -> None:
        if series.written < series.count:
            self._write_series(key, series, now)
        del self._series[key]

    def _judge(self, key: _Key, series: _Series, outcome: Outcome[dict[str, Any]]) -> None:
        match outcome:
            case Done() | Superseded():
                return
            case Dropped():
                self.counters.dropped += 1
            case Vanished():  # the server keeps events for an hour or so
                self._forget(key, series)
                self.counters.failed += 1
            case _:
                self.counters.failed += 1

    def _forget(self, key: _Key, series: _Series) -> None:
        if self._series.get(key) is series:
            del self._series[key]

    def _submit(self, write: Write[dict[str, Any]], on_outcome: Callable[[Outcome[dict[str, Any]]], None]) -> None:
        future = self._writer.submit(write, on_outcome)
        if not future.done():
            self._pending.add(future)
            future.add_done_callback(self._pending.discard)

    def _wake_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.settings.finish_s, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.finish_idle()
        if self._series:
            self._wake_later()


def _cut(text: str, bytes_max: int) -> str:
    """A text that the API takes: it counts bytes."""
    encoded = text.encode()
    return text if len(encoded) <= bytes_max else encoded[: bytes_max - 3].decode(errors="ignore") + "…"
