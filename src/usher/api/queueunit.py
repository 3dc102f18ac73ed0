"""QueueUnit: one job's place in a queue.

Everything that the engine must find again after a restart (`usher.core.model.Stored`) has its home in the status:
`usher.api.stored` reads it and says which field is which.
"""

from typing import Annotated, Final

from msgspec import field

from usher.api.meta import Condition, ObjectMeta, ObjectReference
from usher.api.names import API_VERSION, QUOTA_RESERVED
from usher.api.podset import CHECKS_MAX, POD_SETS_MAX, PodSets, PodSetUpdates
from usher.api.shapes import (
    Api,
    Count,
    Int32,
    Int64,
    Message,
    Name,
    Natural,
    OptionalName,
    Quantities,
    QuotaName,
    Reported,
    Rule,
    Time,
    always,
    keyed,
    shape,
)
from usher.core.model import CheckState
from usher.core.phases import Phase

_WAITS: Final = (
    "!has(oldSelf.status) || !has(oldSelf.status.conditions) || "
    f"!oldSelf.status.conditions.exists(c, c.type == '{QUOTA_RESERVED}' && c.status == 'True')"
)


def _templates(which: str) -> str:
    """The templates in order. They are compared both ways: the server looks only for the fields of the first."""
    return f"{which}.spec.podSets.map(p, has(p.template) ? [p.template] : [])"


def _fixed(field: str) -> Rule:
    """A field of the spec that stays as it is while quota is reserved."""
    return Rule(
        f"{_WAITS} || (has(self.spec.{field}) ? has(oldSelf.spec.{field}) && self.spec.{field} == oldSelf.spec.{field}"
        f" : !has(oldSelf.spec.{field}))",
        f"{field} cannot change while quota is reserved: make the unit inactive first",
        field=f".spec.{field}",
    )


class QueueUnitSpec(Api, frozen=True, kw_only=True):
    """What the job asks for."""

    RULES = (
        Rule(
            "has(self.podSets) || has(self.request) || has(self.resource)",
            "give podSets or request: what the job asks for is missing",
        ),
        Rule(
            "!has(oldSelf.consumerRef) || (has(self.consumerRef) && self.consumerRef == oldSelf.consumerRef)",
            "consumerRef cannot be changed: a unit belongs to one job",
            field=".consumerRef",
        ),
        Rule(
            "!has(oldSelf.sequence) || (has(self.sequence) && self.sequence == oldSelf.sequence)",
            "sequence cannot be changed: it is the unit's place in time",
            field=".sequence",
        ),
        Rule(
            "!has(self.resource) || (has(oldSelf.resource) && self.resource == oldSelf.resource)",
            "resource is deprecated and only read: change request instead",
            field=".resource",
        ),
    )

    consumer_ref: ObjectReference | None = None
    """The job."""
    priority: Int32 | None = None
    """A higher one goes first, where the queue's policy looks at it."""
    priority_class_name: OptionalName = ""
    """The PriorityClass that the priority came from."""
    queue: OptionalName = ""
    """The Queue: one in the unit's namespace, else a shared one; without it, that of its quota."""
    quota: QuotaName = ""
    """The quota that is charged; without it, that of its queue or namespace."""
    pod_sets: Annotated[PodSets, shape(minItems=1)] = ()
    """The pods. They follow the job while it waits; while quota is reserved only the count of an elastic set may
    change."""
    request: Quantities = field(default_factory=dict)
    """What the whole job asks for, where its pod sets do not say."""
    resource: Quantities = field(default_factory=dict)
    """Deprecated: the same as request, for units that were written for it. Only read."""
    active: bool = True
    """False: it gives back what it holds, and waits without taking part."""
    preemptible: bool = True
    """False: it never has to give back, and must fit into the min of its quota."""
    maximum_execution_time_seconds: Annotated[Count, shape(minimum=1)] | None = None
    """How long it may run in all; then it is stopped and set aside."""
    sequence: Natural = 0
    """The order in which jobs were first seen: times have whole seconds."""


class ReclaimState(Api, frozen=True, kw_only=True):
    """Pods that are being taken back."""

    replicas: Natural = 0
    """How many pods may stay."""


class Admission(Api, frozen=True, kw_only=True):
    """What was granted of a pod set."""

    name: Annotated[str, shape(minLength=1, maxLength=63)]
    """The pod set."""
    replicas: Natural = 0
    """How many pods were granted."""
    running: Natural = 0
    """How many pods run."""
    resources: Reported = field(default_factory=dict)
    """What those that run use in all."""
    reclaim_state: ReclaimState | None = None
    """There while pods are being taken back."""


