"""Jobs and queues that change while jobs wait, on a real control plane."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from acts import GROUP, condition, suspended, until_unit
from living import Live, Object

from usher.app.cluster import LiveCluster


def requests(cpu: str) -> Object:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


def asked(unit: Object) -> str:
    said: str = unit["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return said


@pytest.mark.since136  # before that, Kubernetes lets nobody change what a Job asks for
async def test_a_waiting_job_may_ask_for_something_else(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("holder", cpu="3", pods=2)
    await live.until("holder", "Running")
    await live.job("greedy", cpu="4")
    await live.until("greedy", "Enqueued")

    await live.patch("job", "greedy", requests("1"))

    unit = await live.until("greedy", "Running")
    assert asked(unit) == "1"
    (pod,) = await live.pods("greedy")
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"


class Gate:
    """Between a manager and the cluster: the first resume of a job waits until it is let through."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self._cluster: LiveCluster | None = None

    def __call__(self, cluster: LiveCluster) -> Gate:
        self._cluster = cluster
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def patch_job(self, *args: Any) -> Any:
        assert self._cluster is not None
        if args[-1].get("spec", {}).get("suspend") is False:
            self.reached.set()
            await self.open.wait()
        return await self._cluster.patch_job(*args)


@pytest.mark.since136
async def test_a_job_that_changes_before_its_resume_never_starts_with_what_was_stale(live: Live) -> None:
    gate = Gate()
    await live.queue()
    await live.start(wrap=gate)
    await live.job("quick", cpu="1")
    await gate.reached.wait()
    await live.patch("job", "quick", requests("3"))

    gate.open.set()

    unit = await live.until("quick", "Running")
    assert asked(unit) == "3"
    assert condition(unit, "QuotaReserved")["status"] == "True"
    assert unit["status"]["attempts"] == 2
    (pod,) = await live.pods("quick")
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "3"
    described = await live.kubectl("get", "events", "--field-selector=reason=Evicted")
    assert "changed after it was admitted" in described


async def test_a_queue_holds_drains_moves_on_and_may_go(live: Live) -> None:
    await live.queue("main")
    await live.queue("other", stopPolicy="Hold")
    await live.start("reports.resourceReportInterval=1s")
    await live.job("first", cpu="3", pods=2)
    await live.until("first", "Running")
    await live.job("second", cpu="3", pods=2)
    await live.until("second", "Enqueued")

    await live.queue("main", stopPolicy="Hold")
    await live.kubectl("delete", "job", "first", "--wait=true")
    await until_unit(live, "second", "waits for its queue", lambda u: "stop" in u["status"]["message"].lower())
    assert await suspended(live, "second")
    await live.queue("main", stopPolicy="None")
    await live.until("second", "Running")

    await live.queue("main", stopPolicy="HoldAndDrain")
    drained = await live.until("second", "Enqueued")
    assert condition(drained, "Evicted")["reason"] == "Drained"
    assert await suspended(live, "second")

    await live.patch("job", "second", {"metadata": {"labels": {f"{GROUP}/queue-name": "other"}}})
    await until_unit(live, "second", "moved", lambda unit: unit["spec"]["queue"] == "other")
    await live.queue("other", queuePolicy="FIFO")
    running = await live.until("second", "Running")
    assert running["spec"]["queue"] == "other"

    await live.job("third", queue="other", cpu="3", pods=2)
    await live.until("third", "Enqueued")
    await live.kubectl("delete", "queue", "other")
    await until_unit(live, "third", "says so", lambda unit: "does not exist" in unit["status"]["message"])
    assert (await live.unit("second") or {})["status"]["phase"] == "Running", "what runs goes on"
    await live.kubectl("delete", "job", "second")
    assert (await live.unit("third") or {})["status"]["phase"] == "Enqueued"
    await live.queue("other")
    await live.until("third", "Running")


async def test_a_job_whose_label_goes_is_no_longer_queued(live: Live) -> None:
    await live.queue(stopPolicy="Hold")
    await live.start()
    await live.job("leaves")
    await live.until("leaves", "Enqueued")

    await live.patch("job", "leaves", {"metadata": {"labels": {f"{GROUP}/queue-name": None}}})

    async def gone() -> bool:
        return await live.unit("leaves") is None

    await live.wait("its unit is gone", gone)
    await live.patch("job", "leaves", {"spec": {"suspend": False}})
    await live.kubectl("wait", "--for=jsonpath={.status.ready}=1", "job/leaves", "--timeout=60s")
