"""Koordinator's runtime quotas of whole trees, written from its description and not from our code, and random trees.

Two ways to round. Up to release 1.8.0 its scheduler rounds each part by itself, half up: a round may issue units that
are not there, or lose some, and the rounds end when no surplus is left, though somebody may lack a unit. Since then
(its change 2876) it divides by largest remainder, as `koordinator` here does, and nothing is lost. Everything else is
the same, so that what the real scheduler says can be compared unit for unit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from usher.testing.elastic import CHIP, KOORDINATOR, OTHER, Amounts, Object, elastic_quota

UNIT: Final = 997
"""So many of a resource are one in a random tree: an error of rounding is nothing, and any other is not."""

Divide = Callable[[int, Mapping[str, int]], dict[str, int]]
"""An amount in proportion to weights, by name."""


def rounded_each(amount: int, weights: Mapping[str, int]) -> dict[str, int]:
    """As Koordinator divides up to release 1.8.0; in floating point, as there."""
    total = float(sum(weights.values()))
    return {name: int(float(weight) * float(amount) / total + 0.5) for name, weight in weights.items()}


def by_largest_remainder(amount: int, weights: Mapping[str, int]) -> dict[str, int]:
    """As Koordinator divides since."""
    total = sum(weights.values())
    parts = {name: weight * amount // total for name, weight in weights.items()}
    order = sorted(weights, key=lambda name: (-(weights[name] * amount % total), name))
    for name in order[: amount - sum(parts.values())]:
        parts[name] += 1
    return parts


@dataclass(frozen=True)
class _Quota:
    """One ElasticQuota in one resource."""

    name: str
    parent: str
    min: int
    max: int
    weight: int
    lends: bool


def runtimes(
    total: Amounts, quotas: Sequence[Object], requests: Mapping[str, Amounts], divide: Divide
) -> dict[str, dict[str, int]]:
    """By quota and resource, for what is asked of the leaves; every quota must have a max."""
    found: dict[str, dict[str, int]] = {each["metadata"]["name"]: {} for each in quotas}
    for resource, amount in total.items():
        asked = {name: request.get(resource, 0) for name, request in requests.items()}
        below: dict[str, list[_Quota]] = {}
        for quota in (_read(each, resource) for each in quotas):
            below.setdefault(quota.parent, []).append(quota)
        for name, runtime in _share(amount, "", below, _limited("", below, asked), divide).items():
            found[name][resource] = runtime
    return found


def _read(found: Object, resource: str) -> _Quota:
    meta, spec = found["metadata"], found["spec"]
    labels, notes = meta["labels"], meta["annotations"]
    weights = json.loads(notes.get(f"{KOORDINATOR}shared-weight", "{}")) or spec["max"]
    return _Quota(
        meta["name"],
        labels.get(f"{KOORDINATOR}parent", ""),
        int(spec["min"].get(resource, 0)),
        int(spec["max"][resource]),
        int(weights.get(resource, 0)),
        labels.get(f"{KOORDINATOR}allow-lent-resource") != "false",
    )


def _limited(above: str, below: Mapping[str, list[_Quota]], asked: Mapping[str, int]) -> dict[str, int]:
    """By quota below this one: what it asks for, never more than its max; who does not lend asks for its min."""
    found: dict[str, int] = {}
    for quota in below.get(above, ()):
        found |= _limited(quota.name, below, asked)
        request = asked.get(quota.name, 0) + sum(found[child.name] for child in below.get(quota.name, ()))
        found[quota.name] = min(quota.max, request if quota.lends else max(request, quota.min))
    return found


def _share(
    amount: int, above: str, below: Mapping[str, list[_Quota]], requests: Mapping[str, int], divide: Divide
) -> dict[str, int]:
    quotas = below.get(above, ())
    promised = sum(quota.min for quota in quotas)
    found: dict[str, int] = {}
    needy: dict[str, int] = {}
    for quota in quotas:
        least = quota.min if promised <= amount else amount * quota.min // promised
        if requests[quota.name] > least:
            needy[quota.name] = quota.weight
            found[quota.name] = least
        else:
            found[quota.name] = requests[quota.name] if quota.lends else least
    left = amount - sum(found.values())
    while left > 0 and sum(needy.values()) > 0:
        parts, left = divide(left, needy), 0
        for name, part in parts.items():
            found[name] += part
            if found[name] >= requests[name]:
                left += found[name] - requests[name]
                found[name] = requests[name]
                del needy[name]
    deeper = [_share(found[quota.name], quota.name, below, requests, divide) for quota in quotas]
    return found | {name: runtime for each in deeper for name, runtime in each.items()}


def random_tree(random: Random) -> tuple[list[Object], list[str]]:
    """Valid ElasticQuotas in up to three levels, and the names of the leaves.

    Parents come first: the scheduler forgets to ask upwards for the min of a child that came before its parent (its
    webhook lets none come).
    """
    made: list[Object] = []
    leaves: list[str] = []

    def grow(name: str, parent: str, depth: int) -> dict[str, int]:
        children = random.randint(2, 3) if depth and random.random() < 0.6 else 0
        below = [grow(f"{name}-{i}", name, depth - 1) for i in range(children)]
        least = {r: sum(each[r] for each in below) + random.randint(0, 8 * UNIT) for r in (CHIP, OTHER)}
        most = {r: n + random.randint(4 * UNIT, 60 * UNIT) for r, n in least.items()}
        labels = {"parent": parent} if parent else {}
        labels |= {"is-parent": "true"} if children else {}
        if not children and random.random() < 0.25:
            labels["allow-lent-resource"] = "false"
        notes: Object = {}
        if random.random() < 0.6:
            notes["shared-weight"] = {r: str(random.randint(1, 9)) for r in (CHIP, OTHER)}
        made.append(elastic_quota(name, min=least, max=most, labels=labels, annotations=notes))
        if not children:
            leaves.append(name)
        return least

    for i in range(random.randint(2, 3)):
        grow(f"q{i}", "", 2)
    return made[::-1], leaves


def random_demand(random: Random, leaves: Sequence[str]) -> list[tuple[str, str, dict[str, int]]]:
    """Name, quota and request of what is asked for, often more than there is."""
    return [
        (f"{leaf}-{i}", leaf, {CHIP: random.randint(1, 4 * UNIT), OTHER: random.randint(1, 3 * UNIT)})
        for leaf in leaves
        for i in range(random.randint(0, 12))
    ]


def requests_of(asked: Sequence[tuple[str, str, Amounts]]) -> dict[str, dict[str, int]]:
    """By quota: the sum."""
    found: dict[str, dict[str, int]] = {}
    for _, quota, request in asked:
        sums = found.setdefault(quota, {})
        for resource, amount in request.items():
            sums[resource] = sums.get(resource, 0) + amount
    return found
