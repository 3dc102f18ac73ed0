"""ResourceQuotas in, one node for each namespace out."""

from __future__ import annotations

from typing import Any

import pytest

from usher.api.codec import decode
from usher.api.queuequota import QueueQuota
from usher.core.model import Quota
from usher.quotas.objects import ResourceQuota
from usher.quotas.queuequota import QueueQuotas
from usher.quotas.resourcequota import MADE_FOR, ResourceQuotas, key_of, resource_of
from usher.quotas.tree import QuotaTree
from usher.testing.builders import queue, quota, unit
from usher.testing.harness import Harness

MANAGED = {"managed": "true"}


def made(hard: dict[str, Any], name: str = "rq", namespace: str = "a", **spec: Any) -> ResourceQuota:
    return decode(ResourceQuota, {"metadata": {"name": name, "namespace": namespace}, "spec": {"hard": hard, **spec}})


class World:
    """One source in a tree, and a namespace with a Queue."""

    def __init__(self, *objects: ResourceQuota) -> None:
        self.source = ResourceQuotas(label="managed")
        self.tree = QuotaTree(self.source)
        self.source.queue_changed("a", "main", 2)
        for each in objects:
            self.source.changed(each)

    def node(self) -> Quota:
        return self.tree.quotas()["resourcequota:a"]

    def reasons(self) -> dict[str, list[str]]:
        return {key: [each.reason for each in problems] for (_, key), problems in self.tree.problems().items()}


def test_a_namespace_with_a_queue_is_a_quota() -> None:
    assert World(made({"requests.cpu": "4", "requests.example.com/gpu": 2})).node() == Quota(
        "resourcequota:a",
        max={"cpu": 4000, "example.com/gpu": 2},
        weight=2,
        namespaces=frozenset({"a"}),
        requires=frozenset({"cpu"}),
        queue="a/main",
        closed=True,
    )


KEYS = {
    "cpu": "cpu",
    "requests.cpu": "cpu",
    "memory": "memory",
    "requests.memory": "memory",
    "requests.ephemeral-storage": "ephemeral-storage",
    "requests.nvidia.com/gpu": "nvidia.com/gpu",
    "hugepages-2Mi": "hugepages-2Mi",
    "requests.hugepages-2Mi": "hugepages-2Mi",
    "limits.cpu": "",
    "pods": "",
    "requests.storage": "",
    "count/jobs.batch": "",
    "services": "",
}


@pytest.mark.parametrize(("key", "want"), KEYS.items())
def test_a_key_limits_requests_or_something_else(key: str, want: str) -> None:
    assert resource_of(key) == want
    if want:
        assert resource_of(key_of(want)) == want


def test_of_several_the_smallest_counts_for_each_key() -> None:
    world = World(
        made({"requests.cpu": 4, "cpu": 3, "memory": 10}, "one"),
        made({"requests.cpu": 2, "requests.example.com/gpu": 1}, "two"),
    )
    assert world.node().max == {"cpu": 2000, "memory": 10, "example.com/gpu": 1}
    assert world.node().requires == {"cpu", "memory"}

    world.source.gone("a/two")
    assert world.node().max == {"cpu": 3000, "memory": 10}
    world.source.gone("a/one")
    assert world.tree.quotas() == {}


def test_what_others_use_is_taken_off() -> None:
    world = World(made({"cpu": 4}))
    world.source.outside_changed({"a": {"cpu": 1500, "memory": 7}, "b": {"cpu": 1}})
    assert world.node().max == {"cpu": 2500}

    world.source.outside_changed({"a": {"cpu": 9000}})
    assert world.node().max == {"cpu": 0}
    world.source.outside_changed({})
    assert world.node().max == {"cpu": 4000}


def test_it_counts_for_queues_without_a_quota_and_in_managed_namespaces() -> None:
    world = World(made({"cpu": 4}))
    world.source.queue_changed("a", "main", None)
    assert world.tree.quotas() == {}

    world.source.namespace_changed("a", MANAGED)
    assert (world.node().queue, world.node().weight) == ("", 1)
    world.source.queue_changed("a", "rq", 3)
    world.source.queue_changed("a", "another", 1)
    assert (world.node().queue, world.node().weight) == ("a/rq", 4), "the one of its name"
    world.source.namespace_gone("a")
    assert "resourcequota:a" in world.tree.quotas(), "it still has queues"


def test_another_source_that_names_the_namespace_goes_before_it() -> None:
    first, second = QueueQuotas(), ResourceQuotas()
    tree = QuotaTree(first, second)
    second.changed(made({"cpu": 4}))
    second.queue_changed("a", "main", 1)
    assert set(tree.quotas()) == {"resourcequota:a"}

    first.changed(decode(QueueQuota, {"metadata": {"name": "team"}, "spec": {"namespaces": ["a"]}}))

    assert set(tree.quotas()) == {"team"}
    assert set(QuotaTree(second, taken=frozenset({"a"})).quotas()) == set()


def test_those_with_scopes_are_left_out_and_others_say_what_is_not_counted() -> None:
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    world = World(
        made({"cpu": 1}, "scoped", scopes=["BestEffort"]),
        made({"cpu": 1}, "selecting", scopeSelector=selector),
        made({"cpu": 4, "limits.cpu": 8, "pods": 10, "services": 3}, "plain"),
        made({"cpu": "lots"}, "unreadable"),
    )

    assert world.node().max == {"cpu": 4000}
    assert world.reasons() == {
        "a/scoped": ["ScopesNotCounted"],
        "a/selecting": ["ScopesNotCounted"],
        "a/plain": ["KeysNotCounted"],
        "a/unreadable": ["Invalid"],
    }
    (text,) = [each.message for each in world.tree.problems()["ResourceQuota", "a/plain"]]
    assert text.startswith("spec.hard.pods, spec.hard[limits.cpu]: only requests are counted")


def test_one_that_we_made_says_nothing_new() -> None:
    body = {"metadata": {"name": "main", "namespace": "a", "labels": {MADE_FOR: "main"}}, "spec": {"hard": {"cpu": 1}}}
    world = World(decode(ResourceQuota, body))

    assert world.tree.quotas() == {}
    assert world.source.quotas_in("a") == []
    world.source.changed(made({"cpu": 2}))
    assert world.node().max == {"cpu": 2000}


def test_a_unit_without_a_request_that_is_required_is_held_with_that_reason() -> None:
    world = World(made({"cpu": 4, "memory": "8Gi"}))
    play = Harness()
    play.capacity(cpu=9, memory="9Gi")
    play.apply(*world.tree.quotas().values(), queue("a/main"), queue("b/main"))
    play.apply(
        unit("a/half", queue="main", cpu=1), unit("a/both", cpu=1, memory="1Gi"), unit("b/free", queue="main", cpu=1)
    )

    assert play.running == ["a/both", "b/free"]
    assert play.why("a/half") == "RequestMissing"
    assert "no request for memory" in play.text("a/half")

    world.source.changed(made({"cpu": 4}))
    play.apply(*world.tree.quotas().values())
    assert "a/half" in play.running


def test_a_shared_queue_charges_the_namespace() -> None:
    play = Harness()
    play.capacity(cpu=9)
    play.apply(*World(made({"cpu": 2})).tree.quotas().values(), queue("usher-system/all", shared=True), quota("x"))
    play.apply(unit("a/one", queue="all", cpu=2), unit("a/two", queue="all", cpu=1), unit("z/one", queue="all", cpu=5))

    assert play.running == ["a/one", "z/one"]
    assert "quota resourcequota:a has 2" in play.text("a/two")
