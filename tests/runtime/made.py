"""Jobs, units and pods for the tests of the runtime, as the API server would show them."""

from __future__ import annotations

from typing import Any

import msgspec

from usher.api.queueunit import QueueUnit
from usher.core.model import Grant, Stored
from usher.core.phases import Phase
from usher.jobkinds.batchjob import BatchJob
from usher.runtime.entry import Entry
from usher.runtime.facts import JobFacts, PodFacts, Reading, UnitFacts, draft, read_job, read_unit
from usher.runtime.objects import JobObject

KIND = BatchJob()
READING = Reading(kinds=frozenset({"batch/Job"}))
QUEUE = "scheduling.x-k8s.io/queue-name"
ELASTIC = {"scheduling.x-k8s.io/elastic": "true"}


def job(
    status: dict[str, Any] | None = None,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    cpu: str = "1",
    queue: str = "main",
    deleting: bool = False,
    reading: Reading = READING,
    **spec: Any,
) -> JobFacts:
    """A job of four pods of a core each, that is held."""
    resources = {"requests": {"cpu": cpu}}
    template = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    body = {
        "metadata": {
            "name": "job",
            "namespace": "ns",
            "uid": "job-uid",
            "resourceVersion": "5",
            "labels": {**({QUEUE: queue} if queue else {}), **(labels or {})},
            "annotations": annotations or {},
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}),
        },
        "spec": {"suspend": True, "parallelism": 4, "completions": 8, "template": template, **spec},
        "status": status or {},
    }
    return read_job(KIND, msgspec.json.decode(msgspec.json.encode(body), type=JobObject), reading)


def unit(facts: JobFacts, stored: Stored | None = None, **more: Any) -> UnitFacts:
    """The unit of a job, as it was made of it."""
    said = draft(KIND, facts.decoded(), facts.found, READING)
    assert said is not None
    metadata = {**said.body["metadata"], "uid": "unit-uid", "resourceVersion": "7", "generation": 1}
    body = {**said.body, "metadata": metadata, "spec": {**said.body["spec"], **more}}
    found = read_unit(msgspec.json.decode(msgspec.json.encode(body), type=QueueUnit))
    return found if stored is None else msgspec.structs.replace(found, stored=stored)


def held(phase: Phase, count: int = 4, **more: Any) -> Stored:
    """A past in which quota is reserved."""
    return Stored(phase, (Grant("main", count),), "quota", generation=3, **more)


def pod(name: str, *, gated: bool = False, deleting: bool = False, alive: bool = True, born: int = 0) -> PodFacts:
    key, amounts = f"ns/{name}", {"cpu": 1000}
    return PodFacts(key, name, "job-uid", "main", "", alive, False, gated, deleting, amounts, created_ms=born)


def entry(facts: JobFacts | None, found: UnitFacts | None = None, *pods: PodFacts, **more: Any) -> Entry:
    made = Entry("ns/job", found, facts, pods={each.uid: each for each in pods}, **more)
    made.remember()
    return made
