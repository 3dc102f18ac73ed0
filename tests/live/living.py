"""A manager on a real control plane, for tests: `live.start()`, then act with kubectl and wait for what must come.

    async def test_a_job_waits_its_turn(live):
        await live.queue("main")
        await live.start()
        await live.job("one", cpu="1")
        await live.until("one", phase="Running")

The manager runs in the test's own loop, with a short lease; `kill` ends it as SIGKILL would: nothing more is written,
and the lease is not given back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec import structs

from usher.api.names import API_VERSION, GROUP, QUEUE_NAME, VERSION
from usher.app.cluster import LiveCluster
from usher.app.process import ManagerProcess
from usher.devcluster import Kubectl
from usher.devcluster.kubectl import KubectlError
from usher.kube import kubeconfig
from usher.kube.client import Client
from usher.kube.config import Config, User
from usher.kube.resource import untyped
from usher.settings.loader import load_text
from usher.testing.waits import eventually

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
QUICK = (
    "election.leaseDuration=2s",
    "election.renewDeadline=1500ms",
    "election.retryPeriod=300ms",
    "server.port=0",
)
"""A lease that a test can wait out."""

KINDS = {
    "job": untyped("batch", "v1", "jobs", "Job", namespaced=True),
    "pod": untyped("", "v1", "pods", "Pod", namespaced=True),
    "node": untyped("", "v1", "nodes", "Node", namespaced=False),
    "queue": untyped(GROUP, VERSION, "queues", "Queue", namespaced=True),
    "unit": untyped(GROUP, VERSION, "queueunits", "QueueUnit", namespaced=True),
    "quota": untyped(GROUP, VERSION, "queuequotas", "QueueQuota", namespaced=False),
    "queuejob": untyped(GROUP, VERSION, "queuejobs", "QueueJob", namespaced=True),
}
Object = dict[str, Any]
Wrap = Callable[[LiveCluster], Any]


class Live:
    """One test's namespace, and the managers it starts."""

    def __init__(self, kubectl: Kubectl, admin: Kubectl) -> None:
        self.kubectl = kubectl
        self.admin = admin
        assert kubectl.namespace is not None
        self.namespace: str = kubectl.namespace
        self.processes: list[tuple[ManagerProcess, asyncio.Task[None]]] = []
        self.client = Client(
            kubeconfig.load(admin.kubeconfig), user_agent="usher-tests", field_manager="usher-tests", timeout_s=60
        )

    # -- managers -----------------------------------------------------------------------------------------------------

    async def start(self, *overrides: str, wrap: Wrap | None = None, wait: bool = True) -> ManagerProcess:
        """Start a manager and wait until it leads; `wrap` stands between it and the cluster."""
        settings = load_text("", "test", (*QUICK, *overrides))
        process = ManagerProcess(kubeconfig.load(self.admin.kubeconfig), settings, wrap=wrap)
        begun = asyncio.Event()
        task = asyncio.ensure_future(process.run(begun.set))
        self.processes.append((process, task))
        if wait:
            waiting = asyncio.ensure_future(begun.wait())
            await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if task.done():
                task.result()
        return process

    async def kill(self, process: ManagerProcess | None = None) -> None:
        """End a manager (the last one) at once: no write after this, and the lease runs out by itself."""
        found = self.processes[-1] if process is None else next(each for each in self.processes if each[0] is process)
        self.processes.remove(found)
        await _end(*found, abruptly=True)

    async def stop(self, process: ManagerProcess | None = None) -> None:
        """End a manager (the last one) gracefully."""
        found = self.processes[-1] if process is None else next(each for each in self.processes if each[0] is process)
        self.processes.remove(found)
        await _end(*found, abruptly=False)

    async def close(self) -> None:
        for process, task in self.processes:
            await _end(process, task, abruptly=True)
        self.processes = []
        await self.client.close()

    # -- objects ------------------------------------------------------------------------------------------------------

    async def queue(self, name: str = "main", namespace: str | None = None, **spec: Any) -> None:
        """A Queue in the test's namespace, or in another."""
        await self.admin.apply(
            {
                "apiVersion": API_VERSION,
                "kind": "Queue",
                "metadata": {"name": name, "namespace": namespace or self.namespace},
                "spec": spec,
            }
        )

    async def quota(self, name: str, **spec: Any) -> None:
        await self.admin.apply(
            {"apiVersion": API_VERSION, "kind": "QueueQuota", "metadata": {"name": name}, "spec": spec}
        )

    async def job(self, name: str, *, namespace: str | None = None, **said: Any) -> None:
        """Create a Job (see `job`). Its simulated pods run for an hour, or for `runs` (as in 5s)."""
        await self.admin.apply(job(name, namespace or self.namespace, **said))

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """An object; without the start of a kubectl, so that tests may ask often."""
        resource = KINDS[kind]
        return await self.client.get(resource, name, (namespace or self.namespace) if resource.namespaced else None)

    async def pods(self, job: str, namespace: str | None = None) -> list[Object]:
        """The pods of a job."""
        page = await self.client.list(KINDS["pod"], namespace or self.namespace, label_selector=f"job-name={job}")
        return list(page.items)

    async def patch(self, kind: str, name: str, body: Object, subresource: str | None = None) -> None:
        """Change an object as its owner would, by a merge patch."""
        resource = KINDS[kind]
        inside = self.namespace if resource.namespaced else None
        await self.client.patch(resource, name, inside, body, subresource=subresource)

    async def unit(self, job: str, namespace: str | None = None) -> Object | None:
        """The unit of a job, if there is one."""
        page = await self.client.list(KINDS["unit"], namespace or self.namespace)
        return next((item for item in page.items if item["spec"].get("consumerRef", {}).get("name") == job), None)

    async def until(self, job: str, phase: str, namespace: str | None = None, timeout_s: float = 60) -> Object:
        """Wait until the unit of a job is in a phase; the unit."""
        seen: list[Object | None] = [None]

        async def there() -> bool:
            seen[0] = await self.unit(job, namespace)
            return seen[0] is not None and seen[0].get("status", {}).get("phase", "") == phase

        try:
            await eventually(there, why=f"the unit of {job} is {phase}", within=timeout_s)
        except AssertionError as error:
            status = (seen[0] or {}).get("status")
            raise AssertionError(f"{error}: {json.dumps(status, indent=1)}") from None
        assert seen[0] is not None
        return seen[0]

    async def wait(self, why: str, holds: Callable[[], Awaitable[bool]], timeout_s: float = 60) -> None:
        await eventually(holds, why=why, within=timeout_s)


