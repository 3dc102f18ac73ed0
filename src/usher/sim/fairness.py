"""How fairly a run shared: dominant shares over time beside those of exact DRF, and Jain's index of both.

Definitions (docs/simulate.md has them for users). A *tenant* of a moment is a quota whose own units ask for something
then, waiting or running. Its *dominant share* is the largest part of any resource of the cluster that it uses; its
*exact share* the same of what `sim.exact` gives it for the demand of that very moment. *Jain's index* of a moment is
over dominant share ÷ weight of its tenants of weight above 0, and is averaged over the time in which there are two of
them or more. Everything is weighted by time: what a sample shows holds until the next. Called by `sim.outcome`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from usher.core.amounts import Amounts
from usher.core.model import ROOT
from usher.sim.exact import Claimant, exact_drf
from usher.sim.samples import Samples, Seen

SHARES_MAX: Final = 10_000
"""With more tenants × moments than this, only every second, third, … moment is measured."""


@dataclass(frozen=True, slots=True)
class Share:
    """One tenant at one moment."""

    used: float
    """Its dominant share: a part of the cluster."""
    exact: float
    """What exact DRF would give it."""
    weight: float
    """As a part of the weights of all, at every level of the tree."""


@dataclass(frozen=True, slots=True)
class Moment:
    """All tenants from one sample to the next."""

    at_ms: int
    lasts_ms: int
    shares: Mapping[str, Share]
    """Of those with demand, by name."""

    @property
    def jain(self) -> float | None:
        """None: there are no two to compare."""
        return self._index([(share.used, share.weight) for share in self.shares.values()])

    @property
    def jain_exact(self) -> float | None:
        return self._index([(share.exact, share.weight) for share in self.shares.values()])

    @staticmethod
    def _index(pairs: Sequence[tuple[float, float]]) -> float | None:
        found = [share / weight for share, weight in pairs if weight]
        return jain(found) if len(found) > 1 else None


@dataclass(frozen=True, slots=True)
class TenantShares:
    """One tenant over all the time in which it had demand."""

    ms: int
    """How long that was."""
    used: float
    """Mean dominant share."""
    exact: float
    below: float
    """How much it was below the exact share, on average (0 where it was above)."""
    above: float


@dataclass(frozen=True, slots=True)
class Shares:
    """What was measured; nothing if nobody had demand, or the tree is too large."""

    moments: Sequence[Moment] = ()
    tenants: Mapping[str, TenantShares] = field(default_factory=dict)
    jain: float | None = None
    jain_exact: float | None = None
    gap: float | None = None
    """Mean distance of a tenant's dominant share from the exact one."""


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index, from 1 ÷ number to 1; 1 for nobody, for nothing and for all alike."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def measure(samples: Samples, end_ms: int) -> Shares:
    """Look at a run's samples."""
    size = max((len(tree) for tree in samples.trees), default=0)
    every = max(1, -(-size * len(samples.trees) // SHARES_MAX))
    picked = range(0, len(samples.times), every)
    ends = [*(samples.times[place] for place in picked[1:]), end_ms]
    moments, last = [], _Last()
    for place, end in zip(picked, ends, strict=True):
        shares = _shares(samples, place, last)
        moments.append(Moment(samples.times[place], max(0, end - samples.times[place]), shares))
    tenants = _tenants(moments)
    time = sum(each.ms for each in tenants.values())
    if not time:
        return Shares()
    return Shares(
        moments,
        tenants,
        _mean([(moment.jain, moment.lasts_ms) for moment in moments]),
        _mean([(moment.jain_exact, moment.lasts_ms) for moment in moments]),
        sum((each.below + each.above) * each.ms for each in tenants.values()) / time,
    )


class _Last:
    """The moment before: often nobody's demand has changed."""

    tree: Sequence[Seen] = ()
    exact: Mapping[str, float] = {}


def _shares(samples: Samples, place: int, last: _Last) -> dict[str, Share]:
    tree, offered = samples.trees[place], samples.offered(place)
    asking = [seen for seen in tree if seen.name != ROOT and seen.wants]
    if not asking:
        return {}
    if tree != last.tree:
        last.tree, last.exact = tree, exact_shares(tree)
    weights = _weights(tree)
    return {
        seen.name: Share(
            dominant(samples.used(place, seen.name), offered), last.exact.get(seen.name, 0.0), weights[seen.name]
        )
        for seen in asking
    }


def dominant(used: Mapping[str, float], offered: Amounts) -> float:
    """The largest part of any resource."""
    return max((much / offered[name] for name, much in used.items() if offered.get(name)), default=0.0)


def exact_shares(tree: Sequence[Seen]) -> dict[str, float]:
    """Dominant shares under exact DRF, by quota; what the root itself is charged with is not divided."""
    nodes = {
        seen.name: Claimant(seen.name, seen.weight, seen.min, seen.max, seen.lends, seen.wants) for seen in tree[1:]
    }
    top: list[Claimant] = []
    for seen in tree[1:]:
        parent = nodes.get(seen.parent)
        (top if parent is None else parent.below).append(nodes[seen.name])
    root = tree[0]
    amount = dict(root.max)
    for vector in root.wants.values():
        for name, much in vector.items():
            amount[name] = max(0, amount.get(name, 0) - much)
    return {
        name: float(max((much / root.max[each] for each, much in got.items() if root.max.get(each)), default=0))
        for name, got in exact_drf(amount, top).items()
    }


def _weights(tree: Sequence[Seen]) -> dict[str, float]:
    """A quota's part of everything by weight alone: its part among its siblings, times that of its parent."""
    sums: dict[str, int] = {}
    for seen in tree:
        sums[seen.parent] = sums.get(seen.parent, 0) + seen.weight
    found = {ROOT: 1.0}
    for seen in tree[1:]:  # parents come first
        found[seen.name] = found.get(seen.parent, 1.0) * seen.weight / (sums[seen.parent] or 1)
    return found


def _tenants(moments: Sequence[Moment]) -> dict[str, TenantShares]:
    sums: dict[str, list[float]] = {}
    for moment in moments:
        for name, share in moment.shares.items():
            total = sums.setdefault(name, [0.0] * 5)
            apart = share.used - share.exact
            for place, value in enumerate((1.0, share.used, share.exact, max(0.0, -apart), max(0.0, apart))):
                total[place] += value * moment.lasts_ms
    return {
        name: TenantShares(round(ms), *(value / ms for value in values))
        for name, (ms, *values) in sorted(sums.items())
        if ms
    }


def _mean(values: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(value, ms) for value, ms in values if value is not None]
    time = sum(ms for _, ms in known)
    return sum(value * ms for value, ms in known) / time if time else None
