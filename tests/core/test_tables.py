"""Worked examples of other queues and schedulers, as scenarios of whole clusters.

Each row is keyed by what it shows and says which example it is; where Usher decides otherwise on purpose, the row has
our outcome and says why. Examples about shares alone are in `tests/policies/test_share_tables.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from usher.core import events as e
from usher.core.model import Grant, Queue, Quota, Settings, Unit
from usher.testing.builders import amounts, pods, queue, quota, tenant, unit
from usher.testing.harness import Harness


def many(name: str, count: int, priority: int = 0, **request: str | int) -> list[Unit]:
    return [unit(f"{name}/{i:02}", priority=priority, **request) for i in range(count)]  # type: ignore[arg-type]


def counted(play: Harness, *names: str) -> list[int]:
    return [sum(key.startswith(f"{name}/") for key in play.running) for name in names]


# -- the order between queues -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """Tenants q0, q1, … use `used` and each wants one more; what comes free is given one unit at a time."""

    used: tuple[int, ...]
    want: tuple[str, ...]
    guaranteed: tuple[int, ...] = ()
    priorities: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    max: tuple[int, ...] = ()

    def objects(self) -> Iterable[Queue | Quota]:
        for index in range(len(self.used)):
            name = f"q{index}"
            yield queue(
                f"usher-system/{name}",
                priority=self.priorities[index] if self.priorities else 0,
                quota=name,
                shared=True,
                namespaces=[name],
            )
            yield quota(
                name,
                min={"cpu": self.guaranteed[index]} if self.guaranteed else {},
                max={"cpu": self.max[index]} if self.max else {},
                weight=self.weights[index] if self.weights else 1,
                namespaces=[name],
            )


ORDERS = {
    "YuniKorn, 60, 67, 50 and 50 % of guarantees, the last urgent: priority first, then the lowest share": Order(
        used=(300, 200, 100, 100),
        guaranteed=(500, 300, 200, 200),
        weights=(5, 3, 2, 2),
        priorities=(1, 1, 1, 3),
        want=("q3", "q2", "q0", "q1"),
    ),
    "YuniKorn, 40, 100, 50 and 50 %: the lowest share, then the oldest": Order(
        used=(200, 300, 100, 100),
        guaranteed=(500, 300, 200, 200),
        weights=(5, 3, 2, 2),
        want=("q0", "q2", "q3", "q1"),
    ),
    "YuniKorn, 40, 100, 50 and 50 %, the last urgent: its priority goes before a lower share": Order(
        # There an option may put the share first; here a shared queue's priority always goes first among the entitled.
        used=(200, 300, 100, 100),
        guaranteed=(500, 300, 200, 200),
        weights=(5, 3, 2, 2),
        priorities=(1, 1, 1, 3),
        want=("q3", "q0", "q2", "q1"),
    ),
    "YuniKorn's wrong comparator: without guarantees it is use by weight, whatever the max of another says": Order(
        # 300 of max 1000, 100 of 200, 100 of 1000. A max limits and earns nothing here, so q1 and q2 are alike; shares
        # are never looked up by a place in a list that is being sorted.
        used=(300, 100, 100),
        max=(1000, 200, 1000),
        want=("q1", "q2", "q0"),
    ),
    "and with weights in place of those maxima it comes out as it should have there": Order(
        used=(300, 100, 100), weights=(10, 2, 10), want=("q2", "q0", "q1")
    ),
}


@pytest.mark.parametrize("sentence", ORDERS)
def test_the_order_in_which_queues_have_their_turn(sentence: str) -> None:
    case = ORDERS[sentence]
    names = [f"q{index}" for index in range(len(case.used))]
    places = [f"z/{i}" for i in range(len(names))]
    settings = Settings(protected_ms=3_600_000)  # so that it is about turns, not about taking back
    play = Harness(*case.objects(), *tenant("z"), settings=settings, cpu=sum(case.used) + len(places))
    play.submit(*(unit(f"{name}/runs", cpu=used, queue=name) for name, used in zip(names, case.used, strict=True)))
    play.submit(*(unit(key, cpu=1) for key in places))
    play.submit(*(unit(f"{name}/next", cpu=1, queue=name) for name in names))
    assert play.waiting == [f"{name}/next" for name in names]
    before = len(play.admissions)

    for key in places:
        play.finish(key)

    assert tuple(key.removesuffix("/next") for key in play.admissions[before:]) == case.want


@dataclass(frozen=True)
class Poorer:
    """Two tenants of a cluster of 10 cpus, 10 gpus and 10,000 memory; one place comes free, and neither deserves it."""

    a: dict[str, str | int]
    b: dict[str, str | int]
    want: str
    weights: tuple[int, int] = (1, 1)


SHARES = {
    "Kueue counts what is borrowed (a 2 gpus above 5, b 4 cpus above 2): here all that is used counts": Poorer(
        {"cpu": 3, "gpu": 7}, {"cpu": 6, "gpu": 1}, "b"
    ),
    "Kueue, dominant resource: gpu of 3 and 7, cpu of 3 and 3": Poorer({"cpu": 3, "gpu": 7}, {"cpu": 3, "gpu": 3}, "b"),
    "Kueue rounds 1 of 1500 up to one in a thousand; here the smallest difference counts, unrounded": Poorer(
        {"cpu": 4, "gpu": 5}, {"cpu": 4, "memory": 4999}, "b"
    ),
    "and by weight it counts the other way": Poorer({"cpu": 4, "gpu": 5}, {"cpu": 4, "memory": 4999}, "a", (2, 1)),
    "Volcano, 1 of 2 cpus and 3 of 4 memory is a share of three quarters": Poorer(
        {"cpu": 5, "memory": 7500}, {"cpu": 5, "memory": 2000}, "b"
    ),
}


@pytest.mark.parametrize("sentence", SHARES)
def test_which_of_two_is_the_poorer(sentence: str) -> None:
    case = SHARES[sentence]
    play = Harness(
        *tenant("a", weight=case.weights[0]),
        *tenant("b", weight=case.weights[1]),
        *tenant("z"),
        settings=Settings(protected_ms=3_600_000),
        cpu=10,
        gpu=10,
        memory=10_000,
        places=1000,
    )
    play.submit(unit("a/runs", **case.a), unit("b/runs", **case.b), unit("z/0", places=1000))  # type: ignore[arg-type]
    play.submit(*(unit(f"{name}/next", places=600, created_s=10) for name in "ab"))
    assert play.waiting == ["a/next", "b/next"]

    play.finish("z/0")

    assert [key for key in play.running if key.endswith("/next")] == [f"{case.want}/next"]


# -- taking back between quotas ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claims:
    """`first` start, then `then` come; how many units each tenant has afterwards."""

    tenants: tuple[tuple[Queue, Quota], ...]
    first: tuple[Unit, ...]
    then: tuple[Unit, ...]
    cpu: int
    want: tuple[int, ...]
    share: str = "drf"


CLAIMS = {
    "YuniKorn, 10 and 2 of 12, each guaranteed 5: 7 and 5": Claims(
        (tenant("a", min={"cpu": 5}), tenant("b", min={"cpu": 5})),
        (*many("a", 10, cpu=1), *many("b", 2, cpu=1)),
        tuple(unit(f"b/more{i}", cpu=1) for i in range(3)),
        12,
        (7, 5),
    ),
    "YuniKorn, 8, 8 and 0, and the second may not be preempted: 5, 8 and 3": Claims(
        # There a queue says so; here its units do, and then they must fit in its min.
        (tenant("a", min={"cpu": 3}), tenant("b", min={"cpu": 8}), tenant("c", min={"cpu": 3})),
        (*many("a", 8, cpu=1), *(unit(f"b/{i:02}", cpu=1, fixed=True) for i in range(8))),
        (*many("c", 3, cpu=1),),
        16,
        (5, 8, 3),
    ),
    "YuniKorn, the same with a guarantee of 3: what may not be preempted cannot borrow either": Claims(
        (tenant("a", min={"cpu": 3}), tenant("b", min={"cpu": 3}), tenant("c", min={"cpu": 3})),
        (*many("a", 8, cpu=1), *(unit(f"b/{i:02}", cpu=1, fixed=True) for i in range(8))),
        (*many("c", 3, cpu=1),),
        16,
        (8, 3, 3),
    ),
    "YuniKorn, a high queue is guaranteed 6 of 18 that a normal one uses: 6 and 12": Claims(
        (tenant("a", min={"cpu": 6}), tenant("b")), (*many("b", 18, cpu=1),), (*many("a", 6, cpu=1),), 18, (6, 12)
    ),
    "Volcano, who deserves nothing and uses something is the most over: it gives before a richer one": Claims(
        (tenant("a"), tenant("b", weight=0), tenant("c")),
        (*many("a", 10, cpu=1), *many("b", 2, cpu=1)),
        (*many("c", 2, cpu=1),),
        12,
        (10, 0, 2),
    ),
    "Volcano, 3 cpus of a deserved 2: half of what it deserves more than it should": Claims(
        (tenant("a"), tenant("b")), (*many("a", 3, cpu=1), *many("b", 1, cpu=1)), (unit("b/more", cpu=1),), 4, (2, 2)
    ),
}


@pytest.mark.parametrize("sentence", CLAIMS)
def test_what_each_has_after_it_was_taken_back(sentence: str) -> None:
    case = CLAIMS[sentence]
    play = Harness(*(each for pair in case.tenants for each in pair), share=case.share, cpu=case.cpu)
    play.submit(*case.first)

    play.submit(*case.then)

    assert tuple(counted(play, *(pair[1].name for pair in case.tenants))) == case.want


# -- how many units may run -------------------------------------------------------------------------------------------


def job_slots() -> Harness:
    """child2 has 6 cpus and 2 job slots, its leaves 3 cpus each, the second of them 1 slot. Slots are the queue's."""
    return Harness(
        quota("child2", max={"cpu": 6}),
        quota("c21", "child2", max={"cpu": 3}, namespaces=["c21"]),
        quota("c22", "child2", max={"cpu": 3}, namespaces=["c22"]),
        queue("c22/own", quota="c22", max_units=1),
        queue("usher-system/child2", shared=True, max_units=2),
        cpu=21,
    )


