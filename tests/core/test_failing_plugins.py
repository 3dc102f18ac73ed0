"""Plug-ins that raise or answer with nonsense: they are named and disabled, and the engine goes on without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from usher.core.amounts import Amounts
from usher.core.model import Unit
from usher.core.plugins import Blocks, Candidate, Plugins
from usher.policies.registry import plugins
from usher.policies.share import Drf
from usher.testing.builders import queue, quota, tenant, unit
from usher.testing.harness import Harness

BASE = plugins(points=())


class Order:
    """A queue policy."""

    name = "odd"
    blocks: Any = Blocks.NOBODY

    def __init__(self, key: Callable[[Unit], Any], blocks: Any = Blocks.NOBODY) -> None:
        self.key = key
        self.blocks = blocks


class Point:
    """A plug-in of any other kind: one function that answers."""

    name = "odd"
    entitles: Any = True
    claims_by_share: Any = False

    def __init__(self, answer: Callable[..., Any], **more: Any) -> None:
        self.key = self.map = self.refuse = self.score = self.split = answer
        self.__dict__.update(more)

    def unmoved(self, *args: Any) -> bool:
        return False


def ordered(policy: Any) -> Plugins:
    return replace(BASE, queue_policies={**BASE.queue_policies, "odd": policy})


def too_long(unit: Unit) -> tuple[int, ...]:
    return (0,) if unit.name == "x" else (0, 0)


def splitting(answer: Callable[..., Any], **more: Any) -> Plugins:
    return replace(BASE, share=Point(answer, **more))


WRONG: dict[str, tuple[Plugins, str]] = {
    "a key that is no tuple": (ordered(Order(lambda u: 5)), "its key of a/x is 5, not a tuple"),
    "a key of texts": (ordered(Order(lambda u: (u.name,))), "its key of a/x is ('x',), and 'x' is no whole number"),
    "a key of a fraction": (ordered(Order(lambda u: (0.5,))), "its key of a/x is (0.5,), and 0.5 is no whole number"),
    "keys of two lengths": (
        ordered(Order(too_long)),
        "its key of a/y is (0, 0), of length 2, and those before of 1",
    ),
    "a text for blocks": (ordered(Order(lambda u: (0,), "Queue")), "its blocks is 'Queue', not of Blocks"),
    "a victim key that is no tuple": (
        replace(BASE, victims=Point(lambda c: c.admitted_ms)),
        "its key of b/0 is 0, not a tuple",
    ),
    "a split for too few": (splitting(lambda a, s: [{}]), "its split among 2 is [{}], not a list with one for each"),
    "no split": (splitting(lambda a, s: None), "its split among 2 is None, not a list with one for each"),
    "a split of nothing": (splitting(lambda a, s: [None, None]), "its split gives a None, not amounts by resource"),
    "a split into fractions": (
        splitting(lambda a, s: [{"cpu": 0.5} for _ in s]),
        "its split gives a 0.5 cpu, no whole amount",
    ),
    "a split below zero": (splitting(lambda a, s: [{"cpu": -1}, {}]), "its split gives a -1 cpu, no whole amount"),
    "a split of more than there is": (
        splitting(lambda a, s: [{"cpu": 2000}, {"cpu": 2001}]),
        "its split gives 4001 cpu of 4000",
    ),
    "a split of what is not there": (splitting(lambda a, s: [{"gpu": 1}, {}]), "its split gives 1 gpu of 0"),
    "a split above max": (
        splitting(lambda a, s: [{}, {"cpu": 4000}]),
        "its split gives b 4000 cpu, above its max 3000",
    ),
    "a text for entitles": (splitting(lambda a, s: [{}, {}], entitles="no"), "its entitles is 'no', not of bool"),
    "an undecided unmoved": (
        splitting(lambda a, s: [{}, {}], unmoved=lambda *args: None),
        "its unmoved of b is None, not True or False",
    ),
    "one name": (
        replace(BASE, mappings=(Point(lambda u: ("a",)),)),
        "its answer for a/x is ('a',), not a queue and a quota, or None",
    ),
    "a text for two names": (
        replace(BASE, mappings=(Point(lambda u: "ab"),)),
        "its answer for a/x is 'ab', not a queue and a quota, or None",
    ),
    "a number for two names": (
        replace(BASE, mappings=(Point(lambda u: 7),)),
        "its answer for a/x is 7, not a queue and a quota, or None",
    ),
    "a refusal that is no text": (
        replace(BASE, filters=(Point(lambda u, ask: 7),)),
        "its answer for a/x is 7, not a text",
    ),
    "no score": (replace(BASE, scores=(Point(lambda u: None),)), "its score of a/x is None, not a whole number"),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_wrong_answer_is_named_and_the_built_in_one_takes_its_place(sentence: str) -> None:
    given, want = WRONG[sentence]
    objects = (*tenant("a", "odd"), *tenant("b", max={"cpu": 3}))

    play, other = Harness(*objects, cpu=4, plugins=given), Harness(*objects, cpu=4, plugins=BASE)
    for each in (play, other):
        each.submit(unit("a/x", cpu=1), unit("b/0", cpu=1))
        each.submit(unit("b/1", cpu=2))
        each.submit(unit("a/y", cpu=1))

    assert play.engine.problems() == [f"plug-in odd is disabled: {want}"]
    assert (play.running, play.evictions) == (other.running, other.evictions) == (["a/x", "a/y", "b/0"], ["b/1"])
    assert play.engine.quotas() == other.engine.quotas()


def test_a_long_answer_is_cut_in_the_message() -> None:
    play = Harness(*tenant("a"), cpu=4, plugins=replace(BASE, filters=(Point(lambda u, ask: [0] * 1000),)))
    play.submit(unit("a/x", cpu=1))

    assert len(play.engine.problems()[0]) < 150


def test_a_split_that_its_policy_keeps_and_changes_does_not_change_deserved() -> None:
    kept: list[dict[str, int]] = []

    def split(amount: Amounts, sharers: Any) -> list[dict[str, int]]:
        kept[:] = Drf().split(amount, sharers)
        return kept

    play = Harness(*tenant("a"), *tenant("b"), cpu=4, plugins=splitting(split))
    play.submit(unit("a/x", cpu=1))
    before = play.engine.quotas()
    for each in kept:
        each["cpu"] = 10**9

    assert play.engine.quotas() == before
    assert play.engine.problems() == []


def test_when_a_queue_policy_raises_everybody_in_its_queues_goes_by_age() -> None:
    def key(each: Unit) -> tuple[int, ...]:
        if each.labels:
            raise RuntimeError("what a label")
        return (-each.seq, 0)

    play = Harness(*tenant("a", "odd"), *tenant("b", "odd"), cpu=1, plugins=ordered(Order(key)))
    play.submit(unit("a/now", cpu=1))
    for number in range(4):
        play.submit(unit(f"a/{number}", cpu=1, labels={"no": "good"} if number == 3 else {}))
        play.submit(unit(f"b/{number}", cpu=1))

    assert play.engine.problems() == ["plug-in odd is disabled: it raised RuntimeError: what a label"]
    assert [play.engine.position(f"a/{number}") for number in range(4)] == [1, 2, 3, 4]
    assert [play.engine.position(f"b/{number}") for number in range(4)] == [1, 2, 3, 4]
    while play.running:
        play.finish(play.running[0])
    assert [key for key in play.admissions if key.startswith("a/")] == ["a/now", "a/0", "a/1", "a/2", "a/3"]
    assert [key for key in play.admissions if key.startswith("b/")] == ["b/0", "b/1", "b/2", "b/3"]


def test_orders_stay_comparable_when_a_queue_policy_raises_for_a_unit_that_comes_back() -> None:
    """The unit is placed anew in the middle of the events, with those of the policy's own order around it."""
    broken: set[str] = set()

    def key(each: Unit) -> tuple[int, ...]:
        if each.name in broken:
            raise RuntimeError("gone")
        return (2,)

    play = Harness(*tenant("a", "odd"), *tenant("b"), cpu=2, plugins=ordered(Order(key)))
    play.submit(unit("a/0", cpu=1), replace(unit("a/1", cpu=1), created_ms=2, seq=7))
    play.submit(replace(unit("a/2", cpu=1), created_ms=7, seq=9))
    broken.add("1")
    play.submit(unit("b/0", cpu=1))

    assert play.evictions == ["a/1"]
    assert [play.engine.position(key) for key in ("a/1", "a/2")] == [1, 2]
    assert play.engine.problems() == ["plug-in odd is disabled: it raised RuntimeError: gone"]


