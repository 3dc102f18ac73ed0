"""Manifests in, a scenario out: every kind to its reader, every error with its file, object and field.

Nothing is simulated while there is an error. What is missing (a queue, a quota, a parent) is no error: absence waits,
and the unit says for what. Kinds that the simulator has no use for are left out with a note.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from usher.core.amounts import Amounts
from usher.core.events import CapacityChanged, Event, QueueChanged, QueueGone, QuotaChanged, QuotaGone
from usher.core.model import Queue, Quota
from usher.quotas.placing import cycle
from usher.runtime.naming import default_queues
from usher.sim import capacity, documents, sources
from usher.sim.jobs import JobReader
from usher.sim.labels import MANAGED
from usher.sim.objects import API_VERSION, GROUP, SYSTEM_NAMESPACE, Manifest, collected, manifest
from usher.sim.problems import Problems
from usher.sim.queues import policy_names, read_queue, read_quota
from usher.sim.scenario import Answers, Scenario, Work

KINDS: Final = {
    "Queue": API_VERSION,
    "QueueQuota": API_VERSION,
    "QueueUnit": API_VERSION,
    "QueueJob": API_VERSION,
    "AdmissionCheck": API_VERSION,
    "Job": "batch/v1",
    "Node": "v1",
    "Namespace": "v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    **sources.KINDS,
}
CHANGEABLE: Final = frozenset({"Queue", "QueueQuota", *sources.KINDS})
"""Kinds that may be given again with a later arrival: a change."""

_TOP: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_RANK: Final[dict[type[Event], int]] = {
    CapacityChanged: 0,
    QuotaChanged: 1,
    QueueChanged: 2,
    QueueGone: 3,
    QuotaGone: 4,
}

_T = TypeVar("_T")
Versions = list[tuple[Quota, int, int | None]]
"""Quotas, when they come, and when they go."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the command line says where manifests do not."""

    runs_ms: int = 60_000
    capacity: Amounts | None = None


def load(paths: Sequence[str], defaults: Defaults, extra: Scenario | None = None) -> Scenario:
    """The scenario of these files and folders, and of a trace if there is one; raises BadInputError."""
    problems = Problems()
    grouped = _grouped(documents.read(paths, problems), problems)
    read = _Loading(grouped, defaults, problems)
    works = read.works()
    happenings, answers = read.happenings(works, extra), read.answers()
    works = read.named(works)
    if not any(isinstance(event, CapacityChanged) for _, event in happenings):
        problems.errors.append(capacity.MISSING)
    asks = any(isinstance(event, QueueChanged) and event.queue.request for _, event in happenings)
    if not works and not asks and extra is None and not problems.errors:
        problems.errors.append(
            "nothing to simulate: no Job with a queue or quota label, no QueueUnit, no QueueJob, no Queue with request"
        )
    problems.stop_if_any()
    notes = [*problems.notes, *(extra.notes if extra else ())]
    return Scenario(
        tuple(_numbered([*works, *(extra.works if extra else ())])), tuple(happenings), answers, tuple(notes)
    )


def _grouped(found: list[documents.Document], problems: Problems) -> dict[str, list[Manifest]]:
    """By kind, without what is not ours to read; also says what is there twice."""
    grouped: dict[str, list[Manifest]] = defaultdict(list)
    seen: dict[tuple[str, str, str, int], Manifest] = {}
    ignored: dict[tuple[str, str], int] = defaultdict(int)
    for document in found:
        item = manifest(document, problems)
        if item is None:
            continue
        api_version = item.body.text("apiVersion")
        if KINDS.get(item.kind) != api_version:
            if item.kind in KINDS and api_version.startswith(f"{GROUP}/"):
                problems.extend(item.where, [f"apiVersion: {api_version} is not {API_VERSION}"])
            else:
                ignored[document.file, f"{item.kind} ({api_version})"] += 1
            continue
        if api_version == API_VERSION:
            problems.extend(item.where, [f"{field}: no such field" for field in document.body if field not in _TOP])
        version = collected(item, problems, Manifest.arrives_ms) if item.kind in CHANGEABLE else 0
        ident = (item.kind, item.namespace, item.name, version)
        if ident in seen:
            problems.errors.append(f"{item.where}: metadata.name: is there twice, first in {seen[ident].file}")
            continue
        seen[ident] = item
        grouped[item.kind].append(item)
    for (file, kind), count in ignored.items():
        problems.notes.append(f"{file}: {kind} is not simulated{f' ({count} objects)' if count > 1 else ''}")
    return grouped


