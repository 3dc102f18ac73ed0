"""What the engine is told about the world: units, queues, quotas, and its own settings. Frozen values, no behaviour.

Drivers (the live runtime, the simulator, the tests) build these from objects of the API and hand them in by events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from usher.core.amounts import Amounts
from usher.core.phases import Phase

ROOT = "root"
"""The name of the node above every quota; its limit is capacity × oversell rate."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Some pods that are alike."""

    name: str
    count: int
    request: Amounts
    """Of one pod."""
    min_count: int | None = None
    """The smallest count with which the job can start; unset: all of them."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One job's place in a queue, as its owner wrote it."""

    namespace: str
    name: str
    pod_sets: tuple[PodSet, ...]
    queue: str = ""
    """As the job names it: the Queue in its own namespace first, then the shared one. Empty: its quota's default."""
    quota: str = ""
    """Empty: the default of its queue or namespace."""
    priority: int = 0
    created_ms: int = 0
    seq: int = 0
    """The order in which jobs were first seen: timestamps have whole seconds."""
    labels: Mapping[str, str] = field(default_factory=dict)
    active: bool = True
    preemptible: bool = True
    elastic: bool = False
    """Its counts may change while it runs: it grows as granted and gives back pods before it is evicted."""
    max_execution_ms: int | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of a label selector."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class Check:
    """A third party that must agree before a unit of this queue starts; no requirement means every unit."""

    name: str
    selector: tuple[Requirement, ...] = ()

    def applies_to(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.selector)


class StopPolicy(StrEnum):
    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class CheckState(StrEnum):
    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True)
class Queue:
    """An order in which units are tried."""

    namespace: str
    name: str
    policy: str = "Priority"
    priority: int = 0
    weight: int = 1
    """Of the quota node that stands for this queue when its units have no other purse."""
    quota: str = ""
    """The default quota of its units."""
    request: Amounts = field(default_factory=dict)
    """What it asks for while it has no unit."""
    shared: bool = False
    namespaces: frozenset[str] | None = None
    """Who may use it; None: its own namespace, or everybody where it is shared."""
    max_priority: int | None = None
    max_units: int | None = None
    """How many of its units may hold quota at a time."""
    stop: StopPolicy = StopPolicy.NONE
    checks: tuple[Check, ...] = ()
    preempts: bool = False
    """A unit may take from units of lower priority in its own quota."""
    reserve_after_ms: int | None = None
    """How long a unit may be overtaken before room is kept for it; None: the engine's setting, 0: for ever."""
    requires: frozenset[str] = frozenset()
    """Resources that every pod of its units must ask for, whatever their quota: the API server lets no other in."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Quota:
    """A node of the tree that amounts are charged to. A resource missing from `max` is not limited by it."""

    name: str
    parent: str = ""
    min: Amounts = field(default_factory=dict)
    max: Amounts = field(default_factory=dict)
    weight: int = 1
    lends: bool = True
    namespaces: frozenset[str] = frozenset()
    """Namespaces whose units are charged here when nothing names another quota."""
    weights: Amounts = field(default_factory=dict)
    """By resource, for share policies that divide each by itself; a resource that is missing here has `weight`."""
    keeps: Amounts = field(default_factory=dict)
    """The part of `min` that it does not lend, though it lends the rest."""
    max_jobs: int | None = None
    """How many units may hold quota here and below at a time."""
    requires: frozenset[str] = frozenset()
    """Resources that every pod must ask for."""
    queue: str = ""
    """The key of the queue of units that name none; empty: the shared queue of the quota's name."""
    closed: bool = False
    """Only units of its namespaces are charged here, and below where nothing says otherwise."""

    @property
    def kept(self) -> Amounts:
        """What it keeps for itself even while idle."""
        return self.keeps if self.lends else self.min


@dataclass(frozen=True, slots=True)
class Grant:
    """How many pods of a set were granted."""

    pod_set: str
    count: int


@dataclass(frozen=True, slots=True)
class Nomination:
    """Room that is kept for a unit until it starts."""

    claimed: bool
    """True: freed by taking back; False: for having been overtaken too long."""
    since_ms: int
    node: str
    """The lowest node that stopped it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What the API holds of a unit's past: all that a restarted engine needs to go on."""

    phase: Phase = Phase.NEW
    grants: tuple[Grant, ...] = ()
    """Not empty: quota is reserved for these, or pods of the job are alive."""
    quota: str = ""
    """The quota that was charged; empty: the one it belongs to now (it ran before Usher came)."""
    evicting: str = ""
    """The cause, if it was told to stop and its pods may still be there."""
    admitted_ms: int = 0
    ran_ms: int = 0
    """Execution time of earlier admissions."""
    generation: int = 0
    evictions: int = 0
    retries: int = 0
    requeue_at_ms: int = 0
    inactive: str = ""
    """Why it does not take part (a check rejected it, its execution time is used up); cleared by its owner."""
    nomination: Nomination | None = None
    overtaken_ms: int = -1
    """Since when units after it in the order go past it while it waits; -1: none did."""
    protected_ms: int = 0
    """Until when nobody takes it back; 0: not protected, or no longer than the setting says."""
    has_run: bool = False
    checks: Mapping[str, CheckState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """The engine's own settings; every limit has a name."""

    oversell: tuple[int, int] = (1, 1)
    """The root's amount is capacity × the first ÷ the second."""
    reserve_after_ms: int = 600_000
    protected_ms: int = 0
    start_timeout_ms: int = 0
    """0: never."""
    recovery_timeout_ms: int = 0
    check_timeout_ms: int = 0
    backoff_base_ms: int = 10_000
    backoff_max_ms: int = 900_000
    refused_base_ms: int = 100
    """The pause after a refused command, doubled up to `refused_max_ms`."""
    refused_max_ms: int = 30_000
    default_policy: str = "Priority"