def test_when_a_victim_policy_raises_the_youngest_goes_first_whoever_was_looked_at_before() -> None:
    broken: set[str] = set()

    def key(candidate: Candidate) -> tuple[int, ...]:
        if candidate.unit.name in broken:
            raise RuntimeError("gone")
        return (candidate.unit.seq, 0)

    play = Harness(*tenant("a"), *tenant("b"), cpu=4, plugins=replace(BASE, victims=Point(key)))
    play.submit(*(unit(f"b/{number}", cpu=1) for number in range(4)))
    play.submit(unit("a/0", cpu=1))
    assert play.evictions == ["b/0"]
    broken.add("1")
    play.finish("a/0")
    play.apply(unit("b/1", cpu=1, labels={"asked": "again"}))
    play.submit(unit("a/1", cpu=1))

    assert play.engine.problems() == ["plug-in odd is disabled: it raised RuntimeError: gone"]
    assert play.evictions == ["b/0", "b/3"]


def test_when_a_share_policy_raises_below_the_root_the_whole_tree_goes_by_the_fallback() -> None:
    def split(amount: Amounts, sharers: Any) -> list[dict[str, int]]:
        if sharers[0].name == "x":
            raise RuntimeError("too deep")
        return [dict(amount), *({} for _ in sharers[1:])]

    objects = (quota("p"), *tenant("x", parent="p"), *tenant("y", parent="p"), *tenant("z"))
    play, other = Harness(*objects, cpu=6, plugins=splitting(split)), Harness(*objects, cpu=6, plugins=BASE)
    for each in (play, other):
        each.submit(*(unit(f"{name}/{number}", cpu=1) for name in "xyz" for number in range(6)))

    assert play.engine.problems() == ["plug-in odd is disabled: it raised RuntimeError: too deep"]
    assert play.engine.quotas() == other.engine.quotas()


