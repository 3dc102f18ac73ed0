"""A cluster in virtual time around the production engine.

Everything that happens at one instant is one call of the engine; what it commands is carried out at once, and the
outcomes go back in further calls of the same instant until it asks for nothing more. Admitted jobs become ready and
end after their time; what is evicted loses its work. The run ends when nothing is left to happen, at `until`, or when
only retries go on (`stalled`). Called by the command line and by tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final, Protocol

from usher.core import commands as c
from usher.core import events as e
from usher.core.phases import BACKOFF_CAUSES, Phase
from usher.core.views import QueueView, QuotaView, UnitView
from usher.sim import records as r
from usher.sim.requests import Requests
from usher.sim.samples import Samples
from usher.sim.scenario import Answers, Scenario

STALL_INSTANTS: Final = 2_000
"""Only retries are left if in so many instants in a row nothing came or ended, and nothing is planned to."""
QUIET_INSTANTS_MAX: Final = 2_000_000
"""As above, whatever is planned."""
ROUNDS_MAX: Final = 1_000
"""An engine that still commands after so many calls at one instant will never stop."""
PROGRESS_INSTANTS: Final = 1_000
BIG: Final = 2_000
"""With more units than this, samples are taken a step apart from the start."""
_SAMPLES_AHEAD: Final = 500

_HAPPEN, _ARRIVE, _READY, _FINISH, _STOP, _SHRINK, _ANSWER, _LEAVE, _WAKE = range(9)
"""What is planned, in the order in which it goes into the call of its instant."""
_MOVES: Final = frozenset({_HAPPEN, _ARRIVE, _FINISH, _LEAVE})
_READY_AT_ONCE: Final = Answers()


class Explained(Protocol):
    """Why a unit stands where it stands."""

    def text(self) -> str: ...


class EnginePort(Protocol):
    """What the simulator needs of the engine."""

    def handle(self, events: Sequence[e.Event], now_ms: int) -> list[c.Command]: ...
    def quotas(self) -> list[QuotaView]: ...
    def queues(self) -> list[QueueView]: ...
    def unit(self, key: str) -> UnitView | None: ...
    def explain(self, key: str) -> Explained | None: ...
    def problems(self) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How a run ends, and how long pods take to go."""

    until_ms: int | None = None
    grace_ms: int = 0


class DoesNotSettleError(RuntimeError):
    """The engine goes on commanding at one instant: a bug in it or in a plug-in."""


class BrokenError(RuntimeError):
    """An invariant of the engine does not hold."""