class _Loading:
    """One pass over the manifests of all kinds."""

    def __init__(self, grouped: dict[str, list[Manifest]], defaults: Defaults, problems: Problems) -> None:
        self._of = grouped
        self._defaults = defaults
        self._problems = problems
        self._classes = dict(_SYSTEM_CLASSES)
        self._default_class = 0
        for item in grouped["PriorityClass"]:
            value = item.body.integer("value", 0, high=2_000_001_000)
            self._classes[item.name] = value
            if item.body.flag("globalDefault", False):
                self._default_class = value
            problems.extend(item.where, item.errors)
        self._namespaces = {
            name: {"kubernetes.io/metadata.name": name, **labels} for name, labels in self._namespace_labels().items()
        }
        self._nameless: set[str] = set()
        """Managed jobs that name neither queue nor quota."""
        self._meant: dict[str, str] = {}
        """By namespace: the queue that such jobs mean."""

    def works(self) -> list[Work]:
        reader = JobReader(self._classes, self._default_class, self._defaults.runs_ms)
        found: list[tuple[Manifest, Work]] = []
        owned: dict[tuple[str, str], Manifest] = {}
        for item in self._of["QueueUnit"]:
            consumer = item.spec.inside("consumerRef")
            if consumer.text("kind") == "Job" and consumer.text("name"):
                owned[item.namespace, consumer.text("name")] = item
        for item in self._of["Job"]:
            unit = owned.get((item.namespace, item.name))
            if unit is not None:
                unit.extra = item.annotations
                self._problems.notes.append(f"{item.where}: simulated as {unit.ident}")
                continue
            managed = self._namespaces.get(item.namespace, {}).get(MANAGED) == "true"
            work = collected(item, self._problems, partial(reader.read_job, managed=managed))
            if work is None:
                self._problems.notes.append(f"{item.where}: names no queue and no quota: not simulated")
            else:
                found.append((item, work))
                if not work.unit.queue and not work.unit.quota:
                    self._nameless.add(work.unit.key)
        for kind, read in (("QueueUnit", reader.read_queue_unit), ("QueueJob", reader.read_queue_job)):
            found.extend((item, collected(item, self._problems, read)) for item in self._of[kind])
        return _with_own_names(found)

    def named(self, works: list[Work]) -> list[Work]:
        """With the queue that managed jobs without a name mean, as the manager names it; after `happenings`."""
        return [
            replace(work, unit=replace(work.unit, queue=self._meant[work.unit.namespace]))
            if work.unit.key in self._nameless and work.unit.namespace in self._meant
            else work
            for work in works
        ]

    def happenings(self, works: list[Work], extra: Scenario | None) -> list[tuple[int, Event]]:
        """Capacity, quotas and queues over time; what a trace brings gives way to what the manifests say."""
        found: list[tuple[int, Event]] = [*self._capacity()]
        quotas = self._versions("QueueQuota", lambda item: read_quota(item, self._namespaces))
        policies = policy_names()
        queues = self._versions("Queue", lambda item: read_queue(item, self._namespaces, self._classes, policies))
        self._refuse_cycles(quotas)
        for quota, arrives, leaves in quotas:
            found.append((arrives, QuotaChanged(quota)))
            found.extend([] if leaves is None else [(leaves, QuotaGone(quota.name))])
        taken = frozenset(space for quota, _, _ in quotas for space in quota.namespaces)
        around = sources.Around(queues, self._namespaces, taken)
        foreign = sources.replay([item for kind in sources.KINDS for item in self._of[kind]], around, self._problems)
        self._refuse_doubles(quotas, foreign.lives)
        found.extend(foreign.happenings)
        quotas, queues = [*quotas, *foreign.lives], [*queues, *foreign.queues]
        self._meant = default_queues((), self._namespaces, [queue for queue, _, _ in queues])
        for queue, arrives, leaves in [*queues, *_default_queues(works, quotas, {queue.key for queue, _, _ in queues})]:
            found.append((arrives, QueueChanged(queue)))
            found.extend([] if leaves is None else [(leaves, QueueGone(queue.key))])
        names = {quota.name for quota, _, _ in quotas} | {queue.key for queue, _, _ in queues}
        for at_ms, event in extra.happenings if extra else ():
            given = isinstance(event, CapacityChanged) and any(isinstance(each, CapacityChanged) for _, each in found)
            if not given and _name_of(event) not in names:
                found.append((at_ms, event))
        return sorted(found, key=lambda each: (each[0], _RANK[type(each[1])]))

    def answers(self) -> dict[str, Answers]:
        found: dict[str, Answers] = {}
        for item in self._of["AdmissionCheck"]:
            spec = item.spec
            spec.text("controllerName")
            spec.optional_integer("retryDelayMinutes", low=0)
            spec.inside("parameters")
            spec.refuse_others()
            found[item.name] = collected(item, self._problems, Manifest.answers) or Answers()
        return found

    def _capacity(self) -> list[tuple[int, CapacityChanged]]:
        if self._defaults.capacity is not None:
            if self._of["Node"]:
                self._problems.notes.append(f"--capacity stands for the {len(self._of['Node'])} Node manifests")
            return [(0, CapacityChanged(self._defaults.capacity))]
        nodes = [
            collected(
                item, self._problems, lambda node: (node.arrives_ms(), node.leaves_ms(), capacity.read_node(node))
            )
            for item in self._of["Node"]
        ]
        return capacity.over_time(nodes) if nodes else []

    def _versions(self, kind: str, read: Callable[[Manifest], _T]) -> list[tuple[_T, int, int | None]]:
        """Every version of every object of a kind with its times."""
        return [
            collected(item, self._problems, lambda each: (read(each), each.arrives_ms(), each.leaves_ms()))
            for item in self._of[kind]
        ]

    def _refuse_cycles(self, quotas: Versions) -> None:
        parents: dict[str, str] = {}
        for at_ms in sorted({arrives for _, arrives, _ in quotas}):
            parents.update({quota.name: quota.parent for quota, arrives, _ in quotas if arrives == at_ms})
            names = cycle(parents)
            if names:
                item = next(each for each in self._of["QueueQuota"] if each.name == names[0])
                self._problems.extend(item.where, [f"spec.parent: a cycle: {' → '.join(names)}"])
                return

    def _refuse_doubles(self, own: Versions, foreign: Versions) -> None:
        both = {quota.name for quota, _, _ in own} & {quota.name for quota, _, _ in foreign}
        self._problems.errors.extend(f"QueueQuota {name}: another source has a quota of this name" for name in both)

    def _namespace_labels(self) -> dict[str, dict[str, str]]:
        found = {item.name: item.labels for item in self._of["Namespace"]}
        for kind in ("Queue", "QueueUnit", "QueueJob", "Job", "ResourceQuota"):
            for item in self._of[kind]:
                found.setdefault(item.namespace, {})
        return found


