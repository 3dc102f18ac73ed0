"""Audit mode on a real cluster: a manager that runs with `mode: audit` reports, and writes no job, unit or pod."""

from __future__ import annotations

import asyncio
import json

import pytest
from installing import Installing
from living import QUICK, Live

from usher.app.process import ManagerProcess
from usher.settings.loader import load_text

pytestmark = pytest.mark.controlplane

AUDIT = ("--set", "config.mode=audit", "--no-wait")


async def test_it_says_what_it_would_do_and_does_none_of_it(installing: Installing) -> None:
    await installing.installed(*AUDIT)
    await installing.kubectl("create", "namespace", "tried")
    live = Live(installing.kubectl.within("tried"), installing.kubectl)
    try:
        await live.queue()
        await live.job("held", cpu="1", suspend=True)
        process = ManagerProcess(await installing.account(), load_text("mode: audit", "test", QUICK))
        begun = asyncio.Event()
        live.processes.append((process, asyncio.ensure_future(process.run(begun.set))))
        await asyncio.wait_for(begun.wait(), 60)
        await live.job("first", cpu="3", pods=2, suspend=False)
        await live.job("second", cpu="3", pods=2, suspend=False)

        async def told() -> bool:
            events = json.loads(await live.kubectl("get", "events", "-o", "json"))["items"]
            said = {(each["involvedObject"]["name"], each["reason"]) for each in events}
            return {("held", "WouldStart"), ("first", "WouldStart"), ("second", "WouldWait")} <= said

        await live.wait("what would be done is said", told)
        page = await installing.kubectl.get("queueunits.scheduling.x-k8s.io", "-A")
        assert page["items"] == []
        assert (await live.get("job", "held"))["spec"]["suspend"] is True
        assert (await live.get("job", "second"))["spec"]["suspend"] is False
        written = {
            (each["objectRef"]["resource"], each["verb"])
            for each in installing.asked()
            if each["user"]["username"] == "system:serviceaccount:usher-system:usher"
            and each["verb"] not in ("get", "list", "watch")
        }
        assert written <= {("leases", "create"), ("leases", "update"), ("events", "create"), ("events", "patch")}
        assert process.numbers.admissions.total() == 2
    finally:
        await live.close()
        await installing.kubectl("delete", "namespace", "tried", "--wait=false")


async def test_policies_warn_and_refuse_nothing(installing: Installing) -> None:
    await installing.installed(*AUDIT)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "free", "namespace": "default", "labels": {"scheduling.x-k8s.io/queue-name": "main"}},
        "spec": {
            "suspend": False,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}},
        },
    }

    async def warned() -> bool:
        """A policy works a moment after it is there."""
        process = await asyncio.create_subprocess_exec(
            installing.kubectl.program, f"--kubeconfig={installing.kubectl.kubeconfig}", "create", "--dry-run=server",
            "-f", "-", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, err = await process.communicate(json.dumps(job).encode())
        assert process.returncode == 0, err
        return b"Warning: Validation failed" in err

    live = Live(installing.kubectl.within("default"), installing.kubectl)
    try:
        await live.wait("a warning is given", warned)
    finally:
        await live.close()
