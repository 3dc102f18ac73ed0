"""The chart, applied by real Helm, and a manager that may do only what the chart lets it: everything works, nothing is
refused, and every right is used. What was asked is read from the API server's audit log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from acts import activate, granted, until_no_unit, until_unit
from installing import CHART, NAMESPACE, OVER, Installing
from living import KINDS, QUICK, Live
from queuejobs import queue_job, until_allocated
from sourcing import install_elastic, install_trees, remove_crds

from usher.api.names import API_VERSION, GROUP
from usher.app.counting import resource_in
from usher.app.process import ManagerProcess
from usher.install.rights import Right, cluster_rights, lease_rights, secret_rights
from usher.kube.carrying import Answer, Stream, Transport
from usher.kube.client import Client
from usher.kube.errors import BadRequest, ConnectionLost, Forbidden
from usher.kube.resource import untyped
from usher.settings.loader import load_text

pytestmark = pytest.mark.controlplane

ROLES = untyped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:usher"
OUTSIDE = (
    "admission.host=127.0.0.1", "admission.address=127.0.0.1", "admission.port=0", "admission.lookInterval=200ms",
    "admission.certificateLifetime=4s", "admission.renewBefore=3s", "jobs.finishedUnitsMax=0",
)  # fmt: skip
"""The manager of a test is no pod: the API server reaches it by its address."""

FINALIZERS = "asked when a unit names its owner, by an admission plug-in that this cluster has"
CREATES = "asked when what is applied is not there yet"
UNLOGGED = {
    ("batch", "jobs/finalizers", "update"): FINALIZERS,
    ("scheduling.x-k8s.io", "queuejobs/finalizers", "update"): FINALIZERS,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", "create"): CREATES,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "create"): CREATES,
}
"""Rights that are needed for requests which the audit log shows under another verb: without them these are refused, as
`test_what_the_log_does_not_show_is_needed` sees."""


class Unlucky:
    """A transport on which the answer to the first write of each sort is lost after the server has done it, so that the
    object is read to see what became of it; and a server that cannot stream the list of definitions."""

    def __init__(self, inner: Transport) -> None:
        self._inner, self._lost = inner, set[tuple[str, str]]()

    async def request(self, method: str, target: str, *rest: Any) -> Answer:
        answer = await self._inner.request(method, target, *rest)
        what = resource_in(target)  # a status apart from its object: only some writes are read back
        sort = method, what
        read_back = method in ("POST", "PATCH") and what.partition("/")[0] in READ_BACK and "dryRun" not in target
        if read_back and sort not in self._lost:
            self._lost.add(sort)
            raise ConnectionLost(f"{method} {target}: lost, by a test", sent=True)
        return answer

    async def stream(self, target: str, *rest: Any) -> Stream:
        if "customresourcedefinitions" in target and "sendInitialEvents" in target:
            raise BadRequest("this server cannot stream a list, by a test")
        return await self._inner.stream(target, *rest)

    async def close(self) -> None:
        await self._inner.close()


READ_BACK = ("jobs", "queueunits", "queues", "queuejobs", "resourcequotas")


class UnluckyProcess(ManagerProcess):
    """A manager with such a transport."""

    def client(self) -> Client:
        found = super().client()
        found._transport = Unlucky(found._transport)
        return found


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
    await remove_crds(found)
    await found.close()
    await installing.kubectl("delete", "jobs.batch", "--all", "-A", "--cascade=background")
    await installing.helm(helm, "uninstall", "usher", "-n", NAMESPACE, "--wait")
    await installing.forget("tenant", "kept")


async def leads(installing: Installing, live: Live) -> ManagerProcess:
    """A manager with the chart's settings and account, that leads and answers at the doors."""
    text = (await installing.kubectl.within(NAMESPACE).get("configmap", "usher-settings"))["data"]["settings.yaml"]
    process = UnluckyProcess(await installing.account(), load_text(text, "chart", (*QUICK, *OUTSIDE)))
    begun = asyncio.Event()
    live.processes.append((process, asyncio.ensure_future(process.run(begun.set))))
    await asyncio.wait_for(begun.wait(), 60)

    async def answers() -> bool:
        found = await installing.kubectl.get("validatingwebhookconfiguration", "usher")
        return all(each["clientConfig"].get("caBundle") for each in found["webhooks"])

    await live.wait("the doors are open", answers)
    await installing.holds(live.namespace)
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
    await install_elastic(live)
    await install_trees(live)
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
    missing = allowed - used(asked) - set(UNLOGGED)
    assert not sorted(missing), f"no request needs these: take them away: {sorted(missing)}"
    assert set(UNLOGGED) <= allowed, "explained, and not there"


