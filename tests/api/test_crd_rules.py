"""Each rule of the CRDs refuses what it is there for, with the words we meant, on the real API server.

A case is a fault: where it is put, and what the server says to it. The object without the fault is accepted in the
same test, so a case cannot pass because something else is wrong.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from apiserver import JSON, ApiServer, RefusedError
from samples import TEMPLATE, made, reserved

from usher.api.crd import root_schema
from usher.api.files import messages
from usher.api.kinds import KINDS

LONG = "q" * 64
NAME = "this is not the name of an object"
NEGATIVE = "a quantity must not be negative"
QUANTITY = "this is not a quantity: write it as in 500m, 2Gi or 3"
RESOURCE = "the name of a resource must be like cpu, memory or example.com/gpu"
VALUES = "values must be given for In and NotIn, and only for them"
KEPT = "podSets cannot change while quota is reserved, except the count of an elastic set: make the unit inactive first"
POD_SETS = [{"name": f"s{number}", "template": TEMPLATE} for number in range(65)]


def line(**fields: Any) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "team", **fields}]}


CREATING: dict[str, tuple[str, str, Any, str]] = {
    # what is wrong: kind, path of the fault, its value, what the server says
    "a policy that is no name": ("Queue", "spec.queuePolicy", "a b", "this is not the name of a queue policy"),
    "an empty policy": ("Queue", "spec.queuePolicy", "", "this is not the name of a queue policy"),
    "a stop policy that is none": ("Queue", "spec.stopPolicy", "Stop", 'supported values: "None", "Hold", "HoldAndDra'),
    "a negative weight": ("Queue", "spec.weight", -1, "greater than or equal to 0"),
    "a priority beyond int32": ("Queue", "spec.priority", 2**31, "less than or equal to 2147483647"),
    "a priority below int32": ("Queue", "spec.priority", -(2**31) - 1, "greater than or equal to -2147483648"),
    "a highest priority beyond int32": ("Queue", "spec.maxPriority", 2**31, "less than or equal to 2147483647"),
    "a negative number of units": ("Queue", "spec.maxUnits", -1, "greater than or equal to 0"),
    "a negative request": ("Queue", "spec.request.cpu", "-1", NEGATIVE),
    "a negative whole request": ("Queue", "spec.request.cpu", -1, NEGATIVE),
    "a request that is no quantity": ("Queue", "spec.request.cpu", "much", QUANTITY),
    "a request that is a fraction without quotes": ("Queue", "spec.request.cpu", 1.5, "must be of type integer,string"),
    "a resource that is no name": ("Queue", "spec.request.c p u", 1, RESOURCE),
    "too many resources": ("Queue", "spec.request", {f"r{n}": 1 for n in range(65)}, "must have at most 64 items"),
    "a queue's quota that is no name": ("Queue", "spec.quota", "Team Red", "this is not the name of a quota"),
    "a priority class that is no name": ("Queue", "spec.priorityClassName", "High!", NAME),
    "a duration that is none": ("Queue", "spec.reserveAfter", "soon", "this is not a duration: write it as in 90s"),
    "a preemption that is none": ("Queue", "spec.preemption", {"withinQuota": "Any"}, '"Never", "LowerPriority"'),
    "a check twice": ("Queue", "spec.admissionChecks", [{"name": "a"}, {"name": "a"}], "Duplicate value"),
    "a check without a name": ("Queue", "spec.admissionChecks", [{}], "Required value"),
    "too many checks": ("Queue", "spec.admissionChecks", [{"name": f"c{n}"} for n in range(9)], "at most 8 items"),
    "an operator that is none": ("Queue", "spec.namespaceSelector", line(operator="Is"), "Unsupported value"),
    "In without values": ("Queue", "spec.namespaceSelector", line(operator="In"), VALUES),
    "Exists with values": ("Queue", "spec.namespaceSelector", line(operator="Exists", values=["a"]), VALUES),
    "a name too long for a label": ("Queue", "metadata.name", LONG, "the name of a Queue has at most 63 characters"),
    "a min above max": ("QueueQuota", "spec.min.cpu", "8001m", "min must not be above max: that of cpu is"),
    "a min above max in other units": ("QueueQuota", "spec.max.memory", "8191Mi", "that of memory is"),
    "a negative min": ("QueueQuota", "spec.min.memory", "-1Gi", NEGATIVE),
    "a negative max": ("QueueQuota", "spec.max.memory", "-1Gi", NEGATIVE),
    "a max that is no quantity": ("QueueQuota", "spec.max.memory", "1GB", QUANTITY),
    "a quota's weight below zero": ("QueueQuota", "spec.weight", -1, "greater than or equal to 0"),
    "a parent that is no name": ("QueueQuota", "spec.parent", "Root", NAME),
    "a namespace twice": ("QueueQuota", "spec.namespaces", ["a", "a"], "Duplicate value"),
    "a namespace that is no name": ("QueueQuota", "spec.namespaces", ["A"], NAME),
    "a quota named root": (
        "QueueQuota",
        "metadata.name",
        "root",
        "root is the whole cluster: name the quotas",
    ),
    "a quota's name too long": ("QueueQuota", "metadata.name", LONG, "the name of a QueueQuota has at most 63 char"),
    "a check without a controller": ("AdmissionCheck", "spec.controllerName", None, "Required value"),
    "a check with an empty controller": ("AdmissionCheck", "spec.controllerName", "", "at least 1 chars long"),
    "parameters without a kind": ("AdmissionCheck", "spec.parameters", {"name": "year"}, "Required value"),
    "a unit that asks for nothing": ("QueueUnit", "spec", {"queue": "q"}, "give podSets or request"),
    "no pod set": ("QueueUnit", "spec.podSets", [], "should have at least 1 items"),
    "too many pod sets": ("QueueUnit", "spec.podSets", POD_SETS, "must have at most 64 items"),
    "a pod set twice": ("QueueUnit", "spec.podSets", [{}, {}], "Duplicate value"),
    "a pod set that is no name": ("QueueUnit", "spec.podSets", [{"name": "a/b"}], "should match"),
    "a negative count": ("QueueUnit", "spec.podSets", [{"count": -1}], "greater than or equal to 0"),
    "a least count above the count": (
        "QueueUnit",
        "spec.podSets",
        [{"count": 3, "minCount": 4}],
        "minCount must not be above count",
    ),
    "a least count above the default count": ("QueueUnit", "spec.podSets", [{"minCount": 2}], "minCount must not be"),
    "a negative least count": ("QueueUnit", "spec.podSets", [{"minCount": -1}], "greater than or equal to 0"),
    "a unit's priority beyond int32": ("QueueUnit", "spec.priority", 2**31, "less than or equal to 2147483647"),
    "a unit's negative request": ("QueueUnit", "spec.request.cpu", "-1", NEGATIVE),
    "a unit's queue that is no name": ("QueueUnit", "spec.queue", "a_b", NAME),
    "an execution time of nothing": ("QueueUnit", "spec.maximumExecutionTimeSeconds", 0, "greater than or equal to 1"),
    "a negative number of resource units": ("QueueJob", "spec.resourceno", -1, "greater than or equal to 0"),
    "a number of resource units beyond int32": ("QueueJob", "spec.resourceno", 2**31, "less than or equal to 214748"),
    "a QueueJob without a resource unit": ("QueueJob", "spec.resourceunit", None, "Required value"),
    "a negative resource unit": ("QueueJob", "spec.resourceunit.cpu", "-1", NEGATIVE),
    "a QueueJob's priority beyond int32": ("QueueJob", "spec.priority", 2**31, "less than or equal to 2147483647"),
    "an application's least above its most": (
        "DynamicWorkload",
        "spec.podSets",
        [{"name": "a", "minCount": 3, "maxCount": 2}],
        "minCount must not be above maxCount",
    ),
    "an application without pod sets": ("DynamicWorkload", "spec.podSets", [], "should have at least 1 items"),
    "an application that is not named": ("DynamicWorkload", "spec.consumerRef", None, "Required value"),
}


def with_fault(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with a value at a path; None takes the field away."""
    faulty = copy.deepcopy(body)
    *steps, last = path.split(".")
    inside = faulty
    for step in steps:
        inside = inside[step]
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    return faulty


