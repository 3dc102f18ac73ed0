"""Tells reservers what is charged: of each holding one `reserve`, then resizes, then one `unreserve`.

A holding begins when a unit is charged, or when a new engine finds it charged, and ends when everything is refunded. In
between the charge may fall to nothing and rise again: these are resizes.
"""

from __future__ import annotations

from usher.core.amounts import Amounts
from usher.core.model import Unit
from usher.core.plugins import Guard, Reserver


class Books:
    """Everybody who keeps books next to the ledger."""

    def __init__(self, reservers: tuple[Reserver, ...], guard: Guard) -> None:
        self._reservers = reservers
        self._guard = guard

    def reserve(self, unit: Unit, amounts: Amounts) -> None:
        for reserver in self._reservers:
            self._guard.call(reserver.name, None, reserver.reserve, unit, amounts)

    def resize(self, unit: Unit, old: Amounts, new: Amounts) -> None:
        if old != new:
            for reserver in self._reservers:
                self._guard.call(reserver.name, None, reserver.resize, unit, old, new)

    def unreserve(self, unit: Unit, amounts: Amounts) -> None:
        for reserver in self._reservers:
            self._guard.call(reserver.name, None, reserver.unreserve, unit, amounts)
