"""What the tests of taking back share: who was evicted, and nodes that come and go."""

from __future__ import annotations

import time

from living import Live, Object

from usher.api.times import ms_of, time_of

PRIORITY = "scheduling.x-k8s.io/priority"
SLOW = {"sim.usher.dev/stops-in": "1h"}
"""Pods that stop only when somebody makes them (`stop_pods`)."""


async def evictions(live: Live, *jobs: str) -> list[str]:
    """Those of these jobs that were ever evicted, or are to stop."""
    found = []
    for job in jobs:
        unit = await live.unit(job)
        assert unit is not None
        leaves = any(each["type"] == "Evicted" and each["status"] == "True" for each in unit["status"]["conditions"])
        if leaves or unit["status"].get("evictions", 0):
            found.append(job)
    return found


def evicted_ms(unit: Object) -> int:
    """When a unit was told to stop."""
    (condition,) = (each for each in unit["status"]["conditions"] if each["type"] == "Evicted")
    assert condition["status"] == "True"
    return ms_of(condition["lastTransitionTime"])


async def running(live: Live, queue: str, *names: str, cpu: str = "2", **said: object) -> None:
    """Jobs that run, started one after the other."""
    for name in names:
        await live.job(name, queue=queue, cpu=cpu, **said)
        await live.until(name, "Running")


async def stop_pods(live: Live, job: str) -> None:
    """Let the pods of a job that is to stop be gone at last."""
    names = [pod["metadata"]["name"] for pod in await live.pods(job)]
    assert names
    await live.kubectl("delete", "pod", *names, "--force", "--grace-period=0", "--wait=false")


async def until_preempting(live: Live, kind: str, name: str, cpu: str) -> None:
    """Wait until a Queue or QueueQuota shows so much as being taken back for it, as kubectl has it."""
    what = {"queue": "queues.scheduling.x-k8s.io", "quota": "queuequotas"}[kind]

    async def shows() -> bool:
        said = await live.kubectl("get", what, name, "-o", "jsonpath={.status.preempting.cpu}")
        return said == cpu

    await live.wait(f"{kind} {name} shows {cpu or 'nothing'} as preempting", shows)


async def until_hears(live: Live, job: str, said: str) -> None:
    """Wait until the manager's reason why a job waits has this in it; numbers alone are not written anew."""
    unit = await live.unit(job)
    assert unit is not None
    key = f"{live.namespace}/{unit['metadata']['name']}"

    async def hears() -> bool:
        manager = live.processes[-1][0].manager  # none between two terms
        return manager is not None and said in manager.engine.reason(key)[1]

    await live.wait(f"{job} is told: {said}", hears)


def extra_node(name: str = "extra") -> Object:
    """A node of four cores for those who name it."""
    offers = {"cpu": "4", "memory": "16Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"extra": "yes"}},
        "spec": {"taints": [{"key": "extra", "effect": "NoSchedule"}]},
        "status": {"capacity": offers, "allocatable": offers},
    }


async def ready(live: Live, node: str, is_ready: bool) -> None:
    """Let a node stop to answer, or answer again."""
    silent = None if is_ready else "true"
    await live.patch("node", node, {"metadata": {"annotations": {"sim.usher.dev/silent": silent}}})
    now = time_of(time.time_ns() // 1_000_000_000 * 1_000)  # in whole seconds, as Kubernetes writes it
    said = {"type": "Ready", "status": "True" if is_ready else "False", "lastTransitionTime": now}
    await live.patch("node", node, {"status": {"conditions": [said]}}, "status")
