"""Random clusters and what happens in them, for the properties of the engine: small numbers, readable failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from usher.core import events as e
from usher.core.model import PodSet, Queue, Quota, Settings, Unit
from usher.testing.builders import amounts, queue, quota, unit
from usher.testing.harness import Harness

NEVER = frozenset({"NeverFits", "NotGuaranteed", "Inactive"})
"""The reasons for which a unit need not start however long one waits."""


@dataclass(frozen=True)
class Tenant:
    name: str
    policy: str = "Priority"
    parent: str = ""
    weight: int = 1
    min: int = 0
    max: int = 0
    """0: not limited."""
    lends: bool = True
    preempts: bool = False

    def objects(self) -> tuple[Queue, Quota]:
        limits = {"cpu": self.max} if self.max else {}
        floor = {"cpu": self.min} if self.min else {}
        return (
            queue(f"{self.name}/{self.name}", self.policy, quota=self.name, preempts=self.preempts),
            quota(
                self.name,
                self.parent,
                min=floor,
                max=limits,
                weight=self.weight,
                lends=self.lends,
                namespaces=[self.name],
            ),
        )


@dataclass(frozen=True)
class Job:
    tenant: int
    cpu: int = 1
    gpu: int = 0
    priority: int = 0
    count: int = 1
    least: int | None = None
    elastic: bool = False
    fixed: bool = False
    max_s: int | None = None

    def unit(self, tenants: Sequence[Tenant], number: int) -> Unit:
        asked = amounts(cpu=self.cpu) | (amounts(gpu=self.gpu) if self.gpu else {})
        least = None if self.least is None else min(self.least, self.count)
        return unit(
            f"{tenants[self.tenant % len(tenants)].name}/{number:02}",
            pods=(PodSet("main", self.count, asked, least),),
            priority=self.priority,
            elastic=self.elastic,
            fixed=self.fixed,
            max_s=self.max_s,
        )


@dataclass(frozen=True)
class Step:
    """Something that happens; `pick` chooses among the units it could happen to."""

    what: str
    pick: int = 0
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True)
class Scenario:
    cpu: int
    gpu: int
    tenants: tuple[Tenant, ...]
    steps: tuple[Step, ...]
    parents: tuple[Quota, ...] = ()
    settings: Settings = field(default_factory=Settings)
    share: str = "drf"

    def harness(self) -> Harness:
        objects = [each for tenant in self.tenants for each in tenant.objects()]
        return Harness(*self.parents, *objects, share=self.share, settings=self.settings, cpu=self.cpu, gpu=self.gpu)


def tenants(parents: Sequence[str] = ("",), plain: bool = False) -> st.SearchStrategy[tuple[Tenant, ...]]:
    def one(name: str) -> st.SearchStrategy[Tenant]:
        return st.builds(
            Tenant,
            st.just(name),
            st.just("Priority") if plain else st.sampled_from(["Priority", "FIFO", "Block"]),
            st.sampled_from(parents),
            st.sampled_from([1, 1, 2, 3]),
            st.sampled_from([0, 0, 1, 2, 3, 4]),
            st.sampled_from([0, 0, 0, 3, 5, 8]),
            st.just(True) if plain else st.sampled_from([True, True, False]),
            st.just(False) if plain else st.sampled_from([False, False, True]),
        )

    return st.integers(2, 3).flatmap(lambda n: st.tuples(*(one("abc"[i]) for i in range(n))))


def jobs(rigid: bool = False) -> st.SearchStrategy[Job]:
    if rigid:
        return st.builds(Job, st.integers(0, 2), st.integers(1, 6), st.integers(0, 2), st.sampled_from([0, 0, 5]))
    return st.builds(
        Job,
        tenant=st.integers(0, 2),
        cpu=st.integers(1, 6),
        gpu=st.sampled_from([0, 0, 1, 2]),
        priority=st.sampled_from([0, 0, 5, 9]),
        count=st.sampled_from([1, 1, 1, 2, 3]),
        least=st.sampled_from([None, None, 1, 2]),
        elastic=st.sampled_from([False, False, False, True]),
        fixed=st.sampled_from([False, False, False, False, True]),
        max_s=st.sampled_from([None, None, 30, 2000]),
    )


def steps(
    rigid: bool = False, what: Sequence[str] = ("submit", "submit", "finish", "delete", "advance")
) -> st.SearchStrategy[Step]:
    some = st.lists(jobs(rigid), min_size=1, max_size=3).map(tuple)
    return st.sampled_from(what).flatmap(
        lambda name: st.builds(Step, st.just(name), st.integers(0, 20), some if name == "submit" else st.just(()))
    )


@st.composite
def scenarios(
    draw: st.DrawFn, rigid: bool = False, plain: bool = False, share: str = "drf", gpus: int = 4, lasting: bool = False
) -> Scenario:
    """`rigid`: units of one size; `plain`: tenants that lend, in one level; `lasting`: nothing depends on time."""
    deep = not plain and draw(st.booleans())
    limit = draw(st.sampled_from([0, 0, 6, 9])) if deep else 0
    parents = (
        (quota("p", max={"cpu": limit} if limit else {}, weight=draw(st.sampled_from([1, 2]))), quota("q"))
        if deep
        else ()
    )
    return Scenario(
        cpu=draw(st.integers(4, 16)),
        gpu=draw(st.integers(0, gpus)),
        tenants=draw(tenants(("p", "q") if deep else ("",), plain)),
        steps=tuple(draw(st.lists(steps(rigid), min_size=1, max_size=8))),
        parents=parents,
        settings=Settings(
            reserve_after_ms=0 if lasting else draw(st.sampled_from([0, 600_000])),
            protected_ms=0 if lasting else draw(st.sampled_from([0, 0, 5_000])),
        ),
        share=share,
    )


class Play:
    """A scenario being played step by step."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.harness = scenario.harness()
        self.number = 0

    def step(self, step: Step) -> None:
        play = self.harness
        match step.what:
            case "submit":
                numbers = range(self.number, self.number + len(step.jobs))
                self.number += len(step.jobs)
                play.submit(*(job.unit(self.scenario.tenants, n) for job, n in zip(step.jobs, numbers, strict=True)))
            case "finish" if play.running:
                play.finish(play.running[step.pick % len(play.running)])
            case "delete" if play.waiting:
                play.delete(play.waiting[step.pick % len(play.waiting)])
            case "advance":
                play.advance((1, 100, 700)[step.pick % 3])
            case _:
                pass

    def play(self) -> Harness:
        for step in self.scenario.steps:
            self.step(step)
        return self.harness


def look_again(play: Harness) -> None:
    """Make the engine look at everything afresh, with nothing new to see."""
    play.send(e.CapacityChanged(dict(play.engine.world.capacity)))


def done(play: Harness) -> tuple[list[str], list[tuple[str, str, str]]]:
    return list(play.admissions), list(play.evicted_for)


def able(play: Harness) -> list[str]:
    """Units that wait though nothing would stop them for ever."""
    return [key for key in play.waiting if play.why(key) not in NEVER]
