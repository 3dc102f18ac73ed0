"""QueueJob: a request for resources without a job; its owner starts the work when they are allocated."""

from typing import Annotated

from msgspec import field

from usher.api.meta import Condition, ObjectMeta
from usher.api.names import API_VERSION
from usher.api.shapes import Api, Count, Int32, Int64, Natural, OptionalName, Quantities, Reported, Time, always, keyed


class QueueJobSpec(Api, frozen=True, kw_only=True):
    """What is asked for: resourceunit × resourceno."""

    priority: Int32 = 0
    """A higher one gets resources first."""
    resourceunit: Quantities
    """One unit; resources are allocated in whole units."""
    resourceno: Count = 1
    """How many units."""
    queue: OptionalName = ""
    """The Queue it belongs to: one in its own namespace, else a shared one."""


class QueueJobStatus(Api, frozen=True, kw_only=True):
    """What was given."""

    allocated: Reported = field(default_factory=dict)
    """The resources allocated to it: as many whole units as its share allows now."""
    allocatedno: Count = 0
    """How many units that is."""
    shrink_to: Count | None = None
    """How many units it keeps of them: the others must be given back, and are taken at `shrinkAt`."""
    shrink_at: Time | None = None
    """When what lies above `shrinkTo` is taken back. Lowering resourceno gives it back before that."""
    epoch: Int64 | None = None
    """Which leader wrote this; the writes of an earlier one are refused."""
    observed_generation: Natural = 0
    """The generation of the spec that this is about."""
    conditions: Annotated[tuple[Condition, ...], keyed("type", most=16)] = ()
    """QuotaReserved: something is allocated, or why not. Shrinking: units must be given back."""


class QueueJob(Api, frozen=True, kw_only=True):
    """A request for resources without a job. Its owner starts the work when status.allocated arrives."""

    api_version: str = always(API_VERSION)
    kind: str = always("QueueJob")
    metadata: ObjectMeta = ObjectMeta()
    spec: QueueJobSpec
    """What is asked for."""
    status: QueueJobStatus | None = None
    """What was given; written by the manager."""
