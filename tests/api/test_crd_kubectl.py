"""Our kinds through kubectl: columns, short names, the category, explain, field selectors."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from apiserver import ApiServer
from samples import made, reserved

from usher.api.crd import root_schema
from usher.api.kinds import KINDS
from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster

AGE = re.compile(r"\b[0-9]+(s|m)([0-9]+s)?$", re.MULTILINE)
ACTIVE = reserved()["status"]["conditions"][0] | {"type": "Active"}
RED = {"kind": "Job", "apiVersion": "batch/v1", "name": "train"}

SHOWN: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    # kind: spec, status, what `kubectl get` prints, and with -o wide; the object is named NAME
    "Queue": (
        {"queuePolicy": "FIFO", "priority": 5, "quota": "red"},
        {"counts": {"waiting": 12, "running": 3}, "deserved": {"cpu": "4"}, "used": {"cpu": "2"}},
        """
NAME   POLICY   PRIORITY   WEIGHT   WAITING   RUNNING   AGE
NAME   FIFO     5          1        12        3         AGE
""",
        """
NAME   POLICY   PRIORITY   WEIGHT   WAITING   RUNNING   STOP   QUOTA   DESERVED      USED          AGE
NAME   FIFO     5          1        12        3         None   red     {"cpu":"4"}   {"cpu":"2"}   AGE
""",
    ),
    "QueueUnit": (
        {"consumerRef": RED, "queue": "training", "priority": 7, "request": {"cpu": 1}},
        {"phase": "Enqueued", "quota": "red", "evictions": 1, "message": "waits for 2 cpu"},
        """
NAME   QUEUE      PRIORITY   PHASE      KIND   JOB     AGE
NAME   training   7          Enqueued   Job    train   AGE
""",
        """
NAME   QUEUE      PRIORITY   PHASE      KIND   JOB     QUOTA   EVICTIONS   MESSAGE           AGE
NAME   training   7          Enqueued   Job    train   red     1           waits for 2 cpu   AGE
""",
    ),
    "QueueJob": (
        {"queue": "q01", "priority": 10, "resourceunit": {"cpu": "1"}, "resourceno": 4},
        {"allocatedno": 3, "allocated": {"cpu": "3"}},
        """
NAME   QUEUE   PRIORITY   UNITS   ALLOCATED   AGE
NAME   q01     10         4       3           AGE
""",
        """
NAME   QUEUE   PRIORITY   UNITS   ALLOCATED   RESOURCES     AGE
NAME   q01     10         4       3           {"cpu":"3"}   AGE
""",
    ),
    "DynamicWorkload": (
        {"consumerRef": {"kind": "RayCluster", "name": "ray"}, "queue": "q01", "podSets": [{"name": "head"}]},
        {"state": "GrowPending", "wanted": 5, "granted": 3, "used": 2},
        """
NAME   QUEUE   STATE         WANTED   GRANTED   USED   AGE
NAME   q01     GrowPending   5        3         2      AGE
""",
        """
NAME   QUEUE   STATE         WANTED   GRANTED   USED   KIND         APPLICATION   AGE
NAME   q01     GrowPending   5        3         2      RayCluster   ray           AGE
""",
    ),
    "QueueQuota": (
        {"parent": "company", "min": {"cpu": 4}, "max": {"cpu": "8", "memory": "16Gi"}, "lendable": False},
        {"used": {"cpu": "2"}, "deserved": {"cpu": "6"}, "waiting": 1},
        """
NAME   PARENT    WEIGHT   LENDABLE   MIN         MAX                           USED          AGE
NAME   company   1        false      {"cpu":4}   {"cpu":"8","memory":"16Gi"}   {"cpu":"2"}   AGE
""",
        """
NAME   PARENT    WEIGHT   LENDABLE   MIN         MAX                           USED          DESERVED      WAITING   AGE
NAME   company   1        false      {"cpu":4}   {"cpu":"8","memory":"16Gi"}   {"cpu":"2"}   {"cpu":"6"}   1         AGE
""",
    ),
    "AdmissionCheck": (
        {"controllerName": "example.com/budget"},
        {"conditions": [ACTIVE]},
        """
NAME   CONTROLLER           ACTIVE   AGE
NAME   example.com/budget   True     AGE
""",
        """
