"""Promises of the smaller seams: mappings, filters, scores and reservers."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

from hypothesis import given

from usher.core.model import Queue, Quota, Unit
from usher.core.plugins import Filter, Mapping_, Plugins, Reserver, Score
from usher.policies.registry import plugins as built_in
from usher.testing.builders import queue, quota, tenant, unit
from usher.testing.conformance.cases import EXTREMES, HUGE, often, units
from usher.testing.conformance.day import Conformance, unfinished
from usher.testing.harness import Harness

ASKS: tuple[dict[str, int], ...] = ({}, {"cpu": 0}, {"cpu": 1000, "memory": 2**30}, {"cpu": HUGE})


class MappingConformance(Conformance[Mapping_]):
    """Which queue and quota a unit gets that names none."""

    METHODS = ("map",)

    def chosen(self, plugin: Any) -> Plugins:
        return replace(built_in(points=()), mappings=(plugin,))

    def must_end(self, play: Harness) -> None:
        """It may send units to queues that are not there: they wait and say so."""
        for key in unfinished(play):
            assert play.text(key), f"{key} waits and does not say why"

    def test_extreme_units_have_an_answer_too(self) -> None:
        for each in (*EXTREMES, *self.examples):
            self._check(each)

    @often
    @given(one=units)
    def test_it_answers_with_two_names_or_none_and_always_the_same(self, one: Unit) -> None:
        self._check(one)

    def _check(self, one: Unit) -> None:
        before, mapping = deepcopy(one), self.make()
        answer = mapping.map(one)
        assert one == before, "it changed what it was given"
        assert mapping.map(one) == self.make().map(before) == answer, "the second answer is another"
        if answer is not None:
            assert isinstance(answer, tuple), f"names of a queue and a quota, or None; not {answer!r}"
            assert len(answer) == 2, f"names of a queue and a quota, or None; not {answer!r}"
            assert all(isinstance(name, str) for name in answer), f"two texts, either may be empty; not {answer!r}"

    def test_an_engine_puts_units_where_it_says(self) -> None:
        mapping = self.make()
        free = [each for each in (unit("a/plain", cpu=1), *self.examples) if not each.queue and not each.quota]
        answers = {each.key: mapping.map(each) or ("", "") for each in free}
        named = {name or purse for name, purse in answers.values() if name or purse}
        objects: list[Queue | Quota] = [queue(f"usher-system/{name}", shared=True) for name in sorted(named)]
        objects += [quota(purse) for purse in sorted({purse for _, purse in answers.values() if purse})]

        play = Harness(*objects, cpu=100, plugins=self.chosen(mapping))
        play.submit(*free)

        for key, (name, purse) in answers.items():
            if name or purse:
                assert play.unit(key).queue == f"usher-system/{name or purse}"
            if purse:
                assert play.unit(key).quota == purse

    def test_an_engine_does_not_ask_it_about_a_unit_that_names_both(self) -> None:
        play = Harness(*tenant("a"), cpu=10, plugins=self.chosen(self.make()))
        play.submit(unit("a/x", queue="a", quota="a", cpu=1))

        assert (play.unit("a/x").queue, play.unit("a/x").quota) == ("a/a", "a")


class FilterConformance(Conformance[Filter]):
    """A further condition for admission."""

    METHODS = ("refuse",)

    def chosen(self, plugin: Any) -> Plugins:
        return replace(built_in(points=()), filters=(plugin,))

    def must_end(self, play: Harness) -> None:
        """Whoever does not start was refused by it, and is told so, or waits behind one that was."""
        for key in set(unfinished(play)) - {"guest/never"}:
            assert play.why(key) in ("Filter", "") or key in {each.key for each in self.examples}, play.text(key)

    def test_extreme_units_have_an_answer_too(self) -> None:
        for each in (*EXTREMES, *self.examples):
            self._check(each)

    @often
    @given(one=units)
    def test_it_answers_with_a_text_and_asking_changes_nothing(self, one: Unit) -> None:
        self._check(one)

    def _check(self, one: Unit) -> None:
        before, plugin = deepcopy(one), self.make()
        for ask in ASKS:
            answer = plugin.refuse(one, ask)
            assert isinstance(answer, str), f"why it may not start, or an empty text; not {answer!r}"
            assert plugin.refuse(one, ask) == answer, "the second answer is another, though nothing was charged between"
        assert one == before, "it changed what it was given"

    def test_an_engine_starts_whom_it_lets_pass_and_tells_the_others_why(self) -> None:
        among = [unit("a/plain", cpu=1), unit("a/large", cpu=64, memory="1Gi"), *self.examples]
        for each in among:
            plugin = self.make()
            play = Harness(*tenant(each.namespace), cpu=100, memory="100Gi", plugins=self.chosen(plugin))
            play.submit(replace(each, queue="", quota=""))
            if play.why(each.key) == "Filter":
                assert play.running == []
                assert play.text(each.key)
            else:
                assert play.running == [each.key], play.text(each.key)


class ScoreConformance(Conformance[Score]):
    """A say in the order between queues."""

    METHODS = ("score",)

    def chosen(self, plugin: Any) -> Plugins:
        return replace(built_in(points=()), scores=(plugin,))

    def test_extreme_units_have_a_score_too(self) -> None:
        for each in (*EXTREMES, *self.examples):
            self._check(each)

    @often
    @given(one=units)
    def test_a_score_is_a_whole_number_and_always_the_same(self, one: Unit) -> None:
        self._check(one)

    def _check(self, one: Unit) -> None:
        before, plugin = deepcopy(one), self.make()
        answer = plugin.score(one)
        assert isinstance(answer, int), f"a whole number, not {answer!r}"
        assert plugin.score(one) == self.make().score(before) == answer, "the second answer is another"
        assert one == before, "it changed what it was given"

    def test_of_two_heads_the_one_with_the_higher_score_starts_first(self) -> None:
        heads = [unit("a/x", cpu=1), unit("b/x", cpu=1, priority=5), unit("c/x", cpu=1, labels={"team": "red"})]
        heads += [replace(each, queue="", quota="", pod_sets=heads[0].pod_sets, active=True) for each in self.examples]
        for first in heads:
            for second in heads:
                if first.namespace != second.namespace:
                    self._race(first, second)

    def _race(self, *heads: Unit) -> None:
        plugin = self.make()
        tenants = [each for head in heads for each in tenant(head.namespace)]
        play = Harness(*tenants, *tenant("busy"), cpu=1, plugins=self.chosen(plugin))
        play.submit(unit("busy/now", cpu=1))
        for head in heads:
            play.submit(head)
        play.finish("busy/now")

        best = max(heads, key=plugin.score)
        assert play.running == [best.key], f"scores are {[plugin.score(head) for head in heads]}"


class ReserverConformance(Conformance[Reserver]):
    """Books next to the ledger."""

    METHODS = ("reserve", "unreserve", "resize")

    def chosen(self, plugin: Any) -> Plugins:
        return replace(built_in(points=()), reservers=(plugin,))

    def test_extreme_units_go_through_its_books(self) -> None:
        plugin = self.make()
        for each in (*EXTREMES, *self.examples):
            for _ in range(2):  # admitted again after an eviction
                self._check(plugin, each)

    @often
    @given(one=units)
    def test_any_unit_goes_through_its_books(self, one: Unit) -> None:
        self._check(self.make(), one)

    def _check(self, plugin: Reserver, one: Unit) -> None:
        before = deepcopy(one)
        answers: list[Any] = []
        for old in ASKS:
            answers.append(plugin.reserve(one, dict(old)))  # type: ignore[func-returns-value]
            for new in ASKS:
                answers.append(plugin.resize(one, dict(old), dict(new)))  # type: ignore[func-returns-value]
                answers.append(plugin.resize(one, dict(new), dict(old)))  # type: ignore[func-returns-value]
            answers.append(plugin.unreserve(one, dict(old)))  # type: ignore[func-returns-value]
        assert set(answers) == {None}, "it is told, not asked: there is nothing to answer"
        assert one == before, "it changed what it was given"
