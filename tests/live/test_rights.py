"""The rights that are installed: what the manager's account may do is enough, and what people may do is no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from living import QUICK, Live, account

from usher.app.process import ManagerProcess
from usher.devcluster.kubectl import KubectlError
from usher.install.rights import rights
from usher.install.values import Values
from usher.settings.loader import load_text

RIGHTS = [part.object for part in rights(Values())]


async def test_the_managers_own_account_is_enough_for_a_jobs_life(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    await live.admin.apply(*RIGHTS)
    await live.quota("a", namespaces=[live.namespace])
    await live.queue()
    process = ManagerProcess(await account(live.admin), load_text("", "test", (*QUICK, "jobs.finishedUnitsMax=0")))
    live.processes.append((process, asyncio.ensure_future(process.run())))
    await live.job("long", cpu="3", pods=2)
    await live.until("long", "Running")
    await live.job("elastic", cpu="1", annotations={"scheduling.x-k8s.io/elastic": "true"})
    await live.until("elastic", "Running")
    await live.job("short", cpu="3", runs="1s")
    await live.until("short", "Enqueued")
    await live.queue(stopPolicy="HoldAndDrain")
    await live.until("long", "Enqueued")
    await live.kubectl("delete", "job", "long", "elastic")
    await live.queue(stopPolicy="None")

    async def over() -> bool:
        job = await live.get("job", "short")
        return bool(job.get("status", {}).get("completionTime")) and await live.unit("short") is None

    await live.wait("the job has ended and its unit is cleared away", over)

    async def shown() -> bool:
        quota = (await live.get("quota", "a")).get("status", {})
        queue = (await live.get("queue", "main")).get("status", {})
        return bool(quota.get("conditions")) and not queue.get("used") and bool(queue.get("conditions"))

    await live.wait("queue and quota show it", shown)
    await live.wait("Events are there", _has_events(live))
    refused = {key for key in process.numbers.requests if key[2] in (401, 403)}
    # Whether the fence is up is asked by a dry run that it must refuse, where an earlier test left a unit.
    assert refused <= {("PATCH", "queueunits/status", 403)}
    assert [text for text in caplog.messages if "fence" in text or "forbidden" in text.lower()] == []


def _has_events(live: Live) -> Callable[[], Awaitable[bool]]:
    async def told() -> bool:
        text = await live.kubectl("get", "events", "-o", "json")
        return any(each["reason"] == "Admitted" for each in json.loads(text)["items"])

    return told


async def test_tenants_read_our_kinds_and_only_administrators_write_them(live: Live) -> None:
    await live.admin.apply(*RIGHTS)
    for role in ("view", "edit", "admin", "usher-admin"):
        flags = ["--clusterrole", role, "--user", role]
        await live.kubectl("create", "rolebinding", role, *flags)

    async def may(user: str, verb: str, kind: str) -> bool:
        try:
            answer = await live.kubectl("auth", "can-i", verb, f"{kind}.scheduling.x-k8s.io", "--as", user)
        except KubectlError:
            return False
        return answer.strip() == "yes"

    async def aggregated() -> bool:
        return await may("view", "list", "queueunits")

    await live.wait("the roles are aggregated", aggregated)
    want = {
        ("view", "get", "queues"): True,
        ("view", "create", "queuejobs"): False,
        ("edit", "create", "queuejobs"): True,
        ("edit", "create", "queues"): False,
        ("edit", "patch", "queueunits"): False,
        ("admin", "create", "queuejobs"): True,
        ("admin", "update", "queues"): False,
        ("usher-admin", "update", "queues"): True,
        ("usher-admin", "delete", "queueunits"): True,
    }
    assert {case: await may(*case) for case in want} == want
