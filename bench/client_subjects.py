"""The clients that `client.py` compares, each behind the same four operations, and the process that runs one of them.

Every subject does what its users would: ours and the bare loop decode the fields that a controller needs, the others
build their own models. All of them get the same bodies and wait for every answer.
"""

import asyncio
import gc
import json
import resource
import ssl
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import uvloop

from usher.kube import Client, EventType, ObjectMeta, Resource, load

IN_FLIGHT = 32
NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Container(msgspec.Struct, frozen=True):
    """What a controller needs of a container."""

    name: str
    resources: dict[str, dict[str, str]] = {}


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """What a controller needs of a pod's spec."""

    containers: tuple[Container, ...]
    node_name: str = ""
    priority: int = 0


class Condition(msgspec.Struct, frozen=True):
    """A condition."""

    type: str
    status: str
    reason: str = ""


class Status(msgspec.Struct, frozen=True):
    """What a controller needs of a pod's status."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    """What a controller needs of a pod."""

    metadata: ObjectMeta
    spec: Spec
    status: Status = Status()


def pod(name: str) -> dict[str, Any]:
    """A pod that nobody schedules."""
    resources = {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    variables = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(12)]
    container = {"name": "main", "image": "registry.example/job:1", "env": variables, "resources": resources}
    labels = {"app": "bench", "team": "a", "job-name": name}
    spec = {"schedulerName": "nobody", "restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def status(number: int) -> dict[str, Any]:
    """A status as a controller would write it."""
    condition = {"type": "PodScheduled", "status": "False", "reason": f"Waiting{number}", "message": "m" * 80}
    return {"status": {"phase": "Pending", "conditions": [condition]}}


class Subject(Protocol):
    """A client under measurement."""

    async def create(self, name: str) -> None:
        """Create a pod."""

    async def patch(self, name: str, number: int) -> None:
        """Patch its status."""

    async def list(self) -> int:
        """List all pods; how many."""

    async def watch(self, count: int) -> None:
        """Watch until so many events came: the server begins with one for each pod."""


class Usher:
    """Our client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pods = Resource("", "v1", "pods", "Pod", True, Pod)

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path) -> AsyncIterator["Usher"]:
        async with Client(load(kubeconfig), user_agent="bench", field_manager="bench") as client:
            yield cls(client)

    async def create(self, name: str) -> None:
        made = await self._client.create(self._pods, pod(name), NAMESPACE)
        assert made.metadata.name == name

    async def patch(self, name: str, number: int) -> None:
        await self._client.patch(self._pods, name, NAMESPACE, status(number), subresource="status")

    async def list(self) -> int:
        return len((await self._client.list(self._pods, NAMESPACE)).items)

    async def watch(self, count: int) -> None:
        async with self._client.watch(self._pods, NAMESPACE, resource_version="0", allow_bookmarks=False) as watch:
            async for event in watch:
                assert event.type is not EventType.BOOKMARK
                count -= 1
                if not count:
                    return


class Bare:
    """aiohttp and msgspec, and nothing between: no errors, no credentials that change, no namespaces. The yardstick."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._decode = msgspec.json.Decoder(Pod).decode
        self._decode_list = msgspec.json.Decoder(Listed).decode
        self._decode_event = msgspec.json.Decoder(Event).decode
        self._encode = msgspec.json.Encoder().encode

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path) -> AsyncIterator["Bare"]:
        import aiohttp

        config = json.loads(await asyncio.to_thread(kubeconfig.read_text))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        tls.load_cert_chain(user["client-certificate"], user["client-key"])
        async with aiohttp.ClientSession(
            cluster["server"],
            connector=aiohttp.TCPConnector(ssl=tls, keepalive_timeout=60),
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "bench"},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=2**20,
        ) as session:
            yield cls(session)

    async def create(self, name: str) -> None:
        headers = {"Content-Type": "application/json"}
        async with self._session.post(PODS, data=self._encode(pod(name)), headers=headers) as answer:
            assert answer.status == 201
            assert self._decode(await answer.read()).metadata.name == name

    async def patch(self, name: str, number: int) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        body = self._encode(status(number))
        async with self._session.patch(f"{PODS}/{name}/status", data=body, headers=headers) as answer:
            assert answer.status == 200
            self._decode(await answer.read())

    async def list(self) -> int:
        async with self._session.get(PODS) as answer:
            return len(self._decode_list(await answer.read()).items)

    async def watch(self, count: int) -> None:
        async with self._session.get(f"{PODS}?watch=true&resourceVersion=0") as answer:
            async for line in answer.content:
                self._decode_event(line)
                count -= 1
                if not count:
                    answer.close()
                    return


class Listed(msgspec.Struct):
    """A list of pods."""

    items: list[Pod]


class Event(msgspec.Struct):
    """An event of a watch."""

    type: str
    object: Pod


class OfficialAio:
    """The official client's asyncio side."""

    def __init__(self, api: Any) -> None:
        self._api = api

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path) -> AsyncIterator["OfficialAio"]:
        from kubernetes.aio import client, config

        await config.load_kube_config(str(kubeconfig))
        async with client.ApiClient() as api:
            yield cls(client.CoreV1Api(api))

    async def create(self, name: str) -> None:
        made = await self._api.create_namespaced_pod(NAMESPACE, pod(name))
        assert made.metadata.name == name

    async def patch(self, name: str, number: int) -> None:
        await self._api.patch_namespaced_pod_status(
            name, NAMESPACE, status(number), _content_type="application/merge-patch+json"
        )

    async def list(self) -> int:
        return len((await self._api.list_namespaced_pod(NAMESPACE)).items)

    async def watch(self, count: int) -> None:
        from kubernetes.aio import watch

        async with watch.Watch().stream(self._api.list_namespaced_pod, NAMESPACE, resource_version="0") as stream:
            async for _ in stream:
                count -= 1
                if not count:
                    return


