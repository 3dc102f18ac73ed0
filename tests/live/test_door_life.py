"""Doors with a manager behind them: jobs pass through and run, also when the manager was away for a while."""

from __future__ import annotations

from typing import Any

import pytest
from acts import until_stopped
from doorway import JOBS, PODS, Doorway, doorway, job_of, pod_of
from living import KINDS, Live

from usher.devcluster.kubectl import KubectlError
from usher.kube.client import Propagation
from usher.kube.errors import NotFound
from usher.kube.resource import Resource, untyped

CONFIG_MAPS = untyped("", "v1", "configmaps", "ConfigMap", namespaced=True)
DAEMON_SETS = untyped("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
DEPLOYMENTS = untyped("apps", "v1", "deployments", "Deployment", namespaced=True)
FINALIZER = "example.com/test"
PAUSED = "scheduling.x-k8s.io/paused"
QUOTA = "scheduling.x-k8s.io/quota-name"


async def opened(way: Doorway) -> None:
    await way.live.queue()
    await way.live.queue("only", namespace=way.spaces["managed"])
    await way.install()
    await way.manager()
    await way.effective()


async def pods_of(way: Doorway, job: str, namespace: str) -> list[dict[str, Any]]:
    found = await way.live.pods(job, namespace)
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


async def gone(way: Doorway, resource: Resource[Any], name: str, namespace: str | None) -> bool:
    try:
        await way.live.client.get(resource, name, namespace)
    except NotFound:
        return True
    return False


def workload(kind: str, name: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_of(name)["spec"]}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("way_of", ["policies", "webhook"])
async def test_jobs_pass_through_the_doors_and_run(live: Live, way_of: str) -> None:
    async with doorway(live, policies=way_of == "policies") as way:
        await opened(way)
        tenant, managed = way.as_("tenant"), way.spaces["managed"]
        await tenant.create(JOBS, job_of("named"), way.team)
        await tenant.create(JOBS, job_of("unnamed", queue=""), managed)
        await live.until("named", "Running")
        unit = await live.until("unnamed", "Running", managed)

        assert unit["spec"]["queue"] == "only"
        reviews = live.processes[-1][0].numbers.reviews
        assert reviews["mutate", "jobs", "allowed"] >= 2
        assert reviews["validate", "pods", "refused"] >= 1


@pytest.mark.parametrize("way_of", ["policies", "webhook"])
async def test_a_paused_job_is_queued_again_when_its_owner_resumes_it(live: Live, way_of: str) -> None:
    async with doorway(live, policies=way_of == "policies") as way:
        await opened(way)
        tenant = way.as_("tenant")
        await tenant.create(JOBS, job_of("a"), way.team)
        await live.until("a", "Running")
        await tenant.patch(JOBS, "a", way.team, {"spec": {"suspend": True}})
        unit = await live.until("a", "Enqueued")
        assert unit["status"]["inactive"]
        await live.queue(stopPolicy="Hold")
        resumed = await tenant.patch(JOBS, "a", way.team, {"spec": {"suspend": False}})
        assert (resumed["spec"]["suspend"], resumed["metadata"]["annotations"][PAUSED]) == (True, "false")

        async def active() -> bool:
            unit = await live.unit("a")
            return unit is not None and not unit["status"].get("inactive")

        await live.wait("it takes part again", active)
        await live.queue(stopPolicy="None")
        await live.until("a", "Running")
        assert PAUSED not in (await live.get("job", "a"))["metadata"]["annotations"]


async def test_while_usher_is_down_jobs_are_held_and_nothing_else_notices(live: Live) -> None:
    async with doorway(live, policies=True) as way:
        await live.quota("theirs", namespaces=[way.spaces["other"]])
        await live.quota("kept", namespaces=[way.spaces["other"]])
        await opened(way)
        tenant, managed, other = way.as_("tenant"), way.spaces["managed"], way.spaces["other"]
        await tenant.create(JOBS, job_of("before", queue=""), managed)
        await live.until("before", "Running", managed)
        await live.kill()

        await tenant.create(JOBS, job_of("named"), way.team)
        await tenant.create(JOBS, job_of("unnamed", queue=""), managed)
        await tenant.create(JOBS, job_of("charges-others", labels={QUOTA: "theirs"}), way.team)
        for name, namespace in (("named", way.team), ("unnamed", managed)):
            job = await tenant.get(JOBS, name, namespace)
            assert job["spec"]["suspend"] is True
            for trick in ({"spec": {"suspend": False}}, {"metadata": {"labels": None}}):
                assert await way.refusal(tenant.patch(JOBS, name, namespace, trick))
        said = await way.refusal(tenant.create(PODS, pod_of("past-the-queue"), managed))
        assert "created.pods.usher.dev" in said  # nobody answers, so nothing slips past

        await live.client.delete(KINDS["quota"], "kept", propagation=Propagation.FOREGROUND)
        await live.wait("a quota that is deleted goes", lambda: gone(way, KINDS["quota"], "kept", None))

        # Everybody else goes on: other namespaces, jobs of nobody's queue, and what was let in before.
        await tenant.create(PODS, pod_of("pod"), other)
        await tenant.create(CONFIG_MAPS, {"metadata": {"name": "map"}}, managed)
        await tenant.create(JOBS, job_of("free", queue=""), other)
        assert (await tenant.get(JOBS, "free", other))["spec"]["suspend"] is False
        pod = (await pods_of(way, "before", managed))[0]["metadata"]
        await tenant.delete(PODS, pod["name"], managed, grace_seconds=0)

        async def comes_back() -> bool:
            return any(each["metadata"]["uid"] != pod["uid"] for each in await pods_of(way, "before", managed))

        await live.wait("a job that was let in replaces its pod", comes_back)

        await way.manager()
        await live.until("named", "Running")
        await live.until("unnamed", "Running", managed)
        waits = (await live.until("charges-others", "Enqueued"))["status"]["conditions"][0]
        assert waits["reason"] == "QuotaForbidden"


async def test_without_policies_nothing_slips_past_while_usher_is_down(live: Live) -> None:
    async with doorway(live, policies=False) as way:
        await opened(way)
        tenant, other = way.as_("tenant"), way.spaces["other"]
        await tenant.create(JOBS, job_of("before"), way.team)
        await tenant.create(JOBS, job_of("going"), way.team)
        await live.until("before", "Running")
        await live.until("going", "Running")
        await tenant.create(JOBS, job_of("leaves-its-unit", parallelism=99, completions=99), way.team)
        await live.until("leaves-its-unit", "Enqueued")
        kept = job_of("kept", parallelism=99, completions=99)
        await tenant.create(JOBS, {**kept, "metadata": {**kept["metadata"], "finalizers": [FINALIZER]}}, way.team)
        await live.until("kept", "Enqueued")
        await live.kill()

        said = await way.refusal(tenant.create(JOBS, job_of("named"), way.team))
        assert "jobs.batch.usher.dev" in said
        assert await way.refusal(tenant.patch(JOBS, "before", way.team, {"metadata": {"labels": None}}))
        await tenant.create(PODS, pod_of("pod"), other)
        await tenant.create(JOBS, job_of("free", queue=""), other)
        await tenant.delete(JOBS, "before", way.team, propagation=Propagation.BACKGROUND)
        await tenant.delete(JOBS, "going", way.team, propagation=Propagation.FOREGROUND)
        await live.wait("a job goes with its pods", lambda: gone(way, JOBS, "going", way.team))
        await tenant.delete(JOBS, "leaves-its-unit", way.team, propagation=Propagation.ORPHAN)
        await live.wait("a job goes without its unit", lambda: gone(way, JOBS, "leaves-its-unit", way.team))
        await tenant.delete(JOBS, "kept", way.team)
        for trick in ({"spec": {"suspend": False}}, {"metadata": {"labels": None}}):
            assert await way.refusal(tenant.patch(JOBS, "kept", way.team, trick)), "it is there as long as it likes"
        await tenant.patch(JOBS, "kept", way.team, {"metadata": {"finalizers": None}})
        assert await gone(way, JOBS, "kept", way.team)
        await way.manager()

        async def accepted() -> bool:
            return await way.refusal(tenant.create(JOBS, job_of("named"), way.team)) == ""

        await live.wait("jobs are accepted again", accepted)

        async def dropped() -> bool:
            return await live.unit("leaves-its-unit") is None

        await live.wait("and the unit goes when Usher is back", dropped)
        await live.until("named", "Running")


@pytest.mark.parametrize("way_of", ["policies", "webhook"])
async def test_a_managed_namespace_gets_its_pods_once_it_has_a_queue(live: Live, way_of: str) -> None:
    async with doorway(live, policies=way_of == "policies") as way:
        await opened(way)
        tenant, empty = way.as_("tenant"), way.spaces["empty"]
        want = (
            f"namespace {empty} is managed by Usher and has no usable Queue: ask an administrator to create a Queue in "
            "it (or to let a shared one select it), or to remove the label scheduling.x-k8s.io/managed from the "
            "namespace"
        )
        assert (await way.refusal(tenant.create(PODS, pod_of("early"), empty))).endswith(want)
        await tenant.create(DAEMON_SETS, workload("DaemonSet", "agents"), empty)
        await tenant.create(DEPLOYMENTS, workload("Deployment", "web"), empty)
        await tenant.create(JOBS, job_of("early", queue=""), empty)

        async def agents() -> bool:
            status = (await tenant.get(DAEMON_SETS, "agents", empty))["status"]
            return bool(status.get("currentNumberScheduled"))

        async def no_pods_of_web() -> bool:
            status = (await tenant.get(DEPLOYMENTS, "web", empty)).get("status", {})
            conditions = {each["type"]: each for each in status.get("conditions", ())}
            failure = conditions.get("ReplicaFailure", {})
            return failure.get("status") == "True" and "has no usable Queue" in failure.get("message", "")

        await live.wait("a DaemonSet has its pods", agents)
        await live.wait("a Deployment is told why it has none", no_pods_of_web)
        assert not await live.pods("early", empty)

        await live.queue("late", namespace=empty)

        async def accepted() -> bool:
            return await way.refusal(tenant.create(PODS, pod_of("later"), empty)) == ""

        await live.wait("pods are accepted", accepted)
        unit = await live.until("early", "Running", empty)
        assert unit["spec"]["queue"] == "late"


async def test_nobody_but_usher_lets_a_gated_pod_in(live: Live) -> None:
    for_both = {"scheduling.x-k8s.io/elastic": "true"}
    async with doorway(live, policies=True) as way:
        await opened(way)
        tenant = way.as_("tenant")
        await tenant.create(JOBS, job_of("elastic", labels=for_both, parallelism=2, completions=4), way.team)
        await live.until("elastic", "Running")  # Usher opened its gates
        gate = "scheduling.x-k8s.io/granted"
        await tenant.create(PODS, pod_of("gated", [gate]), way.team)
        said = await way.refusal(tenant.patch(PODS, "gated", way.team, {"spec": {"schedulingGates": None}}))

        assert "is opened by Usher when the pod's quota is granted" in said


async def test_the_words_reach_whoever_uses_kubectl(live: Live) -> None:
    async with doorway(live, policies=True) as way:
        await opened(way)
        await live.queue(stopPolicy="Hold")
        await until_stopped(live)
        await way.as_("tenant").create(JOBS, job_of("a"), way.team)
        with pytest.raises(KubectlError, match="this job waits in queue main and cannot be started by hand"):
            await live.kubectl("patch", "job", "a", "-p", '{"spec":{"suspend":false}}')
