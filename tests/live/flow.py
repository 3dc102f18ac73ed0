"""Jobs that flow through real managers, real processes of their own, while a test disturbs them.

After each: no job lost, none started twice, the cluster's amount never exceeded at any moment that an auditor saw.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from living import QUICK, job, prepare

from usher.app.resources import QUEUES
from usher.devcluster import ControlPlane, Nodes
from usher.devcluster.parts import Parts
from usher.kube import kubeconfig
from usher.kube.client import Client
from usher.kube.errors import KubeError
from usher.kube.resource import untyped
from usher.testing import eventually
from usher.testing.auditor import Auditor

JOBS = untyped("batch", "v1", "jobs", "Job", namespaced=True)
UNITS = untyped("scheduling.x-k8s.io", "v1alpha1", "queueunits", "QueueUnit", namespaced=True)
NODES = Nodes(count=2, cpu="4", memory="16Gi", gpus=0)
LIMIT = {"cpu": 8_000}


class Flow:
    """A control plane, a namespace with a queue, managers, and an auditor."""

    def __init__(self, plane: ControlPlane, client: Client, auditor: Auditor, kubeconfig_file: Path) -> None:
        self.plane = plane
        self.client = client
        self.auditor = auditor
        self.kubeconfig = kubeconfig_file
        self.managers: list[asyncio.subprocess.Process] = []
        self._log = plane.layout.log("managers")

    async def manager(self, *settings: str) -> asyncio.subprocess.Process:
        """Start a manager as a process of its own."""
        options = [part for setting in (*QUICK, *settings) for part in ("--set", setting)]
        with self._log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "usher.cli", "manager",
                "--kubeconfig", str(self.kubeconfig), *options, stdout=output, stderr=output,
            )  # fmt: skip
        self.managers.append(process)
        return process

    async def submit(self, count: int, cpu: str = "400m", runs: str = "1s") -> None:
        """Create jobs as fast as the server takes them, through whatever goes on."""
        slots = asyncio.Semaphore(16)

        async def create(number: int) -> None:
            body = job(f"job-{number:04}", "flow", cpu=cpu, runs=runs, backoffLimit=0)

            async def there() -> bool:
                try:
                    await self.client.create(JOBS, body, "flow")
                except KubeError as error:
                    return error.reason == "AlreadyExists"
                return True

            async with slots:
                await eventually(there, within=120, why=f"job {number} is created")

        await asyncio.gather(*(create(number) for number in range(count)))

    async def done(self) -> int:
        """How many jobs have ended well; 0 while the server cannot say."""
        try:
            jobs = (await self.client.list(JOBS, "flow")).items
        except KubeError:
            return 0
        return sum(each.get("status", {}).get("succeeded", 0) for each in jobs)

    async def until_done(self, count: int, within: float = 900) -> None:
        async def all_done() -> bool:
            return await self.done() >= count

        await eventually(all_done, within=within, why=f"{count} jobs have ended")

    async def check(self, count: int) -> None:
        """What must hold after every course."""

        async def all_recorded() -> bool:
            return await self.phases() == {"Succeed": count}

        try:
            await eventually(all_recorded, why="every unit says Succeed")
        except AssertionError as error:
            raise AssertionError(f"{error}: {await self.phases()}") from None
        await self.auditor.settled()
        assert self.auditor.violations == []
        twice = {name: len(pods) for name, pods in self.auditor.pods_seen.items() if len(pods) != 1}
        assert not twice, f"started more than once: {twice}"
        assert len(self.auditor.pods_seen) == count
        assert self.auditor.most["cpu"] > LIMIT["cpu"] // 2, "the cluster was put to use"

    async def phases(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for unit in (await self.client.list(UNITS, "flow")).items:
            phase: str = unit.get("status", {}).get("phase", "")
            found[phase] = found.get(phase, 0) + 1
        return found

    async def leader(self) -> str:
        lease = await self.client.get(
            untyped("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True), "usher-manager", "usher-system"
        )
        holder: Any = lease["spec"].get("holderIdentity") or ""
        return str(holder)


@asynccontextmanager
async def flowing(parts: Parts, kubeconfig_of: Any = None) -> AsyncIterator[Flow]:
    """Everything but the managers."""
    async with ControlPlane(nodes=NODES, parts=parts) as plane:
        await prepare(plane.kubectl)
        await plane.kubectl("create", "namespace", "flow")
        config = kubeconfig.load(plane.kubeconfig)
        async with (
            Client(config, user_agent="flow", field_manager="flow") as client,
            Auditor(config, "flow", LIMIT) as auditor,
        ):
            queue = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "Queue", "metadata": {"name": "main"}}
            await client.create(QUEUES, queue, "flow")
            flow = Flow(plane, client, auditor, plane.kubeconfig)
            try:
                yield flow
            finally:
                for process in flow.managers:
                    if process.returncode is None:
                        process.send_signal(signal.SIGCONT)
                        process.kill()
                        await process.wait()


def freeze(process: asyncio.subprocess.Process) -> None:
    os.kill(process.pid, signal.SIGSTOP)


def thaw(process: asyncio.subprocess.Process) -> None:
    os.kill(process.pid, signal.SIGCONT)
