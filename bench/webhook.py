"""Reviews through the doors: how many per second, how long each takes, and what a server that decides nothing would do.

    python bench/webhook.py [--seconds 4] [--rounds 3] [--no-record]

One process serves, with a thousand namespaces and queues in memory: the doors (mutate and validate a Job of 4 KB) and,
on another port of the same process, a bare aiohttp handler over the same TLS that reads the body and answers a
constant. They take turns, round by round. At 500 per second questions are sent when they are due, whether or not
earlier ones were answered, and latency counts from then. At saturation, each of 32 connections asks again when it has
its answer. Both sides share the machine's cores: look at the ratio, and at CPU per review.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import os
import ssl
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web
from provenance import provenance, record

from usher.api.meta import LabelSelector, ObjectMeta
from usher.api.queue import Queue, QueueSpec
from usher.app.doors_known import Memory
from usher.kube.store import Added
from usher.runtime.facts import Reading
from usher.runtime.objects import NamespaceObject
from usher.settings.tree import Settings
from usher.webhooks import certificates
from usher.webhooks.certificates import Due, Lifetimes
from usher.webhooks.rules import Rules
from usher.webhooks.server import ReviewServer
from usher.webhooks.terms import terms_of

CONNECTIONS = 32
RATE = 500
NAMESPACES = 1000
TICKS = os.sysconf("SC_CLK_TCK")
HOSTS = ("127.0.0.1",)


def review() -> bytes:
    """A Job as the API server sends it, about 4 KB."""
    env = [{"name": f"SETTING_{i}", "value": f"value-{i:04}"} for i in range(60)]
    container = {
        "name": "main",
        "image": "registry.example/team/training:1.2.3",
        "env": env,
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "ns-0500",
            "labels": {"scheduling.x-k8s.io/queue-name": "main", "app": "train"},
            "managedFields": [{"manager": "kubectl", "fieldsV1": {f"f:{i}": {} for i in range(60)}}],
        },
        "spec": {
            "suspend": True,
            "parallelism": 4,
            "completions": 4,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    request = {
        "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
        "operation": "CREATE",
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "namespace": "ns-0500",
        "userInfo": {"username": "tenant", "groups": ["system:authenticated"]},
        "object": job,
        "oldObject": None,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def memory(settings: Settings) -> Memory:
    """Namespaces and queues, one each, and a cap on priorities so that these are looked at, too."""
    found = Memory(settings, terms_of(settings), Reading())
    names = [f"ns-{i:04}" for i in range(NAMESPACES)]
    found.hear([Added(("", name), NamespaceObject(metadata=ObjectMeta(name=name))) for name in names])
    queues = [
        Queue(metadata=ObjectMeta(name="main", namespace=name), spec=QueueSpec(max_priority=100)) for name in names
    ]
    queues.append(
        Queue(
            metadata=ObjectMeta(name="shared", namespace="usher-system"),
            spec=QueueSpec(namespace_selector=LabelSelector()),
        )
    )
    found.hear([Added((queue.metadata.namespace, queue.metadata.name), queue) for queue in queues])
    return found


async def serve() -> None:
    """The process that is measured: says where it listens and by whom it is signed, until its input ends."""
    day = dt.timedelta(days=1)
    bundle = certificates.renewed(None, Due.AUTHORITY, HOSTS, Lifetimes(day, day, day / 2), dt.datetime.now(dt.UTC))
    context = certificates.context()
    certificates.load(context, bundle)
    settings = Settings()
    constant = json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "x", "allowed": True}}
    ).encode()

    async def bare(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=constant, content_type="application/json")

    app = web.Application()
    app.router.add_post("/bare", bare)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    async with ReviewServer(Rules(terms_of(settings), memory(settings)), context, "127.0.0.1", 0) as server:
        ports = {"doors": server.port, "bare": runner.addresses[0][1]}
        print(json.dumps({**ports, "ca": bundle.authorities.decode()}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


class Connection:
    """One connection, as plain as it gets: the asking side must not be what is measured."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, request: bytes) -> None:
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        await self._reader.readexactly(length)


async def saturate(connections: list[Connection], request: bytes, seconds: float) -> list[float]:
    """Latencies, in seconds."""
    end = time.perf_counter() + seconds
    found: list[float] = []

    async def go_on(connection: Connection) -> None:
        while (began := time.perf_counter()) < end:
            await connection.ask(request)
            found.append(time.perf_counter() - began)

    await asyncio.gather(*map(go_on, connections))
    return found


async def at_rate(connections: list[Connection], request: bytes, seconds: float, rate: int) -> list[float]:
    """Latencies from when each was due, in seconds."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for connection in connections:
        free.put_nowait(connection)
    found: list[float] = []

    async def one(due: float) -> None:
        connection = await free.get()
        await connection.ask(request)
        found.append(time.perf_counter() - due)
        free.put_nowait(connection)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(seconds * rate)):
            due = began + number / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            group.create_task(one(due))
    return found


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def summary(latencies: list[float], seconds: float, cpu: float) -> dict[str, float]:
    cuts = statistics.quantiles(latencies, n=100)
    return {
        "per second": round(len(latencies) / seconds),
        "p50 ms": round(cuts[49] * 1000, 2),
        "p99 ms": round(cuts[98] * 1000, 2),
        "max ms": round(max(latencies) * 1000, 2),
        "server cpu µs": round(cpu / len(latencies) * 1e6),
    }


async def measure(seconds: float, rounds: int) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--serve", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None and process.stdin is not None  # noqa: PT018
    said = json.loads(await process.stdout.readline())
    trust = ssl.create_default_context(cadata=said["ca"])
    body = review()
    runs: dict[str, list[dict[str, float]]] = {}
    for _ in range(rounds):
        for name, port, path in (
            ("mutate", said["doors"], "/mutate"),
            ("validate", said["doors"], "/validate"),
            ("bare", said["bare"], "/bare"),
        ):
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            head += f"Content-Length: {len(body)}\r\n\r\n"
            request = head.encode() + body
            connections = [
                Connection(*await asyncio.open_connection("127.0.0.1", port, ssl=trust)) for _ in range(CONNECTIONS)
            ]
            await saturate(connections, request, 0.3)
            for how in ("at saturation", f"at {RATE}/s"):
                before, began = cpu_s(process.pid), time.perf_counter()
                if how == "at saturation":
                    latencies = await saturate(connections, request, seconds)
                else:
                    latencies = await at_rate(connections, request, seconds, RATE)
                took = time.perf_counter() - began
                row = summary(latencies, took, cpu_s(process.pid) - before)
                runs.setdefault(f"{name} {how}", []).append(row)
                print(f"{name:9} {how:14} {row}", flush=True)
    process.stdin.close()
    await process.wait()
    middle = {
        name: {key: statistics.median(row[key] for row in rows) for key in rows[0]} for name, rows in runs.items()
    }
    ratio = {
        f"{name} beside bare, per second": round(
            middle[f"{name} at saturation"]["per second"] / middle["bare at saturation"]["per second"], 2
        )
        for name in ("mutate", "validate")
    }
    return {"body bytes": len(body), "connections": CONNECTIONS, "median": middle, "ratio": ratio, "runs": runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-record", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve())
        return
    where = provenance()
    result = uvloop.run(measure(options.seconds, options.rounds))
    print(json.dumps({"median": result["median"], "ratio": result["ratio"]}, indent=2, ensure_ascii=False))
    if not options.no_record:
        record("webhook", {"provenance": where, **result})


if __name__ == "__main__":
    main()
