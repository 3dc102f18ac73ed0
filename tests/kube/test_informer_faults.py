"""An informer through a day of faults drawn from a seed: whatever they are, it ends up with what the server has."""

import random
from typing import Any

import pytest
from clients import MAPS, QUICK, agrees, config_map, connected, following, watched

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.kube import Client
from usher.kube.carrying import HeaderList, Stream
from usher.kube.errors import ServerError
from usher.kube.transport import AiohttpTransport
from usher.testing.proxy import CUT, LOSE_ANSWER, Answer, Fault, Passed, Proxy

NAMES = [f"n{number}" for number in range(8)]
STEPS = 60


async def one_change(chance: random.Random, client: Client, namespace: str, there: set[str]) -> None:
    """Create, change, delete or replace an object."""
    name = chance.choice(NAMES)
    if name not in there:
        await client.create(MAPS, config_map(name), namespace)
        there.add(name)
        return
    match chance.choice(["change", "change", "delete", "replace"]):
        case "change":
            await client.patch(MAPS, name, namespace, {"data": {"x": str(chance.random())}})
        case "delete":
            await client.delete(MAPS, name, namespace)
            there.remove(name)
        case _:
            await client.delete(MAPS, name, namespace)
            await client.create(MAPS, config_map(name, x="another"), namespace)


@pytest.mark.parametrize("watch_list", [True, False], ids=["with watch-list", "in pages"])
@pytest.mark.parametrize("seed", range(3))
async def test_the_cache_ends_up_right_after_any_course_of_faults(
    control_plane: Cluster, kubectl: Kubectl, seed: int, watch_list: bool
) -> None:
    chance = random.Random(seed)
    assert kubectl.namespace

    def fault(request: Passed) -> Fault | None:
        drawn = chance.random()
        if drawn < 0.4:
            kinds = [CUT, LOSE_ANSWER, Answer(410), Answer(429), Answer(500), Answer(503), Answer(401), Answer(504)]
            return chance.choice(kinds)
        return None

    async with (
        Proxy.to(control_plane) as proxy,
        connected(control_plane.kubeconfig) as direct,
        connected(proxy.kubeconfig) as proxied,
    ):
        proxy.decide(fault)
        there: set[str] = set()
        informer, mirror = following(proxied, kubectl.namespace, watch_list=watch_list, page=3)
        async with informer:
            for _ in range(STEPS):
                await one_change(chance, direct, kubectl.namespace, there)
                drawn = chance.random()
                if drawn < 0.1:
                    proxy.cut()
                elif drawn < 0.15:
                    proxy.end_watches()
                elif drawn < 0.2:
                    proxy.expire_watches()
                elif drawn < 0.25:
                    await proxy.down()
                    await one_change(chance, direct, kubectl.namespace, there)
                    await proxy.up()
            proxy.behave()
            listed = await agrees(direct, informer, kubectl.namespace)
            await watched(proxy)
        assert mirror.versions() == listed
        assert {name for _, name in listed} == there | {"kube-root-ca.crt"}


class ErringTransport(AiohttpTransport):
    """A server that takes a watch-list and then says in the stream that it cannot: old etcd, new API server."""

    ERROR = (
        b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"storage feature RequestWatchProgress is disabled","code":500}}\n'
    )

    async def stream(self, target: str, headers: HeaderList, tls: Any, timeout_s: float) -> Stream:
        stream = await super().stream(target, headers, tls, timeout_s)
        if "sendInitialEvents" in target:
            lines = [self.ERROR, b""]

            async def read() -> bytes:
                return lines.pop(0)

            stream.read = read  # type: ignore[method-assign]
        return stream


async def test_an_error_inside_the_first_stream_means_to_list_in_pages(
    control_plane: Cluster, kubectl: Kubectl
) -> None:
    assert kubectl.namespace
    async with connected(control_plane.kubeconfig) as direct:
        transport = ErringTransport(direct.config.server)
        async with connected(control_plane.kubeconfig, transport=transport) as client:
            problems: list[Exception] = []
            informer, mirror = following(client, kubectl.namespace, on_problem=problems.append)
            async with informer:
                await informer.synced.wait()
                await direct.create(MAPS, config_map("a"), kubectl.namespace)
                assert mirror.versions().keys() <= (await agrees(direct, informer, kubectl.namespace)).keys()

            assert [(type(each), str(each)) for each in problems] == [
                (ServerError, "storage feature RequestWatchProgress is disabled")
            ]
            assert QUICK.first_s < 1, "the fallback does not wait"
