"""Every built-in keeps what its kind promises, and the suites notice plug-ins that do not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import Phase, settings

from usher.core.amounts import Amounts
from usher.core.model import Unit
from usher.core.plugins import Blocks, QueuePolicy, VictimPolicy
from usher.core.share import SharePolicy, Sharer
from usher.policies.queue import Fifo, Priority, PriorityBlocking
from usher.policies.registry import QUEUE_POLICIES, SHARE_POLICIES, VICTIM_POLICIES
from usher.policies.share import Drf, Koordinator, NoShare, Proportion
from usher.policies.victim import LowestPriorityLatestStart
from usher.testing.builders import unit
from usher.testing.conformance import (
    FilterConformance,
    MappingConformance,
    QueuePolicyConformance,
    ReserverConformance,
    ScoreConformance,
    SharePolicyConformance,
    VictimPolicyConformance,
)
from usher.testing.conformance.cases import often


class TestFifo(QueuePolicyConformance):
    def make(self) -> QueuePolicy:
        return Fifo()


class TestPriority(QueuePolicyConformance):
    def make(self) -> QueuePolicy:
        return Priority()


class TestPriorityBlocking(QueuePolicyConformance):
    def make(self) -> QueuePolicy:
        return PriorityBlocking()


class TestLowestPriorityLatestStart(VictimPolicyConformance):
    def make(self) -> VictimPolicy:
        return LowestPriorityLatestStart()


class TestDrf(SharePolicyConformance):
    def make(self) -> SharePolicy:
        return Drf()


class TestProportion(SharePolicyConformance):
    def make(self) -> SharePolicy:
        return Proportion()


class TestNoShare(SharePolicyConformance):
    def make(self) -> SharePolicy:
        return NoShare()


class TestKoordinator(SharePolicyConformance):
    scales_every_min = True

    def make(self) -> SharePolicy:
        return Koordinator()


def test_no_built_in_is_left_out() -> None:
    suites: list[Any] = [TestFifo, TestPriority, TestPriorityBlocking, TestLowestPriorityLatestStart]
    suites += [TestDrf, TestProportion, TestNoShare, TestKoordinator]
    built_in: list[Any] = [*QUEUE_POLICIES, *SHARE_POLICIES, *VICTIM_POLICIES]

    assert {policy.name for policy in built_in} == {suite().make().name for suite in suites}


# There is no built-in of the other kinds, so small ones of our own stand for them.


class Labelled:
    """A mapping, a filter and a score by label, and books."""

    name = "labelled"

    def __init__(self) -> None:
        self.books: dict[str, Amounts] = {}

    def map(self, unit: Unit) -> tuple[str, str] | None:
        return (f"{unit.labels['team']}-jobs", unit.labels["team"]) if unit.labels.get("team") else None

    def refuse(self, unit: Unit, ask: Amounts) -> str:
        return "the gate is shut for it" if unit.labels.get("gate") == "shut" else ""

    def score(self, unit: Unit) -> int:
        return len(unit.labels.get("stars", ""))

    def reserve(self, unit: Unit, amounts: Amounts) -> None:
        self.books[unit.key] = amounts

    def unreserve(self, unit: Unit, amounts: Amounts) -> None:
        self.books.pop(unit.key, None)

    def resize(self, unit: Unit, old: Amounts, new: Amounts) -> None:
        self.books[unit.key] = new


class TestAMapping(MappingConformance):
    examples = (unit("m/red", cpu=1, labels={"team": "red"}), unit("m/none", cpu=1, labels={"team": ""}))

    def make(self) -> Labelled:
        return Labelled()


class TestAFilter(FilterConformance):
    examples = (unit("f/shut", cpu=1, labels={"gate": "shut"}), unit("f/open", cpu=1))

    def make(self) -> Labelled:
        return Labelled()


class TestAScore(ScoreConformance):
    examples = (unit("s/best", cpu=1, labels={"stars": "***"}), unit("t/good", cpu=1, labels={"stars": "*"}))

    def make(self) -> Labelled:
        return Labelled()


class TestAReserver(ReserverConformance):
    def make(self) -> Labelled:
        return Labelled()


# The suites can fail: each of these plug-ins breaks one promise, and the method named beside it must notice.


class Bad:
    """A plug-in that is what a test says."""

    def __init__(self, **members: Any) -> None:
        self.__dict__.update({"name": "bad"} | members)


def order(key: Callable[[Unit], Any], **members: Any) -> Callable[[], Bad]:
    return lambda: Bad(**{"key": key, "blocks": Blocks.NOBODY} | members)


def share(split: Callable[[Amounts, list[Sharer]], Any], unmoved: Any = False, **members: Any) -> Callable[[], Bad]:
    flags = {"entitles": True, "claims_by_share": False}
    return lambda: Bad(**flags, split=split, unmoved=lambda *_: unmoved, **members)


def counting() -> Bad:
    asked = count()
    return Bad(blocks=Blocks.NOBODY, key=lambda unit: (next(asked),))


def relabel(unit: Unit) -> tuple[int, ...]:
    unit.labels["seen"] = "yes"  # type: ignore[index]
    return ()


def first_takes_all(amount: Amounts, among: list[Sharer]) -> list[dict[str, int]]:
    left, shares = dict(amount), []
    for sharer in among:
        share: dict[str, int] = {}
        for vector in sharer.demand.values():
            for resource, wanted in vector.items():
                part = min(wanted, left.get(resource, 0))
                left[resource] = left.get(resource, 0) - part
                share[resource] = share.get(resource, 0) + part
        shares.append(share)
    return shares


BROKEN: dict[str, tuple[Any, Callable[[], Any], str]] = {
    "a policy without a name": (
        QueuePolicyConformance,
        order(lambda unit: (), name=""),
        "test_it_has_a_name_that_can_be_chosen",
    ),
    "a policy that blocks by a word of its own": (
        QueuePolicyConformance,
        order(lambda unit: (), blocks="everybody"),
        "test_it_says_whom_its_head_holds_up",
    ),
    "a key that is a number": (
        QueuePolicyConformance,
        order(lambda unit: unit.priority),
        "test_extreme_units_have_keys_too",
    ),
    "a key that is a fraction": (
        QueuePolicyConformance,
        order(lambda unit: (unit.priority / 2,)),
        "test_every_unit_has_a_key_of_whole_numbers_and_of_one_length",
    ),
    "keys of several lengths": (
        QueuePolicyConformance,
        order(lambda unit: (0,) * len(unit.pod_sets)),
        "test_extreme_units_have_keys_too",
    ),
    "a key that needs a pod set": (
        QueuePolicyConformance,
        order(lambda unit: (unit.pod_sets[0].count,)),
        "test_extreme_units_have_keys_too",
    ),
    "a policy that raises on the way": (
        QueuePolicyConformance,
        order(lambda unit: (100 // sum(pods.count for pods in unit.pod_sets),)),
        "test_a_real_engine_works_with_it_and_never_sees_it_raise",
    ),
    "a policy that counts how often it is asked": (
        QueuePolicyConformance,
        counting,
        "test_a_key_depends_on_the_unit_only",
    ),
    "a policy that writes labels": (QueuePolicyConformance, order(relabel), "test_it_leaves_the_unit_as_it_was"),
    "victims by a text": (
        VictimPolicyConformance,
        lambda: Bad(key=lambda candidate: (candidate.unit.name,)),
        "test_every_candidate_has_a_key_of_whole_numbers_and_of_one_length",
    ),
    "victims that must use cpu": (
        VictimPolicyConformance,
        lambda: Bad(key=lambda candidate: (candidate.charged["cpu"],)),
        "test_extreme_units_have_keys_too",
    ),
    "everybody deserves everything": (
        SharePolicyConformance,
        share(lambda amount, among: [dict(amount) for _ in among]),
        "test_any_split_keeps_every_promise",
    ),
    "nobody gets its guarantee": (
        SharePolicyConformance,
        share(lambda amount, among: [{} for _ in among]),
        "test_extreme_splits_keep_every_promise",
    ),
    "one answer too few": (
        SharePolicyConformance,
        share(lambda amount, among: [{} for _ in among[1:]]),
        "test_any_split_keeps_every_promise",
    ),
    "the first takes all": (
        SharePolicyConformance,
        share(first_takes_all),
        "test_the_order_of_the_children_does_not_matter",
    ),
    "it says that nobody moves when somebody does": (
        SharePolicyConformance,
        share(Drf().split, unmoved=True),
        "test_unmoved_means_that_nobody_moves",
    ),
    "it scales the min of the idle, and does not say so": (
        SharePolicyConformance,
        Koordinator,
        "test_extreme_splits_keep_every_promise",
    ),
    "nobody is entitled, and somebody deserves": (
        SharePolicyConformance,
        lambda: Bad(entitles=False, claims_by_share=False, split=Drf().split, unmoved=Drf().unmoved),
        "test_extreme_splits_keep_every_promise",
    ),
    "a mapping with one name": (
        MappingConformance,
        lambda: Bad(map=lambda unit: ("main",)),
        "test_extreme_units_have_an_answer_too",
    ),
    "a filter that says no": (
        FilterConformance,
        lambda: Bad(refuse=lambda unit, ask: False),
        "test_it_answers_with_a_text_and_asking_changes_nothing",
    ),
    "a score of a half": (
        ScoreConformance,
        lambda: Bad(score=lambda unit: 0.5),
        "test_a_score_is_a_whole_number_and_always_the_same",
    ),
    "books that answer": (
        ReserverConformance,
        lambda: Bad(reserve=lambda *_: True, unreserve=lambda *_: None, resize=lambda *_: None),
        "test_extreme_units_go_through_its_books",
    ),
    "books from which nothing can be given back": (
        ReserverConformance,
        lambda: Bad(reserve=lambda *_: None, unreserve=lambda unit, _: {}[unit.key], resize=lambda *_: None),
        "test_a_real_engine_works_with_it_and_never_sees_it_raise",
    ),
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_a_broken_promise_is_noticed(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    suite, plugin, method = BROKEN[sentence]
    if hasattr(getattr(suite, method), "hypothesis"):  # the first example that fails will do
        quick = settings(often, phases=[Phase.explicit, Phase.generate], database=None, derandomize=True)
        monkeypatch.setattr(getattr(suite, method), "_hypothesis_internal_use_settings", quick)
    tested = type("Tested", (suite,), {"make": lambda self: plugin()})()

    with pytest.raises((AssertionError, ArithmeticError, LookupError, ExceptionGroup)):
        getattr(tested, method)()


def test_the_suites_are_not_needed_to_import_the_package() -> None:
    """Hypothesis and pytest are the author's choice."""
    code = (
        "import sys; sys.modules['hypothesis'] = sys.modules['pytest'] = None\n"
        "import usher.testing, usher.testing.harness, usher.testing.builders"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
