"""What the root of the quota tree is, on a real control plane: what nodes offer, oversold, less pods outside Usher."""

from __future__ import annotations

import json

import pytest
from acts import condition, until_unit
from living import Live
from sourcing import plain_pod, until_queue


async def outside(live: Live, name: str, cpu: str) -> None:
    """Somebody else's pod that runs."""
    await live.kubectl("apply", "-f", "-", stdin=json.dumps(plain_pod(name, cpu)))

    async def placed() -> bool:
        return bool((await live.get("pod", name))["spec"].get("nodeName"))

    await live.wait(f"{name} is on a node", placed)


SETTINGS: dict[str, tuple[tuple[str, ...], int]] = {
    "pods outside are taken off": ((), 5),
    "they are not counted": (("quotas.outsidePods=ignore",), 8),
    "what nodes offer is oversold, and what they use is not": (("engine.oversell=3/2",), 9),
}


@pytest.mark.parametrize("what", SETTINGS)
async def test_the_cluster_has_what_nodes_offer_oversold_less_pods_outside(live: Live, what: str) -> None:
    settings, cores = SETTINGS[what]
    await outside(live, "other", "3")
    await live.queue("main")
    await live.start(*settings)
    await live.job("all", cpu="1", pods=cores)
    await live.job("more", cpu="1")

    more = await live.until("more", "Enqueued")

    assert f"the cluster has {cores}, {cores} in use" in condition(more, "QuotaReserved")["message"]
    await live.kubectl("delete", "pod", "other", "--force", "--grace-period=0")
    if "ignore" not in str(settings):
        await live.wait("what they leave is given out", lambda: started(live, "more"))


async def started(live: Live, job: str) -> bool:
    unit = await live.unit(job)
    return unit is not None and unit["status"].get("phase") in ("Dequeued", "Running")


async def test_pods_outside_are_charged_to_the_quota_that_the_settings_name(live: Live) -> None:
    await live.quota("org", max={"cpu": "4"})
    for name in ("team", "other"):
        await live.quota(name, parent="org")
        await live.queue(name, quota=name)
    await outside(live, "service", "1")
    await live.start("quotas.outsideQuota=team")
    await live.job("runs", queue="other", cpu="1", pods=3)
    await live.until("runs", "Running")

    await live.job("waits", queue="other", cpu="1")

    waits = await live.until("waits", "Enqueued")
    assert "quota org has 3, 3 in use" in condition(waits, "QuotaReserved")["message"], "four, of which one is taken"
    await live.kubectl("delete", "pod", "service", "--force", "--grace-period=0")
    await live.until("waits", "Running")


async def test_a_kind_that_is_no_source_is_left_alone(live: Live) -> None:
    """Without ResourceQuotas as a source: the user's is no quota, and none is made beside it, time and again."""
    await live.admin("create", "quota", "mine", "-n", live.namespace, "--hard=requests.cpu=2")
    await live.queue("own")
    process = await live.start("quotas.sources=[queuequotas]", f"managedNamespaces=[{live.namespace}]")
    await live.quota("team", max={"cpu": "4"})
    await until_queue(live, "team")  # the manager has made what it makes

    await live.job("free", queue="own", cpu="1")

    free = await live.until("free", "Running")
    assert free["status"].get("quota", "") == f"{live.namespace}/own", "it stands for itself"
    asked = {what for _, what, _ in process.numbers.requests}
    assert "queuequotas" in asked
    assert "resourcequotas" not in asked


async def test_without_queue_quotas_as_a_source_they_are_no_quotas(live: Live) -> None:
    await live.quota("team", max={"cpu": "4"})
    await live.queue("own")
    await live.start("quotas.sources=[resourcequotas]")

    await live.job("waits", queue="own", labels={"scheduling.x-k8s.io/quota-name": "team"}, cpu="1")

    await until_unit(live, "waits", "says so", lambda unit: "team does not exist" in unit["status"].get("message", ""))
