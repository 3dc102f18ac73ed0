"""The facts about each of our kinds: what it is called, where it lives, what kubectl shows of it.

Plain data: the client, the CLI and the CRDs are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from usher.api.admissioncheck import AdmissionCheck
from usher.api.dynamicworkload import DynamicWorkload
from usher.api.names import ACTIVE, GROUP, VERSION
from usher.api.queue import Queue
from usher.api.queuejob import QueueJob
from usher.api.queuequota import QueueQuota
from usher.api.queueunit import QueueUnit
from usher.api.shapes import Api


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    about: str = ""
    wide: bool = False
    """Only with `-o wide`."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of ours."""

    type: type[Api]
    plural: str
    short: tuple[str, ...]
    columns: tuple[Column, ...]
    namespaced: bool = True
    selectable: tuple[str, ...] = ()
    """Fields that `--field-selector` knows."""
    group: str = GROUP
    version: str = VERSION

    @property
    def kind(self) -> str:
        return self.type.__name__

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def crd_name(self) -> str:
        return f"{self.plural}.{self.group}"


_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date", "When it was created")

QUEUE: Final = Kind(
    Queue,
    "queues",
    ("q",),
    (
        Column("Policy", ".spec.queuePolicy", about="The order inside the queue"),
        Column("Priority", ".spec.priority", "integer", "Between shared queues"),
        Column("Weight", ".spec.weight", "integer", "Its part of what is shared"),
        Column("Waiting", ".status.counts.waiting", "integer", "Units that wait"),
        Column("Running", ".status.counts.running", "integer", "Units that run"),
        Column("Stop", ".spec.stopPolicy", about="Whether it is held", wide=True),
        Column("Quota", ".spec.quota", about="Of its units that name none", wide=True),
        Column("Deserved", ".status.deserved", about="What it is entitled to now", wide=True),
        Column("Used", ".status.used", about="What its units hold", wide=True),
        _AGE,
    ),
)
QUEUE_UNIT: Final = Kind(
    QueueUnit,
    "queueunits",
    ("qu", "qus"),
    (
        Column("Queue", ".spec.queue", about="The Queue it waits in"),
        Column("Priority", ".spec.priority", "integer", "A higher one goes first"),
        Column("Phase", ".status.phase", about="Where it stands"),
        Column("Kind", ".spec.consumerRef.kind", about="The kind of the job"),
        Column("Job", ".spec.consumerRef.name", about="The job"),
        Column("Quota", ".status.quota", about="The quota that is charged", wide=True),
        Column("Evictions", ".status.evictions", "integer", "How often it was evicted", wide=True),
        Column("Message", ".status.message", about="Why it stands where it stands", wide=True),
        _AGE,
    ),
    selectable=(".spec.queue", ".spec.quota", ".status.phase"),
)
QUEUE_JOB: Final = Kind(
    QueueJob,
    "queuejobs",
    ("qj",),
    (
        Column("Queue", ".spec.queue", about="The Queue it belongs to"),
        Column("Priority", ".spec.priority", "integer", "A higher one gets resources first"),
        Column("Units", ".spec.resourceno", "integer", "How many units are asked for"),
        Column("Allocated", ".status.allocatedno", "integer", "How many units are allocated"),
        Column("Resources", ".status.allocated", about="What is allocated", wide=True),
        _AGE,
    ),
    selectable=(".spec.queue",),
)
DYNAMIC_WORKLOAD: Final = Kind(
    DynamicWorkload,
    "dynamicworkloads",
    ("dw",),
    (
        Column("Queue", ".spec.queue", about="The Queue it belongs to"),
        Column("State", ".status.state", about="Where it stands"),
        Column("Wanted", ".status.wanted", "integer", "Pods that the application wants now"),
        Column("Granted", ".status.granted", "integer", "Pods that were promised"),
        Column("Used", ".status.used", "integer", "Pods that were let go"),
        Column("Kind", ".spec.consumerRef.kind", about="The kind of the application", wide=True),
        Column("Application", ".spec.consumerRef.name", about="The application", wide=True),
        _AGE,
    ),
)
QUEUE_QUOTA: Final = Kind(
    QueueQuota,
    "queuequotas",
    ("qq",),
    (
        Column("Parent", ".spec.parent", about="The quota above"),
        Column("Weight", ".spec.weight", "integer", "Its part of what is shared"),
        Column("Lendable", ".spec.lendable", "boolean", "Whether others may use its idle min"),
        Column("Min", ".spec.min", about="What is guaranteed"),
        Column("Max", ".spec.max", about="What may be used at most"),
        Column("Used", ".status.used", about="What units hold"),
        Column("Deserved", ".status.deserved", about="What it is entitled to now", wide=True),
        Column("Waiting", ".status.waiting", "integer", "Units that wait", wide=True),
        _AGE,
    ),
    namespaced=False,
)
ADMISSION_CHECK: Final = Kind(
    AdmissionCheck,
    "admissionchecks",
    ("ac",),
    (
        Column("Controller", ".spec.controllerName", about="Who answers"),
        Column("Active", f'.status.conditions[?(@.type=="{ACTIVE}")].status', about="Whether somebody answers"),
        _AGE,
    ),
    namespaced=False,
)

KINDS: Final[Mapping[str, Kind]] = {
    each.kind: each for each in (QUEUE, QUEUE_UNIT, QUEUE_JOB, DYNAMIC_WORKLOAD, QUEUE_QUOTA, ADMISSION_CHECK)
}
"""By name."""
