"""`none`: no entitlement. First come, first served, under `max` and the capacity; nobody claims anything back."""

from __future__ import annotations

from collections.abc import Sequence

from usher.core.amounts import Amounts
from usher.core.share import Sharer


class NoShare:
    """Nobody deserves anything."""

    name = "none"
    entitles = False
    claims_by_share = False

    def split(self, amount: Amounts, sharers: Sequence[Sharer]) -> list[dict[str, int]]:
        """Nothing, for everybody."""
        return [{} for _ in sharers]

    def unmoved(self, before: Sharer, after: Sharer, deserved: Amounts) -> bool:
        """Always: nothing depends on anybody's demand."""
        return True
