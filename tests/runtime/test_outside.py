"""Pods that are none of Usher's: what they use is taken off nodes, ResourceQuotas and, if told so, a quota."""

from __future__ import annotations

from typing import Any

import msgspec

from usher.api.codec import decode
from usher.api.queue import Queue
from usher.api.queuequota import QueueQuota
from usher.core.events import CapacityChanged, Event, QuotaChanged
from usher.quotas.objects import ResourceQuota
from usher.runtime.capacity import Capacity
from usher.runtime.facts import PodFacts
from usher.runtime.objects import NodeObject, PodObject
from usher.runtime.outside import INTERVAL_MS, Outside, OutsidePod, read_outside
from usher.runtime.surroundings import Charging, Surroundings

GRACE = 300_000


def pod(name: str, cpu: int = 1000, node: str = "n", namespace: str = "a", alive: bool = True) -> OutsidePod:
    return OutsidePod(f"{namespace}/{name}", name, node, alive, {"cpu": cpu})


def of_a_job(name: str, owner: str, unit: str = "", cpu: int = 1000) -> PodFacts:
    return PodFacts(
        key=f"a/{name}",
        uid=name,
        owner=owner,
        pod_set="main",
        node="n",
        alive=True,
        ready=True,
        gated=False,
        deleting=False,
        request={"cpu": cpu},
        unit=unit,
    )


def nobody(uid: str) -> bool:
    return False


def machine(name: str = "n", cpu: str = "4", ready: str = "True", **more: str) -> NodeObject:
    status = {"allocatable": {"cpu": cpu, **more}, "conditions": [{"type": "Ready", "status": ready}]}
    return msgspec.json.decode(msgspec.json.encode({"metadata": {"name": name}, "status": status}), type=NodeObject)


def test_a_pod_is_read_with_what_the_scheduler_would_count() -> None:
    body: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "a", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "500m"}}}, {}]},
        "status": {"phase": "Running"},
    }
    found = read_outside(msgspec.json.decode(msgspec.json.encode(body), type=PodObject))
    assert found == OutsidePod("a/p", "u", "n", True, {"cpu": 500})

    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    body["status"]["phase"] = "Failed"
    found = read_outside(msgspec.json.decode(msgspec.json.encode(body), type=PodObject))
    assert found == OutsidePod("a/p", "u", "n", False, {})


def test_sums_follow_the_pods_and_are_asked_for_seldom() -> None:
    outside = Outside()
    outside.see(pod("one"), False)
    outside.see(pod("two", 500, node="", namespace="b"), False)
    used = outside.take(0, nobody)
    assert used is not None
    assert used.by_node == {"n": {"cpu": 1000}}, "one that is on no node uses none"
    assert used.by_namespace == {"a": {"cpu": 1000}, "b": {"cpu": 500}}
    assert used.total() == {"cpu": 1000}

    outside.see(pod("one", alive=False), False)
    assert outside.take(INTERVAL_MS - 1, nobody) is None
    used = outside.take(INTERVAL_MS, nobody)
    assert used is not None
    assert used.by_node == {}
    outside.see(pod("two", namespace="b"), True)
    used = outside.take(2 * INTERVAL_MS, nobody)
    assert used is not None
    assert used.by_namespace == {}


def test_pods_of_jobs_that_take_part_are_not_outside() -> None:
    outside = Outside()
    outside.see(of_a_job("let-in", "x", unit="job-x"), False)
    outside.see(of_a_job("adopted", "y"), False)
    outside.see(of_a_job("unknown", "z", cpu=300), False)

    used = outside.take(0, lambda owner: owner == "y")
    assert used is not None
    assert used.by_node == {"n": {"cpu": 300}}


