"""Queues and quotas that stop, change, go away and come back, with units waiting in them and running through them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from usher.core import events as e
from usher.core.model import StopPolicy
from usher.testing.builders import amounts, queue, quota, tenant, unit
from usher.testing.harness import Harness

HOLD, DRAIN = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN


def busy(policy: str = "Priority", cpu: int = 10) -> Harness:
    """a/runs holds 6 of 10, a/waits wants 8."""
    play = Harness(*tenant("a", policy), *tenant("b"), cpu=cpu)
    play.submit(unit("a/runs", cpu=6, queue="a"))
    play.submit(unit("a/waits", cpu=8, queue="a"))
    return play


# -- stopping ---------------------------------------------------------------------------------------------------------


def test_hold_lets_run_what_runs_and_starts_nothing() -> None:
    play = busy()
    play.apply(queue("a/a", quota="a", stop=HOLD))
    play.submit(unit("a/small", cpu=1))

    assert play.running == ["a/runs"]
    assert play.evictions == []
    assert play.why("a/small") == "QueueStopped"
    play.finish("a/runs")
    assert play.running == []
    play.apply(queue("a/a", quota="a"))
    assert play.running == ["a/small", "a/waits"]


def test_hold_and_drain_takes_back_what_runs() -> None:
    play = busy()
    play.lingering.add("a/runs")
    play.apply(queue("a/a", quota="a", stop=DRAIN))

    assert play.evicted_for == [("a/runs", "Drained", "")]
    assert play.used("a") == amounts(cpu=6), "charged until its pods are gone"
    play.stop("a/runs")
    assert play.used("a") == {}
    assert play.phase("a/runs") == "Enqueued"
    play.apply(queue("a/a", quota="a"))
    assert play.running == ["a/runs"], "it is older than a/waits, which does not fit beside it"


def test_a_stopped_queue_has_no_demand() -> None:
    play = Harness(*tenant("a"), *tenant("b"), cpu=10)
    play.submit(*(unit(f"a/{i}", cpu=1) for i in range(10)))
    play.submit(*(unit(f"b/{i}", cpu=1) for i in range(10)))
    assert play.deserved("b") == amounts(cpu=5)

    play.apply(queue("a/a", quota="a", stop=HOLD))

    assert play.deserved("a") == amounts(cpu=5), "what runs still counts"
    play.apply(queue("a/a", quota="a", stop=DRAIN))
    assert play.deserved("b") == amounts(cpu=10)


# -- changing ---------------------------------------------------------------------------------------------------------


def test_changing_the_policy_takes_effect_on_those_who_wait() -> None:
    play = busy("FIFO")
    play.submit(unit("a/small", cpu=1))
    assert play.running == ["a/runs"]
    play.apply(queue("a/a", "Priority", quota="a"))
    assert play.running == ["a/runs", "a/small"]

    play.finish("a/small")
    play.apply(queue("a/a", "Block", quota="a"))
    play.submit(unit("a/other", cpu=1))
    assert play.running == ["a/runs"]


def test_moving_a_waiting_unit_to_another_queue() -> None:
    play = busy("FIFO")
    play.submit(unit("a/small", cpu=1, queue="a"))
    play.apply(queue("a/other", quota="a"))

    play.apply(unit("a/small", cpu=1, queue="other"))

    assert play.running == ["a/runs", "a/small"]
    assert play.unit("a/small").queue == "a/other"


def test_moving_a_waiting_unit_to_another_quota() -> None:
    play = Harness(*tenant("a", max={"cpu": 6}), quota("spare"), cpu=10)
    play.submit(unit("a/runs", cpu=6))
    play.submit(unit("a/waits", cpu=2))

    play.apply(unit("a/waits", cpu=2, quota="spare", queue="a"))

    assert play.running == ["a/runs", "a/waits"]
    assert play.used("spare") == amounts(cpu=2)


def test_a_queue_whose_default_quota_changes_keeps_charges_where_they_are() -> None:
    play = Harness(queue("a/a", quota="x"), quota("x"), quota("y"), cpu=10)
    play.submit(unit("a/runs", cpu=6, queue="a"))

    play.apply(queue("a/a", quota="y"))
    play.submit(unit("a/new", cpu=1, queue="a"))

    assert play.used("x") == amounts(cpu=6)
    assert play.used("y") == amounts(cpu=1)


def test_a_waiting_unit_that_changes_its_size_is_tried_with_the_new_one() -> None:
    play = busy()
    play.apply(unit("a/waits", cpu=4, queue="a"))
    assert play.running == ["a/runs", "a/waits"]
    assert play.used("a") == amounts(cpu=10)


def test_what_a_running_unit_holds_follows_its_pods_whatever_the_limits() -> None:
    """Somebody changed the request of a running unit: the charge is what an engine that starts anew would find."""
    play = Harness(*tenant("a", max={"cpu": 6}), cpu=10)
    play.submit(unit("a/runs", cpu=6))

    play.apply(unit("a/runs", cpu=7))

    assert play.used("a") == amounts(cpu=7)
    play.finish("a/runs")
    assert play.used("a") == {}


def test_reparenting_moves_what_is_charged() -> None:
    play = Harness(quota("p", max={"cpu": 6}), quota("q", max={"cpu": 6}), *tenant("a", parent="p"), cpu=10)
    play.submit(unit("a/runs", cpu=4))
    play.submit(unit("a/waits", cpu=3))
    assert play.used("p") == amounts(cpu=4)

    play.apply(quota("q", max={"cpu": 8}), quota("a", "q", namespaces=["a"]))

    assert play.used("p") == {}
    assert play.used("q") == amounts(cpu=7)


def test_a_unit_that_becomes_fixed_while_it_runs_counts_against_the_min() -> None:
    play = Harness(*tenant("a", min={"cpu": 4}), cpu=10)
    play.submit(unit("a/runs", cpu=3))
    play.apply(unit("a/runs", cpu=3, fixed=True))

    play.submit(unit("a/fixed", cpu=2, fixed=True))

    assert play.why("a/fixed") == "NotGuaranteed"


# -- going away -------------------------------------------------------------------------------------------------------


def test_a_queue_that_goes_away_loses_nothing() -> None:
    play = busy()
    play.send(e.QueueGone("a/a"))

    assert play.running == ["a/runs"], "what runs goes on"
    assert play.used("a") == amounts(cpu=6)
    assert play.why("a/waits") == "QueueMissing"
    assert "queue a does not exist" in play.text("a/waits").lower()
    play.finish("a/runs")
    assert play.waiting == ["a/waits"]
    play.apply(queue("a/a", quota="a"))
    assert play.running == ["a/waits"]


def test_a_quota_that_goes_away_loses_nothing() -> None:
    """What runs is charged to the root and says so; who waits says what for; when it is back all is as before."""
    play = busy()
    play.send(e.QuotaGone("a"))

    assert play.running == ["a/runs"]
    assert play.used("root") == amounts(cpu=6)
    assert play.text("a/runs") == "a/runs is Running. Quota a does not exist: what it holds is charged to the cluster."
    assert play.why("a/waits") == "QuotaMissing"
    assert "quota a does not exist" in play.text("a/waits").lower()
    play.submit(unit("b/large", cpu=5))
    assert play.waiting == ["a/waits", "b/large"], "its charge still counts against the capacity"
    assert play.evictions == []

    play.delete("b/large")
    play.apply(quota("a", namespaces=["a"]))
    assert play.used("a") == amounts(cpu=6)
    play.finish("a/runs")
    assert play.running == ["a/waits"]


def test_what_runs_outside_every_quota_is_not_shared_out() -> None:
    play = busy()
    play.send(e.QuotaGone("a"))
    play.submit(*(unit(f"b/{i}", cpu=1) for i in range(10)))

    assert play.deserved("b") == amounts(cpu=4)


def test_deleting_a_parent_sets_its_children_aside_and_its_return_brings_them_back() -> None:
    play = Harness(quota("p"), *tenant("a", parent="p"), *tenant("b"), cpu=10)
    play.submit(unit("a/runs", cpu=2))
    play.send(e.QuotaGone("p"))
    play.submit(unit("a/waits", cpu=2), unit("b/runs", cpu=2))

    assert play.running == ["a/runs", "b/runs"]
    assert "its parent p does not exist" in play.text("a/waits")
    assert play.quota("a").problem == "its parent p does not exist"
    play.apply(quota("p"))
    assert play.running == ["a/runs", "a/waits", "b/runs"]


def test_deleted_and_created_again_in_one_batch() -> None:
    play = busy()
    play.send(e.QueueGone("a/a"), e.QuotaGone("a"), e.QuotaChanged(quota("a", namespaces=["a"])))
    play.send(e.QueueChanged(queue("a/a", quota="a")))

    assert play.running == ["a/runs"]
    assert play.used("a") == amounts(cpu=6)
    play.finish("a/runs")
    assert play.running == ["a/waits"]


def test_a_unit_that_is_gone_leaves_nothing_behind() -> None:
    play = busy()
    play.delete("a/runs", "a/waits")

    assert play.used("root") == {}
    assert play.quota("a").demand == {}


# -- trees that are no trees ------------------------------------------------------------------------------------------


PROBLEMS = {
    "a parent that does not exist": (
        [quota("a", "nowhere")],
        {"a": "its parent nowhere does not exist"},
    ),
    "below a quota without a parent": (
        [quota("a", "p"), quota("p", "nowhere")],
        {"a": "its parent p takes no part", "p": "its parent nowhere does not exist"},
    ),
    "its own parent": ([quota("a", "a")], {"a": "it is its own ancestor: a → a"}),
    "a cycle of two, and one below it": (
        [quota("b", "c"), quota("c", "b"), quota("a", "b")],
        {
            "a": "its parent b takes no part",
            "b": "it is its own ancestor: b → c → b",
            "c": "it is its own ancestor: b → c → b",
        },
    ),
}


@pytest.mark.parametrize("sentence", PROBLEMS)
def test_quotas_that_take_no_part_say_why_and_harm_nobody(sentence: str) -> None:
    quotas, want = PROBLEMS[sentence]
    play = Harness(*quotas, queue("x/x"), *tenant("z"), cpu=4)
    play.submit(*(unit(f"x/{each.name}", cpu=1, queue="x", quota=each.name) for each in quotas))
    play.submit(unit("z/fine", cpu=1))

    assert {view.name: view.problem for view in play.engine.quotas() if view.problem} == want
    assert play.running == ["z/fine"]
    assert {play.why(f"x/{each.name}") for each in quotas} == {"QuotaMissing"}


def test_a_unit_in_a_quota_that_is_no_leaf_is_refused_alone() -> None:
    play = Harness(quota("p"), *tenant("a", parent="p"), queue("x/x"), cpu=4)
    play.submit(unit("x/wrong", cpu=1, queue="x", quota="p"), unit("a/right", cpu=1))

    assert play.running == ["a/right"]
    assert play.why("x/wrong") == "QuotaNotLeaf"
    assert "name one of them" in play.text("x/wrong")


def test_a_quota_that_becomes_a_parent_keeps_what_runs_in_it() -> None:
    play = Harness(*tenant("p"), cpu=4)
    play.submit(unit("p/runs", cpu=2))

    play.apply(*tenant("child", parent="p"))
    play.submit(unit("p/late", cpu=1), unit("child/1", cpu=1))

    assert play.running == ["child/1", "p/runs"]
    assert play.used("p") == amounts(cpu=3)
    assert play.why("p/late") == "QuotaNotLeaf"


def test_a_namespace_may_not_use_every_shared_queue() -> None:
    play = Harness(queue("usher-system/main", shared=True, namespaces=["a"]), cpu=4)
    play.submit(unit("a/in", cpu=1, queue="main"), unit("b/out", cpu=1, queue="main"))

    assert play.running == ["a/in"]
    assert play.why("b/out") == "QueueForbidden"


def test_the_queue_in_the_own_namespace_comes_before_the_shared_one() -> None:
    play = Harness(queue("usher-system/main", shared=True), queue("a/main"), cpu=4)
    play.submit(unit("a/1", cpu=1, queue="main"), unit("b/1", cpu=1, queue="main"))

    assert play.unit("a/1").queue == "a/main"
    assert play.unit("b/1").queue == "usher-system/main"


def test_a_queue_without_a_quota_is_a_purse_of_its_own_weight() -> None:
    play = Harness(queue("a/q", weight=3), queue("b/q", weight=1), cpu=8)
    play.submit(*(unit(f"{n}/{i}", cpu=1, queue="q") for i in range(8) for n in "ab"))

    assert play.deserved("a/q") == amounts(cpu=6)
    assert play.deserved("b/q") == amounts(cpu=2)


def test_an_idle_queue_asks_for_its_own_request_until_it_has_units() -> None:
    play = Harness(queue("a/q", cpu=4), queue("b/q"), cpu=8)
    play.submit(*(unit(f"b/{i}", cpu=1, queue="q") for i in range(8)))
    assert play.deserved("a/q") == amounts(cpu=4)
    assert play.deserved("b/q") == amounts(cpu=4)

    play.submit(unit("a/1", cpu=1, queue="q"))

    assert play.deserved("a/q") == amounts(cpu=1)


def test_a_unit_that_names_nothing_says_so() -> None:
    play = Harness(cpu=4)
    play.submit(unit("a/1", cpu=1))
    assert play.why("a/1") == "QueueMissing"
    assert "names no queue" in play.text("a/1")


def test_units_may_come_before_everything_they_name() -> None:
    play = Harness(cpu=4)
    play.submit(replace(unit("a/1", cpu=1, queue="main"), quota="team"))
    play.apply(queue("a/main"))
    assert play.why("a/1") == "QuotaMissing"
    play.apply(quota("team", "dept"))
    assert play.why("a/1") == "QuotaMissing"
    play.apply(quota("dept"))
    assert play.running == ["a/1"]
