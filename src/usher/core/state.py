"""What the engine remembers of one unit, and the arithmetic of its pod sets.

`UnitState` is the only mutable record of a unit; everything in it can be rebuilt from the unit and its stored past.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from usher.core.amounts import Amounts
from usher.core.model import CheckState, Grant, Nomination, PodSet, Unit
from usher.core.phases import Cause, Phase

if TYPE_CHECKING:
    from usher.core.lanes import Group, QueueState
    from usher.core.ledger import Blocked, Node


class UnitState:
    """One unit as the engine sees it."""

    __slots__ = (
        "admitted_ms",
        "ask",
        "ask_least",
        "assumed",
        "before_grow",
        "before_phase",
        "blocked",
        "charged",
        "charged_to",
        "checks",
        "claims",
        "demanded",
        "evicted_for",
        "evicting",
        "evictions",
        "generation",
        "grants",
        "group",
        "has_run",
        "held",
        "inactive",
        "key",
        "leaf",
        "leaving",
        "nomination",
        "not_before_ms",
        "objection",
        "order",
        "overtaken_ms",
        "phase",
        "placed",
        "protected_ms",
        "queue",
        "ran_ms",
        "rank",
        "refusals",
        "retries",
        "shrink_to",
        "spec",
        "spent_nomination",
        "target",
        "unready_ms",
        "version",
        "victim_key",
    )

    def __init__(self, spec: Unit) -> None:
        self.spec = spec
        self.key = spec.key
        self.phase = Phase.NEW
        self.before_phase = Phase.NEW
        self.generation = 0
        # Its place while it waits.
        self.queue: QueueState | None = None
        self.leaf: Node | None = None
        """The node that is charged, or would be."""
        self.group: Group | None = None
        self.placed = False
        """It waits in its queue, or would if it could take part."""
        self.rank = spec.priority
        """Its priority, capped by its queue."""
        self.order: tuple[int | str, ...] = ()
        self.version = 0
        self.ask: Mapping[str, int] = {}
        """What it waits for now; empty when it waits for nothing."""
        self.target: Mapping[str, int] = {}
        """By pod set: the counts it would have with what it asks for."""
        self.ask_least: Mapping[str, int] = {}
        """The least with which it could start (or grow)."""
        self.blocked: Blocked | None = None
        self.demanded: tuple[Node, Amounts] | None = None
        # What it holds.
        self.charged: dict[str, int] = {}
        self.charged_to = ""
        self.grants: tuple[Grant, ...] = ()
        self.assumed = False
        self.before_grow: tuple[Grant, ...] | None = None
        self.admitted_ms = 0
        self.protected_ms = 0
        """Nobody takes it back before this time."""
        self.victim_key: tuple[object, ...] = ()
        """Its place in the order of giving back, once computed."""
        self.unready_ms = -1
        self.checks: dict[str, CheckState] = {}
        self.objection = ""
        """What the check said that rejected it."""
        # Its way out.
        self.evicting: Cause | None = None
        self.evicted_for = ""
        self.leaving: dict[str, int] = {}
        self.shrink_to: tuple[Grant, ...] | None = None
        # Its past.
        self.evictions = 0
        self.retries = 0
        self.refusals = 0
        self.ran_ms = 0
        self.has_run = False
        self.claims = True
        """False after a back-off, until it has run."""
        self.not_before_ms = 0
        self.inactive = ""
        self.overtaken_ms = -1
        self.nomination: Nomination | None = None
        self.held: Mapping[str, int] = {}
        self.spent_nomination = False
        """It starts (or grows) on a nomination that is stored until that is carried out."""

    @property
    def growable(self) -> bool:
        """It holds quota, may grow, and has fewer pods than its owner wants."""
        return (
            self.spec.elastic
            and bool(self.grants)
            and self.evicting is None
            and self.shrink_to is None
            and self.phase in (Phase.DEQUEUED, Phase.RUNNING)
            and not self.assumed
            and any(missing > 0 for missing in self.missing().values())
        )

    def missing(self) -> dict[str, int]:
        """By pod set: how many pods its owner wants beyond those granted."""
        granted = {grant.pod_set: grant.count for grant in self.grants}
        return {pods.name: pods.count - granted.get(pods.name, 0) for pods in self.spec.pod_sets}


def amounts_of(pod_sets: Sequence[PodSet], counts: Mapping[str, int]) -> dict[str, int]:
    """What so many pods of each set ask for; zeros are left out."""
    total: dict[str, int] = {}
    for pods in pod_sets:
        count = counts.get(pods.name, 0)
        if count > 0:
            for resource, amount in pods.request.items():
                if amount > 0:
                    total[resource] = total.get(resource, 0) + amount * count
    return total


def granted_amounts(spec: Unit, grants: Sequence[Grant]) -> dict[str, int]:
    return amounts_of(spec.pod_sets, {grant.pod_set: grant.count for grant in grants})


def full_counts(spec: Unit) -> dict[str, int]:
    return {pods.name: pods.count for pods in spec.pod_sets}


def least_counts(spec: Unit) -> dict[str, int]:
    return {
        pods.name: pods.count if pods.min_count is None else min(pods.min_count, pods.count) for pods in spec.pod_sets
    }


def as_grants(spec: Unit, counts: Mapping[str, int]) -> tuple[Grant, ...]:
    return tuple(Grant(pods.name, counts.get(pods.name, 0)) for pods in spec.pod_sets)


def between(least: Mapping[str, int], most: Mapping[str, int], step: int) -> dict[str, int]:
    """Counts on the way from `least` to `most`: `step` pods above least, spread in proportion, the first sets first."""
    room = sum(most[name] - least[name] for name in most)
    if room <= 0:
        return dict(most)
    counts = {name: least[name] + (most[name] - least[name]) * step // room for name in most}
    left = step - sum(counts[name] - least[name] for name in most)
    for name in most:
        if left <= 0:
            break
        if counts[name] < most[name]:
            counts[name] += 1
            left -= 1
    return counts
