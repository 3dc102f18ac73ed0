"""QueueQuotas and namespaces in, nodes of the tree and problems of objects out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from usher.api.codec import decode
from usher.api.queuequota import QueueQuota
from usher.core.engine import Engine
from usher.core.events import QuotaChanged, QuotaGone, Synced
from usher.core.model import Quota, Settings
from usher.policies.registry import plugins
from usher.quotas.placing import cycle, misplaced
from usher.quotas.queuequota import QueueQuotas
from usher.quotas.source import Problem, Verdict, verdict
from usher.quotas.tree import QuotaTree

TEAM = {"matchLabels": {"team": "red"}}


def quota(name: str, status: Mapping[str, Any] | None = None, **spec: Any) -> QueueQuota:
    body: dict[str, Any] = {"metadata": {"name": name}, "spec": spec}
    return decode(QueueQuota, body if status is None else body | {"status": status})


class World:
    """One source in a tree."""

    def __init__(self, *objects: QueueQuota) -> None:
        self.source = QueueQuotas()
        self.tree = QuotaTree(self.source)
        for each in objects:
            self.source.changed(each)

    def reasons(self) -> dict[str, list[str]]:
        return {key: [each.reason for each in problems] for (_, key), problems in self.tree.problems().items()}

    def messages(self, name: str) -> list[str]:
        return [each.message for each in self.tree.problems()["QueueQuota", name]]


def test_a_quota_becomes_a_node_with_everything_it_says() -> None:
    world = World(
        quota(
            "red",
            parent="org",
            min={"cpu": "500m"},
            max={"cpu": 2, "example.com/gpu": "1"},
            weight=3,
            lendable=False,
            namespaces=["a", "b"],
        )
    )

    most = {"cpu": 2000, "example.com/gpu": 1}
    node = Quota("red", "org", {"cpu": 500}, most, 3, False, frozenset({"a", "b"}), closed=True)
    assert world.tree.take() == [QuotaChanged(node)]


def test_an_empty_quota_limits_nothing_and_hangs_on_the_root() -> None:
    assert World(quota("red")).tree.take() == [QuotaChanged(Quota("red"))]


def test_root_as_the_parent_is_the_same_as_none() -> None:
    assert World(quota("red", parent="root")).tree.take() == World(quota("red")).tree.take()


def test_only_what_differs_is_told() -> None:
    world = World(quota("a"), quota("b"), quota("c"))
    assert len(world.tree.take()) == 3
    assert world.tree.take() == []

    world.source.changed(quota("a", weight=2))
    world.source.changed(quota("b", {"waiting": 3}))
    world.source.gone("c")
    world.source.gone("nobody")

    assert world.tree.take() == [QuotaGone("c"), QuotaChanged(Quota("a", weight=2))]
    assert world.tree.take() == []


def test_what_changed_and_changed_back_is_not_told() -> None:
    world = World(quota("a"))
    world.tree.take()
    world.source.changed(quota("a", weight=2))
    world.source.changed(quota("a"))

    assert world.tree.take() == []


def test_namespaces_come_and_go_with_their_labels() -> None:
    world = World(quota("red", namespaceSelector=TEAM, namespaces=["fixed"]), quota("blue", namespaces=["x"]))
    world.tree.take()

    world.tree.namespace_changed("x", {"team": "red"})
    world.tree.namespace_changed("fixed", {"team": "blue"})
    assert world.tree.take() == [QuotaChanged(Quota("red", namespaces=frozenset({"fixed", "x"}), closed=True))]

    world.tree.namespace_changed("x", {"team": "red", "more": "labels"})
    assert world.tree.take() == []

    world.tree.namespace_changed("x", {"team": "green"})
    assert world.tree.take() == [QuotaChanged(Quota("red", namespaces=frozenset({"fixed"}), closed=True))]

    world.tree.namespace_changed("fixed", {"team": "red"})
    world.tree.namespace_gone("fixed")
    assert world.tree.take() == [], "it is listed by name"


def test_a_quota_that_comes_after_its_namespaces_has_them() -> None:
    world = World()
    world.tree.namespace_changed("x", {"team": "red"})
    world.tree.namespace_changed("y", {})
    world.source.changed(quota("red", namespaceSelector=TEAM))
    assert world.tree.quotas()["red"].namespaces == {"x"}

    world.tree.namespace_gone("x")
    assert world.tree.quotas()["red"].namespaces == set()


SELECTORS: dict[str, tuple[Mapping[str, Any] | None, set[str]]] = {
    "none selects none": (None, set()),
    "an empty one selects all": ({}, {"red", "blue", "bare"}),
    "by label": ({"matchLabels": {"team": "red"}}, {"red"}),
    "In": ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["red", "blue"]}]}, {"red", "blue"}),
    "NotIn": ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}, {"blue", "bare"}),
    "Exists": ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, {"red", "blue"}),
    "DoesNotExist": ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, {"bare"}),
}


@pytest.mark.parametrize(("selector", "want"), SELECTORS.values(), ids=SELECTORS)
@pytest.mark.parametrize("quota_first", [True, False])
def test_a_selector_chooses_as_in_kubernetes(
    selector: Mapping[str, Any] | None, want: set[str], quota_first: bool
) -> None:
    world = World()
    chooser = quota("q") if selector is None else quota("q", namespaceSelector=selector)
    if quota_first:
        world.source.changed(chooser)
    for name, labels in (("red", {"team": "red"}), ("blue", {"team": "blue"}), ("bare", {})):
        world.tree.namespace_changed(name, labels)
    if not quota_first:
        world.source.changed(chooser)

    assert world.tree.quotas()["q"].namespaces == want


PROBLEMS: dict[str, tuple[list[QueueQuota], dict[str, list[str]]]] = {
    "nothing wrong": ([quota("a"), quota("b", parent="a")], {}),
    "a parent that is missing": (
        [quota("a"), quota("b", parent="x"), quota("c", parent="b")],
        {"b": ["ParentMissing"], "c": ["ParentInactive"]},
    ),
    "its own parent": ([quota("a", parent="a"), quota("b")], {"a": ["Cycle"]}),
    "a circle and one below it": (
        [quota("a", parent="b"), quota("b", parent="c"), quota("c", parent="a"), quota("d", parent="a"), quota("e")],
        {"a": ["Cycle"], "b": ["Cycle"], "c": ["Cycle"], "d": ["ParentInactive"]},
    ),
    "min above max": ([quota("a", min={"cpu": 2}, max={"cpu": 1})], {"a": ["MinAboveMax"]}),
    "children promised more than there may be": (
        [quota("a", max={"cpu": 3}), quota("b", parent="a", min={"cpu": 2}), quota("c", parent="a", min={"cpu": 2})],
        {"a": ["MinsAboveMax"]},
    ),
    "children promised all there may be": (
        [quota("a", max={"cpu": 4}), quota("b", parent="a", min={"cpu": 2}), quota("c", parent="a", min={"cpu": 2})],
        {},
    ),
    "a namespace of two": (
        [quota("a", namespaces=["x"]), quota("b", namespaces=["x", "y"])],
        {"b": ["NamespaceTaken"]},
    ),
    "an amount that is none": ([quota("a", max={"cpu": "many"}), quota("b")], {"a": ["Invalid"]}),
    "a negative amount": ([quota("a", min={"cpu": "-1"})], {"a": ["Invalid"]}),
    "an operator that is none": (
        [quota("a", namespaceSelector={"matchExpressions": [{"key": "k", "operator": "Like"}]})],
        {"a": ["Invalid"]},
    ),
    "the name of the whole": ([quota("root", max={"cpu": 1})], {"root": ["NameReserved"]}),
}


@pytest.mark.parametrize(("objects", "want"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_is_wrong_is_said_of_the_object_that_is_wrong(
    objects: list[QueueQuota], want: dict[str, list[str]]
) -> None:
    assert World(*objects).reasons() == want


def test_a_quota_whose_amounts_cannot_be_read_does_not_become_one_without_limits() -> None:
    world = World(quota("a", max={"cpu": "many"}), quota("b"))

    assert world.tree.take() == [QuotaChanged(Quota("b"))]
    world.source.changed(quota("a", max={"cpu": "1"}))
    assert world.tree.take() == [QuotaChanged(Quota("a", max={"cpu": 1000}))]
    world.source.changed(quota("a", max={"cpu": "1", "memory": "x"}))
    assert world.tree.take() == [QuotaGone("a")]


def test_min_above_max_is_cut_and_takes_part() -> None:
    world = World(quota("a", min={"cpu": 2, "memory": "1Gi"}, max={"cpu": 1}))

    assert world.tree.take() == [QuotaChanged(Quota("a", min={"cpu": 1000, "memory": 2**30}, max={"cpu": 1000}))]
    assert world.messages("a") == ["spec.min.cpu: 2 is above spec.max, 1; max counts"]


def test_messages_name_what_is_missing() -> None:
    world = World(
        quota("a", parent="b"),
        quota("b", parent="a"),
        quota("c", parent="x"),
        quota("d", namespaces=["n", "m"]),
        quota("e", namespaces=["m", "n"]),
        quota("f", max={"cpu": "lots"}, weight=-1),
    )

    assert world.messages("a") == world.messages("b") == ["it is its own ancestor: a → b → a"]
    assert world.messages("c") == ["its parent x does not exist"]
    assert world.messages("e") == ["namespace m (and 1 more) belongs to quota d already"]
    (message,) = world.messages("f")
    assert message.startswith('spec.max.cpu: "lots" is not a quantity')
    assert message.endswith("; spec.weight: -1 is negative")


def test_a_missing_parent_that_comes_repairs_everything_below() -> None:
    world = World(quota("c", parent="b"), quota("b", parent="a"))
    assert world.reasons() == {"b": ["ParentMissing"], "c": ["ParentInactive"]}

    world.source.changed(quota("a"))
    assert world.reasons() == {}


def test_a_verdict_says_everything_and_the_worst_first() -> None:
    mild, bad = Problem("MinAboveMax", "too much", takes_part=True), Problem("Cycle", "in a circle")

    assert verdict([]) == Verdict(True, "Accepted", "")
    assert verdict([mild]) == Verdict(True, "MinAboveMax", "too much")
    assert verdict([mild, bad]) == Verdict(False, "Cycle", "in a circle; too much")


def test_of_two_sources_with_the_same_name_the_first_has_it() -> None:
    first, second = QueueQuotas(), QueueQuotas()
    tree = QuotaTree(first, second)
    second.changed(quota("a", weight=2))
    assert tree.take() == [QuotaChanged(Quota("a", weight=2))]

    first.changed(quota("a", weight=1))
    assert tree.take() == [QuotaChanged(Quota("a"))]
    assert [each.reason for each in tree.problems()["QueueQuota", "a"]] == ["NameTaken"]

    first.gone("a")
    assert tree.take() == [QuotaChanged(Quota("a", weight=2))]
    assert not tree.problems()


parents = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "root", *"abcdefx"]), max_size=6)


@settings(deadline=None)
@given(parents)
def test_the_same_quotas_have_no_place_as_in_the_engine_and_for_the_same_reason(given_parents: dict[str, str]) -> None:
    quotas = {name: Quota(name, parent) for name, parent in given_parents.items()}
    engine = Engine(Settings(), plugins())
    engine.handle([Synced(), *(QuotaChanged(each) for each in quotas.values())], 0)

    want = {view.name: view.problem for view in engine.quotas() if view.problem}
    assert {name: problem.message for name, problem in misplaced(quotas).items()} == want


@settings(deadline=None)
@given(parents)
def test_a_cycle_is_found_where_there_is_one(given_parents: dict[str, str]) -> None:
    reasons = {problem.reason for problem in misplaced({n: Quota(n, p) for n, p in given_parents.items()}).values()}
    names = cycle(given_parents)

    assert bool(names) == ("Cycle" in reasons)
    assert all(given_parents[child] == parent for child, parent in pairwise(names))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "a", "b"]), st.integers(0, 3)), max_size=20))
def test_what_was_told_adds_up_to_what_there_is(steps: list[tuple[str, str, int]]) -> None:
    world, heard = World(), dict[str, Quota]()
    for name, parent, weight in steps:
        if weight:
            world.source.changed(quota(name, parent=parent, weight=weight))
        else:
            world.source.gone(name)
        for event in world.tree.take():
            match event:
                case QuotaChanged(changed):
                    assert heard.get(changed.name) != changed
                    heard[changed.name] = changed
                case QuotaGone(gone):
                    del heard[gone]
        assert heard == world.tree.quotas()
