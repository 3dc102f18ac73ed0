"""Queue and ResourceQuota of a tenant's namespace: the four cases of the roadmap, in its order, with the doors shut.

1. The user makes both. 2. Only a Queue: Usher makes the ResourceQuota, which cannot be patched. 3. Only a
ResourceQuota: Usher makes the Queue. 4. Neither: pods are rejected. More on each is in `test_source_resource.py`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from doorway import JOBS, PODS, Doorway, doorway, job_of, pod_of
from living import Live
from sourcing import until_queue

from usher.kube.resource import untyped

RESOURCE_QUOTAS = untyped("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)
Object = dict[str, Any]


@pytest.fixture
async def way(live: Live) -> AsyncIterator[Doorway]:
    """The doors and a manager; the tenant's namespace is managed, and empty."""
    async with doorway(live, policies=True) as found:
        await found.install()
        await found.manager("reports.resourceReportInterval=1s")
        await found.effective()
        yield found


def home(way: Doorway) -> str:
    """The tenant's namespace."""
    return way.spaces["managed"]


async def objects(way: Doorway) -> dict[str, Object]:
    """The Queues and ResourceQuotas of the tenant, by kind and name."""
    kinds = "queues.scheduling.x-k8s.io,resourcequotas"
    items = json.loads(await way.live.admin("get", kinds, "-n", home(way), "-o", "json"))["items"]
    return {f"{each['kind']} {each['metadata']['name']}": each for each in items}


async def runs_one_of_two(way: Doorway) -> None:
    """Of two jobs for which there is room for one, one runs, and the other when it has gone."""
    tenant, live = way.as_("tenant"), way.live
    for name in ("one", "two"):
        body = job_of(name, queue="")
        body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
        await tenant.create(JOBS, body, home(way))
        await live.until(name, "Running" if name == "one" else "Enqueued", home(way))
    assert not await live.pods("two", home(way))
    await live.admin("delete", "job", "one", "-n", home(way))
    await live.until("two", "Running", home(way))


def resource_quota(cpu: str) -> Object:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "mine"}, "spec": {"hard": {"cpu": cpu}}}


async def test_1_the_user_makes_both(way: Doorway) -> None:
    await way.as_("tenant").create(RESOURCE_QUOTAS, resource_quota("3"), home(way))
    await way.live.queue("own", namespace=home(way))

    async def both() -> bool:
        return set(await objects(way)) == {"Queue own", "ResourceQuota mine"}

    await way.live.wait("if a Queue was made before theirs came, it has given way", both)
    before = await objects(way)

    await runs_one_of_two(way)

    after = await objects(way)
    assert set(after) == set(before) == {"Queue own", "ResourceQuota mine"}, "nothing else was made"
    assert {key: theirs(each) for key, each in after.items()} == {key: theirs(each) for key, each in before.items()}


def theirs(found: Object) -> Object:
    """All of an object but its status, and when it was written last."""
    unlike = ("resourceVersion", "managedFields")
    return {**found, "status": None, "metadata": {k: v for k, v in found["metadata"].items() if k not in unlike}}


async def test_2_for_a_queue_alone_a_resource_quota_is_made_that_cannot_be_patched(way: Doorway) -> None:
    await way.live.quota("team", max={"cpu": "3"})
    await way.live.queue("own", namespace=home(way), quota="team")

    async def made() -> bool:
        return "ResourceQuota own" in await objects(way)

    await way.live.wait("a ResourceQuota is made", made)
    quota = (await objects(way))["ResourceQuota own"]
    assert quota["spec"] == {"hard": {"requests.cpu": "3"}}
    more = {"spec": {"hard": {"requests.cpu": "30"}}}
    tenant = way.as_("tenant", "system:authenticated")
    await way.live.admin("create", "role", "all", "-n", home(way), "--verb=*", "--resource=resourcequotas")
    await way.live.admin("create", "rolebinding", "all", "-n", home(way), "--role=all", "--user=tenant")

    async def entitled() -> bool:
        attempt = tenant.patch(RESOURCE_QUOTAS, "own", home(way), more, dry_run=True)
        return "cannot patch resource" not in await way.refusal(attempt)

    await way.live.wait("the role counts", entitled)
    said = await way.refusal(tenant.patch(RESOURCE_QUOTAS, "own", home(way), more))
    assert "was made by Usher for queue own" in said
    assert "made by Usher" in await way.refusal(tenant.delete(RESOURCE_QUOTAS, "own", home(way)))
    await runs_one_of_two(way)
    assert (await objects(way))["ResourceQuota own"]["spec"] == quota["spec"]


async def test_3_for_a_resource_quota_alone_a_queue_is_made(way: Doorway) -> None:
    await way.as_("tenant").create(RESOURCE_QUOTAS, resource_quota("3"), home(way))

    queue = await until_queue(way.live, "mine", home(way))

    assert queue["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "usher"
    await runs_one_of_two(way)
    assert (await objects(way))["ResourceQuota mine"]["spec"] == {"hard": {"cpu": "3"}}


async def test_4_where_there_is_neither_pods_are_rejected(way: Doorway) -> None:
    tenant = way.as_("tenant")

    said = await way.refusal(tenant.create(PODS, pod_of("early"), home(way)))

    assert f"namespace {home(way)} is managed by Usher and has no usable Queue" in said
    await tenant.create(JOBS, job_of("early", queue=""), home(way))
    assert (await tenant.get(JOBS, "early", home(way)))["spec"]["suspend"] is True, "its pods would be rejected"
    assert await objects(way) == {}, "nothing is made of nothing"
    await tenant.create(RESOURCE_QUOTAS, resource_quota("3"), home(way))
    await way.live.until("early", "Running", home(way))
    assert await way.refusal(tenant.create(PODS, pod_of("later"), home(way))) != said