def test_when_a_filter_raises_those_it_refused_start() -> None:
    def refuse(each: Unit, ask: Amounts) -> str:
        return "not now" if each.name == "held" else str(1 // len(each.labels))[:0]

    play = Harness(*tenant("a"), cpu=4, plugins=replace(BASE, filters=(Point(refuse),)))
    play.submit(unit("a/held", cpu=1))
    assert play.running == []
    play.submit(unit("a/odd", cpu=1))

    assert play.running == ["a/held", "a/odd"]
    assert "ZeroDivisionError" in play.engine.problems()[0]


def test_when_a_mapping_raises_those_it_placed_go_where_the_built_in_rules_say() -> None:
    def mapped(each: Unit) -> tuple[str, str]:
        if each.name == "odd":
            raise RuntimeError("where to?")
        return ("other", "")

    play = Harness(
        *tenant("a"), queue("usher-system/other", shared=True), cpu=1, plugins=replace(BASE, mappings=(Point(mapped),))
    )
    play.submit(unit("a/now", cpu=1))
    play.submit(unit("a/waits", cpu=1))
    assert play.unit("a/waits").queue == "usher-system/other"
    play.submit(unit("a/odd", cpu=1))

    assert play.unit("a/waits").queue == play.unit("a/odd").queue == "a/a"
