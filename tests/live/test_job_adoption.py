"""Jobs that run already when Usher arrives: charged or left alone, and shown first in a dry run."""

from __future__ import annotations

import json
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from pathlib import Path

from acts import condition, granted, loose_pods, suspended
from living import Live


async def ready(live: Live, name: str) -> None:
    await live.kubectl("wait", "--for=jsonpath={.status.ready}", f"job/{name}", "--timeout=60s")


async def manager(live: Live, *args: str) -> str:
    usher = Path(sys.executable).with_name("usher")
    command = ("manager", "--kubeconfig", str(live.admin.kubeconfig), *args)
    process = await create_subprocess_exec(str(usher), *command, stdout=PIPE, stderr=PIPE)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def test_jobs_that_run_already_are_charged_and_never_disturbed(live: Live) -> None:
    await live.queue()
    await live.job("old", cpu="3", pods=2, suspend=False)
    await live.job("waiting", cpu="3", pods=2)
    await ready(live, "old")
    born = {pod["metadata"]["uid"] for pod in await live.pods("old")}

    await live.start()

    unit = await live.until("old", "Running")
    assert granted(unit) == 2
    assert condition(unit, "QuotaReserved")["status"] == "True"
    assert unit["status"]["quota"]
    waiting = await live.until("waiting", "Enqueued")
    assert condition(waiting, "QuotaReserved")["reason"] == "Capacity"
    assert await suspended(live, "waiting")
    assert {pod["metadata"]["uid"] for pod in await live.pods("old")} == born
    await live.kubectl("delete", "job", "old")
    await live.until("waiting", "Running")


async def test_jobs_that_run_already_are_left_alone_if_so_set(live: Live) -> None:
    await live.queue()
    await live.job("old", cpu="1", suspend=False)
    await ready(live, "old")

    await live.start("jobs.adopt=leave")
    await live.job("new", cpu="3", pods=2, suspend=False)

    await live.until("new", "Running")
    assert await live.unit("old") is None
    assert not await suspended(live, "old")
    assert len(await loose_pods(live, "old")) == 1
    await live.patch("job", "old", {"spec": {"suspend": True}})  # its owner hands it over
    await live.until("old", "Running")


async def test_a_dry_run_says_what_would_happen_and_writes_nothing(live: Live) -> None:
    await live.queue()
    await live.job("old", cpu="3", pods=2, suspend=False)
    await live.job("fits", cpu="1")
    await live.job("big", cpu="3", pods=2)
    await ready(live, "old")
    before = await live.get("job", "old")

    said = await manager(live, "--dry-run")
    left = await manager(live, "--dry-run", "--set", "jobs.adopt=leave")
    structured = json.loads(await manager(live, "--dry-run", "-o", "json"))

    lines = {line.split()[1]: line for line in said.splitlines() if live.namespace in line}
    assert "adopt" in lines[f"{live.namespace}/old"]
    assert "start" in lines[f"{live.namespace}/fits"]
    assert "wait" in lines[f"{live.namespace}/big"]
    assert "6" in lines[f"{live.namespace}/big"]
    assert any("leave" in line and f"{live.namespace}/old" in line for line in left.splitlines())
    assert {(each["job"], each["action"]) for each in structured} == {
        (f"{live.namespace}/old", "adopt"),
        (f"{live.namespace}/fits", "start"),
        (f"{live.namespace}/big", "wait"),
    }
    assert await live.unit("old") is None
    assert await live.unit("fits") is None
    after = await live.get("job", "old")
    assert (after["metadata"]["generation"], after["spec"]) == (before["metadata"]["generation"], before["spec"])
