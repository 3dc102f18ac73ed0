"""From nodes to capacity: what counts at once, what still counts for shares, and when."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from usher.core.events import CapacityChanged
from usher.runtime.capacity import CLOSED, Capacity, offered
from usher.runtime.objects import NodeObject

GRACE = 300_000
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def node(
    name: str = "n",
    cpu: str = "4",
    *,
    ready: str | None = "True",
    cordoned: bool = False,
    taints: tuple[str, ...] = (),
    **more: str,
) -> NodeObject:
    """A node as the API server sends it; taints as key:effect."""
    body: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {
            "unschedulable": cordoned,
            "taints": [{"key": each.split(":")[0], "effect": each.split(":")[1]} for each in taints],
        },
        "status": {
            "allocatable": {"cpu": cpu, **more},
            "conditions": [{"type": "MemoryPressure", "status": "False"}]
            + ([{"type": "Ready", "status": ready}] if ready else []),
        },
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=NodeObject)


COUNTS: dict[str, tuple[NodeObject, dict[str, int]]] = {
    "a ready node": (node(memory="1Gi", pods="110"), {"cpu": 4000, "memory": 2**30, "pods": 110}),
    "a ready node without any of something": (node(**{"hugepages-2Mi": "0"}), {"cpu": 4000}),
    "a quantity that is none": (node(memory="lots"), {"cpu": 4000}),
    "a node that is not ready": (node(ready="False"), {}),
    "a node that does not answer": (node(ready="Unknown"), {}),
    "a node that is new": (node(ready=None), {}),
    "a cordoned node": (node(cordoned=True), {}),
    "a node of the control plane": (node(taints=("node-role.kubernetes.io/control-plane:NoSchedule",)), {}),
    "an ill node": (node(taints=("node.kubernetes.io/disk-pressure:NoSchedule",)), {}),
    "an unreachable node": (node(taints=("node.kubernetes.io/unreachable:NoExecute",)), {}),
    "a node that is only disliked": (
        node(taints=("node-role.kubernetes.io/control-plane:PreferNoSchedule",)),
        {"cpu": 4000},
    ),
    "a node set apart for GPUs": (node(taints=("nvidia.com/gpu:NoSchedule",)), {"cpu": 4000}),
}


@pytest.mark.parametrize(("given_node", "want"), COUNTS.values(), ids=COUNTS)
def test_a_node_offers_what_jobs_may_use(given_node: NodeObject, want: dict[str, int]) -> None:
    assert offered(given_node) == want


def test_every_closing_taint_closes_a_node() -> None:
    assert all(offered(node(taints=(f"{key}:NoSchedule",))) == {} for key in CLOSED)


def test_no_node_is_told_once_as_no_capacity() -> None:
    capacity = Capacity(GRACE)

    assert capacity.take(0) == CapacityChanged({})
    assert capacity.take(1) is None
    assert capacity.next_ms is None


def test_nodes_add_up_and_nothing_is_told_twice() -> None:
    capacity = Capacity(GRACE)
    capacity.node_changed(node("a", "4"), 0)
    capacity.node_changed(node("b", "500m", memory="1Gi"), 0)

    assert capacity.take(0) == CapacityChanged({"cpu": 4500, "memory": 2**30})
    capacity.node_changed(node("a", "4"), 1)
    assert capacity.take(1) is None


@pytest.mark.parametrize("loss", ["NotReady", "cordoned", "deleted"])
def test_a_lost_node_stops_admission_at_once_and_counts_for_shares_until_its_grace_ends(loss: str) -> None:
    capacity = Capacity(GRACE)
    capacity.node_changed(node("a", "4"), 0)
    capacity.node_changed(node("b", "2"), 0)
    capacity.take(0)

    if loss == "deleted":
        capacity.node_gone("b", 1000)
    else:
        capacity.node_changed(node("b", "2", ready="Unknown" if loss == "NotReady" else "True", cordoned=True), 1000)

    assert capacity.take(1000) == CapacityChanged({"cpu": 4000}, {"cpu": 6000})
    assert capacity.next_ms == 1000 + GRACE
    assert capacity.take(999 + GRACE) is None
    assert capacity.take(1000 + GRACE) == CapacityChanged({"cpu": 4000})
    assert capacity.next_ms is None


def test_a_node_that_comes_back_in_time_was_never_missed_by_shares() -> None:
    capacity = Capacity(GRACE)
    capacity.node_changed(node("a"), 0)
    capacity.take(0)
    capacity.node_gone("a", 1000)
    capacity.take(1000)
    capacity.node_changed(node("a"), 2000)

    assert capacity.take(2000) == CapacityChanged({"cpu": 4000})
    assert capacity.take(10 * GRACE) is None
    assert capacity.next_ms is None


def test_a_node_that_was_lost_again_has_its_whole_grace_again() -> None:
    capacity = Capacity(GRACE)
    for at_ms, ready in ((0, "True"), (1000, "False"), (2000, "True"), (3000, "False")):
        capacity.node_changed(node("a", ready=ready), at_ms)
        capacity.take(at_ms)

    assert capacity.take(1000 + GRACE) is None
    assert capacity.take(3000 + GRACE) == CapacityChanged({})


def test_a_loss_in_two_steps_is_forgotten_in_two_steps() -> None:
    capacity = Capacity(GRACE)
    for at_ms, gpus in ((0, "8"), (1000, "5"), (2000, "0")):
        capacity.node_changed(node("a", **{"example.com/gpu": gpus}), at_ms)

    cpu = {"cpu": 4000}
    assert capacity.take(2000) == CapacityChanged(cpu, {**cpu, "example.com/gpu": 8})
    assert capacity.take(1000 + GRACE) == CapacityChanged(cpu, {**cpu, "example.com/gpu": 5})
    assert capacity.take(2000 + GRACE) == CapacityChanged(cpu)


def test_without_grace_a_lost_node_is_gone_at_once() -> None:
    capacity = Capacity(0)
    capacity.node_changed(node("a"), 0)
    capacity.take(0)
    capacity.node_gone("a", 1)

    assert capacity.take(1) == CapacityChanged({})
    assert capacity.next_ms is None


def test_a_node_that_nobody_knew_may_go() -> None:
    capacity = Capacity(GRACE)
    capacity.take(0)
    capacity.node_gone("a", 1)

    assert capacity.take(1) is None


moves = st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abc"), st.integers(0, 3)), max_size=30)


@settings(deadline=None)
@given(moves)
def test_sums_are_those_of_the_nodes_whatever_happens(steps: list[tuple[int, str, int]]) -> None:
    capacity, now, told = Capacity(50), 0, CapacityChanged({})
    history: dict[str, list[tuple[int, int]]] = {"a": [], "b": [], "c": []}
    for wait, name, cpu in steps:
        now += wait
        history[name].append((now, cpu * 1000))
        if cpu:
            capacity.node_changed(node(name, str(cpu)), now)
        else:
            capacity.node_gone(name, now)
        told = capacity.take(now) or told
        amounts = sum(past[-1][1] for past in history.values() if past)
        # A node still counts with the most that it offered at some moment of the last 50 ms.
        shared = 0
        for past in filter(None, history.values()):
            ends = [until for until, _ in past[1:]] + [now + 1]
            shared += max(cpu for (_, cpu), end in zip(past, ends, strict=True) if end > now - 50)
        assert told.amounts.get("cpu", 0) == amounts
        assert (told.amounts if told.shared is None else told.shared).get("cpu", 0) == shared
        assert (capacity.next_ms is not None) or shared == amounts


AWAY: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "it does not answer": ({}, {"status": "Unknown", "lastTransitionTime": "1970-01-01T00:01:40Z"}, True),
    "for longer than the grace": ({}, {"status": "False", "lastTransitionTime": "1969-12-31T23:00:00Z"}, False),
    "since nobody knows when": ({}, {"status": "False"}, False),
    "since something that is no time": ({}, {"status": "False", "lastTransitionTime": "long ago"}, False),
    "it is cordoned": (
        {"unschedulable": True, "taints": [{**UNSCHEDULABLE, "timeAdded": "1970-01-01T00:01:40Z"}]},
        {"status": "True"},
        True,
    ),
    "it is cordoned, and nobody wrote when": ({"unschedulable": True}, {"status": "True"}, False),
    "it was never a place for jobs": (
        {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]},
        {"status": "False", "lastTransitionTime": "1970-01-01T00:01:40Z"},
        False,
    ),
}


@pytest.mark.parametrize("how", AWAY)
def test_a_new_leader_gives_a_node_that_is_away_the_rest_of_its_grace(how: str) -> None:
    spec, ready, counts = AWAY[how]
    body = {
        "metadata": {"name": "away"},
        "spec": spec,
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", **ready}]},
    }
    away = msgspec.convert(body, NodeObject)
    capacity = Capacity(GRACE)
    capacity.node_changed(away, 200_000)
    capacity.node_changed(node("here"), 200_000)

    first = capacity.take(200_000)

    assert first == CapacityChanged({"cpu": 4000}, {"cpu": 8000} if counts else None)
    assert capacity.next_ms == (100_000 + GRACE if counts else None)
    assert capacity.take(100_000 + GRACE) == (CapacityChanged({"cpu": 4000}) if counts else None)


def test_a_node_that_joins_later_counts_when_it_is_ready() -> None:
    capacity = Capacity(GRACE)
    capacity.take(0)
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:00:01Z"}
    status = {"allocatable": {"cpu": "4"}, "conditions": [ready]}

    capacity.node_changed(msgspec.convert({"metadata": {"name": "new"}, "status": status}, NodeObject), 2_000)

    assert capacity.take(2_000) is None
