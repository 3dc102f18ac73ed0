"""What the engine shows of itself: plain values for status, CLI, reports and tests. Reading changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from usher.core.amounts import Amounts, Signature
from usher.core.model import Grant
from usher.core.phases import Phase


@dataclass(frozen=True, slots=True)
class QuotaView:
    """One node of the quota tree; a node that stands for a Queue is named namespace/name."""

    name: str
    parent: str
    weight: int
    lends: bool
    min: Mapping[str, int]
    max: Mapping[str, int]
    """At the root: the amount that may be used."""
    deserved: Mapping[str, int]
    used: Mapping[str, int]
    preempting: Mapping[str, int]
    """Room that is kept for nominated units."""
    demand: Mapping[str, int]
    problem: str = ""
    """Why it takes no part in the tree (its parent is missing, or it is its own ancestor)."""
    waiting: int = 0
    """Units that wait, here or below."""
    holding: int = 0
    """Units that hold quota, here or below."""
    wants: Mapping[Signature, Amounts] = field(default_factory=dict)
    """What the units here (not below) ask for, by the set of resources; `demand` is under `max` and for the policy."""


@dataclass(frozen=True, slots=True)
class QueueView:
    key: str
    policy: str
    waiting: int
    holding: int
    """Units that hold quota."""
    deserved: Mapping[str, int]
    used: Mapping[str, int]
    preempting: Mapping[str, int]
    problem: str = ""
    phases: Mapping[Phase, int] = field(default_factory=dict)
    """How many of those that hold quota are in which phase."""


class WaitingView(NamedTuple):
    """A unit that waits, at its place in the line."""

    namespace: str
    name: str
    priority: int
    """As it counts: capped by its queue."""


@dataclass(frozen=True, slots=True)
class UnitView:
    key: str
    queue: str
    """The key of its Queue, empty while there is none."""
    quota: str
    """The node that is, or would be, charged; empty while there is none."""
    phase: Phase
    priority: int
    grants: tuple[Grant, ...]
    charged: Mapping[str, int]
    evictions: int
    evicting: str
    nominated: bool
