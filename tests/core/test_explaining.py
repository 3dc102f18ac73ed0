"""Why a unit waits: position, the check with its numbers, who holds it, what would help; one text for everybody."""

from __future__ import annotations

import pytest

from usher.core import events as e
from usher.core.explain import Explanation, Holder
from usher.core.ledger import Blocked
from usher.core.model import StopPolicy, Unit
from usher.testing.builders import queue, quota, tenant, unit
from usher.testing.harness import Harness


def explained(play: Harness, key: str) -> Explanation:
    found = play.engine.explain(key)
    assert found is not None
    return found


def test_the_numbers_of_a_refusal() -> None:
    play = Harness(*tenant("a", max={"cpu": 4}), cpu=10)
    play.submit(unit("a/x", cpu=1), unit("a/y", cpu=2))
    play.submit(unit("a/waits", cpu=2))

    answer = explained(play, "a/waits")

    assert answer.blocked == Blocked("Max", "a", "cpu", asked=2000, used=3000, held=0, limit=4000)
    assert answer.position == 1
    assert answer.waiting == 1
    assert answer.holders == (Holder("a/y", "a", 2000, False), Holder("a/x", "a", 1000, False))
    assert answer.text() == (
        "a/waits is number 1 of 1 in queue a/a. It asks for 2 cpu; quota a has 4, 3 in use. "
        "Held by a/y (2), a/x (1) in quota a. To start it needs 1 more cpu free there."
    )


def test_holders_that_use_more_than_they_deserve_are_named_as_such() -> None:
    play = Harness(*tenant("a"), *tenant("b", preempts=False), share="koordinator", cpu=4)
    play.submit(unit("b/gang", cpu=4))
    play.lingering.add("b/gang")
    play.submit(unit("a/waits", cpu=2))

    answer = explained(play, "a/waits")

    assert answer.nominated
    assert answer.holders == (Holder("b/gang", "b", 4000, True),)
    assert "Room is being kept for it." in answer.text()
    assert "beyond what it deserves" in answer.text()


def test_only_the_largest_holders_are_named() -> None:
    play = Harness(*tenant("a"), cpu=30)
    play.submit(*(unit(f"a/{i}", cpu=i) for i in range(1, 8)))
    play.submit(unit("a/waits", cpu=3))

    assert [holder.unit for holder in explained(play, "a/waits").holders] == ["a/7", "a/6", "a/5", "a/4", "a/3"]


def test_behind_a_head_that_must_start_first() -> None:
    play = Harness(*tenant("a", "FIFO"), cpu=4)
    play.submit(unit("a/runs", cpu=2))
    play.submit(unit("a/head", cpu=4))
    play.submit(unit("a/next", cpu=1))

    answer = explained(play, "a/next")

    assert answer.behind == "a/head"
    assert answer.position == 2
    assert "It waits behind a/head, which must start first." in answer.text()
    assert answer.remedy == ""


def test_units_that_ask_for_the_same_share_one_reason() -> None:
    play = Harness(*tenant("a"), cpu=4)
    play.submit(unit("a/runs", cpu=4))
    play.submit(unit("a/one", cpu=2))
    play.submit(unit("a/two", cpu=2))

    assert explained(play, "a/two").blocked == explained(play, "a/one").blocked
    assert explained(play, "a/two").behind == ""


TEXTS = {
    "a queue that does not exist": (
        unit("a/1", cpu=1, queue="none"),
        "Queue none does not exist. It starts when the queue is created.",
    ),
    "a quota that does not exist": (
        unit("a/1", cpu=1, queue="a", quota="none"),
        "Quota none does not exist. It starts when the quota is created and has a place in the tree.",
    ),
    "a quota that is no leaf": (
        unit("a/1", cpu=1, queue="a", quota="p"),
        "Quota p has quotas below it: name one of them.",
    ),
    "above its max": (
        unit("a/1", cpu=5, queue="a"),
        "It asks for 5 cpu, and quota a has 4 in all: it can never start. Ask for less, or have the limit raised.",
    ),
    "above the capacity": (
        unit("a/1", cpu=1, memory="2Gi", queue="a"),
        "It asks for 2Gi memory, and the cluster has 1Gi in all: it can never start. "
        "Ask for less, or have the limit raised.",
    ),
    "not active": (
        unit("a/1", cpu=1, queue="a", active=False),
        "It is not active. It takes part again when its owner activates it.",
    ),
    "a stopped queue": (
        unit("a/1", cpu=1, queue="stopped"),
        "Queue stopped is stopped. It goes on when the queue is resumed.",
    ),
}


