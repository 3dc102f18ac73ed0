"""The order between queues: lanes, entitled before borrowing, queue priority, share, age; and shares in admissions."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from usher.core.model import Queue, Quota, Unit
from usher.testing.builders import amounts, queue, quota, tenant, unit
from usher.testing.harness import Harness

SHARED = {"shared": True}


@dataclass(frozen=True)
class Given:
    """`holder` uses the one place there is; when it ends, the first of the `units` starts."""

    objects: tuple[Queue | Quota, ...]
    units: tuple[Unit, ...]
    want: str
    running: tuple[Unit, ...] = ()


A, B = tenant("a"), tenant("b")

CASES = {
    "a head within its deserved goes before one that would borrow": Given(
        (*A, *B), (unit("a/old", cpu=4), unit("b/new", cpu=4)), "b/new", (unit("a/runs", cpu=4),)
    ),
    "a higher queue priority does not beat an entitled head": Given(
        (
            queue("usher-system/high", priority=9, shared=True),
            queue("usher-system/low", priority=1, shared=True),
            quota("a", namespaces=["a"]),
            quota("b", namespaces=["b"]),
        ),
        (unit("a/old", cpu=4, queue="high"), unit("b/new", cpu=4, queue="low")),
        "b/new",
        (unit("a/runs", cpu=4, queue="high"),),
    ),
    "among entitled heads the shared queue of higher priority goes first": Given(
        (
            queue("usher-system/high", priority=9, shared=True),
            queue("usher-system/low", priority=1, shared=True),
            quota("a", namespaces=["a"]),
            quota("b", namespaces=["b"]),
        ),
        (unit("b/old", cpu=4, queue="low"), unit("a/new", cpu=4, queue="high")),
        "a/new",
    ),
    "the priority of a tenant's own queue does not beat another tenant": Given(
        (queue("a/a", priority=99, quota="a"), quota("a", namespaces=["a"]), *B),
        (unit("b/old", cpu=4), unit("a/new", cpu=4)),
        "b/old",
    ),
    "a tenant's own queues rank among themselves": Given(
        (queue("a/low", quota="a"), queue("a/high", priority=5, quota="a"), quota("a", namespaces=["a"]), *B),
        (unit("a/old", cpu=4, queue="low"), unit("a/new", cpu=4, queue="high")),
        "a/new",
    ),
    "the lower share goes first": Given(
        (*A, *B),
        (unit("a/old", cpu=4, memory=1), unit("b/new", cpu=4, memory=1)),
        "b/new",
        (unit("a/runs", memory=8),),
    ),
    "a share counts by weight": Given(
        (*tenant("a", weight=4), *B),
        (unit("b/old", cpu=4), unit("a/new", cpu=4)),
        "a/new",
        (unit("a/runs", memory=6), unit("b/runs", memory=2)),
    ),
    "with equal shares the oldest goes first": Given((*A, *B), (unit("b/old", cpu=4), unit("a/new", cpu=4)), "b/old"),
    "shares are compared below the common ancestor": Given(
        (quota("p"), quota("q"), *tenant("a", parent="p"), *tenant("b", parent="p"), *tenant("c", parent="q")),
        (unit("a/old", cpu=4), unit("c/new", cpu=4)),
        "c/new",
        (unit("b/runs", memory=8),),
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_who_is_first_when_one_place_comes_free(sentence: str) -> None:
    case = CASES[sentence]
    play = Harness(*case.objects, *tenant("z", min={"cpu": 8}), cpu=8, memory=16)
    play.submit(*case.running)
    taken = play.quota("root").used.get("cpu", 0) // 1000
    holders = [unit(f"z/{i}", cpu=4) for i in range((8 - taken) // 4)]
    play.submit(*holders)
    for each in case.units:
        play.submit(each)
    assert play.waiting == sorted(each.key for each in case.units)

    play.finish("z/0")

    assert case.want in play.running
    assert play.waiting == sorted(each.key for each in case.units if each.key != case.want)
    assert play.evictions == []


def test_being_entitled_never_reorders_a_lane() -> None:
    """The head would borrow, the one behind it would not: the head keeps its turn."""
    play = Harness(*tenant("a", "Block"), *tenant("b"), cpu=10)
    play.submit(unit("b/runs", cpu=4), unit("z/none", cpu=1))
    play.submit(unit("a/head", cpu=6))
    assert "a/head" in play.running
    play.finish("a/head")
    play.submit(unit("b/more", cpu=4))
    play.submit(unit("a/large", cpu=7))
    play.submit(unit("a/small", cpu=1))

    assert "a/small" not in play.running


def test_a_blocked_lane_never_holds_up_another() -> None:
    play = Harness(*tenant("a", "FIFO"), *tenant("b", "FIFO"), cpu=10)
    play.submit(unit("b/runs", cpu=5))
    play.submit(unit("a/large", cpu=6))
    play.submit(unit("b/small", cpu=5))

    assert "b/small" in play.running


def test_an_entitled_head_that_cannot_claim_leaves_the_room_to_others() -> None:
    play = Harness(*tenant("a", min={"cpu": 6}), *tenant("b", min={"cpu": 5}), cpu=11)
    play.submit(unit("b/fixed", cpu=5, fixed=True), unit("b/also", cpu=1))
    play.submit(unit("a/runs", cpu=1))
    play.submit(unit("a/owner", cpu=5))
    assert "a/owner" in play.running
    assert play.evictions == ["b/also"]


def test_the_first_of_two_large_gangs_does_not_keep_the_second_out() -> None:
    """10 cpus: a gang of 3×4 comes first, then 1×3: the second runs."""
    play = Harness(*tenant("a"), cpu=10)
    play.submit(unit("a/gang", count=3, cpu=4))
    play.submit(unit("a/small", cpu=3))

    assert play.running == ["a/small"]


# -- dominant resource fairness in admissions -------------------------------------------------------------------------


def tasks(tenant_name: str, count: int, **request: str | int) -> list[Unit]:
    return [unit(f"{tenant_name}/{i:02}", **request) for i in range(count)]  # type: ignore[arg-type]


def started(play: Harness, tenant_name: str) -> int:
    return sum(key.startswith(f"{tenant_name}/") for key in play.running)


@pytest.mark.parametrize("first", ["ab", "ba"])
@pytest.mark.parametrize(("weights", "want"), [((1, 1), (3, 2)), ((2, 1), (4, 1)), ((1, 2), (3, 2))])
def test_the_example_of_the_drf_paper(first: str, weights: tuple[int, int], want: tuple[int, int]) -> None:
    """9 cpus and 18 GB; a's tasks ask for 1 and 4, b's for 3 and 1. Whoever comes first."""
    play = Harness(*tenant("a", weight=weights[0]), *tenant("b", weight=weights[1]), cpu=9, memory=18)
    both = {"a": tasks("a", 9, cpu=1, memory=4), "b": tasks("b", 9, cpu=3, memory=1)}

    play.submit(*both[first[0]], *both[first[1]])

    assert (started(play, "a"), started(play, "b")) == want


def test_what_the_drf_example_deserves() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=9, memory=18)
    play.submit(*tasks("a", 9, cpu=1, memory=4), *tasks("b", 9, cpu=3, memory=1))

    assert play.deserved("a") == amounts(cpu=3, memory=12)
    assert play.deserved("b") == amounts(cpu=6, memory=2)


def test_two_queues_with_two_pods_each_get_one_each() -> None:
    """A node of 2 cpus and 4 GB; four pods of 1 and 1."""
    play = Harness(*tenant("a"), *tenant("b"), cpu=2, memory=4)
    play.submit(*tasks("a", 2, cpu=1, memory=1), *tasks("b", 2, cpu=1, memory=1))

    assert play.running == ["a/00", "b/00"]


def test_hierarchy_of_dominant_shares() -> None:
    """30 and 30; n1, n2 cpu only, n3 one cpu-only and one memory-only child, n4 memory only."""
    play = Harness(
        *tenant("n1"),
        *tenant("n2"),
        quota("n3"),
        *tenant("n31", parent="n3"),
        *tenant("n32", parent="n3"),
        *tenant("n4"),
        cpu=30,
        memory=30,
    )
    play.submit(*(each for name in ("n1", "n2", "n31") for each in tasks(name, 30, cpu=1)))
    play.submit(*(each for name in ("n32", "n4") for each in tasks(name, 30, memory=1)))

    assert [started(play, name) for name in ("n1", "n2", "n31", "n32", "n4")] == [10, 10, 10, 15, 15]


GANGS = {
    "5 pods, at least 4; 5 pods, at least 2": ((5, 4), (5, 2), (5, 0)),
    "4 pods, at least 4; 5 pods, at least 2": ((4, 4), (5, 2), (4, 0)),
}


@pytest.mark.parametrize("sentence", GANGS)
def test_gangs_in_one_queue_of_five_cpus(sentence: str) -> None:
    """Full size first: the first takes what fits; what is left cannot form the second."""
    first, second, want = GANGS[sentence]
    play = Harness(*tenant("a"), cpu=5)
    play.submit(
        unit("a/1", count=first[0], least=first[1], cpu=1), unit("a/2", count=second[0], least=second[1], cpu=1)
    )

    assert tuple(sum(play.counts(key)) for key in ("a/1", "a/2")) == want


@pytest.mark.parametrize(("gangs", "want"), [((4, 0), (4, 1)), ((3, 2), (3, 2))])
def test_gangs_whose_other_pods_wait_their_turn(gangs: tuple[int, int], want: tuple[int, int]) -> None:
    """5 cpus, two jobs of 5 pods in one queue; only the gang of each must start together."""
    play = Harness(*tenant("a"), cpu=5)
    play.submit(*(unit(f"a/{i}gang", count=size, cpu=1) for i, size in enumerate(gangs) if size))
    play.submit(*(unit(f"a/1pod{n}", cpu=1) for n in range(5 - gangs[1])), *(unit("a/0pod", cpu=1),))

    pods = [sum(sum(play.counts(key)) for key in play.running if key.startswith(f"a/{i}")) for i in range(2)]
    assert tuple(pods) == want


Amounts = dict[str, str | int]

ASKED: dict[str, tuple[Amounts, Amounts, Amounts, bool]] = {
    "only the dimensions that are asked for count": (
        {"cpu": 2, "memory": 2},
        {"cpu": 1, "memory": 2},
        {"cpu": 1},
        True,
    ),
    "a dimension above max": ({"cpu": 2, "memory": 2}, {"cpu": 1, "memory": 2}, {"cpu": 1, "memory": 1}, False),
    "exactly at max": ({"cpu": 2, "memory": 2}, {"cpu": 1, "memory": 1}, {"cpu": 1, "memory": 1}, True),
    "just above max": ({"cpu": "1500m", "memory": 2}, {"cpu": 1, "memory": 1}, {"cpu": 1, "memory": 1}, False),
    "what is assumed is counted once": ({"cpu": 4}, {"cpu": 3}, {"cpu": 1}, True),
    "a max of zero is zero": ({"cpu": 0}, {"memory": 1}, {"cpu": 1}, False),
    "an unset max does not limit": ({"memory": 1}, {"memory": 1}, {"cpu": 4}, True),
}


@pytest.mark.parametrize("sentence", ASKED)
def test_what_a_max_lets_in(sentence: str) -> None:
    limit, used, asked, starts = ASKED[sentence]
    play = Harness(*tenant("a", max=limit), cpu=4, memory=4)
    play.slow = True
    play.submit(unit("a/runs", **used))  # type: ignore[arg-type]
    play.submit(unit("a/asks", **asked))  # type: ignore[arg-type]

    assert ("a/asks" in play.running) is starts


@pytest.mark.parametrize(("share", "want"), [("drf", 5), ("koordinator", 5), ("proportion", 5), ("none", 8)])
def test_the_share_policy_is_chosen_by_name(share: str, want: int) -> None:
    """The first to come keeps its 8 of 10 only where nobody deserves anything."""
    play = Harness(*tenant("a"), *tenant("b"), share=share, cpu=10)
    play.submit(*tasks("a", 8, cpu=1))
    play.submit(*tasks("b", 8, cpu=1))

    assert started(play, "a") == want
