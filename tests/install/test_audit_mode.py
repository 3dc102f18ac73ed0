"""Audit mode on a real cluster: a manager that runs with `mode: audit` reports, and writes no job, unit or pod."""

from __future__ import annotations

import asyncio
import json

import pytest
from installing import Installing
from living import QUICK, Live
from queuejobs import drawing_job, queue_job

from usher.app.process import ManagerProcess
from usher.settings.loader import load_text

pytestmark = pytest.mark.controlplane

OWN = {("leases", "create"), ("leases", "update"), ("events", "create"), ("events", "patch")}
"""All that such a manager writes."""
KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"
AUDIT = ("--set", "config.mode=audit", "--no-wait")


async def audits(installing: Installing, live: Live) -> ManagerProcess:
    """A manager that only looks."""
    process = ManagerProcess(await installing.account(), load_text("mode: audit", "test", QUICK))
    begun = asyncio.Event()
    live.processes.append((process, asyncio.ensure_future(process.run(begun.set))))
    await asyncio.wait_for(begun.wait(), 60)
    return process


async def said(live: Live, want: set[tuple[str, str]]) -> bool:
    """Whether there are Events with these reasons about objects of these names."""
    events = json.loads(await live.kubectl("get", "events", "-o", "json"))["items"]
    return want <= {(each["involvedObject"]["name"], each["reason"]) for each in events}


def written(installing: Installing, since: int) -> set[tuple[str, str]]:
    """What the manager's account has written since then, by the audit log."""
    return {
        (each["objectRef"]["resource"], each["verb"])
        for each in installing.asked()[since:]
        if each["user"]["username"] == "system:serviceaccount:usher-system:usher"
        and each["verb"] not in ("get", "list", "watch")
    }


async def test_it_says_what_it_would_do_and_does_none_of_it(installing: Installing) -> None:
    before = len(installing.asked())
    await installing.installed(*AUDIT)
    await installing.kubectl("create", "namespace", "tried")
    live = Live(installing.kubectl.within("tried"), installing.kubectl)
    try:
        await live.queue()
        await live.job("held", cpu="1", suspend=True)
        process = await audits(installing, live)
        await live.job("first", cpu="3", pods=2, suspend=False)
        await live.job("second", cpu="3", pods=2, suspend=False)
        want = {("held", "WouldStart"), ("first", "WouldStart"), ("second", "WouldWait")}
        await live.wait("what would be done is said", lambda: said(live, want))
        page = await installing.kubectl.get("queueunits.scheduling.x-k8s.io", "-A")
        assert page["items"] == []
        assert (await live.get("job", "held"))["spec"]["suspend"] is True
        assert (await live.get("job", "second"))["spec"]["suspend"] is False
        assert written(installing, before) <= OWN
        assert process.numbers.admissions.total() == 2
    finally:
        await live.close()
        await installing.kubectl("delete", "namespace", "tried", "--wait=false")


async def test_queue_jobs_and_those_who_draw_on_them_are_left_as_they_are(installing: Installing) -> None:
    """One there before the manager and one after it, one that fits and one that does not, and jobs that draw on them,
    held and not: nobody writes any of them but who made them."""
    before = len(installing.asked())
    await installing.installed(*AUDIT)
    await installing.kubectl("create", "namespace", "asked")
    live = Live(installing.kubectl.within("asked"), installing.kubectl)
    try:
        await live.queue()
        await queue_job(live, "early", resourceno=2)
        await drawing_job(live, "held", on="early", suspend=True)
        await audits(installing, live)
        await queue_job(live, "small", resourceno=1)
        await queue_job(live, "large", resourceno=1, resourceunit={"cpu": "9"})
        await drawing_job(live, "drawing", on="small", suspend=False)
        await drawing_job(live, "beyond", on="small", pods=3, suspend=False)
        await drawing_job(live, "dreaming", on="nobody", suspend=False)
        await live.job("plain", cpu="1", suspend=False)
        want = {("early", "WouldStart"), ("small", "WouldStart"), ("large", "WouldWait"), ("plain", "WouldStart")}
        await live.wait("what would be done is said", lambda: said(live, want))

        async def ready() -> bool:
            jobs = [await live.get("job", name) for name in ("drawing", "beyond", "dreaming", "plain")]
            return all(each["status"].get("ready") == each["spec"]["parallelism"] for each in jobs)

        await live.wait("jobs run as if there were no Usher", ready)
        for name in ("early", "small", "large"):
            found = await live.get("queuejob", name)
            assert not found.get("status"), name
            assert found["metadata"]["generation"] == 1
        for name, held in {"held": True, "drawing": False, "beyond": False, "dreaming": False}.items():
            found = await live.get("job", name)
            assert found["spec"]["suspend"] is held
            assert set(found["metadata"].get("annotations") or ()) <= {KUBECTL, "batch.kubernetes.io/job-tracking"}, (
                name
            )
        assert (await installing.kubectl.get("queueunits.scheduling.x-k8s.io", "-A"))["items"] == []
        assert written(installing, before) <= OWN
    finally:
        await live.close()
        await installing.kubectl("delete", "namespace", "asked", "--wait=false")


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
