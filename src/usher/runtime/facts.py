"""What the loop knows of one job, one unit, one pod: small frozen values, made once when an object arrives.

Readers are pure. What they need of the surroundings (which keys name a queue, what priority classes there are) comes in
a `Reading`. A job that cannot be read gives a `Draft` with a problem, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from usher.api import names
from usher.api.meta import ObjectMeta, ObjectReference
from usher.api.queueunit import QueueUnit, QueueUnitStatus
from usher.api.stored import stored_of
from usher.api.times import ms_of
from usher.core.amounts import Amounts, AmountsError, parse_amounts
from usher.core.model import PodSet, Stored, Unit
from usher.core.podrequest import effective_request
from usher.jobkinds.base import Allocation, BadJobError, Counts, Job, JobKind, Progress
from usher.runtime.asking import allocated, asks, whole_template
from usher.runtime.comparing import digest_of, encoder, says_the_same
from usher.runtime.marks import (
    ADMISSION_ANNOTATION,
    GATE,
    QUOTA_ANNOTATION,
    REDUCED_ANNOTATION,
    UNIT_ANNOTATION,
)
from usher.runtime.naming import lacking
from usher.runtime.objects import JobObject, PodObject
from usher.runtime.said import Said
from usher.runtime.templates import ContainerDefaults

_NAME_MAX: Final = 253


class Keys(msgspec.Struct, frozen=True):
    """Which labels or annotations are read for what; the first that is there counts."""

    queue: Sequence[str] = names.QUEUE_KEYS
    quota: Sequence[str] = names.QUOTA_KEYS
    priority: Sequence[str] = names.PRIORITY_KEYS
    preemptible: Sequence[str] = names.PREEMPTIBLE_KEYS
    min_count: Sequence[str] = names.MIN_COUNT_KEYS
    elastic: Sequence[str] = names.ELASTIC_KEYS
    max_execution: Sequence[str] = names.MAX_EXECUTION_TIME_KEYS


class Reading(msgspec.Struct, frozen=True):
    """What a reader must know besides the object."""

    keys: Keys = msgspec.field(default_factory=Keys)
    classes: Mapping[str, int] = msgspec.field(default_factory=dict)
    """PriorityClasses by name."""
    default_class: tuple[str, int] = ("", 0)
    managed: frozenset[str] = frozenset()
    """Namespaces in which every job is queued."""
    kinds: frozenset[str] = frozenset()
    """The kinds that are queued, as `group/Kind`: what they own is not queued again."""
    defaults: Mapping[str, ContainerDefaults] = msgspec.field(default_factory=dict)
    """By namespace."""
    overheads: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    """By RuntimeClass."""
    queues: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By namespace: the queue of managed jobs that name none."""


class Draft(msgspec.Struct, frozen=True):
    """What the unit of a job should say."""

    body: dict[str, Any]
    digest: bytes
    problem: str = ""


class JobFacts(msgspec.Struct, frozen=True):
    """A job, as last seen or written."""

    kind: JobKind
    found: JobObject
    version: int
    created_ms: int
    suspended: bool
    counts: Counts
    progress: Progress
    digest: bytes | None
    """Of what its unit should say; None: it does not take part."""
    problem: str = ""
    """Something in it cannot be read; with an empty digest, so much that it has no unit."""
    reading: Reading | None = None
    """By which it was read."""
    allocation: Allocation | None = None
    """What it has, if it has no pods."""
    asks: Amounts = msgspec.field(default_factory=dict)
    """Of a job without pods: one unit of it; of one that draws on such a job: all of its pods."""

    @property
    def draws_on(self) -> str:
        """The QueueJob whose allocation it uses, instead of being queued itself."""
        meta = self.found.metadata
        said = meta.labels.get(names.QUEUE_JOB) or meta.annotations.get(names.QUEUE_JOB) or ""
        return said if self.allocation is None else ""

    @property
    def holding(self) -> Counts:
        """How much it has of each set while it runs."""
        return self.counts if self.allocation is None else self.progress.ready

    @property
    def admission(self) -> str:
        """With which admission it was last let start."""
        return self.found.metadata.annotations.get(ADMISSION_ANNOTATION, "")

    @property
    def resumed(self) -> bool:
        """Its owner, who had paused it, wants it to be queued again; it stays suspended (see `usher.webhooks`)."""
        return self.found.metadata.annotations.get(names.PAUSED) == "false"

    @property
    def lacks(self) -> str:
        """The queue that it must be given."""
        return "" if self.reading is None or self.allocation is not None else lacking(self.found.metadata, self.reading)

    def cleared(self) -> dict[str, Any]:
        """The patch that takes out of its status what its controller left there."""
        meta = {"resourceVersion": self.found.metadata.resource_version}
        return {"metadata": meta, "status": dict(self.progress.leaves)}

    @property
    def reduced(self) -> bool:
        """It runs, or ran, with fewer pods than it wants."""
        return REDUCED_ANNOTATION in self.found.metadata.annotations

    def full_counts(self) -> dict[str, int]:
        """Its counts without what was taken off when it was let start; what its owner changed since stays."""
        counts = dict(self.counts)
        for part in self.found.metadata.annotations.get(REDUCED_ANNOTATION, "").split(","):
            name, _, numbers = part.partition("=")
            few, _, full = numbers.partition("/")
            if few.isdigit() and full.isdigit() and counts.get(name) == int(few):
                counts[name] = int(full)
        return counts

    @property
    def uid(self) -> str:
        return self.found.metadata.uid

    @property
    def deleting(self) -> bool:
        return self.found.metadata.deletion_timestamp is not None

    @property
    def unit_key(self) -> str:
        meta = self.found.metadata
        return f"{meta.namespace}/{unit_name(self.kind, meta.name, meta.uid)}"

    def decoded(self) -> Job:
        return decoded(self.found)


