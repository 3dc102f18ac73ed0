"""Promises of queue and victim policies: keys that order units, whatever the units are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import given
from hypothesis import strategies as st

from usher.core.model import Unit
from usher.core.plugins import Blocks, Candidate, Plugins, QueuePolicy, VictimPolicy
from usher.policies.registry import plugins as built_in
from usher.testing.builders import queue, quota, tenant, unit
from usher.testing.conformance.cases import EXTREMES, candidates, often, units
from usher.testing.conformance.day import Conformance, a_day
from usher.testing.harness import Harness

T = TypeVar("T")

MIX = tuple(
    unit(f"a/{name}", cpu=cpu, memory=f"{memory}Gi", count=count, priority=priority, labels={"size": name})
    for name, cpu, memory, count, priority in (
        ("plain", 3, 4, 1, 0),
        ("urgent", 4, 1, 1, 10),
        ("idle", 3, 1, 1, -10),
        ("pair", 2, 3, 2, 0),
        ("small", 3, 0, 1, 0),
        ("gang", 1, 2, 4, 3),
        ("again", 3, 4, 1, 0),
    )
)
"""Units of which only one at a time fits into four cpus."""


def check_key(key: object, width: int | None = None) -> int:
    """How many numbers a key has."""
    assert isinstance(key, tuple), f"a key is a tuple, not {key!r}"
    assert all(isinstance(part, int) for part in key), f"a key consists of whole numbers: {key!r}"
    assert width in (None, len(key)), f"{key!r} has another length than the keys of other units ({width})"
    return len(key)


def check_depends_on_one_only(
    key: Callable[[T], object], another: Callable[[T], object], line: Sequence[T], order: Iterable[int]
) -> None:
    """The key of each is the same the second time, and for another instance that is asked in another order."""
    keys = [key(each) for each in line]

    assert [key(each) for each in line] == keys, "the second answer is another"
    for place in order:
        assert another(deepcopy(line[place])) == keys[place], "it depends on who was asked about before"


def check_leaves_as_it_was(key: Callable[[T], object], one: T) -> None:
    before = deepcopy(one)

    key(one)

    assert one == before, "it changed what it was given"


class QueuePolicyConformance(Conformance[QueuePolicy]):
    """The order inside a queue."""

    METHODS = ("key",)

    def chosen(self, plugin: Any) -> Plugins:
        known = built_in(points=())
        return replace(known, queue_policies={**known.queue_policies, plugin.name: plugin})

    def day(self, plugin: Any, restart: bool = True) -> Harness:
        again = self.chosen(self.make()) if restart else None
        return a_day(self.chosen(plugin), *self.examples, policy=plugin.name, restart=again)

    def test_it_says_whom_its_head_holds_up(self) -> None:
        policy = self.make()

        assert isinstance(policy.blocks, Blocks), f"blocks is one of {list(Blocks)}, not {policy.blocks!r}"
        assert policy.blocks is self.make().blocks

    def test_extreme_units_have_keys_too(self) -> None:
        policy = self.make()
        width = check_key(policy.key(EXTREMES[0]))

        for each in (*EXTREMES, *self.examples):
            check_key(policy.key(each), width)

    @often
    @given(one=units)
    def test_every_unit_has_a_key_of_whole_numbers_and_of_one_length(self, one: Unit) -> None:
        policy = self.make()

        check_key(policy.key(one), check_key(policy.key(EXTREMES[0])))

    @often
    @given(line=st.lists(units, min_size=1, max_size=6), data=st.data())
    def test_a_key_depends_on_the_unit_only(self, line: list[Unit], data: st.DataObject) -> None:
        line = [*line, *self.examples]
        policy, other = self.make(), self.make()
        check_depends_on_one_only(policy.key, other.key, line, data.draw(st.permutations(range(len(line)))))

    @often
    @given(one=units)
    def test_it_leaves_the_unit_as_it_was(self, one: Unit) -> None:
        check_leaves_as_it_was(self.make().key, one)

    def test_units_start_in_the_order_of_their_keys(self) -> None:
        policy = self.make()
        play = Harness(*tenant("a", policy.name), cpu=4, memory="100Gi", plugins=self.chosen(policy))
        play.submit(unit("a/now", cpu=4))
        for each in MIX:
            play.submit(each)
        line = self._line(policy, play, [each.key for each in MIX])

        for key in ["a/now", *line]:
            assert play.running == [key]
            play.finish(key)

        assert play.admissions == ["a/now", *line]

    def test_a_head_that_does_not_fit_holds_up_whom_it_says(self) -> None:
        policy = self.make()
        main = queue("usher-system/main", policy.name, shared=True)
        play = Harness(main, quota("a"), quota("b"), cpu=10, plugins=self.chosen(policy))
        play.submit(unit("a/now", queue="main", quota="a", cpu=6))
        play.submit(
            unit("a/big", queue="main", quota="a", cpu=8),
            unit("a/small", queue="main", quota="a", cpu=2),
            unit("b/small", queue="main", quota="b", cpu=2),
        )
        line = self._line(policy, play, ["a/big", "a/small", "b/small"])

        want = [key for key in line if key != "a/big" and not self._held_up(policy.blocks, key, line)]
        assert play.running == sorted(["a/now", *want])

    @staticmethod
    def _line(policy: QueuePolicy, play: Harness, keys: Sequence[str]) -> list[str]:
        """As the engine must order them: by key, then the older first."""
        specs = [play.store.specs[key] for key in keys]
        specs.sort(key=lambda each: (*policy.key(each), each.created_ms, each.seq, each.namespace, each.name))
        return [each.key for each in specs]

    @staticmethod
    def _held_up(blocks: Blocks, key: str, line: Sequence[str]) -> bool:
        """Whether a/big, which does not fit, stands in its way."""
        if blocks is Blocks.NOBODY or line.index(key) < line.index("a/big"):
            return False
        return blocks is Blocks.QUEUE or key.startswith("a/")


class VictimPolicyConformance(Conformance[VictimPolicy]):
    """Who gives back first."""

    METHODS = ("key",)

    def chosen(self, plugin: Any) -> Plugins:
        return replace(built_in(points=()), victims=plugin)

    def test_extreme_units_have_keys_too(self) -> None:
        policy = self.make()
        width = check_key(policy.key(Candidate(EXTREMES[0], 0, {})))

        for each in (*EXTREMES, *self.examples):
            for admitted_ms, charged in ((0, {}), (2**53, {"cpu": 0}), (1, {"cpu": 2**80, "memory": 1})):
                check_key(policy.key(Candidate(each, admitted_ms, charged)), width)

    @often
    @given(one=candidates)
    def test_every_candidate_has_a_key_of_whole_numbers_and_of_one_length(self, one: Candidate) -> None:
        policy = self.make()

        check_key(policy.key(one), check_key(policy.key(Candidate(EXTREMES[0], 0, {}))))

    @often
    @given(line=st.lists(candidates, min_size=1, max_size=6), data=st.data())
    def test_a_key_depends_on_the_candidate_only(self, line: list[Candidate], data: st.DataObject) -> None:
        policy, other = self.make(), self.make()
        check_depends_on_one_only(policy.key, other.key, line, data.draw(st.permutations(range(len(line)))))

    @often
    @given(one=candidates)
    def test_it_leaves_the_candidate_as_it_was(self, one: Candidate) -> None:
        check_leaves_as_it_was(self.make().key, one)

    def test_units_give_back_in_the_order_of_their_keys(self) -> None:
        policy = self.make()
        play = Harness(*tenant("a"), *tenant("b"), cpu=8, memory="100Gi", plugins=self.chosen(policy))
        for number, priority in enumerate((0, 5, -5, 0, 9, 0, -5, 3)):
            play.submit(unit(f"b/{number}", cpu=1, memory=f"{number % 3}Gi", priority=priority))
            play.advance(number % 2)

        for number in range(4):
            want = min(self._candidates(policy, play))[-1]
            play.submit(unit(f"a/{number}", cpu=1, memory="1Gi"))
            assert play.evictions[number:] == [want]

    @staticmethod
    def _candidates(policy: VictimPolicy, play: Harness) -> list[tuple[Any, ...]]:
        """As the engine must order them: by key, then the younger first."""
        found: list[tuple[Any, ...]] = []
        for each in play.engine.world.units.values():
            if each.grants and each.spec.namespace == "b":
                key = policy.key(Candidate(each.spec, each.admitted_ms, each.charged))
                found.append((*key, -each.spec.created_ms, -each.spec.seq, each.key))
        return found