def test_a_leaf_with_one_job_slot_runs_one_job() -> None:
    play = job_slots()
    play.submit(unit("c22/1", cpu=1, queue="own"))

    play.submit(unit("c22/2", cpu=1, queue="own"))

    assert play.running == ["c22/1"]
    assert play.why("c22/2") == "MaxUnits"
    assert play.text("c22/2") == (
        "c22/2 is number 1 of 1 in queue c22/own. Queue c22/own runs at most 1 unit at a time, and 1 holds quota. "
        "It starts when one of them ends."
    )


def test_a_parent_with_two_job_slots_runs_two_jobs_of_all_its_leaves() -> None:
    """In Koord-Queue the quota counts jobs; here the queue does, and one queue may serve many quotas."""
    play = job_slots()
    play.submit(unit("c21/1", cpu=1, queue="child2"), unit("c22/1", cpu=1, queue="child2"))

    play.submit(unit("c21/2", cpu=1, queue="child2"))

    assert play.running == ["c21/1", "c22/1"]
    assert play.why("c21/2") == "MaxUnits"
    play.finish("c22/1")
    assert play.running == ["c21/1", "c21/2"]


# -- preemption inside a queue ----------------------------------------------------------------------------------------


HIGH = unit("a/high", cpu=4, priority=100)
MID = unit("a/mid", cpu=2, priority=10)
LOW = unit("a/low", cpu=2, priority=1)
LOW2 = unit("a/low2", cpu=2, priority=1)