class AdmissionCheckState(Api, frozen=True, kw_only=True):
    """What a check says."""

    name: Name
    """The AdmissionCheck."""
    state: CheckState
    """Pending, Ready, Retry (give the quota back and try again) or Rejected (set aside until its owner acts)."""
    last_transition_time: Time | None = None
    """When the state last changed."""
    message: Message = ""
    """Why, for people."""
    pod_set_updates: PodSetUpdates = ()
    """What is added to the pods when the job starts."""


class RequeueState(Api, frozen=True, kw_only=True):
    """Its back-off."""

    count: Count = 0
    """How often it had to back off since it last ran."""
    requeue_at: Time | None = None
    """When it is tried again."""


class Nomination(Api, frozen=True, kw_only=True):
    """Room that is kept for it until it starts."""

    claimed: bool = False
    """True: freed by taking back. False: kept because others overtook it for too long."""
    since: Time
    """Since when."""
    node: Annotated[str, shape(maxLength=512)]
    """The quota where the room is kept."""


class PodState(Api, frozen=True, kw_only=True):
    """Deprecated: see admissions."""

    running: Natural = 0
    """Pods that run."""
    pending: Natural = 0
    """Pods that wait."""


class QueueUnitStatus(Api, frozen=True, kw_only=True):
    """How the unit stands."""

    phase: Phase = Phase.NEW
    """Enqueued, Reserved, Dequeued, Running, Succeed, Failed or TimeoutBackoff; empty before the first attempt."""
    attempts: Natural = 0
    """How often it was admitted."""
    message: Message = ""
    """Why it stands where it stands, for people."""
    last_update_time: Time | None = None
    """When phase or message last changed."""
    last_allocate_time: Time | None = None
    """When quota was last reserved for it."""
    quota: Annotated[str, shape(maxLength=512)] = ""
    """The quota that is charged while quota is reserved."""
    admissions: Annotated[tuple[Admission, ...], keyed("name", most=POD_SETS_MAX)] = ()
    """What was granted, by pod set; empty when it holds nothing."""
    admission_checks: Annotated[tuple[AdmissionCheckState, ...], keyed("name", most=CHECKS_MAX)] = ()
    """What each check says; written by the controllers of the checks."""
    conditions: Annotated[tuple[Condition, ...], keyed("type", most=16)] = ()
    """QuotaReserved, Admitted, PodsReady, Evicted and Finished."""
    requeue_state: RequeueState | None = None
    """Its back-off, if there was one since it last ran."""
    nomination: Nomination | None = None
    """Room that is kept for it until it starts."""
    overtaken_since: Time | None = None
    """Since when units after it in the order go past it while it waits."""
    protected_until: Time | None = None
    """Until when nobody takes back what it holds."""
    inactive: Annotated[str, shape(maxLength=1024)] = ""
    """Why it was set aside; it takes part again when its owner says so."""
    evictions: Count = 0
    """How often it was evicted."""
    has_run: bool = False
    """Whether it has run since it was created."""
    past_execution_milliseconds: Natural = 0
    """How long it ran in earlier admissions."""
    admission_generation: Natural = 0
    """Counts what happened to its admission, so that late reports are told from new ones."""
    epoch: Int64 | None = None
    """Which leader wrote this; the writes of an earlier one are refused."""
    pod_state: PodState | None = None
    """Deprecated: see admissions."""


class QueueUnit(Api, frozen=True, kw_only=True):
    """One job's place in a queue: what it asks for, its phase, and what was admitted."""

    RULES = (
        Rule(
            f"{_WAITS} || (has(self.spec.podSets) == has(oldSelf.spec.podSets) && (!has(self.spec.podSets) || "
            "(self.spec.podSets.map(p, p.name) == oldSelf.spec.podSets.map(p, p.name) && "
            "self.spec.podSets.map(p, has(p.elastic) && p.elastic) == "
            "oldSelf.spec.podSets.map(p, has(p.elastic) && p.elastic) && "
            "self.spec.podSets.map(p, has(p.minCount) ? p.minCount : -1) == "
            "oldSelf.spec.podSets.map(p, has(p.minCount) ? p.minCount : -1) && "
            "self.spec.podSets.map(p, has(p.elastic) && p.elastic ? -1 : p.count) == "
            "oldSelf.spec.podSets.map(p, has(p.elastic) && p.elastic ? -1 : p.count) && "
            f"{_templates('self')} == {_templates('oldSelf')} && {_templates('oldSelf')} == {_templates('self')})))",
            "podSets cannot change while quota is reserved, except the count of an elastic set: "
            "make the unit inactive first",
            field=".spec.podSets",
        ),
        _fixed("queue"),
        _fixed("quota"),
        _fixed("request"),
    )

    api_version: str = always(API_VERSION)
    kind: str = always("QueueUnit")
    metadata: ObjectMeta = ObjectMeta()
    spec: QueueUnitSpec
    """What the job asks for."""
    status: QueueUnitStatus | None = None
    """How the unit stands; written by the manager, admissionChecks by the controllers of the checks."""
