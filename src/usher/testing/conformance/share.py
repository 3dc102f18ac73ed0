"""Promises of share policies: what `split` and `unmoved` may answer."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st

from usher.core.amounts import Amounts, Signature
from usher.core.plugins import Plugins
from usher.core.share import SharePolicy, Sharer
from usher.policies.registry import plugins as built_in
from usher.testing.builders import tenant, unit
from usher.testing.conformance.cases import EXTREME_SPLITS, Split, changes, often, splits, wanted
from usher.testing.conformance.day import Conformance, Failing
from usher.testing.harness import Harness

MET_AND_GROWN: Final = (
    {"cpu": 8000},
    [Sharer("a", demand={("cpu",): {"cpu": 2000}}), Sharer("b", demand={("cpu",): {"cpu": 8000}})],
    0,
    Sharer("a", demand={("cpu",): {"cpu": 4000}}),
)
"""A child that had all it wanted wants more: nearly every policy moves somebody then."""


class SharePolicyConformance(Conformance[SharePolicy]):
    """How a parent's amount becomes its children's deserved."""

    METHODS = ("split", "unmoved")
    scales_every_min = False
    """Set it where `min` that add up to more than the amount are scaled whether or not there is demand for them, as
    Koordinator does: then a busy child may get less than its scaled guarantee, but not less than its scaled `min`."""

    def chosen(self, plugin: Any) -> Plugins:
        return replace(built_in(points=()), share=plugin)

    def unused(self) -> tuple[str, ...]:
        """A policy that entitles nobody is never asked."""
        return () if self.make().entitles else self.METHODS

    def test_it_says_yes_or_no_about_itself(self) -> None:
        policy = self.make()

        assert policy.entitles in (True, False)
        assert policy.claims_by_share in (True, False)
        assert policy.entitles or not policy.claims_by_share, "where nobody is entitled, nobody claims"

    def test_extreme_splits_keep_every_promise(self) -> None:
        for sentence, (amount, among) in EXTREME_SPLITS.items():
            self.keeps_its_promises(sentence, amount, among)

    @often
    @given(case=splits())
    def test_any_split_keeps_every_promise(self, case: Split) -> None:
        self.keeps_its_promises("", *case)

    def keeps_its_promises(self, sentence: str, amount: Amounts, among: Sequence[Sharer]) -> None:
        """Types; never over the amount, the demand or `max`; never below the scaled guarantee."""
        policy = self.make()
        shares = policy.split(amount, among)
        about = f"{sentence} {amount} among {among}: {shares}"
        assert isinstance(shares, list), about
        assert len(shares) == len(among), f"one answer for each: {about}"
        for share in shares:
            assert isinstance(share, dict), about
            assert all(type(q) is int and q >= 0 for q in share.values()), about
        for resource in {resource for share in shares for resource in share}:
            given_out = sum(share.get(resource, 0) for share in shares)
            assert given_out <= amount.get(resource, 0), f"more {resource} than there is: {about}"
        for sharer, share in zip(among, shares, strict=True):
            wants = wanted(sharer)
            for resource, quantity in share.items():
                assert quantity <= wants.get(resource, 0), f"{sharer.name} gets more than it wants: {about}"
                limit = sharer.max.get(resource, quantity)
                assert quantity <= limit, f"{sharer.name} gets more than its max: {about}"
        if policy.entitles:
            for sharer, share, floor in zip(among, shares, self._floors(amount, among), strict=True):
                for resource, least in floor.items():
                    assert share.get(resource, 0) >= least, f"{sharer.name} gets less than its guarantee: {about}"
        else:
            assert not any(any(share.values()) for share in shares), f"nobody deserves anything: {about}"

    def _floors(self, amount: Amounts, among: Sequence[Sharer]) -> list[dict[str, int]]:
        """What each must get: its guarantee as far as it has demand, scaled (rounded down) where they exceed."""
        owed: list[dict[str, int]] = []
        totals: dict[str, int] = {}
        for sharer in among:
            wants = wanted(sharer)
            owed.append({r: min(q, wants.get(r, 0)) for r, q in sharer.guarantee.items()})
            counted = owed[-1]
            if self.scales_every_min:
                resources = sharer.min.keys() | sharer.guarantee.keys()
                counted = {r: max(sharer.min.get(r, 0), sharer.guarantee.get(r, 0)) for r in resources}
            for resource, quantity in counted.items():
                totals[resource] = totals.get(resource, 0) + quantity
        for floor in owed:
            for resource in floor:
                total, there = totals[resource], amount.get(resource, 0)
                if total > there:
                    floor[resource] = floor[resource] * there // total
        return owed

    @often
    @given(case=splits(), data=st.data())
    def test_the_order_of_the_children_does_not_matter(self, case: Split, data: st.DataObject) -> None:
        amount, among = case
        order = data.draw(st.permutations(range(len(among))))
        shares = self.make().split(amount, among)

        again = self.make().split(amount, [among[place] for place in order])

        assert again == [shares[place] for place in order]

    @often
    @given(case=splits())
    def test_the_same_split_has_the_same_answer_and_changes_nothing(self, case: Split) -> None:
        amount, among = case
        before = deepcopy(case)
        policy = self.make()
        shares = deepcopy(policy.split(amount, among))

        policy.split({"cpu": 7}, [Sharer("x", demand={("cpu",): {"cpu": 9}})])
        assert policy.split(amount, among) == shares, "the second answer is another"
        assert (amount, among) == before, "it changed what it was given"

    @often
    @example(change=MET_AND_GROWN)
    @given(change=changes())
    def test_unmoved_means_that_nobody_moves(self, change: tuple[dict[str, int], list[Sharer], int, Sharer]) -> None:
        amount, among, place, after = change
        policy = self.make()
        shares = policy.split(amount, among)

        unmoved = policy.unmoved(among[place], after, shares[place])

        assert unmoved in (True, False)
        if unmoved:
            anew = policy.split(amount, [*among[:place], after, *among[place + 1 :]])
            assert anew == shares, f"{among[place]} became {after}, and {shares} became {anew}"

    def test_what_an_engine_lets_tenants_deserve_is_what_it_splits(self) -> None:
        policy = self.make()
        demand: dict[Signature, Amounts] = {("cpu",): {"cpu": 8000}}
        a, b = policy.split({"cpu": 8000}, [Sharer("a", demand=demand), Sharer("b", weight=3, demand=demand)])

        play = self._two_tenants(policy)

        assert play.deserved("a").get("cpu", 0) == a.get("cpu", 0)
        assert play.deserved("b").get("cpu", 0) == b.get("cpu", 0)

    def test_an_engine_falls_back_to_drf_when_its_split_raises(self) -> None:
        if not self.make().entitles:
            return
        play = self._two_tenants(Failing(self.make(), "split"))

        assert play.deserved("a") == self._two_tenants(built_in(points=()).share).deserved("a")

    def _two_tenants(self, policy: Any) -> Harness:
        play = Harness(*tenant("a"), *tenant("b", weight=3), cpu=8, plugins=self.chosen(policy))
        play.submit(*(unit(f"{name}/{number}", cpu=1) for number in range(8) for name in "ab"))
        return play
