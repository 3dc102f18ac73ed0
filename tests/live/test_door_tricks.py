"""A tenant who tries to get past his queue, by every trick that we know and with every role that he can have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest
from doorway import JOBS, PODS, POLICIES, Doorway, doorway, job_of, pod_of
from living import KINDS, Live
from queuejobs import queue_job, until_allocated

from usher.api.names import API_VERSION
from usher.kube.client import Client
from usher.kube.resource import untyped
from usher.webhooks import words

UNITS, QUEUES, QUOTAS, QUEUE_JOBS = KINDS["unit"], KINDS["queue"], KINDS["quota"], KINDS["queuejob"]
RBAC = "rbac.authorization.k8s.io"
BINDINGS = untyped(RBAC, "v1", "rolebindings", "RoleBinding", namespaced=True)
NAMESPACES = untyped("", "v1", "namespaces", "Namespace", namespaced=False)
SECRETS = untyped("", "v1", "secrets", "Secret", namespaced=True)
QUEUE, QUOTA = "scheduling.x-k8s.io/queue-name", "scheduling.x-k8s.io/quota-name"
RUN = {"spec": {"suspend": False}}
DONE = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}

Trick = Callable[[Doorway, Client], Awaitable[Any]]


def relabelled(**labels: str | None) -> dict[str, Any]:
    keys = {"queue": QUEUE, "quota": QUOTA, "managed": "scheduling.x-k8s.io/managed"}
    return {"metadata": {"labels": {keys[key]: value for key, value in labels.items()}}}


async def replaced(way: Doorway, tenant: Client) -> None:
    """The whole job, as one reads it, without what holds it."""
    body = deepcopy(await way.live.client.get(JOBS, "held", way.team))
    del body["spec"]["suspend"]
    body["metadata"]["labels"] = {}
    await tenant.replace(JOBS, "held", way.team, body)


async def claimed(way: Doorway, tenant: Client) -> None:
    """A job that says that it belongs to one which was let in; it is stored, and held."""
    owner = (await way.live.client.get(JOBS, "running", way.team))["metadata"]
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": owner["name"],
        "uid": owner["uid"],
        "controller": True,
    }
    body = job_of("claims")
    del body["metadata"]["name"]
    body["metadata"] |= {"generateName": "claims-", "ownerReferences": [reference]}
    stored = await tenant.create(JOBS, body, way.team)
    assert stored["spec"]["suspend"] is True
    await tenant.patch(JOBS, stored["metadata"]["name"], way.team, RUN)


def change(name: str, body: Mapping[str, Any], subresource: str | None = None) -> Trick:
    return lambda way, tenant: tenant.patch(JOBS, name, way.team, body, subresource=subresource)


def named_pod(name: str, node: str | None = None, **meta: Any) -> Trick:
    body = pod_of(name)
    body["metadata"].update(meta)
    body["spec"] |= {"nodeName": node} if node else {}
    return lambda way, tenant: tenant.create(PODS, body, way.spaces["empty"])


def asks(**spec: Any) -> Trick:
    """A QueueJob of one's own."""
    spec = {"queue": "main", "resourceno": 1, "resourceunit": {"cpu": "1"}, **spec}
    body = {"apiVersion": API_VERSION, "kind": "QueueJob", "metadata": {"name": "asks"}, "spec": spec}
    return lambda way, tenant: tenant.create(QUEUE_JOBS, body, way.team)


def binding(role: str) -> dict[str, Any]:
    subject = {"kind": "User", "name": "tenant", "apiGroup": RBAC}
    reference = {"kind": "ClusterRole", "name": role, "apiGroup": RBAC}
    return {"metadata": {"name": f"be-{role}"}, "subjects": [subject], "roleRef": reference}


DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "1", "controller": True}
RIGHTS = "cannot "
"""How the API server refuses whoever has no right to."""
HELD = words.say(words.UNSUSPENDED, place="queue main")
KEPT = words.say(words.LABEL_REMOVED, place="queue main")
NO_QUEUE = "is managed by Usher and has no usable Queue"