class UnitFacts(msgspec.Struct, frozen=True):
    """A unit, as last seen or written."""

    key: str
    namespace: str
    name: str
    uid: str
    version: int
    generation: int
    deleting: bool
    unit: Unit
    status: QueueUnitStatus
    stored: Stored
    digest: bytes
    consumer_uid: str
    consumer_kind: str
    """As `group/Kind`; empty: nobody made it for a job."""
    problem: str = ""

    @property
    def admission(self) -> str:
        """What its job is marked with when it is let start."""
        return f"{self.stored.generation}.{self.uid}"


class PodFacts(msgspec.Struct, frozen=True):
    """A pod of a job."""

    key: str
    uid: str
    owner: str
    """The uid of what controls it."""
    pod_set: str
    node: str
    alive: bool
    ready: bool
    gated: bool
    deleting: bool
    request: Amounts
    unit: str = ""
    quota: str = ""
    created_ms: int = 0


def version_of(text: str) -> int:
    """Versions of one object grow; what is no number is older than all."""
    return int(text) if text.isdigit() else 0


def unit_name(kind: JobKind, name: str, uid: str) -> str:
    """Its own for every job, also for one that comes after another of the same name."""
    mark = blake2b(uid.encode(), digest_size=3).hexdigest()
    return f"{kind.kind.lower()}-{name}"[: _NAME_MAX - 7] + f"-{mark}"


# -- jobs -------------------------------------------------------------------------------------------------------------


def decoded(found: JobObject) -> Job:
    """A job as its kind wants it."""
    meta = found.metadata
    return Job(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        spec=msgspec.json.decode(found.spec),
        status=msgspec.json.decode(found.status),
        labels=meta.labels,
        annotations=meta.annotations,
    )


def read_job(kind: JobKind, found: JobObject, reading: Reading, before: JobFacts | None = None) -> JobFacts:
    """Everything the loop asks about a job, from one look at it; of `before`, what cannot have changed since."""
    job = decoded(found)
    if before is not None and before.reading is reading and says_the_same(before.found, found):
        return msgspec.structs.replace(
            before,
            found=found,
            version=version_of(found.metadata.resource_version),
            progress=kind.progress(job),
            **({} if before.allocation is None else allocated(kind, job)),
        )
    said = draft(kind, job, found, reading)
    return JobFacts(
        kind=kind,
        found=found,
        version=version_of(found.metadata.resource_version),
        created_ms=ms_of(found.metadata.creation_timestamp),
        counts=kind.counts(job),
        progress=kind.progress(job),
        digest=None if said is None else said.digest,
        problem="" if said is None else said.problem,
        reading=reading,
        asks=asks(kind, job, reading),
        **{"suspended": kind.suspended(job), **allocated(kind, job)},
    )


def takes_part(found: JobObject, reading: Reading) -> bool:
    """Whether a job is ours to hold: it names a queue, a quota or a QueueJob, or every job of its namespace is."""
    meta, keys = found.metadata, (*reading.keys.queue, *reading.keys.quota, names.QUEUE_JOB)
    return _managed(meta, reading) or any(key in meta.labels or key in meta.annotations for key in keys)