@pytest.mark.parametrize("fault", CREATING)
def test_a_bad_object_is_refused_in_our_words(server: ApiServer, fault: str) -> None:
    kind, path, value, says = CREATING[fault]
    good = made(kind)

    assert server.dry_run(good)["kind"] == kind
    with pytest.raises(RefusedError) as refused:
        server.dry_run(with_fault(good, path, value))

    said = [cause for cause in refused.value.causes if says in cause]
    assert said, refused.value.causes
    where = "metadata.name" if path == "metadata.name" else path.split(".")[0]
    assert any(cause.startswith(where) for cause in said), f"the field is not named: {said}"


def test_a_quota_is_not_its_own_parent(server: ApiServer) -> None:
    quota = made("QueueQuota")
    assert server.dry_run(quota)

    with pytest.raises(RefusedError, match="a QueueQuota cannot be its own parent") as refused:
        server.dry_run(with_fault(quota, "spec.parent", quota["metadata"]["name"]))

    assert refused.value.causes[0].startswith("spec.parent")


SETS = "/spec/podSets"
POD = f"{SETS}/0/template"
MAIN = f"{POD}/spec/containers/0"


def put(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def drop(path: str) -> dict[str, Any]:
    return {"op": "remove", "path": path}


def move(before: str, after: str) -> dict[str, Any]:
    return {"op": "move", "from": before, "path": after}


WAITING: dict[str, tuple[list[dict[str, Any]], str]] = {
    # what is tried with a unit that waits: the change, what the server says (nothing: it is allowed)
    "another job": ([put("/spec/consumerRef/name", "x")], "consumerRef cannot be changed: a unit belongs to one job"),
    "no job": ([drop("/spec/consumerRef")], "consumerRef cannot be changed: a unit belongs to one job"),
    "another place in time": ([put("/spec/sequence", 1)], "sequence cannot be changed: it is the unit's place in time"),
    "no place in time": ([drop("/spec/sequence")], "sequence cannot be changed: it is the unit's place in time"),
    "a resource": ([put("/spec/resource", {"cpu": 1})], "resource is deprecated and only read: change request instead"),
    "another queue": ([put("/spec/queue", "x")], ""),
    "a quota": ([put("/spec/quota", "x")], ""),
    "another request": ([put("/spec/request/cpu", 9)], ""),
    "another count": ([put(f"{SETS}/0/count", 9)], ""),
    "no pod sets": ([drop(SETS)], ""),
    "another template": ([put(f"{MAIN}/resources/requests/cpu", "9")], ""),
}
RESERVED: dict[str, tuple[list[dict[str, Any]], str]] = {
    # the same with a unit that has quota reserved
    "another queue": ([put("/spec/queue", "x")], "queue cannot change while quota is reserved: make the unit inactive"),
    "no queue": ([drop("/spec/queue")], "queue cannot change while quota is reserved: make the unit inactive first"),
    "a quota": ([put("/spec/quota", "x")], "quota cannot change while quota is reserved: make the unit inactive first"),
    "another request": ([put("/spec/request/cpu", 9)], "request cannot change while quota is reserved: make the unit"),
    "no request": ([drop("/spec/request")], "request cannot change while quota is reserved: make the unit inactive"),
    "the count of an elastic set": ([put(f"{SETS}/1/count", 9)], ""),
    "the count of another set": ([put(f"{SETS}/0/count", 9)], KEPT),
    "making a set elastic with its count": ([put(f"{SETS}/0/elastic", True), put(f"{SETS}/0/count", 9)], KEPT),
    "the least count": ([put(f"{SETS}/1/minCount", 0)], KEPT),
    "no least count": ([drop(f"{SETS}/1/minCount")], KEPT),
    "a set less": ([drop(f"{SETS}/1")], KEPT),
    "a set more": ([put(f"{SETS}/-", {"name": "more"})], KEPT),
    "no set at all": ([drop(SETS)], KEPT),
    "another name of a set": ([put(f"{SETS}/0/name", "x")], KEPT),
    "the request of a container": ([put(f"{MAIN}/resources/requests/cpu", "9")], KEPT),
    "the request of an elastic set's container": (
        [put(f"{SETS}/1/template/spec/containers/0/resources/requests/cpu", "9")],
        KEPT,
    ),
    "a container more": ([put(f"{POD}/spec/containers/-", {"name": "more"})], KEPT),
    "the label of a pod": ([put(f"{POD}/metadata/labels/app", "x")], KEPT),
    "a renamed resource": ([move(f"{MAIN}/resources/requests/cpu", f"{MAIN}/resources/requests/memory")], KEPT),
    "renamed requests": ([move(f"{MAIN}/resources/requests", f"{MAIN}/resources/asks")], KEPT),
    "renamed resources": ([move(f"{MAIN}/resources", f"{MAIN}/means")], KEPT),
    "renamed containers": ([move(f"{POD}/spec/containers", f"{POD}/spec/cages")], KEPT),
    "a renamed pod": ([move(f"{POD}/spec", f"{POD}/pod")], KEPT),
    "no template": ([drop(POD)], KEPT),
    "making it inactive": ([put("/spec/active", False)], ""),
    "another priority": ([put("/spec/priority", 3)], ""),
}
OTHERS: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    "another controller": (
        "AdmissionCheck",
        [put("/spec/controllerName", "x")],
        "controllerName cannot be changed: make another AdmissionCheck",
    ),
    "another application": (
        "DynamicWorkload",
        [put("/spec/consumerRef/name", "x")],
        "consumerRef cannot be changed: a DynamicWorkload belongs to one application",
    ),
}
CHANGING = {
    **{f"{what}, while it waits": ("QueueUnit", False, *each) for what, each in WAITING.items()},
    **{f"{what}, while quota is reserved": ("QueueUnit", True, *each) for what, each in RESERVED.items()},
    **{what: (kind, False, change, says) for what, (kind, change, says) in OTHERS.items()},
}


