"""Deciding without doing: the manager of the setting `mode: audit`, for trying Usher on a cluster that others use.

It follows the same objects and asks the same engine, and writes no job, unit or pod: whatever the engine commands is
taken as carried out at once, so that its books show what would be. What would have been decided is said on the jobs as
Events, in the log and in the metrics. Jobs really start and end as if there were no Usher, and their ends count: a job
that would have waited and has ended meanwhile waits no more.

Units that an enforcing Usher has left are not read; jobs that it holds stay held.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from usher.core import commands as c
from usher.core import events as ev
from usher.core.model import CheckState, Grant, Stored
from usher.core.phases import Cause, Phase
from usher.runtime.facts import JobFacts, PodFacts, Reading, UnitFacts, provisional, read_job
from usher.runtime.manager import Manager
from usher.runtime.port import Regarding, Severity
from usher.runtime.status import WORDS

log = logging.getLogger("usher.audit")

ROUNDS_MAX: Final = 1_000
"""How often the engine is answered in one turn; what is left is for the next."""


class Auditor(Manager):
    """One leader's term, in which nothing is written but Events."""

    def take_job(self, facts: JobFacts, gone: bool = False) -> None:
        """A job as it is now."""
        entry = self.entries.get(facts.unit_key)
        over = gone or facts.deleting or facts.progress.succeeded is not None
        if over or not facts.digest:
            if entry is not None:
                del self.entries[entry.key]
                if facts.progress.succeeded is not None:
                    self.see(ev.UnitFinished(entry.key, facts.progress.succeeded))
                self.see(ev.UnitGone(entry.key))
            return
        known = entry.job if entry is not None else None
        if known is not None and (facts.version < known.version or facts.digest == known.digest):
            return
        unit = provisional(facts, self.reading)
        if unit is None:
            return
        if known is not None:
            self.see(ev.UnitGone(unit.key))  # it asks for something else: that is another decision
        entry = self._entry(unit.key)
        entry.job = facts
        stored = None
        if not self.begun and not facts.suspended and facts.progress.started:
            if not self.settings.adopt:
                del self.entries[unit.key]
                return
            grants = tuple(Grant(pods.name, facts.holding.get(pods.name, pods.count)) for pods in unit.pod_sets)
            stored = Stored(Phase.DEQUEUED, grants, generation=1, admitted_ms=self.clock_ms())
        self.see(ev.UnitChanged(unit, stored))

    def see_unit(self, facts: UnitFacts, gone: bool = False) -> None:
        """Nothing: what an enforcing Usher wrote is not what is decided here."""

    def see_pod(self, pod: PodFacts, gone: bool = False) -> None:
        """Nothing: pods are neither let in nor taken back."""

    def see_node(self, name: str, ready: bool | None) -> None:
        """Nothing: capacity comes with the surroundings."""

    def read_again(self, reading: Reading) -> None:
        self.reading = reading
        for entry in list(self.entries.values()):
            if entry.job is not None:
                self.take_job(read_job(entry.job.kind, entry.job.found, reading))

    def begin(self) -> None:
        self.begun = True
        charged = len(self.entries)
        log.info("audit: nothing is held; %d jobs are queued or run, and count", charged)
        self._settle([*self._take_events(), ev.Synced()])

    def turn(self) -> None:
        if not self.begun:
            return
        self.turns += 1
        events = self._take_events()
        if events or (self._wake_at_ms is not None and self.clock_ms() >= self._wake_at_ms):
            self._settle(events)

    def _settle(self, events: Sequence[ev.Event]) -> None:
        """Decide, and answer as if everything were done, until nothing more is decided."""
        now_ms = self.clock_ms()
        if self._wake_at_ms is not None and now_ms >= self._wake_at_ms:
            self._wake_at_ms = None
        for _ in range(ROUNDS_MAX):
            began = time.perf_counter()
            commands = self.engine.handle(events, now_ms)
            kinds = Counter(type(each).__name__ for each in commands)
            self.numbers.decided(time.perf_counter() - began, len(events), kinds)
            events = [answer for command in commands for answer in self._answers(command)]
            if not events:
                return
        self.see(*events)

    def _answers(self, command: c.Command) -> list[ev.Event]:
        """Say what would be done, and what would come of it."""
        if isinstance(command, c.WakeAt):
            self._wake_at(command.at_ms)
            return []
        key = command.key
        match command:
            case c.Admit(generation=generation, grants=grants):
                self._count_start(key)
                self._say(key, Severity.NORMAL, "WouldStart", f"Usher would let it start with {_pods(grants)}.")
                return [ev.Confirmed(key, generation), ev.UnitReady(key)]
            case c.Reserve(generation=generation, checks=checks):
                names = ", ".join(checks)
                self._say(key, Severity.NORMAL, "WouldCheck", f"There is room for it; Usher would ask {names}.")
                agreed = [ev.CheckAnswered(key, check, CheckState.READY) for check in checks]
                return [ev.Confirmed(key, generation), *agreed, ev.UnitReady(key)]
            case c.Grow(generation=generation):
                return [ev.Confirmed(key, generation)]
            case c.Shrink(generation=generation, grants=grants, by=by):
                self._say(key, Severity.WARNING, "WouldShrink", f"Usher would leave it {_pods(grants)}, for {by}.")
                return [ev.UnitShrunk(key, generation, grants)]
            case c.Evict(generation=generation, cause=cause, by=by):
                self.numbers.evicted(self.engine.queue_of(key), cause.value)
                words = WORDS.get(cause, cause.value) + (f" for {by}" if by else "")
                self._say(key, Severity.WARNING, "WouldStop", f"Usher would stop it. {words}.")
                return [ev.UnitStopped(key, generation)]
            case c.SetPhase(cause=Cause.NOT_ADMITTED):
                why = self.engine.reason(key)[1] or "It waits."
                self._say(key, Severity.NORMAL, "WouldWait", f"Usher would keep it waiting. {why}")
                return []
            case _:
                return []

    def _count_start(self, key: str) -> None:
        entry = self.entries.get(key)
        if entry is not None and entry.job is not None:
            waited_ms = max(0, self.clock_ms() - entry.job.created_ms)
            self.numbers.admitted(self.engine.queue_of(key), waited_ms)

    def _say(self, key: str, severity: Severity, reason: str, note: str) -> None:
        entry = self.entries.get(key)
        if entry is None or entry.job is None:
            return
        kind, meta = entry.job.kind, entry.job.found.metadata
        log.info("%s %s/%s: %s", kind.kind, meta.namespace, meta.name, note, extra={"reason": reason})
        api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
        regarding = Regarding(api_version, kind.kind, meta.namespace, meta.name, meta.uid)
        self.cluster.tell(regarding, severity, reason, "Auditing", note[:1024])


def _pods(grants: Sequence[Grant]) -> str:
    number = sum(grant.count for grant in grants)
    return "1 pod" if number == 1 else f"{number} pods"