TRICKS: dict[str, tuple[Trick, str]] = {
    "start it": (change("held", RUN), HELD),
    "replace it": (replaced, HELD),
    "take the label off": (change("held", relabelled(queue=None)), KEPT),
    "take the label off and start it": (change("held", {**relabelled(queue=None), **RUN}), HELD),
    "empty the label": (change("held", relabelled(queue="")), KEPT),
    "say that it has ended": (change("held", DONE, "status"), RIGHTS),
    "name a queue of others": (change("held", relabelled(queue="closed")), "may not use queue closed"),
    "name a quota of others": (change("held", relabelled(quota="theirs")), "may not use quota theirs"),
    "ask for more than the queue allows": (
        change("held", {"metadata": {"labels": {"scheduling.x-k8s.io/priority": "101"}}}), "priority 101 is above 100",
    ),
    "move what runs": (change("running", relabelled(queue="main")), words.say(words.MOVED, place="queue second")),
    "take the label off what runs": (
        change("running", relabelled(queue=None)), words.say(words.LABEL_REMOVED, place="queue second"),
    ),
    "grow what runs": (change("running", {"spec": {"parallelism": 5}}), "was granted 2 pods at a time, 5 are too many"),
    "claim to belong to another job": (claimed, HELD),
    "write the notes of Usher": (
        change("held", {"metadata": {"annotations": {"scheduling.x-k8s.io/admission": "1.x"}}}), words.MARKS,
    ),
    "open a gate": (
        lambda way, tenant: tenant.patch(PODS, "gated", way.team, {"spec": {"schedulingGates": None}}), words.GATE,
    ),
    "start a pod where there is no queue": (named_pod("bare"), NO_QUEUE),
    "start a pod that is called a mirror": (
        named_pod("mirror", "node-0", annotations={"kubernetes.io/config.mirror": "x"}), NO_QUEUE,
    ),
    "start a pod that is called a daemon's": (named_pod("daemon", ownerReferences=[DAEMON]), NO_QUEUE),
    "start a pod that is called let in": (
        named_pod("let-in", annotations={"scheduling.x-k8s.io/queue-unit": "x"}), NO_QUEUE,
    ),
    "unmark a job of a managed namespace": (
        lambda way, tenant: tenant.patch(JOBS, "marked", way.spaces["empty"], relabelled(managed=None)),
        "belongs to the managed namespace",
    ),
    "start a job of a managed namespace": (
        lambda way, tenant: tenant.patch(JOBS, "marked", way.spaces["empty"], RUN), "waits in the managed namespace",
    ),
    "take the label off the namespace": (
        lambda way, tenant: tenant.patch(NAMESPACES, way.spaces["empty"], None, relabelled(managed=None)), RIGHTS,
    ),
    "admit its unit": (
        lambda way, tenant: tenant.patch(
            UNITS, "unit", way.team, {"status": {"phase": "Dequeued"}}, subresource="status"
        ),
        RIGHTS,
    ),
    "answer its check": (
        lambda way, tenant: tenant.patch(
            UNITS, "unit", way.team, {"status": {"admissionChecks": []}}, subresource="status"
        ),
        RIGHTS,
    ),
    "raise its unit": (lambda way, tenant: tenant.patch(UNITS, "unit", way.team, {"spec": {"priority": 1}}), RIGHTS),
    "ask in a queue of others": (asks(queue="closed"), "may not use queue closed"),
    "ask with more than the queue allows": (asks(priority=101), "priority 101 is above 100"),
    "move what it was given": (
        lambda way, tenant: tenant.patch(QUEUE_JOBS, "has", way.team, {"spec": {"queue": "main"}}), words.ALLOCATED,
    ),
    "give oneself more": (
        lambda way, tenant: tenant.patch(
            QUEUE_JOBS, "has", way.team, {"status": {"allocatedno": 9}}, subresource="status"
        ),
        RIGHTS,
    ),
    "open the queue": (
        lambda way, tenant: tenant.patch(QUEUES, "main", way.team, {"spec": {"stopPolicy": "None"}}), RIGHTS,
    ),
    "make a queue": (
        lambda way, tenant: tenant.create(QUEUES, {"metadata": {"name": "mine"}}, way.spaces["empty"]), RIGHTS,
    ),
    "raise the quota": (lambda way, tenant: tenant.patch(QUOTAS, "ours", None, {"spec": {"weight": 100}}), RIGHTS),
    "delete a policy": (
        lambda way, tenant: tenant.delete(POLICIES["ValidatingAdmissionPolicy"], "usher-gates"), RIGHTS,
    ),
    "delete the webhook": (
        lambda way, tenant: tenant.delete(POLICIES["ValidatingWebhookConfiguration"], "usher"), RIGHTS,
    ),
    "read the keys": (lambda way, tenant: tenant.get(SECRETS, "usher-webhook-tls", "usher-system"), RIGHTS),
    "become an administrator": (
        lambda way, tenant: tenant.create(BINDINGS, binding("usher-admin"), way.team), "is forbidden: ",
    ),
}  # fmt: skip
"""What is tried, and what those who may write jobs and pods are told: by the doors, or that they have no right."""


