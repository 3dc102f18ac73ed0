"""What a share policy is told, and what it must answer.

A share policy splits a parent's amount among its children by demand, weight, `min` and `max` (one call per parent,
top-down from the root). It is pure: the same input gives the same output, whatever the order of the children. The
engine calls it through `core.shares`; the built-in policies live in `usher.policies.share`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from usher.core.amounts import Amounts, Signature

_NOTHING: Amounts = {}
_NO_DEMAND: Mapping[Signature, Amounts] = {}


class Sharer(NamedTuple):
    """One child of the node whose amount is split."""

    name: str
    weight: int = 1
    """0 is a scavenger: it gets its guarantee and nothing of what is shared by weight."""
    min: Amounts = _NOTHING
    max: Amounts = _NOTHING
    """A resource that is missing here is not limited; zero means zero."""
    lends: bool = True
    """False: its whole `min` is its own even while idle (and is part of `guarantee` and `demand` already)."""
    guarantee: Amounts = _NOTHING
    """The larger of min(demand, `min`) and the sum of its children's guarantees, not yet scaled to the amount."""
    demand: Mapping[Signature, Amounts] = _NO_DEMAND
    """By signature, and already cut to `max`."""
    weights: Amounts = _NOTHING
    """By resource, for policies that divide each by itself; a resource that is missing here has `weight`."""


class SharePolicy(Protocol):
    """How a parent's amount becomes its children's deserved."""

    @property
    def name(self) -> str:
        """The name by which a configuration chooses it."""
        ...

    @property
    def entitles(self) -> bool:
        """False: nobody deserves anything, so nobody claims; first come, first served."""
        ...

    @property
    def claims_by_share(self) -> bool:
        """True: a branch whose weighted dominant share stays strictly below its victim's may claim beyond deserved."""
        ...

    def split(self, amount: Amounts, sharers: Sequence[Sharer]) -> list[dict[str, int]]:
        """Deserved of each sharer, in the order given.

        Promises: no resource adds up to more than its amount (a missing resource is zero); nobody gets more than its
        demand or its `max`; nobody gets less than its guarantee, as far as it has demand, scaled in proportion
        (rounded down) where guarantees exceed the amount. `koordinator` differs: where all `min` exceed the amount it
        scales `min`, that of idle children included, so a busy child may get less than its scaled guarantee, never
        less than its scaled `min`. Where `entitles` is False everybody gets nothing.
        """
        ...

    def unmoved(self, before: Sharer, after: Sharer, deserved: Amounts) -> bool:
        """True only if `split` would answer the same for everybody with `after` in the place of `before`.

        `deserved` is what `before` was given. This spares a recomputation; answering False is always right.
        """
        ...
