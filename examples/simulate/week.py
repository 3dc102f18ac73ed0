"""A week of seven tenants on one cluster, as manifests on standard output: the same seed, the same week.

    python examples/simulate/week.py | usher simulate - --until 7d --html week.html

The cluster has 200 CPUs, 800 GiB and 16 GPUs; the week begins on Monday at midnight. What the tenants do:

- analytics: much CPU, in office hours; weight 2
- genomics: much memory, day and night; weight 2
- vision: gangs on GPUs, of which 4 are guaranteed with what goes with them; weight 3
- support: short jobs in office hours, in bursts; 20 CPUs guaranteed
- nightly: 150 small jobs at one o'clock every night
- research: some with GPUs and some without; there on Monday, away until Friday morning, then back with a lot; weight 2
- render: jobs of many hours that fill whatever is idle, and give it back
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

HOUR, DAY = 3600, 24 * 3600
GPU = "nvidia.com/gpu"
GROUP = "scheduling.x-k8s.io"
TENANTS: dict[str, dict[str, Any]] = {
    "analytics": {"weight": 2},
    "genomics": {"weight": 2},
    "vision": {"weight": 3, "min": {"cpu": "24", "memory": "160Gi", GPU: "4"}},
    "support": {"weight": 1, "min": {"cpu": "20", "memory": "80Gi"}},
    "nightly": {"weight": 1},
    "research": {"weight": 2},
    "render": {"weight": 1},
}
NODES, NODE = 4, {"cpu": "50", "memory": "200Gi", GPU: "4"}


@dataclass
class Task:
    """One job before it is a manifest."""

    tenant: str
    at: float
    runs: float
    cpu: float
    memory: float
    gpus: int = 0
    pods: int = 1


def pieces(task: Task) -> list[Task]:
    """The same work in jobs of one GPU or of one CPU at most, as small as the cluster could be divided."""
    parts = 1 if task.gpus else int(task.cpu)
    small = replace(task, cpu=task.cpu / parts, memory=task.memory / parts, pods=1)
    return [small] * parts * task.pods


def tasks(chance: random.Random) -> Iterator[Task]:
    """Everything that is submitted in the week."""
    between = chance.uniform
    for at in arrivals(chance, lambda t: 9 if office(t) else 1, 9):
        yield Task("analytics", at, between(0.3, 2) * HOUR, chance.choice((4, 8, 8, 16)), 16)
    for at in arrivals(chance, lambda _: 1.6, 1.6):
        yield Task("genomics", at, between(1, 4) * HOUR, chance.choice((2, 4)), chance.choice((32, 48, 64)))
    for at in arrivals(chance, lambda t: 0.6 if office(t) else 0.25, 0.6):
        yield Task("vision", at, between(2, 8) * HOUR, 6, 40, 1, chance.choice((1, 2, 2, 4)))
    for start in arrivals(chance, lambda t: 0.9 if office(t) else 0.02, 0.9):
        for _ in range(chance.randint(10, 30)):
            yield Task("support", start + between(0, 300), between(0.05, 0.4) * HOUR, chance.choice((1, 2)), 4)
    for day in range(7):
        for _ in range(150):
            yield Task("nightly", day * DAY + HOUR + between(0, 120), between(0.25, 0.7) * HOUR, 2, 4)
    for start, days, count in ((9 * HOUR, 0.5, 60), (4 * DAY + 9 * HOUR, 1.5, 180)):
        for _ in range(count):
            at, runs = start + chance.expovariate(4 / (days * DAY)), between(0.5, 4) * HOUR
            yield Task("research", at, runs, 8, 24, 1) if chance.random() < 0.3 else Task("research", at, runs, 6, 12)
    for _ in range(90):
        yield Task("render", between(0, 6 * DAY), between(4, 10) * HOUR, 8, 16)
    for _ in range(40):
        yield Task("render", 0, between(4, 10) * HOUR, 8, 16)


def office(at: float) -> bool:
    """Monday to Friday, eight to six."""
    return at < 5 * DAY and 8 * HOUR <= at % DAY < 18 * HOUR


def arrivals(chance: random.Random, rate: Callable[[float], float], most: float) -> Iterator[float]:
    """Moments of the week at so many per hour, which changes with the time."""
    at = chance.expovariate(most / HOUR)
    while at < 7 * DAY:
        if chance.random() * most < rate(at):
            yield at
        at += chance.expovariate(most / HOUR)


def manifests(seed: int, small: bool = False) -> list[dict[str, Any]]:
    """The cluster, its tenants and their jobs; `small`: the jobs in pieces."""
    chance = random.Random(seed)  # noqa: S311 (no secret depends on it)
    found: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}"}, "status": {"allocatable": NODE}}
        for number in range(NODES)
    ]
    for name, spec in TENANTS.items():
        quota, queue = {"name": name}, {"name": "jobs", "namespace": name}
        found.append({"apiVersion": f"{GROUP}/v1alpha1", "kind": "QueueQuota", "metadata": quota, "spec": spec})
        found.append({"apiVersion": f"{GROUP}/v1alpha1", "kind": "Queue", "metadata": queue, "spec": {"quota": name}})
    counts = dict.fromkeys(TENANTS, 0)
    asked = sorted(tasks(chance), key=lambda each: each.at)
    for task in [piece for whole in asked for piece in pieces(whole)] if small else asked:
        counts[task.tenant] += 1
        found.append(job(task, f"job-{counts[task.tenant]:05}"))
    return found


def job(task: Task, name: str) -> dict[str, Any]:
    """A task as a Job."""
    requests = {"cpu": f"{task.cpu:g}", "memory": f"{round(task.memory * 1024)}Mi"} | (
        {GPU: f"{task.gpus}"} if task.gpus else {}
    )
    container = {"name": "main", "image": "busybox", "resources": {"requests": requests}}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": task.tenant,
            "labels": {f"{GROUP}/queue-name": "jobs"},
            "annotations": {
                "sim.usher.dev/arrives": f"{round(task.at)}s",
                "sim.usher.dev/runs-for": f"{round(task.runs)}s",
            },
        },
        "spec": {"parallelism": task.pods, "completions": task.pods, "template": pod},
    }


def main() -> None:
    """Write the week as one List."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="cut every job into pieces of one CPU or one GPU")
    options = parser.parse_args()
    items = manifests(options.seed, options.small)
    json.dump({"apiVersion": "v1", "kind": "List", "items": items}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
