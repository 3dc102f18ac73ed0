"""The registry: which plug-ins there are, how they are chosen, and what is said when one cannot be had."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from usher.core.amounts import Amounts
from usher.core.model import Unit
from usher.core.plugins import Blocks
from usher.policies.queue import PriorityBlocking
from usher.policies.registry import GROUP, PluginError, installed, plugins, queue_policies
from usher.policies.share import Drf


class Backwards:
    """A queue policy: the newest first."""

    name = "Backwards"
    blocks = Blocks.NOBODY

    def key(self, unit: Unit) -> tuple[int, ...]:
        return (-unit.created_ms,)


class Oldest:
    """A victim policy."""

    name = "oldest"

    def key(self, candidate: Any) -> tuple[int, ...]:
        return (candidate.admitted_ms,)


class Gate:
    """A filter that is a score, too."""

    name = "gate"

    def refuse(self, unit: Unit, ask: Amounts) -> str:
        return ""

    def score(self, unit: Unit) -> int:
        return 0


class Half(Drf):
    name = "half"


class HalfAShare:
    """It splits, but does not say whether anybody may claim."""

    name = "half-a-share"

    def split(self, amount: Amounts, sharers: Any) -> list[dict[str, int]]:
        return []

    def unmoved(self, before: Any, after: Any, deserved: Any) -> bool:
        return False


class Fifo(Backwards):
    name = "FIFO"


class Block(Backwards):
    name = "Block"


class DrfFilter(Gate):
    name = "drf"


class Nameless(Backwards):
    name = ""


class Broken(Backwards):
    def __init__(self) -> None:
        raise OSError("no licence")


@pytest.fixture(autouse=True)
def module() -> Iterator[None]:
    """The plug-ins of this file as a module that entry points can name."""
    made = ModuleType("made_for_tests")
    made.__dict__.update({name: each for name, each in globals().items() if isinstance(each, type)})
    sys.modules["made_for_tests"] = made
    yield
    del sys.modules["made_for_tests"]


def point(name: str, value: str = "") -> EntryPoint:
    return EntryPoint(name, value or f"made_for_tests:{name}", GROUP)


def test_the_built_ins_are_chosen_by_name() -> None:
    for share in ("drf", "koordinator", "proportion", "none"):
        assert plugins(share, points=()).share.name == share
    chosen = plugins(points=())

    assert set(chosen.queue_policies) == {"FIFO", "Priority", "PriorityBlocking", "Block"}
    assert all(policy.name == name for name, policy in chosen.queue_policies.items() if name != "Block")
    assert (chosen.share.name, chosen.victims.name) == ("drf", "lowest-priority-latest-start")
    assert not [*chosen.mappings, *chosen.filters, *chosen.scores, *chosen.reservers]


def test_block_is_another_name_of_priority_blocking() -> None:
    chosen = plugins(points=())

    assert chosen.queue_policies["Block"] is chosen.queue_policies["PriorityBlocking"]
    assert isinstance(chosen.queue_policies["Block"], PriorityBlocking)


UNKNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "a share policy": (
        {"share": "fairest"},
        "there is no share policy fairest; there is: drf, half, koordinator, none, proportion",
    ),
    "a victim policy": (
        {"victims": "youngest"},
        "there is no victim policy youngest; there is: lowest-priority-latest-start, oldest",
    ),
    "a filter": ({"filters": ["door"]}, "there is no filter door; there is: gate"),
    "a score": ({"scores": ["door"]}, "there is no score door; there is: gate"),
    "a mapping where there is none": ({"mappings": ["door"]}, "there is no mapping door; there is: none"),
    "a reserver that is something else": ({"reservers": ["gate"]}, "there is no reserver gate; there is: none"),
}


@pytest.mark.parametrize("sentence", UNKNOWN)
def test_an_unknown_name_gives_the_list_of_known_ones(sentence: str) -> None:
    given, want = UNKNOWN[sentence]

    with pytest.raises(PluginError) as caught:
        plugins(**given, points=[point("Half"), point("Oldest"), point("Gate"), point("Backwards")])

    assert str(caught.value) == want


def test_the_kinds_of_a_plug_in_are_read_off_its_members() -> None:
    found = installed([point("Backwards"), point("Oldest"), point("Gate"), point("Half")])

    assert {kind: sorted(names) for kind, names in found.items()} == {
        "queue": ["Backwards"],
        "share": ["half"],
        "victim": ["oldest"],
        "mapping": [],
        "filter": ["gate"],
        "score": ["gate"],
        "reserver": [],
    }
    assert found["filter"]["gate"] is found["score"]["gate"]


def test_a_plug_in_takes_part_only_where_it_is_named() -> None:
    points = [point("Backwards"), point("Oldest"), point("Gate"), point("Half")]
    default = plugins(points=points)
    chosen = plugins("half", "oldest", filters=["gate"], points=points)

    assert (default.share.name, default.victims.name, default.filters) == ("drf", "lowest-priority-latest-start", ())
    assert (chosen.share.name, chosen.victims.name) == ("half", "oldest")
    assert [each.name for each in chosen.filters] == ["gate"]
    assert chosen.scores == ()
    assert chosen.share_fallback.name == "drf"
    assert isinstance(default.queue_policies["Backwards"], Backwards)  # a queue names it, or not


WRONG: dict[str, tuple[list[EntryPoint], str]] = {
    "its module is not there": (
        [point("gone", "no_such_module:Policy")],
        "plug-in gone (no_such_module:Policy) cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "its module lacks it": (
        [point("gone", "made_for_tests:Gone")],
        "plug-in gone (made_for_tests:Gone) cannot be loaded: AttributeError: "
        "module 'made_for_tests' has no attribute 'Gone'",
    ),
    "it cannot be made": (
        [point("Broken")],
        "plug-in Broken (made_for_tests:Broken) cannot be loaded: OSError: no licence",
    ),
    "it has no name": (
        [point("Nameless")],
        "plug-in Nameless (made_for_tests:Nameless) has no name: give it an attribute `name`, a text that is not empty",
    ),
    "it is named as a built-in": (
        [point("Fifo")],
        "plug-in Fifo (made_for_tests:Fifo) is named FIFO, and that is built in: give it another name",
    ),
    "it is named as an alias": (
        [point("Block")],
        "plug-in Block (made_for_tests:Block) is named Block, and that is built in: give it another name",
    ),
    "it is named as a built-in of another kind": (
        [point("DrfFilter")],
        "plug-in DrfFilter (made_for_tests:DrfFilter) is named drf, and that is built in: give it another name",
    ),
    "two have one name": (
        [point("Gate"), point("second", "made_for_tests:Gate")],
        "plug-in second (made_for_tests:Gate) is named gate, and that is plug-in Gate (made_for_tests:Gate): "
        "give it another name",
    ),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_plug_in_that_cannot_be_had_is_named_with_the_reason(sentence: str) -> None:
    points, want = WRONG[sentence]

    with pytest.raises(PluginError) as caught:
        plugins(points=points)

    assert str(caught.value) == want


def test_a_plug_in_of_no_kind_is_told_what_kinds_there_are() -> None:
    with pytest.raises(PluginError) as caught:
        plugins(points=[point("HalfAShare")])

    assert str(caught.value).startswith("plug-in HalfAShare (made_for_tests:HalfAShare) is of no kind: ")
    assert "a share plug-in has split, unmoved, entitles, claims_by_share" in str(caught.value)


def test_what_a_queue_may_name_is_what_the_engine_knows() -> None:
    points = [point("Backwards"), point("Gate")]

    assert list(queue_policies(points)) == list(plugins(points=points).queue_policies)
    assert set(queue_policies(points)) == {"FIFO", "Priority", "PriorityBlocking", "Block", "Backwards"}