class Simulation:
    """One run; `run` may be called once."""

    def __init__(
        self,
        scenario: Scenario,
        engine: EnginePort,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        progress: Callable[[int, int], None] | None = None,
        check: Callable[[], list[str]] | None = None,
    ) -> None:
        works = scenario.works
        self.scenario = scenario
        self.engine = engine
        self.records = r.Records(works)
        self.requests = Requests(self.records.charge)
        """What Queues ask for themselves."""
        span_ms = works[-1].arrives_ms if works else 0
        span_ms = span_ms if limits.until_ms is None else min(span_ms, limits.until_ms)
        self.samples = Samples(span_ms // _SAMPLES_AHEAD if len(works) > BIG else 0)
        self.end_ms = 0
        self.stalled = False
        """Whether it was stopped because only retries went on."""
        self.phases_left: dict[int, Phase] = {}
        """How units stood that were deleted."""
        self._limits = limits
        self._progress = progress
        self._check = check
        self._index = {work.unit.key: index for index, work in enumerate(works)}
        self._spell = [0] * len(works)
        """Counts a unit's starts and stops: what was planned for an earlier one is void."""
        self._reservations: dict[int, int] = {}
        self._lost_ms: dict[int, int] = {}
        """How long units ran that were evicted, where that is given back to them."""
        self._heap: list[tuple[int, int, int, int, int, e.Event | None]] = []
        self._planned = 0
        self._moves = 0
        self._moved = 0
        self._last_ms = 0
        self._wakes: set[int] = set()
        self._wake_at = 0
        """As the engine said last; what it said before is of no use any more."""
        self._awake = False
        self._now = 0
        self._outcomes: list[e.Event] = []
        self._carry_out: dict[type[c.Command], Callable[..., None]] = {
            c.Admit: self._on_admit,
            c.Reserve: self._on_reserve,
            c.Grow: self._on_grow,
            c.Shrink: self._on_shrink,
            c.Evict: self._on_evict,
            c.Nominate: self._on_nominate,
            c.NoteOvertaken: lambda _command: None,
            c.SetPhase: lambda _command: None,
            c.WakeAt: self._on_wake_at,
        }

    def run(self) -> None:
        """Let everything happen, up to the end."""
        heap, until, quiet, instants = self._heap, self._limits.until_ms, 0, 0
        self._on_wake_at(c.WakeAt(0))
        if self.scenario.happenings:
            self._plan(self.scenario.happenings[0][0], _HAPPEN)
        if self.scenario.works:
            self._plan(self.scenario.works[0].arrives_ms, _ARRIVE)
        while heap and (until is None or heap[0][0] <= until):
            now, moved, lines = heap[0][0], self._moved, self.records.lines_count
            self._awake = False
            events = self._due(now)
            if not self._awake:
                continue
            if not instants:
                events.append(e.Synced())
            self._settle(events, now)
            if self._check is not None and (wrong := self._check()):
                raise BrokenError(f"at {now} ms: {'; '.join(wrong)}")
            if lines != self.records.lines_count:
                self._last_ms = now
            instants += 1
            quiet = quiet + 1 if moved == self._moved else 0
            if quiet > (QUIET_INSTANTS_MAX if self._moves else STALL_INSTANTS):
                self.stalled = True
                break
            if self._progress is not None and instants % PROGRESS_INSTANTS == 0:
                self._progress(self._moved, now)
        self.end_ms = self._last_ms if until is None else until
        self.records.close(self.end_ms)
        self.requests.close(self.end_ms)
        if self.samples.passed(self.end_ms):
            self.samples.add_passed(self.end_ms, self.engine.quotas())
        self.samples.add(self.end_ms, self.engine.quotas())

    def _plan(self, at_ms: int, code: int, index: int = 0, event: e.Event | None = None) -> None:
        self._planned += 1
        self._moves += code in _MOVES
        spell = self._spell[index] if code > _ARRIVE and code != _LEAVE and code != _WAKE else 0
        heappush(self._heap, (at_ms, code, self._planned, index, spell, event))

    def _due(self, now: int) -> list[e.Event]:
        """Take what is planned for this instant, and what that means for the engine."""
        heap, events = self._heap, list[e.Event]()
        self._now = now
        while heap and heap[0][0] == now:
            _, code, _, index, spell, event = heappop(heap)
            self._awake = self._awake or code != _WAKE or now == self._wake_at
            if code in _MOVES:
                self._moves -= 1
                self._moved += code != _FINISH or spell == self._spell[index]
            if code == _ARRIVE:
                events.append(self._arrive(index))
            elif code == _HAPPEN:
                events.append(self._happen(index))
            elif code == _LEAVE:
                events.append(self._leave(index))
            elif code == _WAKE:
                self._wakes.discard(now)
            elif spell == self._spell[index]:
                if code == _FINISH:
                    event = self._finish(index)
                    events.append(event)
                    event = e.UnitGone(self.scenario.works[index].unit.key)
                elif code == _READY:
                    self._plan(now + self.scenario.works[index].runs_ms, _FINISH, index)
                elif code == _STOP:
                    events += self._stopped(index)
                elif code == _SHRINK and isinstance(event, e.UnitShrunk):
                    self.records.resize(index, now, event.grants)
                assert event is not None
                events.append(event)
        return events

    def _settle(self, events: list[e.Event], now: int) -> None:
        """Call the engine until it has no more to say about this instant."""
        carry_out, handle, requests = self._carry_out, self.engine.handle, self.requests
        if self.samples.passed(now):
            self.samples.add_passed(now, self.engine.quotas())
        for _ in range(ROUNDS_MAX):
            commands = handle(events, now)
            self._outcomes = events = []
            for command in commands:
                answers = requests.answer(command, now) if requests else None
                if answers is None:
                    carry_out[type(command)](command)
                else:
                    events += answers
            if not events and requests:
                events += requests.look(self.engine.queues(), now)
            if not events:
                break
        else:
            raise DoesNotSettleError(f"the engine still commands after {ROUNDS_MAX} calls at {now} ms: {commands[:3]}")
        if self.samples.due(now):
            self.samples.add(now, self.engine.quotas())

    # What happens by itself.

    def _happen(self, index: int) -> e.Event:
        happenings = self.scenario.happenings
        self.records.log(r.HAPPENED, index, self._now)
        self.requests.happen(happenings[index][1], self._now)
        if index + 1 < len(happenings):
            self._plan(happenings[index + 1][0], _HAPPEN, index + 1)
        return happenings[index][1]

    def _arrive(self, index: int) -> e.Event:
        works = self.scenario.works
        work = works[index]
        self.records.arrive(index, self._now)
        if index + 1 < len(works):
            self._plan(works[index + 1].unit.created_ms, _ARRIVE, index + 1)
        if work.leaves_ms is not None:
            self._plan(work.leaves_ms, _LEAVE, index)
        return e.UnitChanged(work.unit)

    def _finish(self, index: int) -> e.Event:
        work = self.scenario.works[index]
        self._spell[index] += 1
        self.records.end(index, self._now, r.FAILED if work.fails else r.FINISHED)
        return e.UnitFinished(work.unit.key, not work.fails)

    def _leave(self, index: int) -> e.Event:
        key = self.scenario.works[index].unit.key
        if self.records.finished[index] == r.NEVER:
            view = self.engine.unit(key)
            self.phases_left[index] = view.phase if view else Phase.NEW
            self._spell[index] += 1
            self.records.end(index, self._now, r.LEFT)
        return e.UnitGone(key)

    def _stopped(self, index: int) -> list[e.Event]:
        """What else happens when its pods are gone, before the engine hears of that."""
        since = self.records.running_since[index]
        self.records.stop(index, self._now)
        self.records.wait_again(index, self._now)
        work = self.scenario.works[index]
        if not work.renews or work.unit.max_execution_ms is None or since == r.NEVER:
            return []
        lost_ms = self._lost_ms[index] = self._lost_ms.get(index, 0) + self._now - since
        return [e.UnitChanged(replace(work.unit, max_execution_ms=work.unit.max_execution_ms + lost_ms))]

    # What the engine commands.

    def _on_admit(self, command: c.Admit) -> None:
        key, now = command.key, self._now
        index = self._index[key]
        work = self.scenario.works[index]
        self._spell[index] += 1
        self.records.decisions += 1
        self.records.admit(index, now, command.quota, command.grants)
        self._outcomes.append(e.Confirmed(key, command.generation))
        if work.ready_after_ms == 0:
            self._outcomes.append(e.UnitReady(key))
            self._plan(now + work.runs_ms, _FINISH, index)
        elif work.ready_after_ms is not None:
            self._plan(now + work.ready_after_ms, _READY, index, e.UnitReady(key))

    def _on_reserve(self, command: c.Reserve) -> None:
        key, now = command.key, self._now
        index = self._index[key]
        self._spell[index] += 1
        self.records.decisions += 1
        self.records.log(r.RESERVED, index, now)
        self._outcomes.append(e.Confirmed(key, command.generation))
        count = self._reservations[index] = self._reservations.get(index, 0) + 1
        for check in command.checks:
            answers = self.scenario.works[index].answers or self.scenario.answers.get(check, _READY_AT_ONCE)
            state = answers.to(count)
            if state is not None:
                self._later(answers.after_ms, _ANSWER, index, e.CheckAnswered(key, check, state))

    def _on_grow(self, command: c.Grow) -> None:
        index = self._index[command.key]
        self.records.decisions += 1
        self.records.log(r.GREW, index, self._now)
        self.records.resize(index, self._now, command.grants)
        self._outcomes.append(e.Confirmed(command.key, command.generation))

    def _on_shrink(self, command: c.Shrink) -> None:
        index = self._index[command.key]
        self.records.decisions += 1
        self.records.shrinks += 1
        self.records.log(r.SHRANK, index, self._now, command.cause, command.by)
        shrunk = e.UnitShrunk(command.key, command.generation, command.grants)
        if not self._limits.grace_ms:
            self.records.resize(index, self._now, command.grants)
        self._later(self._limits.grace_ms, _SHRINK, index, shrunk)

    def _on_evict(self, command: c.Evict) -> None:
        index = self._index[command.key]
        self._spell[index] += 1
        self.records.decisions += 1
        self.records.evictions[index] += command.cause not in BACKOFF_CAUSES
        self.records.log(r.EVICTED, index, self._now, command.cause, command.by)
        runs = self.records.running_since[index] != r.NEVER
        grace_ms = self._limits.grace_ms if runs else 0
        if not grace_ms:
            self._outcomes += self._stopped(index)
        self._later(grace_ms, _STOP, index, e.UnitStopped(command.key, command.generation))

    def _on_nominate(self, command: c.Nominate) -> None:
        self.records.decisions += 1

    def _on_wake_at(self, command: c.WakeAt) -> None:
        self._wake_at = max(command.at_ms, self._now)
        if self._wake_at not in self._wakes:
            self._wakes.add(self._wake_at)
            self._plan(self._wake_at, _WAKE)

    def _later(self, after_ms: int, code: int, index: int, event: e.Event) -> None:
        """The outcome of a command: now, or planned."""
        if after_ms:
            self._plan(self._now + after_ms, code, index, event)
        else:
            self._outcomes.append(event)
