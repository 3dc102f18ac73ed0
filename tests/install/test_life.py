"""The chart, applied by real Helm, and a manager that may do only what the chart lets it: everything works, nothing is
refused, and every right is used. What was asked is read from the API server's audit log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from acts import activate, granted, until_no_unit, until_unit
from installing import CHART, NAMESPACE, OVER, Installing
from living import KINDS, QUICK, Live
from queuejobs import queue_job, until_allocated

from usher.app.process import ManagerProcess
from usher.install.rights import Right, cluster_rights, lease_rights, secret_rights
from usher.settings.loader import load_text

pytestmark = pytest.mark.controlplane

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:usher"
OUTSIDE = (
    "admission.host=127.0.0.1", "admission.address=127.0.0.1", "admission.port=0", "admission.lookInterval=200ms",
    "admission.certificateLifetime=4s", "admission.renewBefore=3s", "jobs.finishedUnitsMax=0",
)  # fmt: skip
"""The manager of a test is no pod: the API server reaches it by its address."""

READ_BACK = "an object is read again when a write of it conflicts with somebody else's"
FINALIZERS = "an admission plug-in that is off by default asks for it"
STREAMED = "servers that cannot stream lists are asked for them"
KOORDINATOR = "followed where Koordinator's kinds are installed; tests/live/test_source_elastic.py does"
UNUSED = {
    ("batch", "jobs/finalizers", "update"): FINALIZERS,
    ("batch", "jobs", "get"): READ_BACK,
    ("scheduling.x-k8s.io", "queueunits", "get"): READ_BACK,
    ("scheduling.x-k8s.io", "queues", "get"): READ_BACK,
    ("scheduling.x-k8s.io", "queuequotas", "get"): READ_BACK,
    ("scheduling.x-k8s.io", "queuejobs", "get"): READ_BACK,
    ("scheduling.x-k8s.io", "queuejobs/finalizers", "update"): FINALIZERS,
    ("", "resourcequotas", "get"): READ_BACK,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", "create"): "an apply that creates needs it, too",
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "create"): "the same",
    ("apiextensions.k8s.io", "customresourcedefinitions", "list"): STREAMED,
    ("scheduling.sigs.k8s.io", "elasticquotas", "list"): KOORDINATOR,
    ("scheduling.sigs.k8s.io", "elasticquotas", "watch"): KOORDINATOR,
    ("scheduling.sigs.k8s.io", "elasticquotatrees", "list"): KOORDINATOR,
    ("scheduling.sigs.k8s.io", "elasticquotatrees", "watch"): KOORDINATOR,
}
"""Rights that no request of such a life shows, and why they are there."""


@pytest.fixture
async def live(installing: Installing, helm: str) -> AsyncIterator[Live]:
    """Usher by Helm, and the namespace of a tenant."""
    done = await installing.helm(
        helm,
        "install",
        "usher",
        str(CHART),
        "-n",
        NAMESPACE,
        "--create-namespace",
        "--wait",
        "--timeout",
        "3m",
        "--set-string",
        "resources.requests.cpu=0",
        *OVER,
    )
    assert done.code == 0, done.err
    await installing.kubectl("create", "namespace", "tenant")
    found = Live(installing.kubectl.within("tenant"), installing.kubectl)
    yield found
    await found.close()
    await installing.kubectl("delete", "jobs.batch", "--all", "-A", "--cascade=background")
    await installing.helm(helm, "uninstall", "usher", "-n", NAMESPACE, "--wait")
    await installing.kubectl("delete", "namespace", "tenant", "kept", "--ignore-not-found")


async def leads(installing: Installing, live: Live) -> ManagerProcess:
    """A manager with the chart's settings and account, that leads and answers at the doors."""
    text = (await installing.kubectl.within(NAMESPACE).get("configmap", "usher-settings"))["data"]["settings.yaml"]
    process = ManagerProcess(await installing.account(), load_text(text, "chart", (*QUICK, *OUTSIDE)))
    begun = asyncio.Event()
    live.processes.append((process, asyncio.ensure_future(process.run(begun.set))))
    await asyncio.wait_for(begun.wait(), 60)

    async def answers() -> bool:
        found = await installing.kubectl.get("validatingwebhookconfiguration", "usher")
        return all(each["clientConfig"].get("caBundle") for each in found["webhooks"])

    await live.wait("the doors are open", answers)
    return process


def wanted(rights: list[Right]) -> set[tuple[str, str, str]]:
    """Group, resource and verb of every right."""
    return {(each.group, resource, verb) for each in rights for resource in each.resources for verb in each.verbs}


