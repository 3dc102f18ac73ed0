"""One seed: a random world, a random course of events, then a quiet end in which everything must come out right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from usher.core import events as e
from usher.core.model import Grant, StopPolicy
from usher.core.phases import HOLDING, Phase
from usher.sim.faults import checks, generate
from usher.sim.faults.harness import Faults, Harness
from usher.sim.faults.store import Record

STEPS_MAX: Final = 20_000
"""More instants than this in one seed: it goes round in circles."""
QUIET_WAKES: Final = 60
ACTIONS: Final = 90


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed that found something."""

    seed: int
    at_ms: int
    why: str

    @property
    def replay(self) -> str:
        return f"python -m usher.sim.faults --seed {self.seed}"


def run(seed: int, log: Callable[[str], None] | None = None) -> Failure | None:
    """What this seed finds, if anything."""
    course = _Course(seed, log)
    try:
        course.run()
    except Exception as error:
        if log is not None and not isinstance(error, checks.BrokenError):
            raise
        return Failure(seed, course.harness.now, f"{type(error).__name__}: {error}")
    return None


class _Course:
    """The course of one seed."""

    def __init__(self, seed: int, log: Callable[[str], None] | None) -> None:
        self.rng = rng = Random(seed)  # noqa: S311 (chance that must come out the same again)
        self.harness = Harness(rng, generate.settings(rng), rng.choice(generate.SHARES), log)
        self.log = log
        self._names = 0
        self._steps = 0

    def run(self) -> None:
        self._build()
        for _ in range(ACTIONS):
            until = self.harness.now + self.rng.choice([0, 100, 1_000, 5_000])
            self._advance(until)
            self._act()
        self._calm()
        self._come_to_rest()
        self._let_all_end()

    # -- the course -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        harness, rng = self.harness, self.rng
        harness.capacity = generate.capacity(rng)
        for name in generate.QUOTAS[: rng.randint(0, len(generate.QUOTAS))]:
            harness.quotas[name] = generate.quota(rng, name)
        for namespace in (*generate.NAMESPACES, "usher-system"):
            for name in generate.QUEUES:
                if rng.random() < 0.6:
                    harness.queues[f"{namespace}/{name}"] = generate.queue(rng, namespace, name)
        for _ in range(rng.randint(0, 8)):
            self._add_unit()
        harness.crash()

    def _advance(self, until_ms: int) -> None:
        """Let everything happen up to a time."""
        harness = self.harness
        while (at := harness.next_ms()) is not None and at <= until_ms:
            self._step()
        harness.now = max(harness.now, until_ms)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise checks.BrokenError(f"still going on after {STEPS_MAX} instants")
        self.harness.step()

    def _act(self) -> None:
        """One thing that somebody does."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (30, self._add_unit),
            (5, self._change_unit),
            (4, self._delete_unit),
            (6, self._finish_unit),
            (3, self._lose_pods),
            (3, self._unready),
            (2, self._pause),
            (3, self._reactivate),
            (5, self._change_quota),
            (3, self._delete_quota),
            (5, self._change_queue),
            (2, self._delete_queue),
            (3, self._change_capacity),
            (2, self._list_again),
            (6, self.harness.crash),
        ]
        chosen = self.rng.choices([action for _, action in actions], [weight for weight, _ in actions])[0]
        if self.log is not None:
            self.log(f"{self.harness.now:>8} {chosen.__name__.strip('_')}")
        chosen()

    def _add_unit(self) -> None:
        rng, harness = self.rng, self.harness
        self._names += 1
        namespace, name = rng.choice(generate.NAMESPACES), f"u{rng.randint(1, 30)}"
        if f"{namespace}/{name}" in harness.records:
            return
        made = generate.unit(rng, namespace, name, harness.now, self._names)
        runs_ms = rng.choice([0, 1_000, 5_000, 20_000, 60_000])
        harness.add(Record(made, made, uid=0, runs_ms=runs_ms))

    def _some(self, holding: bool = False) -> Record | None:
        records = self.harness.holding() if holding else list(self.harness.records.values())
        alive = [record for record in records if record.succeeded is None and not record.deleting]
        return self.rng.choice(alive) if alive else None

    def _change_unit(self) -> None:
        record = self._some()
        if record is not None:
            known = self.harness.engine.unit(record.key)
            holds = record.phase in HOLDING or (known is not None and bool(known.grants))
            self.harness.change(record, generate.changed(self.rng, record.spec, holds))

    def _delete_unit(self) -> None:
        record = self._some()
        if record is not None:
            self.harness.delete(record)

    def _finish_unit(self) -> None:
        record = self._some(holding=self.rng.random() < 0.9)
        if record is not None:
            self.harness.finish(record, succeeded=self.rng.random() < 0.8)

    def _lose_pods(self) -> None:
        """Some of its pods have ended: it needs less."""
        record = self._some(holding=True)
        if record is None or not record.resumed or record.evicting or not record.pods:
            return
        left = tuple(Grant(grant.pod_set, self.rng.randint(0, grant.count)) for grant in record.pods)
        if any(grant.count for grant in left):
            record.pods = left
            record.change(grants=left)
            self.harness.tell(e.UnitShrunk(record.key, record.generation, left), record.key)

    def _unready(self) -> None:
        record = self._some(holding=True)
        if record is not None and record.ready:
            record.ready = False
            self.harness.tell(e.UnitUnready(record.key), record.key)
            if self.rng.random() < 0.5:
                self.harness.recover(record)

    def _pause(self) -> None:
        record = self._some(holding=True)
        if record is not None and record.resumed and not record.evicting:
            self.harness.tell(e.UnitPaused(record.key), record.key)

    def _reactivate(self) -> None:
        for record in self.harness.records.values():
            if record.past.inactive and record.succeeded is None:
                record.change(inactive="", ran_ms=0)
                self.harness.tell(e.UnitReactivated(record.key), record.key)

    def _change_quota(self) -> None:
        name = self.rng.choice(generate.QUOTAS)
        quota = self.harness.quotas[name] = generate.quota(self.rng, name)
        self.harness.tell(e.QuotaChanged(quota))

    def _delete_quota(self) -> None:
        name = self.rng.choice(generate.QUOTAS)
        if self.harness.quotas.pop(name, None) is not None:
            self.harness.tell(e.QuotaGone(name))

    def _change_queue(self) -> None:
        namespace, name = self.rng.choice([*generate.NAMESPACES, "usher-system"]), self.rng.choice(generate.QUEUES)
        queue = self.harness.queues[f"{namespace}/{name}"] = generate.queue(self.rng, namespace, name)
        self.harness.tell(e.QueueChanged(queue))

    def _delete_queue(self) -> None:
        key = self.rng.choice([*self.harness.queues] or ["none"])
        if self.harness.queues.pop(key, None) is not None:
            self.harness.tell(e.QueueGone(key))

    def _change_capacity(self) -> None:
        """Sometimes a node is only away for a while: then shares go on as before."""
        shared = dict(self.harness.capacity) if self.rng.random() < 0.2 else None
        self.harness.capacity = generate.capacity(self.rng)
        self.harness.tell(e.CapacityChanged(dict(self.harness.capacity), shared))

    def _list_again(self) -> None:
        """A watch broke: everything is told again, and nothing must come of it."""
        harness = self.harness
        for record in harness.records.values():
            harness.tell(e.UnitChanged(record.spec, record.stored()), record.key)
        for quota in harness.quotas.values():
            harness.tell(e.QuotaChanged(quota))
        for queue in harness.queues.values():
            harness.tell(e.QueueChanged(queue))

    # -- the end --------------------------------------------------------------------------------------------------

    def _calm(self) -> None:
        """Nothing goes wrong any more, and nothing changes; jobs go on for ever."""
        harness = self.harness
        harness.faults = Faults(0.0, 0.0, 0.0, 0.0, 0)
        harness.endless = True
        for key, queue in list(harness.queues.items()):
            if queue.stop is not StopPolicy.NONE or queue.max_units is not None:
                harness.queues[key] = replace(queue, stop=StopPolicy.NONE, max_units=None)
                harness.tell(e.QueueChanged(harness.queues[key]))
        if self.log is not None:
            self.log(f"{harness.now:>8} calm")

    def _come_to_rest(self) -> None:
        """With static units nobody is taken back for ever, and the store says what the engine thinks."""
        harness = self.harness
        self._advance(harness.now + 120_000)
        before, ended, left = harness.taken_back, harness.timed_out, QUIET_WAKES
        while left and harness.next_ms() is not None:
            self._step()
            left -= 1
            if harness.timed_out > ended:  # not at rest yet
                self._advance(harness.now + 120_000)
                before, ended, left = harness.taken_back, harness.timed_out, QUIET_WAKES
        while harness.under_way:
            self._step()
        if harness.taken_back > before:
            raise checks.BrokenError(f"{harness.taken_back - before} units were taken back in a settled state")
        checks.settled(harness.engine, harness.records)

    def _let_all_end(self) -> None:
        """Jobs end after their time: whoever can run must have run."""
        harness = self.harness
        harness.endless = False
        for record in harness.records.values():
            if record.resumed and record.succeeded is None:
                harness.run_on(record)
        while harness.next_ms() is not None and not self._all_ended():
            self._step()
        while harness.under_way:
            self._step()
        checks.settled(harness.engine, harness.records)
        limits = checks.root_limits(harness.capacity, harness.settings)
        checks.everything_ran(harness.engine, harness.records, harness.quotas, limits)

    def _all_ended(self) -> bool:
        return all(record.phase in (Phase.SUCCEED, Phase.FAILED) for record in self.harness.records.values())