NAME   CONTROLLER           ACTIVE   AGE
NAME   example.com/budget   True     AGE
""",
    ),
}


def put_up(server: ApiServer, kind: str) -> dict[str, Any]:
    """The object of SHOWN, on the server."""
    spec, status, *_ = SHOWN[kind]
    body = made(kind) | {"spec": spec}
    server.create(body)
    server.patch(body, {"status": status}, "status")
    return body


def table(printed: str, name: str) -> str:
    """What was printed, with the name and the age of the object as in SHOWN, and columns as wide as they need be."""
    rows = [re.split(r" {2,}|$", line)[:-1] for line in AGE.sub("AGE", printed.replace(name, "NAME")).splitlines()]
    widths = [max(map(len, column)) + 3 for column in zip(*rows, strict=True)]
    return "".join("".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_columns_say_what_one_wants_to_know(api_cluster: Cluster, server: ApiServer, kind: str) -> None:
    body = put_up(server, kind)
    kubectl, name = api_cluster.kubectl.within(server.namespace), body["metadata"]["name"]
    plain, wide = await asyncio.gather(
        kubectl("get", KINDS[kind].plural, name), kubectl("get", KINDS[kind].plural, name, "-o", "wide")
    )

    assert table(plain, name) == SHOWN[kind][2].lstrip()
    assert table(wide, name) == SHOWN[kind][3].lstrip()
    server.delete(body)


async def test_short_names_and_the_category_find_every_kind(kubectl: Kubectl, api_cluster: Cluster) -> None:
    assert kubectl.namespace
    here = ApiServer(api_cluster.kubeconfig, kubectl.namespace)
    bodies = [put_up(here, kind) for kind in KINDS]
    names = {f"{KINDS[each['kind']].singular}.scheduling.x-k8s.io/{each['metadata']['name']}" for each in bodies}
    short = await kubectl("get", "q,qu,qj,dw,qq,ac", "-o", "name")
    category = await kubectl("get", "usher", "-o", "name")
    everything = await kubectl("get", "all", "-o", "name")

    assert names <= set(short.split())
    assert names <= set(category.split())
    assert not names & set(everything.split()), "`kubectl get all` shows what runs, not our bookkeeping"
    for body in bodies:
        here.delete(body)
    here.close()


async def test_units_are_found_by_queue_and_phase(api_cluster: Cluster, server: ApiServer) -> None:
    waiting, running = made("QueueUnit", queue="by-phase"), made("QueueUnit", queue="by-phase")
    for body, phase in ((waiting, "Enqueued"), (running, "Running")):
        server.create(body)
        server.patch(body, {"status": {"phase": phase}}, "status")

    kubectl = api_cluster.kubectl.within(server.namespace)
    found = await kubectl.get("qu", "--field-selector", "spec.queue=by-phase,status.phase=Running")

    assert [each["metadata"]["name"] for each in found["items"]] == [running["metadata"]["name"]]


async def test_kubectl_waits_for_a_condition(api_cluster: Cluster, server: ApiServer) -> None:
    body = made("QueueUnit")
    server.create(body)
    server.patch(body, reserved(), "status")

    kubectl, name = api_cluster.kubectl.within(server.namespace), body["metadata"]["name"]
    said = await kubectl("wait", f"queueunit/{name}", "--for=condition=QuotaReserved", "--timeout=10s")

    assert "condition met" in said


def objects(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every path that has fields, with the fields and what they are for."""
    while "items" in schema or "properties" not in schema:
        below = schema.get("items", schema.get("additionalProperties"))
        if not isinstance(below, dict):
            return
        schema = below
    known = {
        name: each for name, each in schema["properties"].items() if name not in ("apiVersion", "kind", "metadata")
    }
    yield path, {name: each["description"] for name, each in known.items()}
    for name, each in known.items():
        yield from objects(each, f"{path}.{name}")


@pytest.mark.parametrize("kind", KINDS)
async def test_kubectl_explains_every_field(api_cluster: Cluster, kind: str) -> None:
    paths = dict(objects(root_schema(KINDS[kind]), KINDS[kind].plural))
    limit = asyncio.Semaphore(2)

    async def explained(path: str) -> str:
        async with limit:
            return await api_cluster.kubectl("explain", path, f"--api-version={KINDS[kind].api_version}")

    texts = await asyncio.gather(*map(explained, paths))

    assert len(paths) >= 3
    for (path, fields), text in zip(paths.items(), texts, strict=True):
        said = " ".join(text.split())
        assert "<no description>" not in said, path
        for name, description in fields.items():
            assert name in said, path
            assert " ".join(description.split()) in said, f"{path}.{name}"


async def test_the_crds_are_established_and_have_no_complaint(api_cluster: Cluster) -> None:
    for kind in KINDS.values():
        crd = await api_cluster.kubectl.get("crd", kind.crd_name)
        said = {each["type"]: each["status"] for each in crd["status"]["conditions"]}

        assert said["Established"] == said["NamesAccepted"] == "True"
        assert said.get("NonStructuralSchema", "False") == "False", json.dumps(crd["status"])