async def _end(process: ManagerProcess, task: asyncio.Task[None], abruptly: bool) -> None:
    if abruptly:
        process.die()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


def job(
    name: str,
    namespace: str,
    *,
    queue: str = "main",
    cpu: str = "1",
    pods: int = 1,
    runs: str | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    template_annotations: dict[str, str] | None = None,
    suspend: bool = True,
    **spec: Any,
) -> Object:
    """A batch Job that asks for `pods` pods of `cpu` each."""
    template: Object = {
        "metadata": {"annotations": {"sim.usher.dev/runs-for": runs or "1h", **(template_annotations or {})}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**({QUEUE_NAME: queue} if queue else {}), **(labels or {})},
            "annotations": annotations or {},
        },
        "spec": {"suspend": suspend, "parallelism": pods, "completions": pods, "template": template, **spec},
    }


async def account(admin: Kubectl) -> Config:
    """How to talk to the cluster as the manager's service account, which is installed."""
    token = (await admin("create", "token", "usher", "-n", "usher-system")).strip()
    return structs.replace(kubeconfig.load(admin.kubeconfig), user=User(token=token))


async def prepare(admin: Kubectl) -> None:
    """Our kinds and the system namespace, once per control plane."""
    await admin("apply", "--server-side", "-f", str(CRDS))
    await admin("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    with contextlib.suppress(KubectlError):
        await admin("create", "namespace", "usher-system")


async def clean(admin: Kubectl) -> None:
    """Nothing of ours is left for the next test."""
    kinds = ",".join(f"{plural}.{GROUP}" for plural in ("queuequotas", "queues", "queuejobs", "queueunits"))
    everywhere = ("--all", "--all-namespaces", "--cascade=background", "--timeout=5m")  # what stays is a failure
    await admin("delete", "jobs.batch", *everywhere)
    await admin("delete", kinds, *everywhere)
    with contextlib.suppress(KubectlError):  # one whose node was lost does not go by itself
        await admin("wait", "--for=delete", "pods", "-l", "job-name", "--all-namespaces", "--timeout=30s")