class Official:
    """The official client, with a thread for every request in flight."""

    def __init__(self, api: Any) -> None:
        self._api = api

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path) -> AsyncIterator["Official"]:
        from concurrent.futures import ThreadPoolExecutor

        from kubernetes import client, config

        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(IN_FLIGHT))
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings)
        settings.connection_pool_maxsize = IN_FLIGHT
        yield cls(client.CoreV1Api(client.ApiClient(settings)))

    async def create(self, name: str) -> None:
        made = await asyncio.to_thread(self._api.create_namespaced_pod, NAMESPACE, pod(name))
        assert made.metadata.name == name

    async def patch(self, name: str, number: int) -> None:
        await asyncio.to_thread(self._api.patch_namespaced_pod_status, name, NAMESPACE, status(number))

    async def list(self) -> int:
        return len((await asyncio.to_thread(self._api.list_namespaced_pod, NAMESPACE)).items)

    async def watch(self, count: int) -> None:
        from kubernetes import watch

        def follow() -> None:
            left = count
            follower = watch.Watch()
            for _ in follower.stream(self._api.list_namespaced_pod, NAMESPACE, resource_version="0"):
                left -= 1
                if not left:
                    follower.stop()
                    return

        await asyncio.to_thread(follow)


class Kr8s:
    """kr8s."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self._pods: dict[str, Any] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path) -> AsyncIterator["Kr8s"]:
        import kr8s.asyncio

        warnings.simplefilter("ignore")  # it does not know this version of the server yet
        yield cls(await kr8s.asyncio.api(kubeconfig=str(kubeconfig), namespace=NAMESPACE))

    async def create(self, name: str) -> None:
        from kr8s.asyncio.objects import Pod as Kr8sPod

        made = self._pods[name] = await Kr8sPod(pod(name), api=self._api)
        await made.create()

    async def patch(self, name: str, number: int) -> None:
        await self._pods[name].patch(status(number), subresource="status")

    async def list(self) -> int:
        return len([each async for each in self._api.get("pods", namespace=NAMESPACE)])

    async def watch(self, count: int) -> None:
        async for _ in self._api.watch("pods", namespace=NAMESPACE):
            count -= 1
            if not count:
                return


SUBJECTS: dict[str, Any] = {
    "usher": Usher,
    "bare aiohttp": Bare,
    "official asyncio": OfficialAio,
    "official threads": Official,
    "kr8s": Kr8s,
}


async def all_of(work: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Do all of it, so much of it at a time."""
    left = iter(work)

    async def some() -> None:
        for each in left:
            await each()

    await asyncio.gather(*(some() for _ in range(IN_FLIGHT)))


async def carry_out(subject: Subject, order: dict[str, Any]) -> int:
    """One operation, often; how often."""
    match order["do"]:
        case "list":
            return sum([await subject.list() for _ in range(order["times"])])
        case "watch":
            await subject.watch(order["count"])
            return int(order["count"])
        case operation:
            await write(subject, operation, order["names"][IN_FLIGHT:])
            return len(order["names"]) - IN_FLIGHT


async def write(subject: Subject, operation: str, names: list[str]) -> None:
    """Create pods, or patch their status."""
    if operation == "create":
        await all_of(lambda name=name: subject.create(name) for name in names)
    else:
        await all_of(lambda name=name, number=number: subject.patch(name, number) for number, name in enumerate(names))


def cpu_s() -> float:
    """CPU time of this process, all threads, user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def serve(name: str, kubeconfig: Path) -> None:
    """Carry out orders from stdin until it ends."""
    async with SUBJECTS[name].open(kubeconfig) as subject:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            order = json.loads(line)
            if order["do"] in ("create", "patch"):
                await write(subject, order["do"], order["names"][:IN_FLIGHT])  # for the connections
            gc.collect()
            began, cpu = time.perf_counter(), cpu_s()
            done = await carry_out(subject, order)
            print(json.dumps({"done": done, "s": time.perf_counter() - began, "cpu_s": cpu_s() - cpu}), flush=True)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], Path(sys.argv[2])))