def used(asked: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    found = set()
    for each in asked:
        about = each.get("objectRef", {})
        below = f"/{about['subresource']}" if "subresource" in about else ""
        found.add((about.get("apiGroup", ""), about.get("resource", "") + below, each["verb"]))
    return found


async def test_a_whole_life_uses_every_right_and_needs_no_other(installing: Installing, live: Live) -> None:
    before = len(installing.asked())
    process = await leads(installing, live)

    await checks_and_starts(live)
    await grows_and_gives_back(live)
    await waits_and_is_evicted(live)
    await ends_and_is_cleared_away(live)
    await asks_without_a_job(live)
    await makes_the_missing_half(live)

    async def told() -> bool:
        queue = (await live.get("queue", "main")).get("status", {})
        quota = (await live.get("quota", "tenants")).get("status", {})
        return bool(queue.get("conditions") and quota.get("conditions"))

    await live.wait("queues and quotas say how they are", told)
    await live.stop(process)
    asked = [each for each in installing.asked()[before:] if each["user"]["username"] == ACCOUNT]
    refused = [
        each
        for each in asked
        if each["responseStatus"]["code"] in (401, 403) and "dryRun=All" not in each["requestURI"]  # the fence's probe
    ]
    assert [(each["verb"], each["requestURI"], each["responseStatus"]["message"]) for each in refused] == []
    allowed = wanted([*cluster_rights(), *lease_rights("usher-manager"), *secret_rights("usher-webhook-tls")])
    missing = allowed - used(asked) - set(UNUSED)
    assert not sorted(missing), f"no request needs these: take them away, or say why: {sorted(missing)}"
    assert set(UNUSED) <= allowed, "explained, and not there"


async def checks_and_starts(live: Live) -> None:
    """A job is checked, admitted, and runs."""
    await live.quota("tenants", namespaces=[live.namespace], max={"cpu": "8"})
    await live.queue(admissionChecks=[{"name": "money"}])
    await live.job("checked", cpu="1", suspend=False)
    unit = await live.until("checked", "Reserved")
    entry = {"name": "money", "state": "Ready", "message": ""}
    body = {"apiVersion": unit["apiVersion"], "kind": "QueueUnit", "status": {"admissionChecks": [entry]}}
    await live.client.apply(
        KINDS["unit"], unit["metadata"]["name"], live.namespace, body, subresource="status", force=True,
        field_manager="checks-money",
    )  # fmt: skip
    await live.until("checked", "Running")
    await live.queue()


async def grows_and_gives_back(live: Live) -> None:
    """An elastic job grows through the gate, and gives pods back to another quota."""
    elastic = {"scheduling.x-k8s.io/elastic": "true", "scheduling.x-k8s.io/min-count": "1"}
    await live.job("elastic", cpu="1", pods=2, completions=20, labels=elastic)
    await live.until("elastic", "Running")
    await live.patch("job", "elastic", {"spec": {"parallelism": 6}})
    await until_unit(live, "elastic", "grew", lambda unit: granted(unit) == 6)
    await live.quota("lender", min={"cpu": "3"})
    await live.queue("lending", quota="lender")
    await live.job("claims", cpu="1", pods=3, queue="lending")
    await live.until("claims", "Running")
    await until_unit(live, "elastic", "gave back", lambda unit: granted(unit) < 6)


async def waits_and_is_evicted(live: Live) -> None:
    """A job waits, and one that runs is stopped."""
    await live.job("large", cpu="3", pods=2)
    await live.until("large", "Enqueued")
    await activate(live, "checked", False)
    await live.until("checked", "Enqueued")


async def ends_and_is_cleared_away(live: Live) -> None:
    """Jobs go, and what ended leaves no unit."""
    await live.kubectl("delete", "job", "elastic", "claims", "checked", "large")
    await live.job("short", cpu="1", runs="1s")

    async def ended() -> bool:
        return bool((await live.get("job", "short")).get("status", {}).get("completionTime"))

    await live.wait("the job has ended", ended)
    await until_no_unit(live, "short")


async def asks_without_a_job(live: Live) -> None:
    """A QueueJob gets what it asks for."""
    await queue_job(live, "asks", resourceno=1)
    await until_allocated(live, "asks", 1)
    await live.kubectl("delete", "queuejob", "asks")


async def makes_the_missing_half(live: Live) -> None:
    """A Queue of a managed namespace gets a ResourceQuota, that follows, and goes when somebody brings another."""
    mark = {"scheduling.x-k8s.io/managed": "true"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept", "labels": mark}}
    await live.admin.apply(space)
    await live.quota("kept", namespaces=["kept"], max={"cpu": "4"})
    await live.queue("own", "kept")
    inside = live.admin.within("kept")

    async def says(cpu: str) -> bool:
        found = (await inside.get("resourcequotas"))["items"]
        return any(cpu in each["spec"]["hard"].values() for each in found if each["metadata"]["name"] == "own")

    await live.wait("a ResourceQuota is made", lambda: says("4"))
    await live.quota("kept", namespaces=["kept"], max={"cpu": "5"})
    await live.wait("it follows", lambda: says("5"))
    hard = {"hard": {"requests.cpu": "6"}}
    theirs = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "theirs"}, "spec": hard}
    await inside.apply(theirs)

    async def gone() -> bool:
        return [each["metadata"]["name"] for each in (await inside.get("resourcequotas"))["items"]] == ["theirs"]

    await live.wait("ours goes", gone)
    await live.admin("delete", "queuequota", "lender")

    async def no_queue() -> bool:
        found = (await live.admin.within(NAMESPACE).get("queues.scheduling.x-k8s.io"))["items"]
        return "lender" not in {each["metadata"]["name"] for each in found}

    await live.wait("the default Queue of a quota goes with it", no_queue)