@dataclass(frozen=True)
class Preempts:
    """Units that were admitted and whose pods are not ready yet; then another comes, in a quota of so many cpus."""

    running: tuple[Unit, ...]
    comes: Unit
    cpu: int
    want: tuple[str, ...]
    starts: bool = True
    preempts: bool = True
    policy: str = "Priority"


PREEMPTS = {
    "Koord-Queue's finder: the lower one goes": Preempts((LOW,), HIGH, 4, ("a/low",)),
    "a higher one stays": Preempts((HIGH,), MID, 4, (), starts=False),
    "both lower ones go if both are needed": Preempts((LOW, LOW2), HIGH, 4, ("a/low", "a/low2")),
    "both go, whatever their priorities below": Preempts((MID, LOW), HIGH, 4, ("a/low", "a/mid")),
    "of two alike the later goes, the higher one stays": Preempts((HIGH, LOW, LOW2), MID, 8, ("a/low2",)),
    "the only lower one goes": Preempts((HIGH, LOW2), MID, 6, ("a/low2",)),
    "nobody goes if that is not enough: there the lower ones went for nothing": Preempts(
        (MID, LOW), unit("a/huge", cpu=4, priority=5), 4, (), starts=False
    ),
    "nobody goes in a queue that does not allow it": Preempts((LOW,), HIGH, 4, (), starts=False, preempts=False),
    "one assumed unit, a higher one comes and there is no room for both: it takes its place": Preempts(
        (unit("a/job2", cpu=2, priority=12),), unit("a/job3", cpu=2, priority=13), 2, ("a/job2",)
    ),
    "one assumed unit, a lower one comes and there is no room for both: it waits": Preempts(
        (unit("a/job2", cpu=2, priority=12),), unit("a/job1", cpu=2, priority=10), 2, (), starts=False
    ),
    "a victim that was admitted and does not run yet goes like any other": Preempts(
        (unit("a/victim", cpu=2, priority=10),), unit("a/preemptor", cpu=2, priority=100), 2, ("a/victim",)
    ),
    "where both fit nobody goes: there a gate let one start at a time, and the lower one went all the same": Preempts(
        (unit("a/victim", cpu=1, priority=10),), unit("a/preemptor", cpu=1, priority=100), 4, ()
    ),
    "and so it is where the head blocks": Preempts(
        (unit("a/victim", cpu=1, priority=10),), unit("a/preemptor", cpu=1, priority=100), 4, (), policy="Block"
    ),
}


