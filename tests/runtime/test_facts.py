"""What is read of jobs, units and pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made import KIND, QUEUE, READING, job, unit

from usher.api.meta import ObjectMeta, OwnerReference
from usher.api.queueunit import QueueUnit
from usher.runtime.facts import JobFacts, draft, provisional, read_job, read_pod, takes_part, unit_name
from usher.runtime.marks import GATE, UNIT_ANNOTATION, without_ours
from usher.runtime.objects import JobObject, PodObject, PodStatus
from usher.runtime.reading_units import UnitReader
from usher.runtime.templates import (
    ContainerDefaults,
    LimitRangeItem,
    LimitRangeObject,
    LimitRangeSpec,
    completed,
    defaults_of,
)

GROUP = "scheduling.x-k8s.io"


def said(**kwargs: Any) -> dict[str, Any]:
    facts = job(**kwargs)
    found = draft(KIND, facts.decoded(), facts.found, kwargs.get("reading", READING))
    assert found is not None
    spec: dict[str, Any] = found.body["spec"]
    return spec


def test_a_unit_says_again_what_its_job_says() -> None:
    facts = job()
    assert unit(facts).digest == facts.digest
    assert unit(facts).unit == provisional(facts, READING)
    for other in (job(cpu="2"), job(queue="b"), job(parallelism=3), job(labels={f"{GROUP}/priority": "1"})):
        assert other.digest != facts.digest


def test_what_usher_itself_put_on_a_job_changes_nothing() -> None:
    marks = {f"{GROUP}/admission": "1.x", f"{GROUP}/reduced": "main=2/4"}
    assert job(annotations=marks).digest == job().digest
    ours = {
        "metadata": {"annotations": {UNIT_ANNOTATION: "u", "own": "1"}},
        "spec": {"schedulingGates": [{"name": GATE}]},
    }
    assert without_ours(ours) == {"metadata": {"annotations": {"own": "1"}}, "spec": {}}


def test_the_priority_is_the_first_that_somebody_says() -> None:
    reading = msgspec.structs.replace(READING, classes={"high": 100}, default_class=("base", 5))
    container = {"name": "main"}
    high = {"spec": {"containers": [container], "priorityClassName": "high"}}
    number = {"spec": {"containers": [container], "priorityClassName": "high", "priority": 7}}
    assert (said(reading=reading)["priority"], said(reading=reading)["priorityClassName"]) == (5, "base")
    assert said(reading=reading, template=high)["priority"] == 100
    assert said(reading=reading, template=number)["priority"] == 7
    assert said(reading=reading, template=number, labels={f"{GROUP}/priority": "-3"})["priority"] == -3


@pytest.mark.parametrize(
    ("label", "value", "problem"),
    [
        ("priority", "much", "'much' is not a whole number"),
        ("priority", "9999999999", "'9999999999' is not a whole number from -2147483648 to 2147483647"),
        ("min-count", "-1", "'-1' is not a whole number from 0 to 2147483647"),
        ("elastic", "yes", "'yes' is neither true nor false"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_said(label: str, value: str, problem: str) -> None:
    facts = job(labels={f"{GROUP}/{label}": value})
    assert problem in facts.problem
    assert facts.digest


def test_a_job_of_a_job_that_is_queued_is_not_queued_again() -> None:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="parent", uid="p", controller=True)
    facts = job()
    meta = msgspec.structs.replace(facts.found.metadata, owner_references=(owner,))
    found = msgspec.structs.replace(facts.found, metadata=meta)
    assert draft(KIND, facts.decoded(), found, READING) is None
    assert takes_part(facts.found, READING)
    assert not takes_part(job(queue="").found, READING)
    assert takes_part(job(queue="").found, msgspec.structs.replace(READING, managed=frozenset({"ns"})))
    assert takes_part(job(queue="", annotations={QUEUE: "x"}).found, READING)


def test_a_name_is_its_own_for_every_job_and_never_too_long() -> None:
    assert unit_name(KIND, "a", "1") != unit_name(KIND, "a", "2")
    assert len(unit_name(KIND, "a" * 253, "1")) == 253


def test_its_own_size_is_what_was_taken_off_unless_its_owner_changed_it() -> None:
    reduced = {f"{GROUP}/reduced": "main=2/4"}
    assert job(annotations=reduced, parallelism=2).full_counts() == {"main": 4}
    assert job(annotations=reduced, parallelism=3).full_counts() == {"main": 3}
    assert job(annotations={f"{GROUP}/reduced": "nonsense"}, parallelism=2).full_counts() == {"main": 2}
    assert not job(parallelism=2).reduced


def test_a_pod_that_its_job_left_is_known_by_what_it_was_let_in_with() -> None:
    def read(annotations: dict[str, str]) -> Any:
        meta = ObjectMeta(name="p", namespace="ns", uid="u", annotations=annotations)
        return read_pod(PodObject(metadata=meta, status=PodStatus(phase="Running")), {"batch/Job": KIND})

    left = read({UNIT_ANNOTATION: "job-x"})
    assert (left.unit, left.owner, left.alive) == ("job-x", "", True)
    assert read({}) is None


DEFAULTS = ContainerDefaults({"cpu": "3"}, {"cpu": "2", "memory": "1Gi"})


def container(**resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "resources": resources}]}}


FILLED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "what it says nothing of": (container(), {"cpu": "2", "memory": "1Gi"}),
    "not what it asks for": (container(requests={"cpu": "1"}), {"cpu": "1", "memory": "1Gi"}),
    "not what it has a limit for, which is its request": (
        container(limits={"cpu": "4"}),
        {"cpu": "4", "memory": "1Gi"},
    ),
}


@pytest.mark.parametrize("what", FILLED)
def test_what_a_limit_range_fills_in(what: str) -> None:
    given, want = FILLED[what]
    assert completed(given, DEFAULTS, {})["spec"]["containers"][0]["resources"]["requests"] == want


def test_a_runtime_class_adds_its_overhead_once() -> None:
    spec = {"runtimeClassName": "heavy", "containers": []}
    heavy = {"heavy": {"cpu": "1"}}
    assert completed({"spec": spec}, None, heavy)["spec"]["overhead"] == {"cpu": "1"}
    own = {"spec": {**spec, "overhead": {"cpu": "2"}}}
    assert completed(own, None, heavy) is own
    assert completed({"spec": spec}, None, {}) == {"spec": spec}


def test_of_several_limit_ranges_the_first_by_name_counts() -> None:
    def ranges(name: str, **item: Any) -> LimitRangeObject:
        spec = LimitRangeSpec(limits=(LimitRangeItem(**item),))
        return LimitRangeObject(metadata=ObjectMeta(name=name), spec=spec)

    found = defaults_of(
        [
            ranges("b", type="Container", default={"cpu": "9", "memory": "9Gi"}),
            ranges("a", type="Container", default={"cpu": "2"}, default_request={"cpu": "1"}),
            ranges("c", type="Pod", default={"gpu": "1"}),
        ]
    )
    assert found == ContainerDefaults({"cpu": "2", "memory": "9Gi"}, {"cpu": "1", "memory": "9Gi"})


def status_of(facts: JobFacts, **status: Any) -> JobObject:
    """The same job a moment later, with another status."""
    meta = msgspec.structs.replace(facts.found.metadata, resource_version="9", generation=4)
    return msgspec.structs.replace(facts.found, metadata=meta, status=msgspec.Raw(msgspec.json.encode(status)))


def test_a_job_whose_status_alone_has_changed_is_not_read_from_the_beginning() -> None:
    first = read_job(KIND, status_of(job()), READING)
    now = status_of(first, ready=2, active=2, startTime="2026-01-01T00:00:00Z")

    again = read_job(KIND, now, READING, first)

    assert again == read_job(KIND, now, READING)
    assert again.digest is first.digest, "it was not computed anew"
    assert again.progress.ready == {"main": 2}


@pytest.mark.parametrize("what", ["generation", "labels", "annotations", "owner_references", "uid"])
def test_what_a_job_says_is_read_again_when_it_may_have_changed(what: str) -> None:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="x", uid="u", controller=True)
    labels = {QUEUE: "main", f"{GROUP}/priority": "3"}
    changed: dict[str, Any] = {"labels": labels, "annotations": {f"{GROUP}/priority": "3"}, "uid": "another"}
    changed |= {"generation": 5, "owner_references": [owner]}
    first = read_job(KIND, status_of(job()), READING)
    found = status_of(first)
    other = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, **{what: changed[what]}))

    again = read_job(KIND, other, READING, first)

    assert again == read_job(KIND, other, READING)
    assert again.digest is not first.digest
    assert read_job(KIND, status_of(first), msgspec.structs.replace(READING), first).digest is not first.digest, (
        "read otherwise"
    )


def test_a_unit_that_comes_twice_is_read_once() -> None:
    body = msgspec.json.encode(
        {"metadata": {"name": "u", "namespace": "a", "uid": "1", "resourceVersion": "5"}, "spec": {}}
    )
    reader, found = UnitReader(), msgspec.json.decode(body, type=QueueUnit)

    first = reader(found)

    assert reader(msgspec.json.decode(body, type=QueueUnit)) is first
    assert reader(found) is not first, "and then forgotten"
    newer = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, resource_version="6"))
    assert reader(newer).version == 6
