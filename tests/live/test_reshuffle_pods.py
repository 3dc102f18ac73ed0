"""How pods go when something is taken back: by their job's own controller where there is one to tell, else by eviction,
which disruption budgets may refuse; always with their own time to stop."""

from __future__ import annotations

import json

from acts import GROUP, condition, granted, loose_pods, suspended, until_unit, with_pod
from living import Live, Object, job
from reshuffling import SLOW, evictions, running, stop_pods

STRETCHY = {f"{GROUP}/elastic": "true", f"{GROUP}/min-count": "1"}
TRACKED = "batch.kubernetes.io/job-tracking"


async def two_tenants(live: Live) -> None:
    for name in ("mine", "theirs"):
        await live.quota(name)
        await live.queue(name, quota=name)


def budget(live: Live, job_name: str, least: int) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "kept", "namespace": live.namespace},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"job-name": job_name}}},
    }


async def until_allowed(live: Live, disruptions: int) -> None:
    """Wait until the budget has counted its pods."""

    async def counted() -> bool:
        status = json.loads(await live.kubectl("get", "pdb", "kept", "-o", "json")).get("status", {})
        return bool(status.get("disruptionsAllowed") == disruptions and status.get("expectedPods"))

    await live.wait(f"{disruptions} pods may be disrupted", counted)


async def test_pods_have_their_own_time_to_stop(live: Live) -> None:
    await two_tenants(live)
    await live.start()
    lent = job("lent", live.namespace, queue="theirs", cpu="4", pods=2, template_annotations=SLOW, backoffLimit=0)
    await live.admin.apply(with_pod(lent, terminationGracePeriodSeconds=77), budget(live, "lent", 2))
    await live.until("lent", "Running")
    await until_allowed(live, 0)

    await live.job("owner", queue="mine", cpu="4")

    await live.wait("it is held", lambda: suspended(live, "lent"))

    async def stopping() -> bool:
        return all("deletionTimestamp" in pod["metadata"] for pod in await live.pods("lent"))

    await live.wait("its own controller stops its pods, and asks no budget", stopping)
    pods = await live.pods("lent")
    assert [pod["metadata"]["deletionGracePeriodSeconds"] for pod in pods] == [77, 77]
    assert await suspended(live, "owner"), "nothing starts in their place before they are gone"
    await stop_pods(live, "lent")
    await live.until("owner", "Running")
    status = (await live.get("job", "lent"))["status"]
    assert not status.get("failed"), "to be suspended is no failure"
    assert [each["status"] for each in status["conditions"] if each["type"] == "Suspended"] == ["True"]


async def test_pods_of_an_elastic_job_go_only_as_its_budget_allows(live: Live) -> None:
    await two_tenants(live)
    await live.start()
    await live.admin.apply(budget(live, "stretchy", 3))
    await running(live, "theirs", "stretchy", pods=4, labels=STRETCHY, backoffLimit=0)
    await until_allowed(live, 1)

    await live.job("owner", queue="mine", cpu="2", pods=2)

    async def refused() -> bool:
        told = await live.kubectl("get", "events", "--field-selector", "reason=Failed")
        return "disruption budget" in told

    await live.wait("kubectl shows what stands against it", refused)

    async def one_went() -> bool:
        return len(await loose_pods(live, "stretchy")) == 3

    await live.wait("one of two that must go has gone", one_went)
    left = await loose_pods(live, "stretchy")
    assert all(TRACKED in pod["metadata"]["finalizers"] for pod in left), "its job still counts on them"
    assert not any("deletionTimestamp" in pod["metadata"] for pod in left)
    waits = await live.until("owner", "Enqueued")
    assert waits["status"]["nomination"]["claimed"] is True
    holds = await until_unit(live, "stretchy", "gave one back", lambda unit: granted(unit) == 3)
    assert holds["status"]["admissions"][0]["reclaimState"] == {"replicas": 2}

    await live.admin.apply(budget(live, "stretchy", 2))

    await live.until("owner", "Running")
    shrunk = await until_unit(live, "stretchy", "gave both back", lambda unit: granted(unit) == 2)
    assert condition(shrunk, "Evicted").get("status", "False") == "False"
    assert await evictions(live, "stretchy") == []
    assert not (await live.get("job", "stretchy"))["status"].get("failed")