async def world(way: Doorway) -> None:
    live = way.live

    def only(role: str) -> dict[str, Any]:
        return {"matchLabels": {"kubernetes.io/metadata.name": way.spaces[role]}}

    await live.queue(maxPriority=100, stopPolicy="Hold")
    await live.queue("second")
    await live.queue("closed", namespace="usher-system", namespaceSelector=only("other"))
    await live.quota("ours", namespaces=[way.team])
    await live.quota("theirs", namespaces=[way.spaces["other"]])
    await way.install()
    await way.manager()
    await way.effective()
    admin = way.as_("admin")
    await admin.create(JOBS, job_of("held"), way.team)
    await admin.create(JOBS, job_of("running", queue="second", parallelism=2), way.team)
    await admin.create(JOBS, job_of("marked", queue=""), way.spaces["empty"])
    await admin.create(PODS, pod_of("gated", ["scheduling.x-k8s.io/granted"]), way.team)
    await live.until("running", "Running")
    await queue_job(live, "has", queue="second", resourceno=1)
    await until_allocated(live, "has", 1)
    unit = {"metadata": {"name": "unit"}, "spec": {"queue": "main", "request": {"cpu": "1"}}}
    await admin.create(UNITS, {"apiVersion": f"{UNITS.group}/v1alpha1", "kind": "QueueUnit", **unit}, way.team)


@pytest.mark.parametrize("way_of", ["policies", "webhook"])
async def test_no_trick_gets_a_tenant_past_his_queue(live: Live, way_of: str) -> None:
    async with doorway(live, policies=way_of == "policies") as way:
        await world(way)
        wrong: list[str] = []
        for role in ("view", "edit", "admin"):
            for space in (way.team, way.spaces["empty"]):
                flags = ["--clusterrole", role, "--user", f"a-{role}"]
                await live.admin.within(space)("create", "rolebinding", role, *flags)
            tenant = way.as_(f"a-{role}", "system:authenticated", rights=True)

            async def may(tenant: Client = tenant) -> bool:
                return await way.refusal(tenant.list(UNITS, way.team)) == ""

            await live.wait("the role is aggregated", may)
            for name, (trick, told) in TRICKS.items():
                said = await way.refusal(trick(way, tenant))
                if (RIGHTS if role == "view" else told) not in said:
                    wrong.append(f"{role}: {name}: {said!r}")
        assert wrong == []

        held, running = await live.get("job", "held"), await live.get("job", "running")
        assert held["spec"]["suspend"] is True
        assert not await live.pods("held")
        assert (running["spec"]["parallelism"], running["spec"]["suspend"]) == (2, False)
        assert not await live.pods("marked", way.spaces["empty"])
        pods = (await live.client.list(PODS, way.team)).items
        assert {each["metadata"].get("labels", {}).get("job-name", "") for each in pods} == {"running", ""}
