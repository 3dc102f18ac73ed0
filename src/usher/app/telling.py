"""Events for people, through the recorder: so many per second in the long run; the rest is dropped and counted."""

from __future__ import annotations

import time
from collections.abc import Callable

from usher.kube.events import Recorder, RecorderSettings, Reference
from usher.kube.writer import Writer
from usher.runtime.numbers import Numbers
from usher.runtime.port import Regarding, Severity
from usher.settings.tree import Events

CONTROLLER = "usher.dev/manager"


class Teller:
    """What `LiveCluster` calls for an Event."""

    def __init__(
        self,
        writer: Writer,
        instance: str,
        settings: Events,
        numbers: Numbers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recorder = Recorder(
            writer,
            controller=CONTROLLER,
            instance=instance,
            settings=RecorderSettings(pending_max=settings.waiting_max),
        )
        self._settings = settings
        self._numbers = numbers
        self._clock = clock
        self._tokens = float(settings.burst)
        self._filled = clock()
        self._dropped = 0

    def __call__(self, regarding: Regarding, severity: Severity, reason: str, action: str, note: str) -> None:
        if not self._settings.enabled:
            return
        if not self._may():
            self._numbers.events_dropped += 1
            return
        about = Reference(regarding.api_version, regarding.kind, regarding.name, regarding.namespace, regarding.uid)
        self._recorder.record(about, type_=severity.value, reason=reason, action=action, note=note)
        dropped = self._recorder.counters.dropped
        self._numbers.events_dropped += dropped - self._dropped
        self._dropped = dropped

    def _may(self) -> bool:
        """Take from a bucket that fills with time."""
        now = self._clock()
        filled = self._tokens + (now - self._filled) * self._settings.per_second
        self._tokens, self._filled = min(float(self._settings.burst), filled), now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def close(self) -> None:
        """Write what was only counted so far."""
        await self._recorder.close()