def test_nodes_offer_less_and_never_less_than_nothing() -> None:
    capacity = Capacity(GRACE)
    capacity.outside_changed({"n": {"cpu": 1000}, "elsewhere": {"cpu": 9}}, 0)
    capacity.node_changed(machine(), 0)
    capacity.node_changed(machine("m", "2"), 0)
    assert capacity.take(0) == CapacityChanged({"cpu": 5000})

    capacity.outside_changed({"n": {"cpu": 1000}, "m": {"cpu": 5000, "memory": 3}}, 1)
    assert capacity.take(1) == CapacityChanged({"cpu": 3000}), "at once, and for shares too: nothing was lost"
    capacity.outside_changed({}, 2)
    assert capacity.take(2) == CapacityChanged({"cpu": 6000})


def test_what_pods_use_on_a_node_that_is_not_ready_takes_nothing_from_others() -> None:
    capacity = Capacity(GRACE)
    capacity.node_changed(machine(), 0)
    capacity.node_changed(machine("m"), 0)
    capacity.outside_changed({"m": {"cpu": 3000}}, 0)
    assert capacity.take(0) == CapacityChanged({"cpu": 5000})

    capacity.node_changed(machine("m", ready="False"), 1)
    assert capacity.take(1) == CapacityChanged({"cpu": 4000}, {"cpu": 5000})
    assert capacity.take(1 + GRACE) == CapacityChanged({"cpu": 4000})


def test_what_nodes_offer_is_oversold_and_what_pods_outside_use_is_not() -> None:
    capacity = Capacity(GRACE, oversell=(3, 2))
    for name in ("n", "m", "o"):
        capacity.node_changed(machine(name, "2", gpu="1"), 0)
    assert capacity.take(0) == CapacityChanged({"cpu": 9000, "gpu": 4}), "not one device on each node"

    capacity.outside_changed({"n": {"cpu": 500, "gpu": 1}, "m": {"cpu": 5000}}, 1)
    assert capacity.take(1) == CapacityChanged({"cpu": 5500, "gpu": 3}), "nine less half a core and what m offers"
    capacity.node_changed(machine("n", "2", ready="False", gpu="1"), 2)
    assert capacity.take(2) == CapacityChanged({"cpu": 3000, "gpu": 3}, {"cpu": 5500, "gpu": 3})
    capacity.outside_changed({}, 3)
    assert capacity.take(3) == CapacityChanged({"cpu": 6000, "gpu": 3}, {"cpu": 9000, "gpu": 4})


def around(**charging: Any) -> Surroundings:
    found = Surroundings("usher-system", Capacity(GRACE), charging=Charging(**charging))
    found.see_node(machine(), 0)
    found.outside.see(pod("one"), False)
    return found


def capacity_of(events: list[Event]) -> dict[str, int]:
    return dict(next(event.amounts for event in events if isinstance(event, CapacityChanged)))


def quotas_of(events: list[Event]) -> dict[str, Any]:
    return {event.quota.name: event.quota for event in events if isinstance(event, QuotaChanged)}


def test_a_setting_says_whether_they_count() -> None:
    assert capacity_of(around().take(0)) == {"cpu": 3000}
    assert capacity_of(around(counts=False).take(0)) == {"cpu": 4000}


def test_a_setting_says_which_quota_is_charged() -> None:
    found = around(quota="team")
    for name, spec in (("org", {"max": {"cpu": 3}}), ("team", {"parent": "org", "min": {"cpu": 2}})):
        found.see_quota(decode(QueueQuota, {"metadata": {"name": name}, "spec": spec}))

    told = quotas_of(found.take(0))

    assert (told["org"].max, told["team"].min, told["team"].max) == ({"cpu": 2000}, {"cpu": 1000}, {})
    found.outside.see(pod("one"), True)
    assert quotas_of(found.take(INTERVAL_MS))["org"].max == {"cpu": 3000}


def test_a_resource_quota_always_counts_them_for_the_api_server_does() -> None:
    found = around(counts=False)
    found.see_queue(decode(Queue, {"metadata": {"name": "main", "namespace": "a"}, "spec": {}}))
    body = {"metadata": {"name": "rq", "namespace": "a"}, "spec": {"hard": {"cpu": "3"}}}
    found.see_foreign("ResourceQuota", decode(ResourceQuota, body))

    assert quotas_of(found.take(0))["resourcequota:a"].max == {"cpu": 2000}
