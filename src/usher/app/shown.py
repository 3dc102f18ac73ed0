"""What a manager process answers over HTTP: whether it lives, whether it is ready, and its numbers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from usher import __version__
from usher.core.explain import Explanation
from usher.core.invariants import violations
from usher.core.views import QueueView, QuotaView
from usher.server.asked import Asked
from usher.server.metrics import Watched, gatherer

if TYPE_CHECKING:
    from usher.app.process import ManagerProcess

LAG_MAX_S: Final = 20.0
"""A loop that comes this late is stuck, not busy."""
LEASE_GRACE_S: Final = 30.0
"""How long a term may go on without its lease before something is wrong: it should have ended at once."""


class Shown:
    """Answers from a process as it is when asked."""

    def __init__(self, process: ManagerProcess) -> None:
        self._process = process

    def asked(self) -> Asked:
        """The questions of the server."""
        settings = self._process.settings
        debug = settings.server.debug
        return Asked(
            live={"loop": self._loop, "lease": self._lease},
            ready={"caches": self._caches, "doors": lambda: self._process.doors.problem()},
            metrics=gatherer(self.watched()),
            explain=self._explain if debug else None,
            violations=self._violations if debug else None,
        )

    def watched(self) -> Watched:
        """What the metrics are read from."""
        process, settings = self._process, self._process.settings
        return Watched(
            numbers=process.numbers,
            quotas=self._quotas,
            queues=self._queues,
            leading=lambda: process.manager is not None,
            lease=settings.election.lease_name,
            watch_ages=self._watch_ages,
            writes_waiting=self._writes_waiting,
            writes_in_flight=lambda: process.writer.in_flight if process.writer is not None else 0,
            problems=lambda: process.manager.engine.problems() if process.manager is not None else (),
            info={"version": __version__, "share": settings.plugins.share, "mode": settings.mode},
        )

    # -- health -------------------------------------------------------------------------------------------------------

    def _loop(self) -> str:
        late_s = self._process.numbers.lag_last
        return f"the event loop came {late_s:.1f} s late" if late_s > LAG_MAX_S else ""

    def _lease(self) -> str:
        """A leader whose lease is over must not go on; a standby has none to lose."""
        over_s = time.monotonic() - self._process.lease_seen_s
        return f"still leads {over_s:.0f} s after its lease was over" if over_s > LEASE_GRACE_S else ""

    def _caches(self) -> str:
        missing = self._process.unsynced()
        return f"not listed yet: {', '.join(missing)}" if missing else ""

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _quotas(self) -> Iterable[QuotaView]:
        manager = self._process.manager
        return manager.engine.quotas() if manager is not None and manager.begun else ()

    def _queues(self) -> Iterable[QueueView]:
        manager = self._process.manager
        return manager.engine.queues() if manager is not None and manager.begun else ()

    def _watch_ages(self) -> Mapping[str, float]:
        return self._process.watch_ages()

    def _writes_waiting(self) -> Mapping[str, int]:
        writer = self._process.writer
        return {} if writer is None else {urgency.name.lower(): count for urgency, count in writer.waiting.items()}

    # -- debugging ----------------------------------------------------------------------------------------------------

    def _explain(self, key: str) -> Explanation | None:
        manager = self._process.manager
        return manager.engine.explain(key) if manager is not None else None

    def _violations(self) -> list[str]:
        manager = self._process.manager
        return violations(manager.engine) if manager is not None else []
