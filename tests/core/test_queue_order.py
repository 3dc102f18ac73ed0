"""The order inside a queue: FIFO, Priority, PriorityBlocking, and who never holds anybody up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from usher.core.model import Queue, Quota, Unit
from usher.testing.builders import queue, quota, tenant, unit
from usher.testing.harness import Harness

A, B = quota("a", namespaces=["a"]), quota("b", namespaces=["b"])


def shared(policy: str) -> Queue:
    return queue("usher-system/main", policy, shared=True)


@dataclass(frozen=True)
class Given:
    """Ten cpus, of which `a/first` uses six while the units arrive one by one."""

    units: tuple[Unit, ...]
    objects: tuple[Queue | Quota, ...]
    finish: tuple[str, ...] = ()
    want: tuple[str, ...] = field(default=(), kw_only=True)


BIG, SMALL = unit("a/big", cpu=8), unit("a/small", cpu=2)

CASES = {
    "FIFO: the head blocks the queue": Given((BIG, SMALL), tenant("a", "FIFO"), want=("a/first",)),
    "FIFO: priority changes nothing": Given((BIG, replace(SMALL, priority=9)), tenant("a", "FIFO"), want=("a/first",)),
    "FIFO: the head blocks units of other quotas in its queue, too": Given(
        (replace(BIG, queue="main"), unit("b/small", cpu=2, queue="main")),
        (shared("FIFO"), *tenant("a"), B),
        want=("a/first",),
    ),
    "Priority: a unit that does not fit is passed over": Given((BIG, SMALL), tenant("a"), want=("a/first", "a/small")),
    "Priority: a lower priority passes a higher one that does not fit": Given(
        (replace(BIG, priority=9), SMALL), tenant("a"), want=("a/first", "a/small")
    ),
    "PriorityBlocking: the head blocks its quota": Given(
        (BIG, SMALL), tenant("a", "PriorityBlocking"), want=("a/first",)
    ),
    "Block is PriorityBlocking": Given((BIG, SMALL), tenant("a", "Block"), want=("a/first",)),
    "PriorityBlocking: a higher priority is the new head": Given(
        (BIG, replace(SMALL, priority=9)), tenant("a", "Block"), want=("a/first", "a/small")
    ),
    "PriorityBlocking: units of other quotas in the queue go on": Given(
        (replace(BIG, queue="main"), unit("a/later", cpu=1, queue="main"), unit("b/small", cpu=2, queue="main")),
        (shared("Block"), *tenant("a"), B),
        want=("a/first", "b/small"),
    ),
    "a unit above a max on its path is never head": Given(
        (unit("a/huge", cpu=9), SMALL), tenant("a", "FIFO", max={"cpu": 8}), want=("a/first", "a/small")
    ),
    "a unit above the whole capacity is never head": Given(
        (unit("a/huge", cpu=11), SMALL), tenant("a", "FIFO"), want=("a/first", "a/small")
    ),
    "a unit that asks for what no node offers is never head": Given(
        (unit("a/gpu", gpu=1), SMALL), tenant("a", "FIFO"), want=("a/first", "a/small")
    ),
    "a unit that is not active is never head": Given(
        (replace(BIG, active=False), SMALL), tenant("a", "FIFO"), want=("a/first", "a/small")
    ),
    "two queues on one quota do not block each other": Given(
        (replace(BIG, queue="a"), unit("a/small", cpu=2, queue="other")),
        (*tenant("a", "FIFO"), queue("a/other", "FIFO", quota="a")),
        want=("a/first", "a/small"),
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_who_starts_behind_a_unit_that_does_not_fit(sentence: str) -> None:
    case = CASES[sentence]
    play = Harness(*case.objects, cpu=10)
    play.submit(unit("a/first", cpu=6))

    for each in case.units:
        play.submit(each)

    assert play.running == sorted(case.want)
    assert len(play.running) + len(play.waiting) == 1 + len(case.units), "nobody is lost"
    assert play.evictions == []


ORDERS = {
    "FIFO goes by creation": ("FIFO", "a/2 a/1 a/3 a/4"),
    "Priority goes by priority, then creation": ("Priority", "a/3 a/2 a/1 a/4"),
    "PriorityBlocking goes by priority, then creation": ("PriorityBlocking", "a/3 a/2 a/1 a/4"),
}


@pytest.mark.parametrize("sentence", ORDERS)
def test_order_when_one_fits_at_a_time(sentence: str) -> None:
    policy, want = ORDERS[sentence]
    play = Harness(*tenant("a", policy), cpu=1)
    play.submit(unit("a/now", cpu=1))
    play.submit(
        unit("a/4", cpu=1, priority=-1, created_s=8, seq=4),
        unit("a/3", cpu=1, priority=20, created_s=7, seq=3),
        unit("a/1", cpu=1, priority=10, created_s=6, seq=2),
        unit("a/2", cpu=1, priority=10, created_s=5, seq=9),
    )

    assert [play.engine.position(key) for key in want.split()] == [1, 2, 3, 4]
    for key in ["a/now", *want.split()]:
        assert play.running == [key]
        play.finish(key)
    assert play.admissions == ["a/now", *want.split()]


def test_in_one_second_the_order_first_seen_decides_then_the_name() -> None:
    play = Harness(*tenant("a", "FIFO"), cpu=1)
    play.submit(unit("a/now", cpu=1))
    play.submit(unit("a/c", cpu=1, seq=7), unit("a/b", cpu=1, seq=8), unit("a/a", cpu=1, seq=8))

    play.finish("a/now")
    play.finish("a/c")
    play.finish("a/a")

    assert play.admissions == ["a/now", "a/c", "a/a", "a/b"]


def test_a_changed_priority_reorders_the_queue() -> None:
    """Priorities 10, 20, 15; then the first becomes 20 and is older; then 5."""
    play = Harness(*tenant("a"), cpu=1)
    play.submit(unit("a/now", cpu=1))
    for name, priority in (("a/1", 10), ("a/2", 20), ("a/3", 15)):
        play.submit(unit(name, cpu=1, priority=priority))

    def line() -> list[str]:
        return sorted(play.waiting, key=lambda key: play.engine.position(key) or 0)

    assert line() == ["a/2", "a/3", "a/1"]
    play.apply(unit("a/1", cpu=1, priority=20))
    assert line() == ["a/1", "a/2", "a/3"]
    play.apply(unit("a/1", cpu=1, priority=5))
    assert line() == ["a/2", "a/3", "a/1"]


def test_a_queue_caps_the_priority_of_its_units() -> None:
    play = Harness(queue("a/a", quota="a", max_priority=10), A, cpu=1)
    play.submit(unit("a/now", cpu=1))
    play.submit(unit("a/older", cpu=1, priority=10))
    play.submit(unit("a/greedy", cpu=1, priority=1000))

    play.finish("a/now")

    assert play.running == ["a/older"]
    assert play.unit("a/greedy").priority == 10


def test_a_queue_limits_how_many_of_its_units_hold_quota() -> None:
    play = Harness(queue("a/a", quota="a", max_units=2), A, *tenant("b"), cpu=10)
    play.submit(*(unit(f"a/{i}", cpu=1) for i in range(4)))
    play.submit(unit("b/free", cpu=1))

    assert play.running == ["a/0", "a/1", "b/free"]
    assert play.why("a/2") == "MaxUnits"
    play.finish("a/0")
    assert play.running == ["a/1", "a/2", "b/free"]


def test_a_small_head_starts_when_the_large_one_before_it_is_deleted() -> None:
    """The lane stayed closed under the amount that the deleted head had needed."""
    for policy in ("FIFO", "Block"):
        play = Harness(*tenant("a", policy), cpu=10)
        play.submit(unit("a/first", cpu=6))
        play.submit(BIG)
        play.submit(SMALL)

        play.delete("a/big")

        assert play.running == ["a/first", "a/small"], policy


def test_a_head_that_gives_up_its_place_lets_the_next_one_try() -> None:
    for change in (replace(BIG, active=False), replace(BIG, queue="gone"), unit("a/big", cpu=11)):
        play = Harness(*tenant("a", "FIFO"), cpu=10)
        play.submit(unit("a/first", cpu=6))
        play.submit(BIG)
        play.submit(SMALL)

        play.apply(change)

        assert play.running == ["a/first", "a/small"]
        assert play.waiting == ["a/big"]


def test_a_queue_without_a_known_policy_uses_the_default_and_says_so() -> None:
    play = Harness(*tenant("a", "Fancy"), cpu=10)
    play.submit(unit("a/first", cpu=6))
    play.submit(BIG)
    play.submit(SMALL)

    assert play.running == ["a/first", "a/small"]
    assert "Fancy" in play.engine.queues()[0].problem