@pytest.mark.parametrize("sentence", TEXTS)
def test_what_is_wrong_and_what_to_do(sentence: str) -> None:
    spec, want = TEXTS[sentence]
    play = Harness(
        *tenant("a", max={"cpu": 4}),
        queue("a/stopped", stop=StopPolicy.HOLD),
        quota("p"),
        quota("child", "p"),
        cpu=10,
        memory="1Gi",
    )
    play.submit(spec)

    assert play.text("a/1").endswith(want)


def test_a_unit_that_may_not_be_preempted_names_the_min() -> None:
    play = Harness(*tenant("a", min={"cpu": 2}), cpu=10)
    play.submit(unit("a/1", cpu=3, fixed=True))
    assert "must fit in the min of quota a" in play.text("a/1")


def test_a_full_number_of_units() -> None:
    play = Harness(queue("a/q", max_units=1), cpu=10)
    play.submit(unit("a/1", cpu=1, queue="q"), unit("a/2", cpu=1, queue="q"))
    assert "runs at most 1 unit at a time, and 1 holds quota" in play.text("a/2")


def test_room_kept_for_others_is_said() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=4)
    play.submit(*(unit(f"b/{i}", cpu=1) for i in range(4)))
    play.lingering.update(play.running)
    play.submit(unit("a/owner", cpu=2))
    play.stop(play.evictions[0])
    play.submit(unit("b/late", cpu=1))

    assert explained(play, "b/late").blocked == Blocked("Held", "root", "cpu", 1000, 3000, 2000, 4000)
    assert "2 kept for others" in play.text("b/late")


def test_what_runs_and_what_has_ended() -> None:
    play = Harness(*tenant("a"), cpu=4)
    play.submit(unit("a/1", cpu=1))
    assert play.text("a/1") == "a/1 is Running."
    play.finish("a/1")
    assert play.text("a/1") == "a/1 has ended: Succeed."
    assert play.engine.explain("a/none") is None


def test_positions_count_everybody_who_waits_and_nobody_who_runs() -> None:
    play = Harness(*tenant("a"), cpu=2)
    play.submit(unit("a/runs", cpu=2))
    play.submit(unit("a/junk", cpu=9))
    play.submit(unit("a/one", cpu=2))
    play.submit(unit("a/two", cpu=2, priority=5))

    assert [play.engine.position(key) for key in ("a/runs", "a/two", "a/junk", "a/one")] == [None, 1, 2, 3]


def growing(wants: int = 4) -> Harness:
    """A unit that runs with one pod and wants more; beside it one that holds three cpus of four."""
    play = Harness(*tenant("a"), cpu=4)
    play.submit(unit("a/big", cpu=3), unit("a/e", count=wants, least=1, elastic=True, cpu=1))
    return play


def test_a_unit_that_runs_and_would_grow_says_so() -> None:
    play = growing()

    assert explained(play, "a/e").pods == (1, 4)
    assert play.text("a/e") == (
        "a/e runs with 1 of 4 pods. It asks for 1 cpu more; the cluster has 4, 4 in use. "
        "Held by a/big (3) in quota a. To grow it needs 1 more cpu free there."
    )
    play.finish("a/big")
    assert explained(play, "a/e").pods is None
    assert play.text("a/e") == "a/e is Running."


def test_a_unit_that_runs_as_large_as_it_can_ever_be_says_so() -> None:
    play = growing(wants=6)
    play.finish("a/big")

    assert play.text("a/e") == (
        "a/e runs with 4 of 6 pods. With a pod more it has 5 cpu, and the cluster has 4 in all: it cannot grow. "
        "Ask for less, or have the limit raised."
    )


