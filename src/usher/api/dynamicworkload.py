"""DynamicWorkload: one elastic application (Spark, Ray) and its changing set of workers."""

from enum import StrEnum
from typing import Annotated

from msgspec import field

from usher.api.meta import Condition, ObjectMeta, ObjectReference
from usher.api.names import API_VERSION
from usher.api.podset import POD_SETS_MAX, PodSetName
from usher.api.shapes import (
    Api,
    Count,
    Int32,
    Int64,
    Natural,
    OptionalName,
    Quantities,
    Rule,
    always,
    keyed,
    shape,
)


class WorkerSet(Api, frozen=True, kw_only=True):
    """Pods of the application that are alike."""

    RULES = (
        Rule(
            "!has(self.maxCount) || self.minCount <= self.maxCount",
            "minCount must not be above maxCount",
            field=".minCount",
        ),
    )

    name: PodSetName
    """Of the set, as in driver, executor, head or a worker group."""
    min_count: Count = 1
    """What must be admitted together for the application to start."""
    max_count: Count | None = None
    """What it may grow to; without it, there is no limit but its quota."""
    request: Quantities = field(default_factory=dict)
    """Of one pod."""


class DynamicWorkloadSpec(Api, frozen=True, kw_only=True):
    """Which application, and within which bounds."""

    RULES = (
        Rule(
            "self.consumerRef == oldSelf.consumerRef",
            "consumerRef cannot be changed: a DynamicWorkload belongs to one application",
            field=".consumerRef",
        ),
    )

    consumer_ref: ObjectReference
    """The application."""
    queue: OptionalName = ""
    """The Queue: one in its namespace, else a shared one."""
    priority: Int32 | None = None
    """A higher one goes first."""
    pod_sets: Annotated[tuple[WorkerSet, ...], keyed("name", most=POD_SETS_MAX), shape(minItems=1)]
    """Its sets of pods."""


class DynamicState(StrEnum):
    NEW = ""
    PENDING = "Pending"
    ADMITTED = "Admitted"
    GROW_PENDING = "GrowPending"
    SHRINKING = "Shrinking"
    EVICTING = "Evicting"
    FINISHING = "Finishing"
    FINISHED = "Finished"


class WorkerState(Api, frozen=True, kw_only=True):
    """How a set stands."""

    name: PodSetName
    """Of the set."""
    wanted: Natural = 0
    """What the application wants now."""
    granted: Natural = 0
    """What was promised."""
    used: Natural = 0
    """Pods that were let go and have not ended."""


class DynamicWorkloadStatus(Api, frozen=True, kw_only=True):
    """How the application stands."""

    state: DynamicState = DynamicState.NEW
    """Pending, Admitted, GrowPending (more is wanted than granted), Shrinking, Evicting, Finishing or Finished."""
    queue_unit: OptionalName = ""
    """The QueueUnit that holds its place in the queue."""
    wanted: Natural = 0
    """Pods that the application wants now, in all."""
    granted: Natural = 0
    """Pods that were promised, in all."""
    used: Natural = 0
    """Pods that were let go and have not ended, in all."""
    pod_sets: Annotated[tuple[WorkerState, ...], keyed("name", most=POD_SETS_MAX)] = ()
    """The same, by set."""
    epoch: Int64 | None = None
    """Which leader wrote this; the writes of an earlier one are refused."""
    observed_generation: Natural = 0
    """The generation of the spec that this is about."""
    conditions: Annotated[tuple[Condition, ...], keyed("type", most=16)] = ()
    """Admitted: its least is granted. Satisfied: everything it wants is granted, or what it waits for."""


class DynamicWorkload(Api, frozen=True, kw_only=True):
    """One elastic application and its changing set of workers: it starts with its least and grows as its quota
    allows."""

    api_version: str = always(API_VERSION)
    kind: str = always("DynamicWorkload")
    metadata: ObjectMeta = ObjectMeta()
    spec: DynamicWorkloadSpec
    """Which application, and within which bounds."""
    status: DynamicWorkloadStatus | None = None
    """How the application stands; written by the manager."""
