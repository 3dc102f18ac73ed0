"""Quantities of our objects as the engine's amounts, and label selectors as its requirements.

A bad quantity is named by the path of its field; the CRDs let none through, files may.
"""

from __future__ import annotations

from collections.abc import Mapping

from usher.api.meta import LabelSelector
from usher.core.amounts import Amounts, format_amounts, parse_amounts
from usher.core.model import Operator, Requirement


def amounts_of(quantities: Mapping[str, str | int], path: str, errors: list[str] | None = None) -> dict[str, int]:
    """Amounts; each bad quantity is a text that begins with its path, in `errors` or raised (`AmountsError`)."""
    return parse_amounts(quantities, path, errors)


def quantities_of(amounts: Amounts) -> dict[str, str | int]:
    """Canonical quantities, sorted by name."""
    return {**format_amounts(amounts)}


def requirements_of(selector: LabelSelector | None) -> tuple[Requirement, ...]:
    """The lines of a selector; nothing chooses everything. Raises ValueError for an operator that is none."""
    if selector is None:
        return ()
    labels = [Requirement(key, Operator.IN, frozenset({value})) for key, value in selector.match_labels.items()]
    lines = [
        Requirement(line.key, Operator(line.operator), frozenset(line.values)) for line in selector.match_expressions
    ]
    return (*labels, *lines)
