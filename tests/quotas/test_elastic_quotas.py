"""ElasticQuotas in, nodes of the tree and problems of objects out; and Koordinator's own numbers through them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from usher.api.codec import decode
from usher.core.engine import Engine
from usher.core.events import CapacityChanged, QueueChanged, QuotaChanged, Synced, UnitChanged
from usher.core.model import PodSet, Queue, Quota, Settings, Unit
from usher.policies.registry import plugins
from usher.quotas.elasticquota import ElasticQuotas
from usher.quotas.objects import ElasticQuota
from usher.quotas.source import QueueHint
from usher.quotas.tree import QuotaTree
from usher.testing.elastic import CHIP, OTHER, RUNTIMES, Runtime, elastic_quota
from usher.testing.runtimes import (
    UNIT,
    by_largest_remainder,
    random_demand,
    random_tree,
    requests_of,
    rounded_each,
    runtimes,
)

ROOT = Quota("koordinator-root-quota")
PARENT = {"is-parent": "true"}
TREE = {"tree-id": "gpu"}


def made(name: str, **said: Any) -> ElasticQuota:
    return decode(ElasticQuota, elastic_quota(name, **said))


class World:
    """One source in a tree."""

    def __init__(self, *objects: ElasticQuota) -> None:
        self.source = ElasticQuotas()
        self.tree = QuotaTree(self.source)
        for each in objects:
            self.source.changed(each)

    def node(self, name: str) -> Quota:
        return self.tree.quotas()[name]

    def reasons(self) -> dict[str, list[str]]:
        return {key: [each.reason for each in problems] for (_, key), problems in self.tree.problems().items()}


def test_a_plain_quota_hangs_on_the_root_of_koordinator_and_weighs_what_its_max_is() -> None:
    world = World(made("a", min={"cpu": 2}, max={"cpu": 4, "memory": "8Gi"}))

    node = Quota("a", ROOT.name, {"cpu": 2000}, {"cpu": 4000, "memory": 8 << 30}, 4000)
    assert world.tree.quotas() == {
        "a": Quota(node.name, node.parent, node.min, node.max, 4000, True, frozenset(), dict(node.max)),
        ROOT.name: ROOT,
    }


NODES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "parent": ({"labels": {"parent": "org"}}, {"parent": "org"}),
    "does not lend": ({"labels": {"allow-lent-resource": "false"}}, {"lends": False}),
    "lends, in so many words": ({"labels": {"allow-lent-resource": "true"}}, {"lends": True}),
    "shared weight": (
        {"annotations": {"shared-weight": {"cpu": "3", "memory": "1Gi"}}, "max": {"cpu": 9}},
        {"weights": {"cpu": 3000, "memory": 2**30}, "weight": 3000},
    ),
    "what a shared weight leaves out weighs nothing": (
        {"annotations": {"shared-weight": {"memory": 2}}, "max": {"cpu": 9, "memory": 9}},
        {"weights": {"cpu": 0, "memory": 2}, "weight": 2},
    ),
    "a shared weight of nothing is none": (
        {"annotations": {"shared-weight": {"cpu": 0}}, "max": {"cpu": 9}},
        {"weights": {"cpu": 9000}, "weight": 9000},
    ),
    "namespaces": ({"annotations": {"namespaces": ["x", "y"]}}, {"namespaces": {"x", "y"}}),
    "guaranteed above min": (
        {"annotations": {"guaranteed": {"cpu": 3}}, "min": {"cpu": 2, "memory": 1}},
        {"min": {"cpu": 3000, "memory": 1}},
    ),
    "min above max is cut": ({"min": {"cpu": 3}, "max": {"cpu": 2}}, {"min": {"cpu": 2000}}),
    "its own namespace": ({"namespace": "q"}, {"namespaces": {"q"}}),
    "zero is a limit": ({"max": {"cpu": 0}}, {"max": {"cpu": 0}}),
}


@pytest.mark.parametrize(("said", "want"), NODES.values(), ids=NODES)
def test_what_labels_and_annotations_say_is_in_the_node(said: dict[str, Any], want: dict[str, Any]) -> None:
    node = World(made("q", **said)).node("q")

    assert {name: getattr(node, name) for name in want} == want


def test_a_tree_of_its_own_begins_at_its_root_and_keeps_its_total_for_itself() -> None:
    total = {"total-resource": {"cpu": "10", "memory": "4Gi"}}
    world = World(
        made("pool", labels={**TREE, "is-root": "true"}, min={"cpu": 1}, max={"cpu": 20}, annotations=total),
        made("a", labels=TREE),
        made("b", labels={**TREE, "parent": "a"}),
        made("c"),
    )

    pool = world.node("pool")
    assert (pool.parent, pool.lends, pool.weight) == ("", False, 1)
    assert pool.min == pool.max == {"cpu": 10_000, "memory": 4 << 30}
    assert [world.node(name).parent for name in "abc"] == ["pool", "a", ROOT.name]


def test_a_tree_that_is_counted_twice_lends() -> None:
    labels = {**TREE, "is-root": "true", "ignore-default-tree": "true"}
    node = World(made("pool", labels=labels, annotations={"total-resource": {"cpu": 9}}, min={"cpu": 1})).node("pool")

    assert (node.lends, node.min, node.max) == (True, {"cpu": 1000}, {"cpu": 9000})


def test_the_quotas_that_the_scheduler_makes_for_itself_are_no_tenants() -> None:
    most = {"cpu": str(2**63 - 1)}
    world = World(
        made("koordinator-root-quota", max=most),
        made("koordinator-system-quota", max=most),
        made("koordinator-default-quota", max={"cpu": 5}),
        made("a"),
    )

    assert world.node(ROOT.name) == ROOT
    assert world.node("koordinator-default-quota").max == {"cpu": 5000}
    assert {name: node.parent for name, node in world.tree.quotas().items()} == {
        "a": ROOT.name,
        "koordinator-root-quota": "",
        "koordinator-system-quota": "",
        "koordinator-default-quota": "",
    }
    hints = {name: world.source.queue_hint(name) for name in world.tree.quotas()}
    assert hints == {**dict.fromkeys(hints), "a": QueueHint()}


def test_a_namespace_belongs_to_the_quota_of_its_name_before_one_that_lists_it() -> None:
    world = World(made("a", annotations={"namespaces": ["x", "y"]}), made("x", namespace="x"))

    assert world.node("a").namespaces == {"y"}
    assert world.node("x").namespaces == {"x"}
    world.source.gone("x/x")
    assert world.node("a").namespaces == {"x", "y"}


def test_what_its_scheduler_writes_into_it_changes_nothing() -> None:
    world = World(made("a", max={"cpu": 1}))
    world.tree.take()
    revision = world.source.revision

    world.source.changed(made("a", max={"cpu": 1}, annotations={"runtime": {"cpu": 1}, "request": {"cpu": 7}}))

    assert world.source.revision == revision
    assert world.tree.take() == []


def test_the_policy_of_its_queue_is_a_label_or_an_annotation() -> None:
    body = elastic_quota("a")
    body["metadata"]["annotations"]["kube-queue/queue-policy"] = "Block"
    world = World(decode(ElasticQuota, body))
    assert world.source.queue_hint("a") == QueueHint("Block")

    body["metadata"]["labels"]["koord-queue/queue-policy"] = "Priority"
    world.source.changed(decode(ElasticQuota, body))
    assert world.source.queue_hint("a") == QueueHint("Priority")


def test_all_go_with_their_kind() -> None:
    world = World(made("a"), made("b", labels={"parent": "a"}))
    assert len(world.tree.take()) == 3

    world.source.clear()

    assert world.tree.quotas() == {}
    assert [type(event).__name__ for event in world.tree.take()] == ["QuotaGone"] * 3


PROBLEMS: dict[str, tuple[list[ElasticQuota], Mapping[str, list[str]]]] = {
    "nothing wrong": ([made("a", labels=PARENT, min={"cpu": 1}), made("b", labels={"parent": "a"})], {}),
    "a parent that is missing": (
        [made("b", labels={"parent": "x"}), made("c", labels={"parent": "b"})],
        {"default/b": ["ParentMissing"], "default/c": ["ParentNotMarked", "ParentInactive"]},
    ),
    "a circle": (
        [made("a", labels={**PARENT, "parent": "b"}), made("b", labels={**PARENT, "parent": "a"})],
        {"default/a": ["Cycle"], "default/b": ["Cycle"]},
    ),
    "a parent that is not marked as one": (
        [made("a"), made("b", labels={"parent": "a"})],
        {"default/b": ["ParentNotMarked"]},
    ),
    "min above max": ([made("a", min={"cpu": 2}, max={"cpu": 1})], {"default/a": ["MinAboveMax"]}),
    "children promised more than their parent": (
        [made("a", labels=PARENT, min={"cpu": 1}), made("b", labels={"parent": "a"}, min={"cpu": 2})],
        {"default/a": ["MinsAboveMin"]},
    ),
    "by force": (
        [
            made("a", labels={**PARENT, "allow-force-update": "true"}, min={"cpu": 1}),
            made("b", labels={"parent": "a"}, min={"cpu": 2}),
        ],
        {},
    ),
    "an amount that is none": ([made("a", max={"cpu": "many"}), made("b")], {"default/a": ["Invalid"]}),
    "an annotation that is no JSON": (
        [made("a", annotations={"shared-weight": "three"}), made("b", annotations={"namespaces": "x"})],
        {"default/a": ["AnnotationUnreadable"], "default/b": ["AnnotationUnreadable"]},
    ),
    "the name of the whole": ([made("root")], {"default/root": ["NameReserved"]}),
    "one name in two namespaces": ([made("a"), made("a", namespace="other")], {"other/a": ["NameTaken"]}),
    "a child in another tree": (
        [
            made("r", labels={**TREE, "is-root": "true"}, annotations={"total-resource": {"cpu": 1}}),
            made("a", labels={"parent": "r"}),
        ],
        {"default/a": ["TreeDiffers"]},
    ),
    "a tree without a root": ([made("a", labels=TREE)], {"default/a": ["TreeWithoutRoot"]}),
    "a root without a total": ([made("r", labels={**TREE, "is-root": "true"})], {"default/r": ["TotalMissing"]}),
    "a namespace of two": (
        [made("a", annotations={"namespaces": ["x"]}), made("b", annotations={"namespaces": ["x"]})],
        {"default/b": ["NamespaceTaken"]},
    ),
}


@pytest.mark.parametrize(("objects", "want"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_is_wrong_is_said_of_the_object_that_is_wrong(
    objects: list[ElasticQuota], want: Mapping[str, list[str]]
) -> None:
    assert World(*objects).reasons() == want


def test_a_quota_whose_amounts_cannot_be_read_does_not_become_one_without_limits() -> None:
    assert "a" not in World(made("a", max={"cpu": "many"})).tree.quotas()


def deserved(
    total: Mapping[str, int], quotas: Sequence[dict[str, Any]], asked: Sequence[tuple[str, str, Mapping[str, int]]]
) -> dict[str, dict[str, int]]:
    """By quota: what it deserves under `koordinator`, as far as that is more than nothing."""
    world = World(*(decode(ElasticQuota, each) for each in quotas))
    engine = Engine(Settings(), plugins("koordinator"))
    events: list[Any] = [Synced(), CapacityChanged(dict(total)), *world.tree.take()]
    assert any(isinstance(event, QuotaChanged) for event in events)
    queues = dict.fromkeys(quota for _, quota, _ in asked)
    events.extend(QueueChanged(Queue("usher-system", name, quota=name, shared=True)) for name in queues)
    events.extend(
        UnitChanged(Unit("x", name, (PodSet("main", 1, request),), quota=quota)) for name, quota, request in asked
    )
    engine.handle(events, 0)
    found = {view.name: {r: n for r, n in view.deserved.items() if n} for view in engine.quotas()}
    return {each["metadata"]["name"]: found[each["metadata"]["name"]] for each in quotas}


@pytest.mark.parametrize("case", RUNTIMES.values(), ids=RUNTIMES)
def test_deserved_is_what_koordinator_calls_runtime(case: Runtime) -> None:
    want = {name: dict(amounts) for name, amounts in case.want.items()}

    found = deserved(case.total, case.quotas, case.units())

    assert found == {name: want.get(name, {}) for name in found}


def test_on_random_trees_deserved_is_the_runtime_and_two_ways_to_round_differ_by_two_units_at_most() -> None:
    total = {CHIP: 100 * UNIT, OTHER: 80 * UNIT}
    apart: Counter[int] = Counter()
    for seed in range(100):
        random = Random(seed)
        quotas, leaves = random_tree(random)
        asked = random_demand(random, leaves)

        want = runtimes(total, quotas, requests_of(asked), by_largest_remainder)
        released = runtimes(total, quotas, requests_of(asked), rounded_each)

        assert deserved(total, quotas, asked) == {
            name: {r: n for r, n in amounts.items() if n} for name, amounts in want.items()
        }
        apart.update(abs(want[name][r] - released[name][r]) for name in want for r in total)
    assert set(apart) == {0, 1, 2}
    assert apart[2] * 500 < apart.total(), apart