def owned_unit(api_version: str, kind: str, owner: dict[str, Any]) -> dict[str, Any]:
    """A unit that keeps its owner from going before it."""
    named = {"apiVersion": api_version, "kind": kind, "name": owner["name"], "uid": owner["uid"]}
    meta = {"name": "owned", "ownerReferences": [{**named, "controller": True, "blockOwnerDeletion": True}]}
    return {"apiVersion": API_VERSION, "kind": "QueueUnit", "metadata": meta, "spec": {"request": {"cpu": "1"}}}


@pytest.mark.since136  # before that, nothing is made while nobody answers at the doors
async def test_what_the_log_does_not_show_is_needed(installing: Installing, live: Live) -> None:
    await live.job("owner", queue="")
    await queue_job(live, "owner", resourceno=0)
    job, asks = [(await live.get(kind, "owner"))["metadata"] for kind in ("job", "queuejob")]
    name, group = "usher-unit-status", "admissionregistration.k8s.io"
    policies, bindings = (
        untyped(group, "v1", f"validatingadmission{plural}", f"ValidatingAdmission{kind}", namespaced=False)
        for plural, kind in (("policies", "Policy"), ("policybindings", "PolicyBinding"))
    )
    rule = {"apiGroups": ["none"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothing"]}
    decides = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
    binds = {"policyName": name, "validationActions": ["Deny"]}

    def applied(client: Client, resource: Any, spec: dict[str, Any]) -> Awaitable[Any]:
        body = {"apiVersion": f"{group}/v1", "kind": resource.kind, "metadata": {"name": name}, "spec": spec}
        return client.apply(resource, name, None, body, dry_run=True)

    def created(client: Client, unit: dict[str, Any]) -> Awaitable[Any]:
        return client.create(KINDS["unit"], unit, live.namespace, dry_run=True)

    acts: dict[tuple[str, str, str], Callable[[Client], Awaitable[Any]]] = {
        ("batch", "jobs/finalizers", "update"): lambda c: created(c, owned_unit("batch/v1", "Job", job)),
        (GROUP, "queuejobs/finalizers", "update"): lambda c: created(c, owned_unit(API_VERSION, "QueueJob", asks)),
        (group, "validatingadmissionpolicies", "create"): lambda c: applied(c, policies, decides),
        (group, "validatingadmissionpolicybindings", "create"): lambda c: applied(c, bindings, binds),
    }
    assert set(acts) == set(UNLOGGED)
    role = await installing.kubectl.get("clusterrole", "usher-manager")
    async with Client(await installing.account(), user_agent="usher-tests", field_manager="usher") as client:

        async def allowed(act: Callable[[Client], Awaitable[Any]]) -> bool:
            try:
                await act(client)
            except Forbidden:
                return False
            return True

        async def refused(act: Callable[[Client], Awaitable[Any]]) -> bool:
            return not await allowed(act)

        for right, act in acts.items():
            await live.wait(f"with {right} it is done", lambda act=act: allowed(act))  # type: ignore[misc]
            rules = [each for each in role["rules"] if not grants(each, right)]
            await live.client.patch(ROLES, "usher-manager", None, {"rules": rules})
            await live.wait(f"without {right} it is refused", lambda act=act: refused(act))  # type: ignore[misc]
            await live.client.patch(ROLES, "usher-manager", None, {"rules": role["rules"]})


def grants(rule: dict[str, Any], right: tuple[str, str, str]) -> bool:
    """Whether a rule gives a right."""
    group, resource, verb = right
    return group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]


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
    left = {"status": {"startTime": "2026-01-01T00:00:00Z"}}  # as in a cluster that was upgraded to 1.36
    await live.patch("job", "large", left, subresource="status")

    async def cleared() -> bool:
        return "startTime" not in (await live.get("job", "large"))["status"]

    await live.wait("what an older controller left is cleared", cleared)
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
