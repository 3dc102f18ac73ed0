"""The properties that make Dominant Resource Fairness worth having, and when a change of demand moves nobody.

For one signature per tenant and no `min`. A tenant's utility is the number of its tasks that its share can run, at
most as many as it has. Whole units cost each share less than one unit (a millicore, a byte) in each resource, so
utilities are compared with one unit more for the side that should be larger and one less for the other.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from share_cases import GI, amounts, asks, child, vectors

from usher.core.amounts import Amounts
from usher.core.share import Sharer
from usher.policies.share import Drf, Koordinator, Proportion

DRF = Drf()
some = settings(max_examples=60, deadline=None)


class Tenant:
    """Somebody with tasks of one kind."""

    def __init__(self, name: str, weight: int, task: Amounts, count: int) -> None:
        self.name, self.weight, self.task, self.count = name, weight, task, count

    def sharer(self, task: Amounts | None = None, count: int | None = None) -> Sharer:
        asked = {r: q * (count or self.count) for r, q in (task or self.task).items()}
        return child(self.name, asks(**asked), self.weight)

    def utility(self, share: Amounts, slack: int, scale: Fraction = Fraction(1)) -> Fraction:
        runs = min((Fraction(share.get(r, 0)) * scale + slack) / q for r, q in self.task.items())
        return min(Fraction(self.count), runs)


@st.composite
def tenants(draw: st.DrawFn) -> tuple[dict[str, int], list[Tenant]]:
    found = [
        Tenant(f"t{n}", draw(st.integers(1, 4)), draw(vectors), draw(st.integers(1, 20)))
        for n in range(draw(st.integers(2, 5)))
    ]
    return draw(amounts([each.sharer() for each in found])), found


Tenants = tuple[dict[str, int], list[Tenant]]


@some
@given(case=tenants())
def test_nobody_does_better_with_a_fixed_slice_of_the_cluster(case: Tenants) -> None:
    """Sharing incentive: weight ÷ all weights of everything is not better than the share."""
    amount, found = case
    weights = sum(each.weight for each in found)

    for each, share in zip(found, DRF.split(amount, [each.sharer() for each in found]), strict=True):
        assert each.utility(share, +1) >= each.utility(amount, 0, Fraction(each.weight, weights))


@some
@given(case=tenants())
def test_nobody_would_rather_have_the_share_of_somebody_else(case: Tenants) -> None:
    """Envy-freeness, per weight."""
    amount, found = case
    shares = DRF.split(amount, [each.sharer() for each in found])

    for each, share in zip(found, shares, strict=True):
        for other, theirs in zip(found, shares, strict=True):
            scale = Fraction(each.weight, other.weight)
            less_one = {r: max(q - 1, 0) for r, q in theirs.items()}
            assert each.utility(share, +1) >= each.utility(less_one, 0, scale)


@some
@given(case=tenants())
def test_nobody_can_have_more_without_somebody_having_less(case: Tenants) -> None:
    """Pareto efficiency: whoever wants more lacks something of which not one unit is left."""
    amount, found = case
    shares = DRF.split(amount, [each.sharer() for each in found])

    for each, share in zip(found, shares, strict=True):
        if any(share[r] < q * each.count for r, q in each.task.items()):
            assert any(sum(s.get(r, 0) for s in shares) == amount.get(r, 0) for r in each.task)


@settings(max_examples=80, deadline=None)
@given(case=tenants(), lie=vectors, count=st.integers(1, 40))
def test_nobody_gains_by_asking_for_something_else(case: Tenants, lie: Amounts, count: int) -> None:
    """Strategy-proofness: another shape of task, other resources, more or fewer tasks."""
    amount, found = case
    honest = [each.sharer() for each in found]
    truth = found[0].utility(DRF.split(amount, honest)[0], +1)
    more = {r: max(1, q * (3 + n) // 4) for n, (r, q) in enumerate(found[0].task.items())}

    for claim, claimed in ((lie, count), (more, found[0].count), (found[0].task, count)):
        said = [found[0].sharer(claim, claimed), *honest[1:]]
        assert truth >= found[0].utility(DRF.split(amount, said)[0], -1)


BACKLOG = {"cpu": 2000, "memory": 8 * GI}
AMOUNT = {"cpu": 64_000, "memory": 256 * GI}


def backlog(name: str, jobs: int, least: Amounts | None = None, weight: int = 1) -> Sharer:
    return child(name, asks(**{r: q * jobs for r, q in BACKLOG.items()}), weight, least)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(backlog("a", 400), backlog("a", 401), id="one more job of the same kind"),
        pytest.param(backlog("a", 400), backlog("a", 20), id="many fewer, but still more than it gets"),
        pytest.param(
            child("a", {**backlog("a", 90).demand, ("gpu",): {"gpu": 9}}),
            child("a", {**backlog("a", 180).demand, ("gpu",): {"gpu": 18}}),
            id="two kinds, twice of each",
        ),
        pytest.param(
            backlog("a", 400, {"cpu": 20_000, "memory": 80 * GI}),
            backlog("a", 500, {"cpu": 20_000, "memory": 80 * GI}),
            id="a guarantee in the same direction",
        ),
        pytest.param(
            child("a", asks(cpu=900_000), least={"cpu": 90_000}),
            child("a", asks(cpu=950_000), least={"cpu": 90_000}),
            id="guarantees use all of a resource it needs",
        ),
        pytest.param(backlog("a", 9, weight=0), backlog("a", 99, weight=0), id="weight 0 gets nothing anyway"),
    ],
)
def test_a_long_backlog_moves_nobody(before: Sharer, after: Sharer) -> None:
    others = [backlog("b", 300), backlog("c", 300, least={"cpu": 1000})]
    shares = DRF.split(AMOUNT, [before, *others])

    assert before.demand != after.demand
    assert DRF.unmoved(before, after, shares[0])
    assert DRF.split(AMOUNT, [after, *others]) == shares


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(backlog("a", 400), backlog("a", 3), id="it now wants less than it had"),
        pytest.param(backlog("a", 3), backlog("a", 4), id="it had all it wanted"),
        pytest.param(backlog("a", 400), child("a", asks(cpu=800_000, memory=GI)), id="another kind of job"),
        pytest.param(backlog("a", 400), backlog("a", 400, weight=2), id="another weight"),
        pytest.param(backlog("a", 400), backlog("a", 400, least={"cpu": 60_000}), id="another guarantee"),
        pytest.param(
            child("a", asks(cpu=64_000, memory=900 * GI), least={"cpu": 64_000}),
            child("a", asks(cpu=65_000, memory=900 * GI), least={"cpu": 64_000}),
            id="more than the guarantee of what others exhaust",
        ),
    ],
)
def test_a_change_that_moves_somebody_is_noticed(before: Sharer, after: Sharer) -> None:
    others = [backlog("b", 300), backlog("c", 300)]
    shares = DRF.split(AMOUNT, [before, *others])

    assert DRF.split(AMOUNT, [after, *others]) != shares
    assert not DRF.unmoved(before, after, shares[0])


@pytest.mark.parametrize("policy", [Koordinator(), Proportion()], ids=lambda policy: policy.name)
def test_per_resource_any_kind_of_job_may_come_to_a_long_backlog(policy: Koordinator | Proportion) -> None:
    before, after = backlog("a", 400), child("a", asks(cpu=801_000, memory=4000 * GI))
    others = [backlog("b", 300), backlog("c", 3)]
    shares = policy.split(AMOUNT, [before, *others])

    assert policy.unmoved(before, after, shares[0])
    assert policy.split(AMOUNT, [after, *others]) == shares
    assert not policy.unmoved(before, backlog("a", 2), shares[0])
