"""Where the doors begin and end: namespaces that the settings name, what they never touch, and what a job is given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from commands import usher
from doorway import JOBS, NAMESPACES, PODS, Doorway, doorcases, doorway, job_of, pod_of
from living import KINDS, Live
from queuejobs import queue_job, until_allocated
from sourcing import install_elastic, remove_crds

from usher.api.names import API_VERSION, MANAGED, QUEUE_NAME
from usher.kube.resource import untyped
from usher.testing.elastic import elastic_quota
from usher.webhooks import words

both_ways = pytest.mark.parametrize("way_of", ["policies", "webhook"])


@both_ways
async def test_a_namespace_that_the_settings_name_is_managed(live: Live, way_of: str) -> None:
    named = [f"managedNamespaces=[{live.namespace}]"]
    async with doorway(live, policies=way_of == "policies", overrides=named) as way:
        await way.install()
        await way.manager()
        await way.effective()
        tenant, team = way.as_("tenant"), way.team

        said = await way.refusal(tenant.create(PODS, pod_of("early"), team))
        assert said.endswith(words.say(words.NO_QUEUE_BY_NAME, namespace=team))
        made = await tenant.create(JOBS, job_of("unnamed", queue=""), team)
        assert (made["spec"]["suspend"], made["metadata"]["labels"][MANAGED]) == (True, "true")
        said = await way.refusal(tenant.patch(JOBS, "unnamed", team, {"spec": {"suspend": False}}))
        assert said.endswith(words.say(words.UNSUSPENDED, place=f"the managed namespace {team}"))

        await live.queue()
        unit = await live.until("unnamed", "Running")
        assert unit["spec"]["queue"] == "main"

        async def accepted() -> bool:
            return await way.refusal(tenant.create(PODS, pod_of("later"), team)) == ""

        await live.wait("pods are accepted", accepted)


@both_ways
async def test_mirror_pods_and_system_namespaces_are_never_touched(live: Live, way_of: str) -> None:
    """Also where somebody has labelled them, and also while nobody answers."""
    async with doorway(live, policies=way_of == "policies") as way:
        system = f"kube-{way.team[-40:]}"
        body = {"metadata": {"name": system, "labels": {MANAGED: "true"}}}
        await live.client.create(NAMESPACES, body)
        try:
            await live.queue()
            await way.install()
            await way.manager(leads=False)
            await way.effective()
            await untouched(way, system)
            await live.kill()
            await untouched(way, system)
        finally:
            await live.client.delete(NAMESPACES, system)


async def untouched(way: Doorway, system: str) -> None:
    node = (await way.live.get("node", "node-0"))["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": node["uid"], "controller": True}
    mirror = pod_of("mirror")
    mirror["metadata"] |= {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
    mirror["spec"] |= {"nodeName": "node-0", "automountServiceAccountToken": False}
    kubelet = way.as_("system:node:node-0", "system:nodes", "system:masters")
    assert await way.refusal(kubelet.create(PODS, mirror, way.spaces["empty"], dry_run=True)) == ""
    tenant = way.as_("tenant")
    assert await way.refusal(tenant.create(PODS, mirror, way.spaces["empty"], dry_run=True)) != ""

    assert await way.refusal(tenant.create(PODS, pod_of("pod"), system, dry_run=True)) == ""
    made = await tenant.create(JOBS, job_of("job", queue=""), system, dry_run=True)
    assert (made["spec"]["suspend"], MANAGED in (made["metadata"].get("labels") or {})) == (False, False)


@pytest.fixture
async def elastic(live: Live) -> AsyncIterator[Live]:
    await install_elastic(live)
    yield live
    await remove_crds(live)


@both_ways
async def test_a_job_of_an_elastic_quota_gets_the_scheduler_that_keeps_its_books(elastic: Live, way_of: str) -> None:
    live = elastic
    await live.admin.apply(elastic_quota("red", max={"cpu": 3}, annotations={"namespaces": [live.namespace]}))
    await live.queue()
    await live.quota("free")
    async with doorway(live, policies=way_of == "policies") as way:
        await way.install()
        await way.manager(leads=False)
        await way.effective()
        tenant = way.as_("tenant")

        async def scheduler(named: str = "", **said: Any) -> str:
            body = job_of("job", **said)
            if named:
                body["spec"]["template"]["spec"]["schedulerName"] = named
            made = await tenant.create(JOBS, body, way.team, dry_run=True)
            assert made["spec"]["suspend"] is True
            return str(made["spec"]["template"]["spec"]["schedulerName"])

        async def known() -> bool:
            return await scheduler() == "koord-scheduler"

        await live.wait("the manager has seen the ElasticQuota", known)
        assert await scheduler(labels={"quota.scheduling.koordinator.sh/name": "red"}) == "koord-scheduler"
        assert await scheduler("mine") == "mine"
        assert await scheduler(labels={"scheduling.x-k8s.io/quota-name": "free"}) == "default-scheduler"


@both_ways
async def test_queue_jobs_keep_to_their_queue_and_their_status_is_ushers(live: Live, way_of: str) -> None:
    only_others = {"matchLabels": {"nobody": "has-this"}}
    await live.queue(maxPriority=100)
    await live.queue("second")
    await live.queue("closed", namespace="usher-system", namespaceSelector=only_others)
    await live.quota("ours", namespaces=[live.namespace])
    async with doorway(live, policies=way_of == "policies") as way:
        await way.install()
        await way.manager()
        await way.effective()
        await queue_job(live, "has", resourceno=1)
        await until_allocated(live, "has", 1)
        admin, kind = way.as_("admin"), KINDS["queuejob"]

        async def moved(queue: str) -> str:
            return await way.refusal(admin.patch(kind, "has", way.team, {"spec": {"queue": queue}}))

        async def asked(**spec: Any) -> str:
            body = {"apiVersion": API_VERSION, "kind": "QueueJob", "metadata": {"name": "asks"}}
            spec = {"queue": "main", "resourceno": 0, "resourceunit": {"cpu": "1"}, **spec}
            return await way.refusal(admin.create(kind, {**body, "spec": spec}, way.team, dry_run=True))

        assert (await moved("second")).endswith(words.ALLOCATED)
        high = words.say(words.PRIORITY, priority=101, most=100, queue="main")
        assert (await asked(priority=101)).endswith(high)
        assert await asked(priority=100) == ""
        assert "may not use queue closed: name one of main, second" in await asked(queue="closed")
        for what, name, said in (
            ("queuejob", "has", {"allocatedno": 100}),
            ("quota", "ours", {"used": {"cpu": "0"}}),
            ("queue", "main", {"used": {"cpu": "0"}}),
        ):
            inside = way.team if KINDS[what].namespaced else None
            attempt = admin.patch(KINDS[what], name, inside, {"status": said}, subresource="status")
            assert "is written by Usher alone" in await way.refusal(attempt), what

        await live.patch("queuejob", "has", {"spec": {"resourceno": 0}})
        await until_allocated(live, "has", 0)
        assert await moved("second") == ""


@both_ways
async def test_a_priority_that_comes_by_a_class_is_capped_as_well(live: Live, way_of: str) -> None:
    classes = untyped("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
    names = {f"{which}-{live.namespace[-40:]}": value for which, value in {"high": 101, "low": 100}.items()}
    for name, value in names.items():
        await live.client.create(classes, {"metadata": {"name": name}, "value": value})
    try:
        async with doorway(live, policies=way_of == "policies") as way:
            await live.queue(maxPriority=100)
            await way.install()
            await way.manager(leads=False)
            await way.effective()
            said = []
            for name in names:
                body = job_of("job")
                body["spec"]["template"]["spec"]["priorityClassName"] = name
                said.append(await way.refusal(way.as_("tenant").create(JOBS, body, way.team, dry_run=True)))
    finally:
        for name in names:
            await live.client.delete(classes, name)

    assert said[0].endswith(words.say(words.PRIORITY, priority=101, most=100, queue="main"))
    assert said[1] == ""


WARNED = {title: case for title, case in doorcases.WITH_OTHERS.items() if case.warned}


@both_ways
async def test_whoever_creates_a_job_that_must_wait_for_something_is_warned(live: Live, way_of: str) -> None:
    async with doorway(live, policies=way_of == "policies") as way:
        await live.queue("main")
        await live.queue("only", namespace=way.spaces["managed"])
        await way.install()
        await way.manager(leads=False)
        await way.effective()
        said = {title: await warning(way, case) for title, case in WARNED.items()}
        flags = ["--image", "x", "--dry-run=server"]
        no_quota = await usher(live, "submit", "-q", "main", "--quota", "later", *flags)
        no_queue = await usher(live, "submit", "-q", "later", *flags)
        managed = await usher(live, "submit", "-n", way.spaces["managed"], "-o", "json", *flags)

    assert no_quota.err == f"Warning: {words.say(words.QUOTA_MISSING, quota='later')}\n"
    assert no_queue.err.startswith("note: there is no queue later here yet")
    assert (managed.code, managed.err) == (0, "")
    assert json.loads(managed.out)["metadata"]["labels"][QUEUE_NAME] == "only"
    assert "Warning" not in no_queue.err  # which says the same
    assert len(WARNED) >= 4
    assert said == {
        title: f"Warning: {case.warned.format(namespace=way.spaces[case.namespace])}" for title, case in WARNED.items()
    }


async def warning(way: Doorway, case: Any) -> str:
    """What kubectl says besides."""
    body = {**case.create, "metadata": {**case.create["metadata"], "name": "warned"}}
    process = await asyncio.create_subprocess_exec(
        way.live.admin.program, f"--kubeconfig={way.live.admin.kubeconfig}", "-n", way.spaces[case.namespace],
        "create", "--dry-run=server", "-f", "-",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, err = await process.communicate(json.dumps(body).encode())
    assert process.returncode == 0, err
    return err.decode().strip()
