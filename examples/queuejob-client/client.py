"""A client of QueueJobs: asks for resources first, and starts its work when it has some.

It asks for so many units, waits until at least `least` of them are allocated, starts a Job with one pod for each unit
that it has, waits until that has ended, and gives everything back by deleting the QueueJob. The Job names its QueueJob
by a label: it draws on what is allocated, and is neither queued nor charged itself.

    python examples/queuejob-client/client.py NAMESPACE QUEUE IMAGE [COMMAND...]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from usher.kube import kubeconfig
from usher.kube.client import Client
from usher.kube.errors import NotFound
from usher.kube.informer import Informer
from usher.kube.resource import Resource, untyped

API = "scheduling.x-k8s.io/v1alpha1"
DRAWS_ON = "scheduling.x-k8s.io/queue-job"
QUEUE_JOBS = untyped("scheduling.x-k8s.io", "v1alpha1", "queuejobs", "QueueJob", namespaced=True)
JOBS = untyped("batch", "v1", "jobs", "Job", namespaced=True)
Object = Mapping[str, Any]


@dataclass(frozen=True)
class Wish:
    """What is asked for, and what runs on it."""

    name: str
    namespace: str
    queue: str
    image: str
    command: Sequence[str] = ()
    unit: Mapping[str, str] = field(default_factory=lambda: {"cpu": "1"})
    units: int = 4
    least: int = 1
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the pods."""

    def queue_job(self) -> dict[str, Any]:
        spec = {"queue": self.queue, "resourceunit": dict(self.unit), "resourceno": self.units}
        return {"apiVersion": API, "kind": "QueueJob", "metadata": {"name": self.name}, "spec": spec}

    def job(self, pods: int) -> dict[str, Any]:
        """A Job of so many pods, one for each unit; suspended until its QueueJob covers it."""
        container = {"name": "main", "image": self.image, "resources": {"requests": dict(self.unit)}}
        if self.command:
            container["command"] = list(self.command)
        template = {
            "metadata": {"annotations": dict(self.annotations)},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "labels": {DRAWS_ON: self.name}},
            "spec": {"suspend": True, "parallelism": pods, "completions": pods, "template": template},
        }


def allocated(queue_job: Object) -> int:
    """How many units it has, and keeps."""
    status = queue_job.get("status", {})
    has = int(status.get("allocatedno", 0))
    return min(has, int(status.get("shrinkTo", has)))


def ended(job: Object) -> bool:
    conditions = job.get("status", {}).get("conditions", ())
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


async def until(client: Client, resource: Resource[Any], wish: Wish, holds: Callable[[Object], bool]) -> Object:
    """Wait until something holds of an object; the object."""
    chosen = f"metadata.name={wish.name}"
    informer: Informer[Object] = Informer(client, resource, wish.namespace, field_selector=chosen)
    async with informer:
        await informer.synced.wait()
        async for _ in informer.subscribe():
            found = informer.store.get(wish.name, wish.namespace)
            if found is not None and holds(found):
                return found
    raise RuntimeError(f"{resource.plural} are not watched any more")


async def run(client: Client, wish: Wish, say: Callable[[str], None] = print) -> bool:
    """Ask, wait, work, give back; whether the work succeeded."""
    await client.create(QUEUE_JOBS, wish.queue_job(), wish.namespace)
    try:
        say(f"asked for {wish.units} units")
        found = await until(client, QUEUE_JOBS, wish, lambda each: allocated(each) >= wish.least)
        pods = allocated(found)
        say(f"{pods} units are allocated: {found['status']['allocated']}")
        await client.create(JOBS, wish.job(pods), wish.namespace)
        job = await until(client, JOBS, wish, ended)
        succeeded = int(job["status"].get("succeeded", 0)) == pods
        say("the work is done" if succeeded else "the work has failed")
        return succeeded
    finally:
        try:
            await client.delete(QUEUE_JOBS, wish.name, wish.namespace)
        except NotFound:
            say("somebody has deleted the QueueJob")


async def main(namespace: str, queue: str, image: str, *command: str) -> int:
    wish = Wish("asks-first", namespace, queue, image, command)
    async with Client(kubeconfig.load(None), user_agent="queuejob-client", field_manager="queuejob-client") as client:
        return 0 if await run(client, wish) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
