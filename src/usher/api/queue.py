"""Queue: an order in which units are tried, and a tenant's face."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

from msgspec import field

from usher.api.meta import Condition, LabelSelector, ObjectMeta
from usher.api.names import API_VERSION
from usher.api.shapes import (
    POLICY,
    Api,
    Count,
    Duration,
    Int32,
    Name,
    Natural,
    OptionalName,
    Quantities,
    QuotaName,
    Reported,
    Rule,
    always,
    keyed,
    shape,
    worded,
)
from usher.core.model import StopPolicy

POLICY_WORDS: Final = "this is not the name of a queue policy: FIFO, Priority, PriorityBlocking, Block or a plug-in"


class AdmissionCheckWithSelector(Api, frozen=True, kw_only=True):
    """A check that units of the queue must pass."""

    name: Name
    """The AdmissionCheck."""
    label_selector: LabelSelector | None = None
    """Which units must pass it, by their labels; without it, all."""


class PreemptionWithinQuota(StrEnum):
    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class Preemption(Api, frozen=True, kw_only=True):
    """From whom units of the queue may take, besides taking back what was lent."""

    within_quota: PreemptionWithinQuota = PreemptionWithinQuota.NEVER
    """Whether a unit may take from units of lower priority in its own quota: Never or LowerPriority."""


class QueueSpec(Api, frozen=True, kw_only=True):
    """How the queue works."""

    queue_policy: Annotated[str, worded(POLICY, POLICY_WORDS, 128)] = "Priority"
    """The order inside the queue: FIFO (the head blocks the queue), Priority (what does not fit is passed over),
    PriorityBlocking or its alias Block (the head blocks its quota), or the name of a plug-in."""
    priority: Int32 | None = None
    """Between shared queues, the higher goes first; a tenant's own queues rank only among themselves."""
    priority_class_name: OptionalName = ""
    """The PriorityClass whose value is the priority where none is given."""
    admission_checks: Annotated[tuple[AdmissionCheckWithSelector, ...], keyed("name", most=8)] = ()
    """Third parties that must agree after the quota is reserved and before a job starts."""
    weight: Count = 1
    """Of the quota node that stands for this queue where its units have no other purse; 0: only what others leave."""
    request: Quantities = field(default_factory=dict)
    """What the queue asks for while it has neither QueueJobs nor units."""
    quota: QuotaName = ""
    """The quota of its units that name none."""
    namespace_selector: LabelSelector | None = None
    """Which namespaces may use a shared queue (one in the system namespace); without it, all."""
    max_priority: Int32 | None = None
    """The highest priority of its units; those that ask for more have this."""
    max_units: Count | None = None
    """How many of its units may hold quota at a time."""
    stop_policy: StopPolicy = StopPolicy.NONE
    """None: it runs. Hold: nothing more starts. HoldAndDrain: what runs is evicted, too."""
    preemption: Preemption | None = None
    """From whom its units may take."""
    reserve_after: Duration | None = None
    """How long a unit may be overtaken before room is kept for it; 0s: for ever. Without it, the manager's setting."""


class QueueItemDetail(Api, frozen=True, kw_only=True):
    """A unit that waits."""

    name: str = ""
    """Of the unit; empty where it belongs to another tenant."""
    namespace: str = ""
    """Of the unit."""
    priority: Int32 = 0
    """Of the unit, as it counts."""
    position: Int32 = 0
    """In the queue; the head is 1."""


class UnitCounts(Api, frozen=True, kw_only=True):
    """How many units there are."""

    waiting: Natural = 0
    """Wait for quota, set aside or in back-off included."""
    reserved: Natural = 0
    """Hold quota and wait for checks."""
    dequeued: Natural = 0
    """May start and do not run yet."""
    running: Natural = 0
    """Have their pods running."""


class QueueStatus(Api, frozen=True, kw_only=True):
    """How the queue stands."""

    queue_item_details: Annotated[
        Mapping[str, Annotated[tuple[QueueItemDetail, ...], shape(x_kubernetes_list_type="atomic", maxItems=10_000)]],
        shape(maxProperties=16),
    ] = field(default_factory=dict)
    """Under active: the first units that wait, in order."""
    counts: UnitCounts | None = None
    """Its units, those not listed included."""
    deserved: Reported = field(default_factory=dict)
    """What the share policy entitles it to now, given everybody's demand."""
    allocated: Reported = field(default_factory=dict)
    """What its units were given."""
    used: Reported = field(default_factory=dict)
    """What the pods of its units take."""
    preempting: Reported = field(default_factory=dict)
    """What is being taken back for it."""
    observed_generation: Natural = 0
    """The generation of the spec that this is about."""
    conditions: Annotated[tuple[Condition, ...], keyed("type", most=16)] = ()
    """Active: it takes part, or why not."""


class Queue(Api, frozen=True, kw_only=True):
    """An order in which units are tried, and a tenant's face: its status shows what the tenant deserves, has and uses.
    A Queue in the system namespace is shared, any other serves its own namespace."""

    RULES = (
        Rule(
            "size(self.metadata.name) <= 63",
            "the name of a Queue has at most 63 characters, because jobs name it in a label",
            field=".metadata.name",
        ),
    )

    api_version: str = always(API_VERSION)
    kind: str = always("Queue")
    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    """How the queue works."""
    status: QueueStatus | None = None
    """How the queue stands; written by the manager."""
