"""Our kinds on the real API server: what was written for the seeds applies, defaults appear, owners do not collide."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver import APPLY, JSON, ApiServer, RefusedError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import SPECS, made, reserved, unique
from seeds import GO, MANIFESTS, STATUSES
from structural import structs

from usher.api.codec import as_dict, decode, template_of
from usher.api.crd import root_schema
from usher.api.kinds import KINDS
from usher.api.names import API_VERSION
from usher.api.queueunit import QueueUnit
from usher.devcluster.clusters import Cluster

ROOT = Path(__file__).parents[2]
NOW = "2026-01-01T00:00:00Z"


def renamed(body: dict[str, Any]) -> dict[str, Any]:
    """The same under a name that only this test has."""
    copied = copy.deepcopy(body)
    copied["metadata"]["name"] = unique("seed")
    return copied


@pytest.mark.parametrize("name", MANIFESTS)
async def test_a_manifest_of_the_seeds_applies_unchanged(api_cluster: Cluster, server: ApiServer, name: str) -> None:
    body = renamed(MANIFESTS[name])
    said = await api_cluster.kubectl.within(server.namespace)("apply", "-f", "-", stdin=json.dumps(body))
    stored = server.read(body)

    assert said.endswith(" created\n"), "and without a warning"
    assert contained(body.get("spec", {}), stored.get("spec", {}))


@pytest.mark.parametrize("name", STATUSES)
def test_a_status_of_the_seeds_is_stored_unchanged(server: ApiServer, name: str) -> None:
    manifest, status = STATUSES[name]
    body = renamed(MANIFESTS[manifest])
    server.create(body)

    assert server.patch(body, {"status": status}, "status")["status"] == status


@pytest.mark.parametrize("name", GO)
def test_what_a_client_in_go_writes_is_accepted(server: ApiServer, name: str) -> None:
    body = renamed(GO[name])
    created = server.create(body)
    path = server.path(body, body["metadata"]["name"], "status")
    stored = server.call("PUT", path, {**created, "status": body["status"]}, fieldValidation="Strict")

    assert decode(KINDS[body["kind"]].type, stored).kind == body["kind"]
    assert contained(body["spec"], stored["spec"])
    assert contained(body["status"], stored.get("status", {}))


def documents() -> list[tuple[str, dict[str, Any]]]:
    """Objects of our kinds that the examples and the docs show."""
    files = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "examples").rglob("*.yaml"))}
    page = (ROOT / "docs" / "api.md").read_text()
    shown = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    files |= {f"docs/api.md {number}": text for number, text in enumerate(shown)}
    return [
        (f"{name} {body['kind']} {body['metadata']['name']}", body)
        for name, text in files.items()
        for body in yaml.safe_load_all(text)
        if body and body["apiVersion"] == API_VERSION
    ]


@pytest.mark.parametrize("body", [body for _, body in documents()], ids=[name for name, _ in documents()])
def test_what_the_examples_and_the_docs_show_is_accepted(server: ApiServer, body: dict[str, Any]) -> None:
    mine = {**body, "metadata": {**body["metadata"], "namespace": server.namespace, "name": unique("shown")}}
    if not KINDS[body["kind"]].namespaced:
        del mine["metadata"]["namespace"]
    if "status" not in body:
        assert server.dry_run(mine)["spec"]
    else:  # the answer of a check
        unit = made("QueueUnit")
        server.create(unit)
        assert server.patch(unit, {"status": body["status"]}, "status")["status"] == body["status"]


def contained(given: Any, found: Any) -> bool:
    """Whether everything given is there; null is the same as absent, and the server may add defaults."""
    if isinstance(given, dict) and isinstance(found, dict):
        return all(value is None or (key in found and contained(value, found[key])) for key, value in given.items())
    if isinstance(given, list) and isinstance(found, list):
        return len(given) == len(found) and all(map(contained, given, found))
    return bool(given == found)


DEFAULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Queue": ({}, {"queuePolicy": "Priority", "weight": 1, "stopPolicy": "None"}),
    "QueueQuota": ({}, {"weight": 1, "lendable": True}),
    "QueueUnit": (
        {"podSets": [{}]},
        {"podSets": [{"name": "main", "count": 1}], "active": True, "preemptible": True},
    ),
    "QueueJob": ({"resourceunit": {"cpu": 1}}, {"resourceunit": {"cpu": 1}, "resourceno": 1}),
    "DynamicWorkload": (
        {"consumerRef": {"kind": "RayCluster"}, "podSets": [{"name": "head"}]},
        {"consumerRef": {"kind": "RayCluster"}, "podSets": [{"name": "head", "minCount": 1}]},
    ),
    "AdmissionCheck": ({"controllerName": "x"}, {"controllerName": "x"}),
}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_defaults_appear_and_nothing_else(server: ApiServer, kind: str) -> None:
    given, expected = DEFAULTS[kind]
    body = made(kind) | {"spec": given}

    assert server.dry_run(body)["spec"] == expected


@pytest.mark.parametrize("kind", ["Queue", "QueueQuota"])
def test_defaults_appear_where_there_is_no_spec_at_all(server: ApiServer, kind: str) -> None:
    body = made(kind)
    del body["spec"]

    assert server.dry_run(body)["spec"] == DEFAULTS[kind][1]


def test_a_field_that_is_not_known_is_named_and_refused(server: ApiServer) -> None:
    body = made("Queue", wieght=3)

    with pytest.raises(RefusedError, match=r'unknown field "spec.wieght"'):
        server.dry_run(body)


def test_a_status_is_not_written_with_the_object_nor_a_spec_with_the_status(server: ApiServer) -> None:
    body = made("QueueUnit") | {"status": {"phase": "Running"}}
    assert "status" not in server.create(body)

    written = server.patch(body, {"spec": {"queue": "x"}, "status": {"phase": "Running"}}, "status")
    assert (written["spec"]["queue"], written["status"]["phase"]) == ("training", "Running")


def test_a_unit_of_a_megabyte_is_kept_and_its_rules_are_still_checked(server: ApiServer) -> None:
    container = {
        "name": "main",
        "image": "example.com/big",
        "env": [{"name": f"V{number}", "value": "x" * 100} for number in range(120)],
        "resources": {"requests": {"cpu": "1"}},
    }
    sets = [
        {"name": f"s{number}", "elastic": number == 63, "template": {"spec": {"containers": [container]}}}
        for number in range(64)
    ]
    body = made("QueueUnit", podSets=sets)
    size = len(json.dumps(body))
    assert 900_000 < size < 1_200_000

    server.create(body)
    server.patch(body, reserved(), "status")
    read = decode(QueueUnit, json.dumps(server.read(body)))
    assert len(read.spec.pod_sets) == 64
    assert template_of(read.spec.pod_sets[63]) == sets[63]["template"]

    value = "/spec/podSets/63/template/spec/containers/0/env/99/value"
    with pytest.raises(RefusedError, match="podSets cannot change while quota is reserved"):
        server.patch(body, [{"op": "replace", "path": value, "value": "y"}], kind=JSON)
    grown = server.patch(body, [{"op": "replace", "path": "/spec/podSets/63/count", "value": 2}], kind=JSON)
    assert grown["spec"]["podSets"][63]["count"] == 2
    server.delete(body)


def test_the_manager_and_a_check_own_what_they_apply_and_nothing_of_each_other(server: ApiServer) -> None:
    body = made("QueueUnit")
    server.create(body)
    head = {"apiVersion": body["apiVersion"], "kind": body["kind"]}

    def applied(owner: str, force: bool = False, **status: Any) -> dict[str, Any]:
        query = {"fieldManager": owner} | ({"force": "true"} if force else {})
        answer = server.patch(body, head | {"status": status}, "status", kind=APPLY, **query)
        status = answer["status"]
        assert isinstance(status, dict)
        return status

    def check(name: str, state: str) -> dict[str, Any]:
        return {"name": name, "state": state, "lastTransitionTime": NOW}

    condition = reserved()["status"]["conditions"][0]
    mine = {"phase": "Reserved", "conditions": [condition], "admissions": [{"name": "driver", "replicas": 1}]}
    asked = [{"name": "budget", "state": "Pending"}, {"name": "nodes", "state": "Pending"}]
    applied("usher", **mine, admissionChecks=asked)

    with pytest.raises(RefusedError, match="conflict"):
        applied("budget", admissionChecks=[check("budget", "Ready")])
    answered = applied("budget", force=True, admissionChecks=[check("budget", "Ready")])
    assert [(each["name"], each["state"]) for each in answered["admissionChecks"]] == [
        ("budget", "Ready"),
        ("nodes", "Pending"),
    ]
    assert (answered["phase"], answered["admissions"]) == ("Reserved", mine["admissions"])

    # The manager no longer speaks of the checks: what is only its own goes, the answer stays.
    later = applied("usher", **mine | {"phase": "Dequeued"})
    assert [(each["name"], each["state"]) for each in later["admissionChecks"]] == [("budget", "Ready")]
    assert (later["phase"], later["conditions"]) == ("Dequeued", [condition])

    # Another check, and a condition of its own, touch nobody's entries.
    other = applied(
        "nodes",
        admissionChecks=[check("nodes", "Retry")],
        conditions=[condition | {"type": "example.com/Provisioned", "status": "False"}],
    )
    assert {each["name"]: each["state"] for each in other["admissionChecks"]} == {"budget": "Ready", "nodes": "Retry"}
    assert {each["type"] for each in other["conditions"]} == {"QuotaReserved", "example.com/Provisioned"}

    # And who goes takes only its own along.
    gone = applied("nodes")
    assert [each["name"] for each in gone["admissionChecks"]] == ["budget"]
    assert [each["type"] for each in gone["conditions"]] == ["QuotaReserved"]
    assert gone["admissions"] == mine["admissions"]


FULL_STATUS: dict[str, dict[str, Any]] = {
    "Queue": {
        "queueItemDetails": {"active": [{"name": "a", "namespace": "b", "priority": -1, "position": 1}]},
        "counts": {"waiting": 1, "reserved": 2, "dequeued": 3, "running": 4},
        "deserved": {"cpu": "1"},
        "allocated": {"cpu": "2"},
        "used": {"cpu": "3"},
        "preempting": {"cpu": "4"},
        "observedGeneration": 1,
        "conditions": reserved()["status"]["conditions"],
    },
    "QueueUnit": {
        **STATUSES["of a QueueUnit"][1],
        "quota": "red",
        "conditions": reserved()["status"]["conditions"],
        "requeueState": {"count": 2, "requeueAt": NOW},
        "nomination": {"claimed": True, "since": NOW, "node": "root"},
        "overtakenSince": NOW,
        "protectedUntil": "2026-01-01T00:00:00.007Z",
        "inactive": "a check rejected it",
        "evictions": 1,
        "hasRun": True,
        "pastExecutionMilliseconds": 12,
        "admissionGeneration": 5,
        "epoch": 0,
    },
    "QueueJob": {
        "allocated": {"cpu": "1"},
        "allocatedno": 1,
        "shrinkTo": 0,
        "shrinkAt": NOW,
        "epoch": 3,
        "observedGeneration": 1,
    },
    "DynamicWorkload": {
        "state": "GrowPending",
        "queueUnit": "u",
        "wanted": 3,
        "granted": 2,
        "used": 1,
        "podSets": [{"name": "head", "wanted": 1, "granted": 1, "used": 1}],
        "epoch": 1,
        "observedGeneration": 1,
    },
    "QueueQuota": {
        "deserved": {"cpu": "1"},
        "used": {"cpu": "3"},
        "demand": {"cpu": 4},
        "preempting": {"cpu": "4"},
        "waiting": 2,
        "holding": 3,
        "observedGeneration": 1,
    },
    "AdmissionCheck": {"observedGeneration": 1, "conditions": reserved()["status"]["conditions"]},
}


def undefaulted(schema: dict[str, Any], value: Any) -> Any:
    """A value without what the server filled in (and we, too, do not write)."""
    if isinstance(value, list):
        return [undefaulted(schema["items"], each) for each in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    found = {}
    for name, inside in value.items():
        known = schema["properties"].get(name, {})
        if known.get("default") != inside:
            found[name] = undefaulted(known, inside)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_of_the_server_loses_none_of_our_fields_on_the_way(server: ApiServer, kind: str) -> None:
    body = made(kind)
    server.create(body)
    answer = server.patch(body, {"status": FULL_STATUS[kind]}, "status")
    assert answer["status"] == FULL_STATUS[kind]

    read = decode(KINDS[kind].type, json.dumps(answer))
    again = as_dict(read)
    schema = root_schema(KINDS[kind])["properties"]

    for part in ("spec", "status"):
        assert undefaulted(schema[part], again[part]) == undefaulted(schema[part], answer[part])
    kept = set(again["metadata"])
    assert kept >= {"name", "uid", "resourceVersion", "generation", "creationTimestamp"}
    assert all(again["metadata"][field] == answer["metadata"][field] for field in kept)
    assert set(FULL_STATUS[kind]) | {"conditions"} == set(schema["status"]["properties"]), "a field is not tried"
    assert set(SPECS[kind]) <= set(schema["spec"]["properties"])


def mended(body: dict[str, Any]) -> dict[str, Any]:
    """Keeps the rules in CEL, which know of two fields at once."""
    spec = body.setdefault("spec", {})
    if body["kind"] == "QueueUnit" and not any(spec.get(field) for field in ("podSets", "request", "resource")):
        spec["request"] = {"cpu": 1}
    if body["kind"] == "QueueQuota":
        spec["min"] = {name: amount for name, amount in spec.get("min", {}).items() if name not in spec.get("max", {})}
    for pods in spec.get("podSets", []):
        most = pods.get("maxCount", 2**31 - 1) if body["kind"] == "DynamicWorkload" else pods.get("count", 1)
        pods["minCount"] = min(pods.get("minCount", 1), most)
    for selector in [
        spec.get("namespaceSelector"),
        *[each.get("labelSelector") for each in spec.get("admissionChecks", [])],
    ]:
        for line in (selector or {}).get("matchExpressions", []):
            line["values"] = ["x"] if line["operator"] in ("In", "NotIn") else []
    return body


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_server_accepts_whatever_the_types_can_hold(server: ApiServer, kind: str, data: st.DataObject) -> None:
    body = mended(as_dict(data.draw(structs(KINDS[kind].type))))
    body["metadata"] = {"name": unique("any")}
    status = body.pop("status", None)

    server.create(body)
    if status is not None:
        written = server.patch(body, {"status": status}, "status", dryRun="All")
        assert contained(status, written.get("status", {}))
    server.delete(body)