def test_a_unit_that_runs_and_would_grow_never_speaks_of_starting() -> None:
    stopped, gone, refused, kept = growing(), growing(), growing(), Harness(*tenant("a"), *tenant("b"), cpu=4)
    stopped.apply(queue("a/a", stop=StopPolicy.HOLD))
    gone.send(e.QueueGone("a/a"))
    refused.refusing.add("a/e")
    refused.finish("a/big")
    kept.submit(unit("b/x", cpu=3))
    kept.lingering.add("b/x")
    kept.submit(unit("a/e", count=4, least=1, elastic=True, cpu=1))

    lead = "a/e runs with 1 of 4 pods. "
    assert stopped.text("a/e") == f"{lead}Queue a is stopped. It grows when the queue is resumed."
    assert gone.text("a/e") == f"{lead}Queue a does not exist. It grows when the queue is created."
    assert refused.text("a/e") == f"{lead}It waits after it was refused more pods."
    assert kept.text("a/e").startswith(f"{lead}Room is being kept for it. It asks for 1 cpu more; ")
    assert kept.text("a/e").endswith("To grow it needs 1 more cpu free there.")
    for play in (stopped, gone, refused, kept):
        assert "start" not in play.text("a/e")


def test_the_numbers_are_those_of_this_moment() -> None:
    it = Harness(*tenant("a"), *tenant("b"), cpu=10)
    it.submit(unit("a/large", cpu=6), unit("a/first", cpu=5))
    it.submit(unit("b/later", cpu=3))

    assert "the cluster has 10, 9 in use" in it.text("a/first")


def test_a_unit_that_shares_the_fate_of_another_says_why_it_waits_itself() -> None:
    it = Harness(*tenant("a"), cpu=4)
    it.submit(*(unit(f"a/{i}", cpu=2) for i in range(4)))

    assert it.text("a/3") == (
        "a/3 is number 2 of 2 in queue a/a. It asks for 2 cpu; the cluster has 4, 4 in use. "
        "Held by a/0 (2), a/1 (2) in quota a. To start it needs 2 more cpu free there."
    )


def test_of_a_unit_that_may_not_be_preempted_min_is_said_as_it_stands() -> None:
    def elastic(count: int) -> Unit:
        return unit("a/e", count=count, least=1, elastic=True, fixed=True, cpu=1)

    play = Harness(*tenant("a", min={"cpu": 3}), cpu=10)
    play.submit(unit("a/f", cpu=2, fixed=True), elastic(2))
    play.submit(unit("a/g", cpu=2, fixed=True), unit("a/h", cpu=4, fixed=True))

    assert play.text("a/e") == (
        "a/e runs with 1 of 2 pods. It may not be preempted, so the 1 cpu more it asks for must fit in the min of "
        "quota a; 3 of 3 are taken by such units. To grow it needs 1 more cpu free in that min."
    )
    assert play.text("a/g").endswith("3 of 3 are taken by such units. To start it needs 2 more cpu free in that min.")
    assert play.text("a/h").endswith(
        "so all it has must fit in the min of quota a, which is 3; it asks for 4 cpu: it can never start. "
        "Ask for less, or have the limit raised."
    )
    play.finish("a/f")
    play.apply(elastic(5))
    assert play.text("a/e") == (
        "a/e runs with 3 of 5 pods. It may not be preempted, so all it has must fit in the min of quota a, which is 3; "
        "with a pod more it has 4 cpu: it cannot grow. Ask for less, or have the limit raised."
    )


def test_a_unit_that_was_told_to_stop_says_so_and_for_whom() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=2)
    play.submit(unit("b/1", cpu=1), unit("b/2", cpu=1))
    play.lingering.update(play.running)
    play.submit(unit("a/owner", cpu=1))

    assert play.text("b/2") == "b/2 is Running and is being stopped for a/owner (Reclaimed)."
    assert play.text("b/1") == "b/1 is Running."


def test_behind_a_head_the_numbers_are_those_of_the_head() -> None:
    play = Harness(*tenant("a", "FIFO"), cpu=4)
    play.submit(unit("a/runs", cpu=3), unit("a/head", cpu=2), unit("a/small", cpu=1))

    assert "a/head asks for 2 cpu; the cluster has 4, 3 in use." in play.text("a/small")


def test_a_unit_without_a_queue_is_named_and_told_what_to_do() -> None:
    play = Harness(cpu=4)
    play.submit(unit("a/1", cpu=1), unit("a/2", cpu=1, queue="none"))

    assert play.text("a/1") == "a/1 waits. It names no queue. It starts when it names a queue that exists."
    assert play.text("a/2") == "a/2 waits. Queue none does not exist. It starts when the queue is created."
