"""A tenant who tries to get past his queue, by every trick that we know and with every role that he can have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest
from doorway import JOBS, PODS, POLICIES, Doorway, doorway, job_of, pod_of
from living import KINDS, Live

from usher.kube.client import Client
from usher.kube.resource import untyped

UNITS, QUEUES, QUOTAS = KINDS["unit"], KINDS["queue"], KINDS["quota"]
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
    body["metadata"]["ownerReferences"] = [reference]
    stored = await tenant.create(JOBS, body, way.team)
    assert stored["spec"]["suspend"] is True
    await tenant.patch(JOBS, "claims", way.team, RUN)


def change(name: str, body: Mapping[str, Any], subresource: str | None = None) -> Trick:
    return lambda way, tenant: tenant.patch(JOBS, name, way.team, body, subresource=subresource)


def named_pod(name: str, **meta: Any) -> Trick:
    body = pod_of(name)
    body["metadata"].update(meta)
    return lambda way, tenant: tenant.create(PODS, body, way.spaces["empty"])


def binding(role: str) -> dict[str, Any]:
    subject = {"kind": "User", "name": "tenant", "apiGroup": RBAC}
    reference = {"kind": "ClusterRole", "name": role, "apiGroup": RBAC}
    return {"metadata": {"name": f"be-{role}"}, "subjects": [subject], "roleRef": reference}


DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "1", "controller": True}
TRICKS: dict[str, Trick] = {
    "start it": change("held", RUN),
    "replace it": replaced,
    "take the label off": change("held", relabelled(queue=None)),
    "take the label off and start it": change("held", {**relabelled(queue=None), **RUN}),
    "empty the label": change("held", relabelled(queue="")),
    "say that it has ended": change("held", DONE, "status"),
    "name a queue of others": change("held", relabelled(queue="closed")),
    "name a quota of others": change("held", relabelled(quota="theirs")),
    "ask for more than the queue allows": change(
        "held", {"metadata": {"labels": {"scheduling.x-k8s.io/priority": "101"}}}
    ),
    "move what runs": change("running", relabelled(queue="main")),
    "take the label off what runs": change("running", relabelled(queue=None)),
    "grow what runs": change("running", {"spec": {"parallelism": 5}}),
    "claim to belong to another job": claimed,
    "write the notes of Usher": change("held", {"metadata": {"annotations": {"scheduling.x-k8s.io/admission": "1.x"}}}),
    "open a gate": lambda way, tenant: tenant.patch(PODS, "gated", way.team, {"spec": {"schedulingGates": None}}),
    "start a pod where there is no queue": named_pod("bare"),
    "start a pod that is called a mirror": named_pod("mirror", annotations={"kubernetes.io/config.mirror": "x"}),
    "start a pod that is called a daemon's": named_pod("daemon", ownerReferences=[DAEMON]),
    "start a pod that is called let in": named_pod("let-in", annotations={"scheduling.x-k8s.io/queue-unit": "x"}),
    "unmark a job of a managed namespace": lambda way, tenant: tenant.patch(
        JOBS, "marked", way.spaces["empty"], relabelled(managed=None)
    ),
    "start a job of a managed namespace": lambda way, tenant: tenant.patch(JOBS, "marked", way.spaces["empty"], RUN),
    "take the label off the namespace": lambda way, tenant: tenant.patch(
        NAMESPACES, way.spaces["empty"], None, relabelled(managed=None)
    ),
    "admit its unit": lambda way, tenant: tenant.patch(
        UNITS, "unit", way.team, {"status": {"phase": "Dequeued"}}, subresource="status"
    ),
    "answer its check": lambda way, tenant: tenant.patch(
        UNITS, "unit", way.team, {"status": {"admissionChecks": []}}, subresource="status"
    ),
    "raise its unit": lambda way, tenant: tenant.patch(UNITS, "unit", way.team, {"spec": {"priority": 1}}),
    "open the queue": lambda way, tenant: tenant.patch(QUEUES, "main", way.team, {"spec": {"stopPolicy": "None"}}),
    "make a queue": lambda way, tenant: tenant.create(QUEUES, {"metadata": {"name": "mine"}}, way.spaces["empty"]),
    "raise the quota": lambda way, tenant: tenant.patch(QUOTAS, "ours", None, {"spec": {"weight": 100}}),
    "delete a policy": lambda way, tenant: tenant.delete(POLICIES["ValidatingAdmissionPolicy"], "usher-gates"),
    "delete the webhook": lambda way, tenant: tenant.delete(POLICIES["ValidatingWebhookConfiguration"], "usher"),
    "read the keys": lambda way, tenant: tenant.get(SECRETS, "usher-webhook-tls", "usher-system"),
    "become an administrator": lambda way, tenant: tenant.create(BINDINGS, binding("usher-admin"), way.team),
}  # fmt: skip


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
    unit = {"metadata": {"name": "unit"}, "spec": {"queue": "main", "request": {"cpu": "1"}}}
    await admin.create(UNITS, {"apiVersion": f"{UNITS.group}/v1alpha1", "kind": "QueueUnit", **unit}, way.team)


@pytest.mark.parametrize("way_of", ["policies", "webhook"])
async def test_no_trick_gets_a_tenant_past_his_queue(live: Live, way_of: str) -> None:
    async with doorway(live, policies=way_of == "policies") as way:
        await world(way)
        done: list[str] = []
        for role in ("view", "edit", "admin"):
            for space in (way.team, way.spaces["empty"]):
                flags = ["--clusterrole", role, "--user", f"a-{role}"]
                await live.admin.within(space)("create", "rolebinding", role, *flags)
            tenant = way.as_(f"a-{role}", "system:authenticated", rights=True)

            async def may(tenant: Client = tenant) -> bool:
                return await way.refusal(tenant.list(UNITS, way.team)) == ""

            await live.wait("the role is aggregated", may)
            for name, trick in TRICKS.items():
                if await way.refusal(trick(way, tenant)) == "":
                    done.append(f"{role}: {name}")
        assert done == []

        held, running = await live.get("job", "held"), await live.get("job", "running")
        assert held["spec"]["suspend"] is True
        assert not await live.pods("held")
        assert (running["spec"]["parallelism"], running["spec"]["suspend"]) == (2, False)
        assert not await live.pods("marked", way.spaces["empty"])
        assert not await live.pods("claims")