@pytest.mark.parametrize("sentence", PREEMPTS)
def test_who_goes_for_a_higher_priority_before_anybody_is_ready(sentence: str) -> None:
    case = PREEMPTS[sentence]
    play = Harness(
        *tenant("a", case.policy, min={"cpu": case.cpu}, max={"cpu": case.cpu}, preempts=case.preempts), cpu=20
    )
    play.unready.update(each.key for each in case.running)
    for each in case.running:
        play.advance(1)
        play.submit(each)
    assert play.waiting == []

    play.submit(case.comes)

    assert tuple(sorted(play.evictions)) == case.want
    assert (case.comes.key in play.running) is case.starts


def test_nobody_is_preempted_elsewhere_for_a_quota_that_is_full() -> None:
    """The lower ones of the queue are charged to another quota: there they were victims for nothing."""
    play = Harness(
        queue("usher-system/main", shared=True, preempts=True),
        quota("a", max={"cpu": 4}, namespaces=["a"]),
        quota("b", max={"cpu": 4}, namespaces=["b"]),
        cpu=20,
    )
    play.submit(unit("a/holds", cpu=4, priority=100, queue="main"), unit("b/low", cpu=2, priority=1, queue="main"))

    play.submit(unit("a/mid", cpu=2, priority=10, queue="main"))

    assert play.evictions == []
    assert play.why("a/mid") == "Max"


def test_three_units_in_a_quota_of_four_start_at_once() -> None:
    """There the second waited until the third was running, and the first had to start again; here all of them fit."""
    play = Harness(*tenant("a", max={"cpu": 4}, preempts=True), cpu=4)
    play.unready.update(["a/A", "a/B", "a/C"])
    for name, priority in (("A", 1), ("C", 100), ("B", 2)):
        play.submit(unit(f"a/{name}", cpu=1, priority=priority))

    assert play.running == ["a/A", "a/B", "a/C"]
    assert play.evictions == []


def test_the_same_three_in_a_quota_of_one_take_turns_by_priority() -> None:
    play = Harness(*tenant("a", max={"cpu": 1}, preempts=True), cpu=4)
    play.submit(unit("a/A", cpu=1, priority=1))
    play.lingering.add("a/A")
    play.submit(unit("a/C", cpu=1, priority=100))
    play.submit(unit("a/B", cpu=1, priority=2))
    assert play.running == []
    assert play.nominated == ["a/C"], "it has not started before the pods of A are gone"
    assert play.phase("a/B") == "Enqueued", "written at its first attempt; there it stayed empty"

    play.stop("a/A")
    assert play.running == ["a/C"]
    play.finish("a/C")
    assert play.running == ["a/B"]
    play.finish("a/B")

    assert play.running == ["a/A"]
    assert play.admissions == ["a/A", "a/C", "a/B", "a/A"], "A starts by a new admission"


# -- sizes ------------------------------------------------------------------------------------------------------------


def test_a_pod_that_fails_for_good_while_the_job_is_told_to_go_is_given_back_at_once() -> None:
    """Two pods, one fails for good while an eviction is under way; the next job has its room already."""
    play = Harness(*tenant("a", max={"cpu": 3}, preempts=True), cpu=3)
    play.submit(unit("a/indexed", count=2, cpu=1, priority=1))
    play.lingering.add("a/indexed")
    play.submit(unit("a/high", cpu=3, priority=9))
    assert play.nominated == ["a/high"]

    play.send(e.UnitShrunk("a/indexed", play.engine.world.units["a/indexed"].generation, (Grant("main", 1),)))
    assert play.used("a") == amounts(cpu=1)
    assert play.nominated == ["a/high"]
    play.stop("a/indexed")

    assert play.running == ["a/high"]
    assert play.evictions == ["a/indexed"], "once"


@dataclass(frozen=True)
class Shrinks:
    had: int
    wants: int
    left: int
    """Pods that are there once the others are gone."""
    want: int


SHRINKS = {
    "three pods run and one is wanted: all three count until they are gone": Shrinks(had=3, wants=1, left=3, want=3),
    "four pods and two are wanted, of which two are left: two count": Shrinks(had=4, wants=2, left=2, want=2),
}


@pytest.mark.parametrize("sentence", SHRINKS)
def test_what_counts_while_a_unit_gives_back(sentence: str) -> None:
    case = SHRINKS[sentence]
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/1", pods=(pods("main", case.had, least=1, cpu=1),), elastic=True))
    play.lingering.add("a/1")

    play.apply(unit("a/1", pods=(pods("main", case.wants, least=1, cpu=1),), elastic=True))
    assert play.used("a") == amounts(cpu=case.had)
    play.send(e.UnitShrunk("a/1", play.engine.world.units["a/1"].generation, (Grant("main", case.left),)))

    assert play.used("a") == amounts(cpu=case.want)
