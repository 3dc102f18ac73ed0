"""An ElasticQuotaTree in, nodes of the tree and problems of the object out."""

from __future__ import annotations

from typing import Any

import pytest

from usher.api.codec import decode
from usher.core.model import Quota
from usher.quotas.elasticquotatree import ElasticQuotaTrees, queue_name
from usher.quotas.objects import ElasticQuotaTree
from usher.quotas.source import QueueHint
from usher.quotas.tree import QuotaTree
from usher.testing.builders import queue, unit
from usher.testing.elastic import quota_tree
from usher.testing.harness import Harness

COMPANY: dict[str, Any] = {
    "name": "root",
    "min": {"cpu": 21},
    "max": {"cpu": 21},
    "children": [
        {
            "name": "child1",
            "max": {"cpu": 15},
            "children": [
                {"name": "c1_1", "max": {"cpu": 10}, "namespaces": ["n11"]},
                {"name": "c1_2", "max": {"cpu": 5}, "namespaces": ["n12"]},
            ],
        },
        {
            "name": "child2",
            "max": {"cpu": 6, "koord-queue/max-jobs": 2},
            "children": [
                {"name": "c2_1", "max": {"cpu": 3, "koord-queue/max-jobs": 2}, "namespaces": ["n21"]},
                {"name": "c2_2", "max": {"cpu": 3, "kube-queue/max-jobs": 1}, "namespaces": ["n22"]},
            ],
        },
    ],
}


class World:
    """One source in a tree."""

    def __init__(self, root: dict[str, Any], **said: Any) -> None:
        self.source = ElasticQuotaTrees("usher-system")
        self.tree = QuotaTree(self.source)
        self.put(root, **said)

    def put(self, root: dict[str, Any], **said: Any) -> None:
        self.source.changed(decode(ElasticQuotaTree, quota_tree(root, **said)))

    def reasons(self) -> dict[str, list[str]]:
        return {key: [each.reason for each in problems] for (_, key), problems in self.tree.problems().items()}


def test_a_tree_becomes_nodes_with_its_root_below_the_root_of_everything() -> None:
    world = World(COMPANY)

    found = world.tree.quotas()
    assert {name: (node.parent, node.max_jobs) for name, node in found.items()} == {
        "tree:company": ("", None),
        "child1": ("tree:company", None),
        "child2": ("tree:company", 2),
        "c1_1": ("child1", None),
        "c1_2": ("child1", None),
        "c2_1": ("child2", 2),
        "c2_2": ("child2", 1),
    }
    assert found["tree:company"].min == found["tree:company"].max == {"cpu": 21_000}
    assert found["c1_1"] == Quota(
        "c1_1", "child1", max={"cpu": 10_000}, namespaces=frozenset({"n11"}), queue="usher-system/c1-1"
    )


def test_leaves_have_queues_with_names_that_objects_may_have() -> None:
    assert World(COMPANY).tree.queue_hints() == dict.fromkeys(("c1_1", "c1_2", "c2_1", "c2_2"), QueueHint())
    assert queue_name("plain-name.1") == "plain-name.1"
    assert queue_name("Root/Team_A") == "root-team-a"
    assert queue_name("_" * 9) == "quota"
    assert len(queue_name("x" * 90)) == 63


def leaf(**said: Any) -> Quota:
    world = World({"name": "root", "children": [{"name": "a", **said}]})
    return world.tree.quotas()["a"]


def test_attributes_say_what_is_lent_and_who_preempts() -> None:
    lends = {"alibabacloud.com/lendlimit": '{"cpu": 2, "memory": "1Gi"}'}
    node = leaf(min={"cpu": 4, "memory": "1Gi"}, attributes=lends)
    assert (node.lends, node.keeps, node.kept) == (True, {"cpu": 2000}, {"cpu": 2000})
    assert leaf(min={"cpu": 4}).kept == {}

    world = World(
        {"name": "root", "children": [{"name": "a", "attributes": {"preempt-policy": "PreemptLowerPriority"}}]}
    )
    assert world.source.queue_hint("a") == QueueHint(preempts=True)


def test_as_many_jobs_as_can_be_counted_are_no_limit() -> None:
    assert leaf(max={"koord-queue/max-jobs": str(2**31 - 1)}).max_jobs is None
    assert leaf(max={"koord-queue/max-jobs": 0}).max_jobs == 0


def test_of_two_trees_that_in_kube_system_counts() -> None:
    world = World({"name": "root", "children": [{"name": "a"}]}, name="one", namespace="aaa")
    assert set(world.tree.quotas()) == {"tree:one", "a"}

    world.put({"name": "root", "children": [{"name": "b"}]}, name="two")
    assert set(world.tree.quotas()) == {"tree:two", "b"}
    assert world.reasons() == {"aaa/one": ["AnotherTree"]}

    world.source.gone("kube-system/two")
    assert set(world.tree.quotas()) == {"tree:one", "a"}
    world.source.clear()
    assert world.tree.quotas() == {}