@pytest.mark.parametrize("change", CHANGING)
def test_a_change_is_refused_if_and_only_if_a_rule_says_so(server: ApiServer, change: str) -> None:
    kind, holds, patch, says = CHANGING[change]
    body = made(kind)
    server.create(body)
    if holds:
        server.patch(body, reserved(), "status")
    before = server.read(body)

    if says:
        with pytest.raises(RefusedError) as refused:
            server.patch(body, patch, kind=JSON)
        assert any(says in cause for cause in refused.value.causes), refused.value.causes
        assert server.read(body) == before
    else:
        assert server.patch(body, patch, kind=JSON)["spec"] != before["spec"]
    server.delete(body)


STATUSES: dict[str, tuple[str, dict[str, Any], str]] = {
    # what is wrong: kind, status, what the server says
    "the seed's constant instead of its value": ("QueueUnit", {"phase": "Backoff"}, '"TimeoutBackoff"'),
    "a phase in lower case": ("QueueUnit", {"phase": "running"}, "Unsupported value"),
    "an epoch that is no number": ("QueueUnit", {"epoch": "1"}, "must be of type integer"),
    "a check's state that is none": (
        "QueueUnit",
        {"admissionChecks": [{"name": "a", "state": "Done"}]},
        '"Pending", "Ready", "Retry", "Rejected"',
    ),
    "a check's answer without a state": ("QueueUnit", {"admissionChecks": [{"name": "a"}]}, "Required value"),
    "a grant of fewer than none": ("QueueUnit", {"admissions": [{"name": "a", "replicas": -1}]}, "equal to 0"),
    "a grant twice": ("QueueUnit", {"admissions": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
    "a time that is none": ("QueueUnit", {"lastAllocateTime": "yesterday"}, "must be of type date-time"),
    "a condition twice": (
        "QueueUnit",
        {"conditions": [reserved()["status"]["conditions"][0]] * 2},
        "Duplicate value",
    ),
    "a condition's status that is none": (
        "Queue",
        {"conditions": [reserved()["status"]["conditions"][0] | {"status": "yes"}]},
        '"True", "False", "Unknown"',
    ),
    "a negative allocation": ("QueueJob", {"allocatedno": -1}, "greater than or equal to 0"),
    "a state that is none": ("DynamicWorkload", {"state": "Growing"}, "Unsupported value"),
}


@pytest.mark.parametrize("fault", STATUSES)
def test_a_bad_status_is_refused_in_our_words(server: ApiServer, fault: str) -> None:
    kind, status, says = STATUSES[fault]
    body = made(kind)
    server.create(body)

    assert server.patch(body, {"status": {"conditions": []}}, "status")
    with pytest.raises(RefusedError) as refused:
        server.patch(body, {"status": status}, "status")

    assert any(says in cause for cause in refused.value.causes), refused.value.causes
    server.delete(body)


@pytest.mark.parametrize(
    "phase", ["", "Enqueued", "Reserved", "Dequeued", "Running", "Succeed", "Failed", "TimeoutBackoff"]
)
def test_every_phase_of_the_seed_is_accepted(server: ApiServer, phase: str) -> None:
    body = made("QueueUnit")
    server.create(body)

    assert server.patch(body, {"status": {"phase": phase, "epoch": 2**62}}, "status")["status"]["phase"] == phase
    server.delete(body)


def test_a_deprecated_resource_may_be_there_from_the_beginning_and_may_go(server: ApiServer) -> None:
    body = made("QueueUnit", resource={"cpu": 1})
    server.create(body)

    with pytest.raises(RefusedError, match="resource is deprecated and only read"):
        server.patch(body, {"spec": {"resource": {"cpu": 2}}})
    assert "resource" not in server.patch(body, {"spec": {"resource": None}})["spec"]
    server.delete(body)


def test_a_plug_ins_policy_is_accepted(server: ApiServer) -> None:
    for policy in (
        "FIFO",
        "Priority",
        "PriorityBlocking",
        "Block",
        "Intelligent",
        "smallest-first",
        "example.com/best",
    ):
        assert server.dry_run(made("Queue", queuePolicy=policy))["spec"]["queuePolicy"] == policy


def test_every_rule_has_a_case() -> None:
    """The rules as the CRDs have them: one that nobody breaks here could be gone without a word."""
    said = [says for _, _, _, says in [*CREATING.values(), *CHANGING.values()] if says]
    said.append("a QueueQuota cannot be its own parent")
    rules = {message for kind in KINDS.values() for message in messages(root_schema(kind))}

    assert len(rules) > 15
    assert not [rule for rule in rules if not any(rule in each or each in rule or rule[:30] in each for each in said)]