def _default_queues(works: list[Work], quotas: Versions, taken: set[str]) -> list[tuple[Queue, int, int | None]]:
    """A shared queue for each quota whose units name none, or that, as the manager makes one for every quota."""
    asked = {work.unit.queue for work in works}
    unnamed = [work.unit for work in works if not work.unit.queue]
    named, namespaces = {unit.quota for unit in unnamed}, {unit.namespace for unit in unnamed if not unit.quota}
    found: list[tuple[Queue, int, int | None]] = []
    for quota, arrives, leaves in quotas:
        if quota.queue:
            continue
        queue = Queue(SYSTEM_NAMESPACE, quota.name, quota=quota.name, shared=True)
        if queue.key not in taken and (quota.name in named | asked or namespaces & quota.namespaces):
            taken.add(queue.key)
            found.append((queue, arrives, leaves))
    return found


def _name_of(event: Event) -> str:
    match event:
        case QuotaChanged(quota):
            return quota.name
        case QueueChanged(queue):
            return queue.key
        case _:
            return ""


def _with_own_names(found: list[tuple[Manifest, Work]]) -> list[Work]:
    """Units of different kinds may share a name in one namespace; the engine must tell them apart."""
    taken: set[str] = set()
    works = []
    for item, work in found:
        if work.unit.key in taken:
            renamed = replace(work.unit, name=f"{item.name}~{item.kind.lower()}")
            work = replace(work, unit=renamed, name=item.name)
        taken.add(work.unit.key)
        works.append(work)
    return works


def _numbered(works: list[Work]) -> list[Work]:
    """In the order of arrival (else of the files), which is the order in which a cluster would see them."""
    ordered = sorted(works, key=lambda work: work.unit.created_ms)
    if all(work.unit.seq == number for number, work in enumerate(ordered, 1)):
        return ordered
    return [replace(work, unit=replace(work.unit, seq=number)) for number, work in enumerate(ordered, 1)]