def test_only_its_spec_matters() -> None:
    world = World(COMPANY)
    world.tree.take()
    body = quota_tree(COMPANY) | {"status": {"root": {"used": {"cpu": "3"}}}}
    world.source.changed(decode(ElasticQuotaTree, body))

    assert world.tree.take() == []


PROBLEMS: dict[str, tuple[list[dict[str, Any]], list[str], set[str]]] = {
    "nothing wrong": ([{"name": "a", "min": {"cpu": 1}}], [], {"a"}),
    "a name that is there twice": ([{"name": "a"}, {"name": "a", "children": [{"name": "b"}]}], ["NameTaken"], {"a"}),
    "no name": ([{"min": {"cpu": 1}}, {"name": "b"}], ["NameMissing"], {"b"}),
    "the name of the whole": ([{"name": "root"}], ["NameReserved"], set()),
    "min above max": ([{"name": "a", "min": {"cpu": 2}, "max": {"cpu": 1}}], ["MinAboveMax"], {"a"}),
    "children promised more than there is": (
        [{"name": "a", "min": {"cpu": 3}}, {"name": "b", "min": {"cpu": 3}}],
        ["MinsAboveMin", "MinsAboveMax"],
        {"a", "b"},
    ),
    "an amount that is none, and all below it": (
        [{"name": "a", "max": {"cpu": "lots"}, "children": [{"name": "b"}]}, {"name": "c"}],
        ["Invalid"],
        {"c"},
    ),
    "namespaces above leaves": (
        [{"name": "a", "namespaces": ["x"], "children": [{"name": "b"}]}],
        ["NamespacesOnParent"],
        {"a", "b"},
    ),
    "a namespace of two leaves": (
        [{"name": "a", "namespaces": ["x"]}, {"name": "b", "namespaces": ["x"]}],
        ["NamespaceTaken"],
        {"a", "b"},
    ),
    "a lend limit that is none": (
        [{"name": "a", "attributes": {"alibabacloud.com/lendlimit": "two"}}],
        ["AttributeUnreadable"],
        {"a"},
    ),
}


@pytest.mark.parametrize(("children", "want", "names"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_is_wrong_is_said_and_the_rest_works(
    children: list[dict[str, Any]], want: list[str], names: set[str]
) -> None:
    world = World({"name": "root", "min": {"cpu": 5}, "max": {"cpu": 5}, "children": children})

    assert world.reasons() == ({"kube-system/company": want} if want else {})
    assert set(world.tree.quotas()) == {"tree:company", *names}


def company(*units: Any) -> Harness:
    play = Harness()
    play.capacity(cpu=30)
    play.apply(*World(COMPANY).tree.quotas().values())
    play.apply(*(queue(f"usher-system/{name}", shared=True) for name in ("c1-1", "c1-2", "c2-1", "c2-2")))
    play.apply(*units)
    return play


def test_every_node_of_the_tree_limits_amounts_and_jobs() -> None:
    play = company(*(unit(f"n{leaf}/one", cpu=2) for leaf in ("11", "12", "21", "22")))
    assert len(play.running) == 4

    play.apply(unit("n12/large", cpu=4), unit("n22/second", cpu=1), unit("n21/second", cpu=1))

    assert play.why("n12/large") == "Max"
    assert "quota c1_2 has 5, 2 in use" in play.text("n12/large")
    assert "Quota c2_2 lets at most 1 unit start at a time, and 1 holds it" in play.text("n22/second")
    assert "Quota child2 lets at most 2 units start at a time, and 2 hold it" in play.text("n21/second")


def test_a_job_that_waits_for_others_to_end_starts_when_one_does() -> None:
    play = company(unit("n21/one", cpu=1), unit("n22/one", cpu=1), unit("n21/two", cpu=1), unit("n22/two", cpu=1))
    assert play.running == ["n21/one", "n22/one"]

    play.finish("n22/one")
    assert len(play.running) == 2
    play.finish("n21/one")
    play.finish(*play.running)
    assert play.waiting == []


def test_what_is_not_lent_stays_free_for_its_owner() -> None:
    limited = {"alibabacloud.com/lendlimit": '{"cpu": 2}'}
    root = {
        "name": "root",
        "min": {"cpu": 10},
        "max": {"cpu": 10},
        "children": [
            {"name": "lender", "min": {"cpu": 4}, "attributes": limited, "namespaces": ["a"]},
            {"name": "borrower", "namespaces": ["b"]},
        ],
    }
    play = Harness()
    play.capacity(cpu=10)
    play.apply(*World(root).tree.quotas().values())
    play.apply(queue("usher-system/lender", shared=True), queue("usher-system/borrower", shared=True))
    play.apply(*(unit(f"b/{i}", cpu=1) for i in range(10)))
    assert len(play.running) == 8, "of its min of 4 it lends 2"
    assert play.why("b/9") == "Guaranteed"

    play.apply(unit("a/own", cpu=2))

    assert "a/own" in play.running
    assert len(play.running) == 9, "and nobody had to go for it"
