"""Everything at once, step by step at random: units, outcomes, queues, quotas, capacity, time, and lost engines."""

from __future__ import annotations

import os
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from scenarios import Job, Tenant, able, jobs

from usher.core import events as e
from usher.core.model import Settings, StopPolicy
from usher.testing.builders import queue, quota
from usher.testing.harness import Harness

TENANTS = "abc"


class Cluster(RuleBasedStateMachine):
    """Three tenants below two quotas; the harness checks what must hold after every call."""

    @initialize(share=st.sampled_from(["drf", "koordinator", "proportion", "none"]), cpu=st.integers(6, 14))
    def start(self, share: str, cpu: int) -> None:
        chosen = Settings(start_timeout_ms=300_000, backoff_base_ms=1000, check_timeout_ms=60_000)
        self.play = Harness(quota("p"), quota("q"), share=share, settings=chosen, cpu=cpu, gpu=2)
        for name in TENANTS:
            self.play.apply(queue(f"{name}/{name}", quota=name), quota(name, "p", namespaces=[name]))
        self.number = 0
        self.cpu = cpu

    @rule(several=st.lists(jobs(), min_size=1, max_size=4))
    def submit(self, several: list[Job]) -> None:
        tenants = [Tenant(name) for name in TENANTS]
        self.play.submit(*(job.unit(tenants, self.number + place) for place, job in enumerate(several)))
        self.number += len(several)

    @rule(pick=st.integers(0, 30), succeeded=st.booleans())
    def finish(self, pick: int, succeeded: bool) -> None:
        if self.play.running:
            self.play.send(e.UnitFinished(self.play.running[pick % len(self.play.running)], succeeded))

    @rule(pick=st.integers(0, 30))
    def delete(self, pick: int) -> None:
        if self.play.waiting:
            self.play.delete(self.play.waiting[pick % len(self.play.waiting)])

    @rule(pick=st.integers(0, 30), active=st.booleans(), priority=st.integers(0, 9))
    def change(self, pick: int, active: bool, priority: int) -> None:
        known = sorted(self.play.store.specs)
        if known and known[pick % len(known)] in self.play.engine.world.units:
            spec = self.play.store.specs[known[pick % len(known)]]
            fields = {name: getattr(spec, name) for name in spec.__slots__} | {"active": active, "priority": priority}
            self.play.send(e.UnitChanged(type(spec)(**fields)))

    @rule(
        name=st.sampled_from(TENANTS),
        policy=st.sampled_from(["FIFO", "Priority", "Block"]),
        stop=st.sampled_from([StopPolicy.NONE, StopPolicy.NONE, StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN]),
        preempts=st.booleans(),
        checks=st.sampled_from([(), (), ("c",)]),
    )
    def change_queue(self, name: str, policy: str, stop: StopPolicy, preempts: bool, checks: tuple[str, ...]) -> None:
        self.play.apply(queue(f"{name}/{name}", policy, quota=name, stop=stop, preempts=preempts, checks=checks))

    @rule(
        name=st.sampled_from(TENANTS),
        parent=st.sampled_from(["p", "q", "", "gone"]),
        least=st.integers(0, 3),
        most=st.sampled_from([0, 0, 4, 8]),
        weight=st.integers(0, 3),
        lends=st.booleans(),
    )
    def change_quota(self, name: str, parent: str, least: int, most: int, weight: int, lends: bool) -> None:
        limit = {"cpu": max(most, least)} if most else {}
        self.play.apply(
            quota(name, parent, min={"cpu": least}, max=limit, weight=weight, lends=lends, namespaces=[name])
        )

    @rule(name=st.sampled_from([*TENANTS, "p"]), what=st.sampled_from(["queue", "quota"]))
    def remove(self, name: str, what: str) -> None:
        self.play.send(e.QueueGone(f"{name}/{name}") if what == "queue" else e.QuotaGone(name))

    @rule(cpu=st.integers(0, 14))
    def change_capacity(self, cpu: int) -> None:
        self.play.capacity(cpu=cpu, gpu=2)

    @rule(seconds=st.sampled_from([1, 61, 301, 700]))
    def wait(self, seconds: int) -> None:
        self.play.advance(seconds)

    @rule(pick=st.integers(0, 30), kind=st.sampled_from(["unready", "lingering", "refusing"]))
    def trouble(self, pick: int, kind: str) -> None:
        units = sorted(self.play.engine.world.units)
        if units:
            getattr(self.play, kind).add(units[pick % len(units)])

    @rule(pick=st.integers(0, 30))
    def stop(self, pick: int) -> None:
        units = self.play.engine.world.units
        going = sorted(key for key, unit in units.items() if unit.evicting is not None)
        if going:
            self.play.stop(going[pick % len(going)])

    @rule()
    def slow_down(self) -> None:
        self.play.slow = True

    @precondition(lambda self: self.play.pending)
    @rule(seed=st.integers(0, 99), most=st.integers(0, 5), twice=st.booleans())
    def deliver(self, seed: int, most: int, twice: bool) -> None:
        self.play.deliver(Random(seed), most, twice)

    @precondition(lambda self: not self.play.pending)
    @rule()
    def restart(self) -> None:
        self.play.slow = False
        self.play.restart()

    def teardown(self) -> None:
        """All troubles end: then everybody who can fit has a turn, and nothing is left charged or kept."""
        if not hasattr(self, "play"):
            return
        play = self.play
        play.slow = False
        for kind in (play.unready, play.lingering, play.refusing):
            kind.clear()
        while play.pending:
            play.deliver()
        play.capacity(cpu=self.cpu, gpu=2)
        play.apply(quota("p"), quota("q"))
        for name in TENANTS:
            play.apply(queue(f"{name}/{name}", quota=name), quota(name, "p", namespaces=[name]))
        for key, known in list(play.engine.world.units.items()):
            if known.evicting is not None:
                play.send(e.UnitStopped(key, known.generation))
            if known.shrink_to is not None:
                play.send(e.UnitShrunk(key, known.generation, known.shrink_to))
        for _ in range(300):
            for key, known in list(play.engine.world.units.items()):
                if known.phase == "Reserved":
                    play.delete(key)
            if not play.running:
                play.advance(100_000)
            if not play.running:
                break
            play.finish(play.running[0])
        assert able(play) == [], [play.text(key) for key in able(play)]
        assert play.nominated == []
        assert play.used("root") == {}


EXAMPLES = int(os.environ.get("USHER_EXAMPLES", "0"))
Cluster.TestCase.settings = settings(
    max_examples=EXAMPLES or 60, stateful_step_count=25, deadline=None, derandomize=not EXAMPLES
)
TestWhateverHappens = Cluster.TestCase
