"""Informers and an API server that stops, starts and forgets: on a control plane of the test's own."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from clients import MAPS, QUICK, agrees, config_map, connected, following, watched
from etcd import Etcd

from usher.devcluster import ControlPlane, Nodes
from usher.devcluster.parts import Parts
from usher.kube import Client, KubeError
from usher.kube.errors import Gone
from usher.kube.store import Added, Deleted
from usher.testing import eventually
from usher.testing.proxy import Proxy


@asynccontextmanager
async def stopped_server(plane: ControlPlane) -> AsyncIterator[list[bytes]]:
    """The API server is killed; its command line, to start it again with."""
    process = Path(f"/proc/{plane.pids['kube-apiserver']}")
    command = await asyncio.to_thread((process / "cmdline").read_bytes)
    os.kill(int(process.name), signal.SIGKILL)

    async def ended() -> bool:
        return not await asyncio.to_thread(process.exists)

    await eventually(ended, why="the API server is gone")
    yield command.split(b"\0")[:-1]


@asynccontextmanager
async def running(command: list[bytes], log: Path) -> AsyncIterator[None]:
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def test_a_server_that_was_killed_and_came_back_without_memory_costs_nothing(
    control_plane_parts: Parts,
) -> None:
    """Killed, changed in between, compacted, started again: the old version is really gone, and nothing is lost."""
    async with (
        ControlPlane(nodes=Nodes(count=1), parts=control_plane_parts) as plane,
        Proxy(plane.kubeconfig, plane.layout.server) as proxy,
        connected(plane.kubeconfig) as direct,
        connected(proxy.kubeconfig) as proxied,
    ):
        problems: list[KubeError] = []
        informer, mirror = following(proxied, "default", on_problem=problems.append)
        for name in ("stays", "goes", "replaced"):
            await direct.create(MAPS, config_map(name, x="old"), "default")
        async with informer:
            await informer.synced.wait()
            await agrees(direct, informer, "default")
            await watched(proxy)
            await proxy.down()  # the informer sees nothing from here on
            await direct.delete(MAPS, "goes", "default")
            await direct.delete(MAPS, "replaced", "default")
            await direct.create(MAPS, config_map("replaced", x="new"), "default")
            await direct.create(MAPS, config_map("comes"), "default")
            async with Etcd(plane) as etcd:
                await etcd.compact()
            async with stopped_server(plane) as command, running(command, plane.layout.log("kube-apiserver-again")):
                await proxy.up()  # while the server may not be up: one more reason to try again
                assert await ready(direct)
                listed = await agrees(direct, informer, "default")
                await watched(proxy)

        assert any(isinstance(problem, Gone) for problem in problems), "the version was gone"
        assert mirror.versions() == listed
        assert [type(delta) for delta in mirror.of("stays")] == [Added]
        assert mirror.of("goes")[1:] == [Deleted(("default", "goes"), mirror.of("goes")[0].object, missed=True)]
        assert [delta.object.data["x"] for delta in mirror.of("replaced")] == ["old", "old", "new"]


async def ready(client: Client) -> bytes:
    async def answers() -> bytes:
        try:
            return await client.raw("GET", "/readyz")
        except KubeError:
            return b""

    return await eventually(answers, why="the API server is ready")


@pytest.mark.parametrize("watch_list", [True, False], ids=["with watch-list", "in pages"])
async def test_a_compaction_while_disconnected_is_survived_without_a_watch_cache(
    control_plane_parts: Parts, watch_list: bool
) -> None:
    """Without the server's cache, watches go to etcd itself, and 410 comes from there, in the stream."""
    without = {"kube-apiserver": ["--watch-cache=false"]}
    async with (
        ControlPlane(nodes=Nodes(count=1), parts=control_plane_parts, extra_args=without) as plane,
        Proxy(plane.kubeconfig, plane.layout.server) as proxy,
        connected(plane.kubeconfig) as direct,
        connected(proxy.kubeconfig) as proxied,
    ):
        problems: list[KubeError] = []
        informer, mirror = following(
            proxied, "default", on_problem=problems.append, pacing=QUICK, watch_list=watch_list, page=2
        )
        for name in ("stays", "goes", "changes"):
            await direct.create(MAPS, config_map(name), "default")
        async with informer:
            await informer.synced.wait()
            await agrees(direct, informer, "default")
            await watched(proxy)
            await proxy.down()
            await direct.delete(MAPS, "goes", "default")
            await direct.patch(MAPS, "changes", "default", {"data": {"x": "1"}})
            async with Etcd(plane) as etcd:
                await etcd.compact()
            await proxy.up()
            listed = await agrees(direct, informer, "default")
            await watched(proxy)

        assert any(isinstance(problem, Gone) for problem in problems), "the version was gone"
        assert mirror.versions() == listed
        assert [type(delta) for delta in mirror.of("goes")] == [Added, Deleted]
        assert [type(delta) for delta in mirror.of("stays")] == [Added]
