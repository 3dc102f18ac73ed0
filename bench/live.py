"""Jobs through a real manager on a real control plane: how fast, with how many writes, for how much CPU and memory.

Two things take turns on one control plane: the manager as a process of its own, and a bare loop that makes the same
writes for each job (create the unit, say that it may start, resume the job, say that it runs) without deciding
anything. Each creates the same jobs and is timed from the first creation to the last resume. Writes are counted by the
API server itself. A round begins when nothing is written any more: what the one before left to do is not its work.
Then jobs that must wait are added, and the manager's memory is read. Run by `make bench`.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from provenance import ROOT, provenance, record

from usher.api.names import QUEUE_NAME
from usher.app.resources import QUEUES
from usher.devcluster import ControlPlane, Nodes
from usher.jobkinds.batchjob import BatchJob
from usher.kube import kubeconfig
from usher.kube.client import Client
from usher.kube.errors import NotFound
from usher.kube.resource import untyped
from usher.runtime.facts import Reading, decoded, draft
from usher.runtime.objects import JobObject

JOBS = untyped("batch", "v1", "jobs", "Job", namespaced=True)
UNITS = untyped("scheduling.x-k8s.io", "v1alpha1", "queueunits", "QueueUnit", namespaced=True)
LEASES = untyped("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
NAMESPACES = untyped("", "v1", "namespaces", "Namespace", namespaced=False)
IN_FLIGHT = 16
QUIET_S = 3.0
TICKS = os.sysconf("SC_CLK_TCK")
WRITES = re.compile(r"apiserver_request_total\{([^}]*)\} ([0-9.e+]+)")


def job(name: str, cpu: str, runs: str, queue: str = "main") -> dict[str, Any]:
    """A job of one pod."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {QUEUE_NAME: queue}},
        "spec": {
            "suspend": True,
            "template": {
                "metadata": {"annotations": {"sim.usher.dev/runs-for": runs}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


class Manager:
    """`usher manager` in a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, config: Path, log: Path) -> "Manager":
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "usher.cli", "manager", "--kubeconfig", config, "--set", "server.port=0",
                stdout=asyncio.subprocess.PIPE, stderr=output,
            )  # fmt: skip
        assert process.stdout is not None
        async for line in process.stdout:
            if line.startswith(b"leading"):
                return cls(process)
        raise SystemExit(f"the manager did not start: see {log}")

    def cpu_s(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_mib(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found is not None
        return int(found[1]) / 1024

    async def stop(self) -> None:
        self._process.terminate()
        await self._process.wait()


class Bench:
    def __init__(self, plane: ControlPlane, client: Client) -> None:
        self.plane, self.client = plane, client
        self._round = 0

    async def namespace(self) -> str:
        """A new namespace with a queue."""
        self._round += 1
        name = f"round-{self._round}"
        await self.client.create(NAMESPACES, {"metadata": {"name": name}})
        queue = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "Queue", "metadata": {"name": "main"}}
        await self.client.create(QUEUES, queue, name)
        return name

    async def create(self, namespace: str, count: int, cpu: str, runs: str) -> None:
        slots = asyncio.Semaphore(IN_FLIGHT)

        async def one(number: int) -> None:
            async with slots:
                await self.client.create(JOBS, job(f"job-{number:05}", cpu, runs), namespace)

        await asyncio.gather(*(one(number) for number in range(count)))

    async def resumed(self, namespace: str, count: int) -> None:
        """Wait until so many jobs are resumed, by a watch."""
        loose: set[str] = set()
        async with self.client.watch(JOBS, namespace, send_initial_events=True, timeout_s=600) as watch:
            async for event in watch:
                found = event.object
                if found is not None and not found["spec"].get("suspend"):
                    loose.add(found["metadata"]["name"])
                    if len(loose) == count:
                        return
        raise SystemExit(f"only {len(loose)} of {count} jobs were resumed")

    async def ended(self, namespace: str, count: int) -> None:
        """Wait until the units of all jobs say that they have ended."""
        while True:
            units = (await self.client.list(UNITS, namespace)).items
            if sum(unit.get("status", {}).get("phase") == "Succeed" for unit in units) == count:
                return
            await asyncio.sleep(0.5)

    async def writes(self) -> Counter[str]:
        """What the API server has counted of changes to our units and to jobs, but not to jobs' statuses."""
        counted = await self._counted(("queueunits", "queues", "events", "jobs"))
        del counted["PUT jobs/status"], counted["PATCH jobs/status"]
        return counted

    async def _counted(self, resources: tuple[str, ...]) -> Counter[str]:
        text = (await self.client.raw("GET", "/metrics", accept="text/plain")).decode()
        counted: Counter[str] = Counter()
        for labels, value in WRITES.findall(text):
            known = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if known["resource"] in resources and known["verb"] in ("POST", "PATCH", "PUT", "APPLY", "DELETE"):
                sub = f"/{known['subresource']}" if known["subresource"] else ""
                counted[f"{known['verb']} {known['resource']}{sub}"] += int(float(value))
        return counted

    async def quiet(self) -> None:
        """Wait until nobody has written anything for a while."""
        before: Counter[str] = Counter()
        while before != (now := await self._counted(("queueunits", "queues", "events", "jobs", "pods"))):
            before = now
            await asyncio.sleep(QUIET_S)

    async def managed(self, manager: Manager, count: int) -> dict[str, float]:
        """The manager, from the first creation to the last resume."""
        namespace = await self.namespace()
        cpu_s, began = manager.cpu_s(), time.perf_counter()
        waiting = asyncio.ensure_future(self.resumed(namespace, count))
        await self.create(namespace, count, "1m", "1h")
        await waiting
        seconds = time.perf_counter() - began
        return {"jobs_per_s": count / seconds, "cpu_ms_per_job": 1000 * (manager.cpu_s() - cpu_s) / count}

    async def epoch(self) -> int:
        """The epoch that the fence around statuses asks for."""
        try:
            lease = await self.client.get(LEASES, "usher-manager", "usher-system")
        except NotFound:
            return 0
        return int(lease["spec"]["leaseTransitions"])

    async def bare(self, count: int) -> dict[str, float]:
        """A loop that makes the same writes and decides nothing."""
        namespace, kind, reading = await self.namespace(), BatchJob(), Reading()
        slots = asyncio.Semaphore(IN_FLIGHT)
        epoch = await self.epoch()
        began = time.perf_counter()
        resource = untyped("batch", "v1", "jobs", "Job", namespaced=True).typed(JobObject)

        async def one(found: JobObject) -> None:
            said = draft(kind, decoded(found), found, reading)
            assert said is not None
            name = said.body["metadata"]["name"]
            async with slots:
                await self.client.create(UNITS, said.body, namespace)
                status = {
                    "phase": "Dequeued",
                    "epoch": epoch,
                    "quota": f"{namespace}/main",
                    "admissions": [{"name": "main", "replicas": 1}],
                    "conditions": [
                        {"type": each, "status": "True", "reason": each, "lastTransitionTime": "2026-01-01T00:00:00Z"}
                        for each in ("QuotaReserved", "Admitted")
                    ],
                }
                await self.client.patch(UNITS, name, namespace, {"status": status}, subresource="status")
                await self.client.patch(JOBS, found.metadata.name, namespace, {"spec": {"suspend": False}})

        async def runs(found: JobObject) -> None:
            said = draft(kind, decoded(found), found, reading)
            assert said is not None
            status = {
                "phase": "Running",
                "conditions": [
                    {"type": each, "status": "True", "reason": each, "lastTransitionTime": "2026-01-01T00:00:00Z"}
                    for each in ("QuotaReserved", "Admitted", "PodsReady")
                ],
                "epoch": epoch,
            }
            async with slots:
                name = said.body["metadata"]["name"]
                await self.client.patch(UNITS, name, namespace, {"status": status}, subresource="status")

        async def follow() -> None:
            seen: set[str] = set()
            ready: set[str] = set()
            async with (
                asyncio.TaskGroup() as group,
                self.client.watch(resource, namespace, send_initial_events=True, timeout_s=600) as watch,
            ):
                async for event in watch:
                    found = event.object
                    if found is None:
                        continue
                    name = found.metadata.name
                    if name not in seen:
                        seen.add(name)
                        group.create_task(one(found))
                    elif name not in ready and b'"ready":1' in bytes(found.status):
                        ready.add(name)
                        group.create_task(runs(found))

        waiting = asyncio.ensure_future(self.resumed(namespace, count))
        following = asyncio.ensure_future(follow())
        await self.create(namespace, count, "1m", "1h")
        await asyncio.wait({waiting, following}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            await following  # it failed
        seconds = time.perf_counter() - began
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return {"jobs_per_s": count / seconds}


async def run(count: int, rounds: int, waiting: list[int]) -> dict[str, Any]:
    async with ControlPlane(nodes=Nodes(count=60, cpu="32", memory="128Gi", gpus=0)) as plane:
        await plane.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "crds"))
        await plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        await plane.kubectl("create", "namespace", "usher-system")
        config = kubeconfig.load(plane.kubeconfig)
        async with Client(config, user_agent="bench", field_manager="bench") as client:
            bench = Bench(plane, client)
            managed: list[dict[str, float]] = []
            bare: list[dict[str, float]] = []
            writes = await _whole_life(bench, plane, count)  # while nothing else is there whose reports would count
            for number in range(rounds):
                await bench.quiet()
                bare.append(await bench.bare(count))
                manager = await Manager.start(plane.kubeconfig, plane.layout.log("manager"))
                await bench.quiet()
                managed.append(await bench.managed(manager, count))
                await manager.stop()
                rates = f"bare {bare[-1]['jobs_per_s']:.1f}/s, usher {managed[-1]['jobs_per_s']:.1f}/s"
                print(f"round {number + 1}: {rates}, {managed[-1]['cpu_ms_per_job']:.2f} ms CPU per job")
            memory = await _memory(bench, plane, waiting)
    ratio = statistics.median(m["jobs_per_s"] / b["jobs_per_s"] for m, b in zip(managed, bare, strict=True))
    return {"ratio": round(ratio, 3), "managed": managed, "bare": bare, "writes per job": writes, "memory": memory}


async def _whole_life(bench: Bench, plane: ControlPlane, count: int) -> dict[str, float]:
    """Writes for the whole life of jobs that are admitted at once; those of the bench itself taken off."""
    manager = await Manager.start(plane.kubeconfig, plane.layout.log("manager"))
    namespace = await bench.namespace()
    before = await bench.writes()
    await bench.create(namespace, count, "1m", "5s")
    await bench.ended(namespace, count)
    spent = await bench.writes() - before
    spent["POST jobs"] -= count
    await manager.stop()
    print("writes per job:", {what: round(number / count, 2) for what, number in sorted(spent.items())})
    return {what: round(number / count, 3) for what, number in sorted(spent.items()) if number}


async def _memory(bench: Bench, plane: ControlPlane, waiting: list[int]) -> list[dict[str, float]]:
    """The manager's memory with so many jobs that wait, and its CPU for taking them up."""
    manager = await Manager.start(plane.kubeconfig, plane.layout.log("manager"))
    found = [{"waiting": 0, "rss_mib": round(manager.rss_mib(), 1)}]
    namespace = await bench.namespace()
    quota = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "QueueQuota", "metadata": {"name": "none"}}
    quota["spec"] = {"namespaces": [namespace], "max": {"cpu": "1m"}}
    await plane.kubectl("apply", "-f", "-", stdin=json.dumps(quota))
    made = 0
    for number in waiting:
        cpu_s = manager.cpu_s()
        slots = asyncio.Semaphore(IN_FLIGHT)

        async def one(each: int, slots: asyncio.Semaphore = slots) -> None:
            async with slots:
                await bench.client.create(JOBS, job(f"job-{each:05}", "2m", "1h"), namespace)

        await asyncio.gather(*(one(each) for each in range(made, number)))
        while True:
            units = (await bench.client.list(UNITS, namespace)).items
            if sum(unit.get("status", {}).get("phase") == "Enqueued" for unit in units) >= number:
                break
            await asyncio.sleep(1)
        cost = 1000 * (manager.cpu_s() - cpu_s) / (number - made)
        found.append({"waiting": number, "rss_mib": round(manager.rss_mib(), 1), "cpu_ms_per_job": round(cost, 2)})
        print(found[-1])
        made = number
    await manager.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--waiting", default="1000,10000")
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    before = provenance()
    result = asyncio.run(run(options.jobs, options.rounds, [int(n) for n in options.waiting.split(",") if n]))
    print(f"usher at {result['ratio']:.0%} of the bare loop")
    if not options.no_record:
        record("live", {**before, **result})


if __name__ == "__main__":
    main()
