"""Which quotas have no place in the tree, and why: a parent that is missing, a circle, or a parent that has no place.

The engine leaves the same quotas out by itself and says the same of them (a test holds the two together); here the
reasons are words for conditions. Also: what of a tree that has its places cannot be as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from usher.core.amounts import Amounts, format_amount
from usher.core.model import ROOT, Quota
from usher.quotas.source import Problem

PARENT_MISSING: Final = "ParentMissing"
CYCLE: Final = "Cycle"
PARENT_INACTIVE: Final = "ParentInactive"
MINS_ABOVE_MAX: Final = "MinsAboveMax"
MIN_ABOVE_MAX: Final = "MinAboveMax"
NAMESPACE_TAKEN: Final = "NamespaceTaken"


def misplaced(quotas: Mapping[str, Quota]) -> dict[str, Problem]:
    """The quotas that do not hang on the root."""
    found: dict[str, Problem] = {}
    placed: set[str] = set()
    for name in sorted(quotas):
        trail: list[str] = []
        above = name
        while above in quotas and above not in placed and above not in found and above not in trail:
            trail.append(above)
            above = quotas[above].parent
        if above in trail:
            circle = trail[trail.index(above) :]
            shown = " → ".join([*circle, above])
            found.update({each: Problem(CYCLE, f"it is its own ancestor: {shown}") for each in circle})
        elif above and above != ROOT and above not in quotas:
            found[trail[-1]] = Problem(PARENT_MISSING, f"its parent {above} does not exist")
        elif above not in found:
            placed.update(trail)
            continue
        for each in trail:
            if each not in found:
                found[each] = Problem(PARENT_INACTIVE, f"its parent {quotas[each].parent} takes no part")
    return found


def cycle(parents: Mapping[str, str]) -> list[str]:
    """The first cycle in a map from child to parent, as the names on it with the first one repeated; else nothing."""
    clear: set[str] = set()
    for start in sorted(parents):
        trail: dict[str, None] = {}
        name = start
        while name in parents and name not in clear:
            if name in trail:
                names = list(trail)
                return [*names[names.index(name) :], name]
            trail[name] = None
            name = parents[name]
        clear.update(trail)
    return []


def above_max(least: Amounts, most: Amounts) -> list[tuple[str, str]]:
    """Where a guarantee exceeds the limit: the resource, and both in words."""
    return [
        (resource, f"{format_amount(resource, amount)} is above spec.max, {format_amount(resource, most[resource])}")
        for resource, amount in least.items()
        if resource in most and amount > most[resource]
    ]


def overpromised(quotas: Mapping[str, Quota]) -> dict[str, Problem]:
    """The quotas whose children are together guaranteed more than the quota may use."""
    promised: dict[str, dict[str, int]] = {}
    for quota in quotas.values():
        if quota.parent in quotas:
            sums = promised.setdefault(quota.parent, {})
            for resource, amount in quota.min.items():
                sums[resource] = sums.get(resource, 0) + amount
    found: dict[str, Problem] = {}
    for name, sums in promised.items():
        most = quotas[name].max
        shown = [
            f"{format_amount(resource, amount)} {resource} of {format_amount(resource, most[resource])}"
            for resource, amount in sorted(sums.items())
            if resource in most and amount > most[resource]
        ]
        if shown:
            text = f"the min of its children add up to more than its max: {', '.join(shown)}; they are scaled down"
            found[name] = Problem(MINS_ABOVE_MAX, text, takes_part=True)
    return found


def contested(quotas: Mapping[str, Quota]) -> dict[str, Problem]:
    """The quotas that name a namespace which goes to another one: of several, the first by name has it."""
    taken: dict[str, str] = {}
    found: dict[str, Problem] = {}
    for name in sorted(quotas):
        lost = sorted(each for each in quotas[name].namespaces if each in taken)
        if lost:
            rest = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
            text = f"namespace {lost[0]}{rest} belongs to quota {taken[lost[0]]} already"
            found[name] = Problem(NAMESPACE_TAKEN, text, takes_part=True)
        for each in quotas[name].namespaces:
            taken.setdefault(each, name)
    return found


def burdened(quotas: Mapping[str, Quota], name: str, amounts: Amounts) -> dict[str, Quota]:
    """The quotas, where one is charged with what is none of a unit's: so much less is left of its limits, and above."""
    found = dict(quotas)
    seen: set[str] = set()
    while name in quotas and name not in seen:
        seen.add(name)
        quota = quotas[name]
        found[name] = replace(quota, min=_without(quota.min, amounts), max=_without(quota.max, amounts))
        name = quota.parent
    return found


def _without(amounts: Amounts, less: Amounts) -> dict[str, int]:
    return {resource: max(0, amount - less.get(resource, 0)) for resource, amount in amounts.items()}