def _managed(meta: ObjectMeta, reading: Reading) -> bool:
    """Whether it is queued because of where it was created: the settings say so, or the doors marked it."""
    return meta.namespace in reading.managed or meta.labels.get(names.MANAGED) == "true"


def draft(kind: JobKind, job: Job, found: JobObject, reading: Reading) -> Draft | None:
    """What the unit of a job should say; None if it does not take part."""
    keys, said, own = reading.keys, Said(job), kind.words(job)
    queue, quota = own.queue or said.first(keys.queue), said.first(keys.quota)
    if not own.takes_part and not queue and not quota and not _managed(found.metadata, reading):
        return None
    if (kind.part == "spec" and said.first((names.QUEUE_JOB,))) or _owned(found, reading):
        return None
    try:
        spec = _unit_spec(kind, job, said, reading)
    except (BadJobError, AmountsError) as error:
        return Draft({}, b"", str(error))
    spec["queue"], spec["quota"] = queue, quota
    labels = {key: value for key, value in job.labels.items() if not key.startswith("batch.kubernetes.io/")}
    digest = digest_of(spec, labels)
    meta = found.metadata
    spec["sequence"] = version_of(meta.resource_version)
    api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    reference = {"apiVersion": api_version, "kind": kind.kind, "name": job.name, "uid": job.uid}
    spec["consumerRef"] = {**reference, "namespace": job.namespace}
    return Draft(
        {
            "apiVersion": names.API_VERSION,
            "kind": "QueueUnit",
            "metadata": {
                "name": unit_name(kind, job.name, job.uid),
                "namespace": job.namespace,
                "labels": labels,
                "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {key: value for key, value in spec.items() if value is not None and value != ""},
        },
        digest,
        said.problem(),
    )


def provisional(job: JobFacts, reading: Reading) -> Unit | None:
    """A job as the engine would know it by its unit, if it had one; None if it can have none."""
    said = draft(job.kind, job.decoded(), job.found, reading)
    if said is None or not said.body:
        return None
    return read_unit(msgspec.json.decode(encoder.encode(said.body), type=QueueUnit), job.created_ms).unit


def _owned(found: JobObject, reading: Reading) -> bool:
    """Whether what controls it is itself queued."""
    for owner in found.metadata.owner_references:
        group = owner.api_version.rpartition("/")[0]
        if owner.controller and f"{group}/{owner.kind}" in reading.kinds:
            return True
    return False


def _unit_spec(kind: JobKind, job: Job, said: Said, reading: Reading) -> dict[str, Any]:
    keys = reading.keys
    shapes = kind.pod_sets(job)
    least = said.number(keys.min_count)
    own = kind.words(job)
    elastic = own.elastic or said.flag(keys.elastic, False)
    pod_sets: list[dict[str, Any]] = []
    for i, shape in enumerate(shapes):
        template = whole_template(kind, shape.template, job, reading)
        effective_request(template.get("spec"), f"podSets[{i}].template.spec")
        entry: dict[str, Any] = {"name": shape.name, "count": shape.count, "template": template}
        lowest = shape.min_count if shape.min_count is not None else least if i == 0 else None
        if lowest is not None:
            entry["minCount"] = min(lowest, shape.count)
        if elastic:
            entry["elastic"] = True
        pod_sets.append(entry)
    priority, class_name = priority_of(said, pod_sets, reading)
    return {
        "priority": priority if own.priority is None else own.priority,
        "priorityClassName": class_name,
        "podSets": pod_sets,
        "preemptible": None if said.flag(keys.preemptible, True) else False,
        "maximumExecutionTimeSeconds": said.number(keys.max_execution, low=1),
    }


def priority_of(said: Said, pod_sets: list[dict[str, Any]], reading: Reading) -> tuple[int, str]:
    """Of the label, the first template, its class, or the default class: the first that says one."""
    number = said.number(reading.keys.priority, low=-(2**31))
    pod = (pod_sets[0]["template"].get("spec") or {}) if pod_sets else {}
    name = str(pod.get("priorityClassName") or "")
    if number is not None:
        return number, name
    if isinstance(pod.get("priority"), int):
        return pod["priority"], name
    if name:
        return reading.classes.get(name, 0), name
    return reading.default_class[1], reading.default_class[0]


# -- units ------------------------------------------------------------------------------------------------------------


def read_unit(found: QueueUnit, created_ms: int | None = None) -> UnitFacts:
    """A unit as the engine wants it; `created_ms` is its job's, where that is known."""
    meta, spec = found.metadata, found.spec
    problem, pod_sets = "", tuple[PodSet, ...]()
    said_sets: list[dict[str, Any]] = []
    try:
        pod_sets, said_sets = _pod_sets(found)
    except AmountsError as error:
        problem = str(error)
    said = {
        "queue": spec.queue,
        "quota": spec.quota,
        "priority": spec.priority,
        "priorityClassName": spec.priority_class_name,
        "preemptible": spec.preemptible,
        "maximumExecutionTimeSeconds": spec.maximum_execution_time_seconds,
        "podSets": said_sets,
    }
    limit = spec.maximum_execution_time_seconds
    unit = Unit(
        namespace=meta.namespace,
        name=meta.name,
        pod_sets=pod_sets,
        queue=spec.queue,
        quota=spec.quota,
        priority=spec.priority or 0,
        created_ms=ms_of(meta.creation_timestamp) if created_ms is None else created_ms,
        seq=spec.sequence,
        labels=dict(meta.labels),
        active=spec.active and not problem,
        preemptible=spec.preemptible,
        elastic=any(each.elastic for each in spec.pod_sets),
        max_execution_ms=None if limit is None else limit * 1000,
    )
    return UnitFacts(
        key=unit.key,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=version_of(meta.resource_version),
        generation=meta.generation,
        deleting=meta.deletion_timestamp is not None,
        unit=unit,
        stored=stored_of(found.status),
        status=found.status or QueueUnitStatus(),
        digest=digest_of(said, meta.labels),
        consumer_uid=spec.consumer_ref.uid if spec.consumer_ref is not None else "",
        consumer_kind=_kind_of(spec.consumer_ref),
        problem=problem,
    )


def _kind_of(reference: ObjectReference | None) -> str:
    return "" if reference is None else f"{reference.api_version.rpartition('/')[0]}/{reference.kind}"


def _pod_sets(found: QueueUnit) -> tuple[tuple[PodSet, ...], list[dict[str, Any]]]:
    spec = found.spec
    pod_sets: list[PodSet] = []
    said: list[dict[str, Any]] = []
    for i, each in enumerate(spec.pod_sets):
        template = msgspec.json.decode(each.template)
        request = effective_request(template.get("spec"), f"spec.podSets[{i}].template.spec")
        pod_sets.append(PodSet(each.name, each.count, request, each.min_count))
        said.append(
            {
                "name": each.name,
                "count": each.count,
                "minCount": each.min_count,
                "elastic": each.elastic,
                "template": template,
            }
        )
    whole = parse_amounts(spec.request or spec.resource, "spec.request")
    if whole and not any(each.request for each in pod_sets):
        pod_sets = [PodSet(pod_sets[0].name if pod_sets else names.DEFAULT_POD_SET, 1, whole)]
    return tuple(pod_sets), said


# -- pods -------------------------------------------------------------------------------------------------------------


def read_pod(found: PodObject, kinds: Mapping[str, JobKind]) -> PodFacts | None:
    """A pod that a queued kind of job controls, or that was let in by us, also for a job that left it; else None."""
    meta = found.metadata
    owner = next((each for each in meta.owner_references if each.controller), None)
    unit = meta.annotations.get(UNIT_ANNOTATION, "")
    kind = None if owner is None else kinds.get(f"{owner.api_version.rpartition('/')[0]}/{owner.kind}")
    if kind is None and not unit:
        return None
    spec: dict[str, Any] = msgspec.json.decode(found.spec)
    gates = spec.get("schedulingGates") or ()
    try:
        request = effective_request(spec, "spec")
    except AmountsError:
        request = {}
    return PodFacts(
        key=f"{meta.namespace}/{meta.name}",
        uid=meta.uid,
        owner=owner.uid if owner is not None else "",
        pod_set=kind.pod_set_of(meta.labels) if kind is not None else names.DEFAULT_POD_SET,
        node=str(spec.get("nodeName") or ""),
        alive=found.status.phase not in ("Succeeded", "Failed"),
        ready=any(each.type == "Ready" and each.status == "True" for each in found.status.conditions),
        gated=any(gate.get("name") == GATE for gate in gates),
        deleting=meta.deletion_timestamp is not None,
        request=request,
        unit=unit,
        quota=meta.annotations.get(QUOTA_ANNOTATION, ""),
        created_ms=ms_of(meta.creation_timestamp),
    )
