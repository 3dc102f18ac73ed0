"""20,000 objects, listed both ways and followed: memory stays near what is kept. Part of `make flow`."""

import gc
import tracemalloc
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from clients import MAPS, QUICK, ConfigMap, config_map, connected
from etcd import Etcd

from usher.devcluster import ControlPlane, Nodes
from usher.devcluster.parts import Parts
from usher.kube import Client
from usher.kube.informer import Informer
from usher.testing import eventually
from usher.testing.proxy import Proxy

pytestmark = pytest.mark.flow

COUNT = 20_000
PAYLOAD = {f"key{number}": "x" * 100 for number in range(8)}  # about 1.5 KB on the wire
SLACK_BYTES = 8 * 2**20
"""What may be used besides what is kept: a page or a buffer, and what was decoded from it."""


@pytest.fixture
async def plane(control_plane_parts: Parts) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(nodes=Nodes(count=0), parts=control_plane_parts) as plane:
        yield plane


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """What the API server would have stored, had each been created."""
    for number in range(COUNT):
        made = config_map(f"n{number:05}", **PAYLOAD)
        made["metadata"] |= {
            "namespace": "default",
            "uid": str(uuid.UUID(int=number + 1)),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        path = f"/registry/configmaps/default/{made['metadata']['name']}"
        yield path, {"apiVersion": "v1", "kind": "ConfigMap", **made}


def brief(each: ConfigMap) -> tuple[str, int]:
    return each.metadata.name, len(each.data)


async def synced(client: Client, *, watch_list: bool, page: int = 500) -> tuple[int, int]:
    """What the sync of an informer cost in bytes: at its peak, and what stays."""
    gc.collect()
    tracemalloc.start()
    informer: Informer[tuple[str, int]] = Informer(
        client, MAPS, "default", label_selector="made-by=test", transform=brief, watch_list=watch_list, page=page
    )
    async with informer:
        await informer.synced.wait()
        gc.collect()
        kept, peak = tracemalloc.get_traced_memory()
        assert len(informer.store) == COUNT
    tracemalloc.stop()
    return peak, kept


async def test_twenty_thousand_objects_are_listed_and_followed_in_bounded_memory(plane: ControlPlane) -> None:
    async with connected(plane.kubeconfig) as client:
        async with Etcd(plane) as etcd:
            await etcd.put(objects())
        whole = len(await client.raw("GET", MAPS.path("default")))
        sizes = {way: await synced(client, watch_list=way == "watch-list") for way in ("watch-list", "pages")}
        at_once = await synced(client, watch_list=False, page=0)

        assert whole > 20 * 2**20, "there is a lot to read"
        for way, (peak, kept) in sizes.items():
            assert peak - kept < SLACK_BYTES, f"{way}: {peak:,} at the peak, {kept:,} kept"
        assert at_once[0] - at_once[1] > SLACK_BYTES, "one big list does not stay within the bound"
        await follow(plane, client)


async def follow(plane: ControlPlane, client: Client) -> None:
    """After a relist nothing is delivered again, and what is followed costs no more memory than is kept."""
    async with Proxy(plane.kubeconfig, plane.layout.server) as proxy, connected(proxy.kubeconfig) as proxied:
        heard: list[int] = []
        informer: Informer[ConfigMap] = Informer(proxied, MAPS, "default", label_selector="made-by=test", pacing=QUICK)
        informer.listen(lambda deltas: heard.append(len(deltas)))
        async with informer:
            await informer.synced.wait()
            assert sum(heard) == COUNT
            heard.clear()
            gc.collect()
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            proxy.expire_watches()
            for number in range(0, COUNT, 1000):
                await client.patch(MAPS, f"n{number:05}", "default", {"data": {"key0": "new"}})

            async def reached() -> bool:
                changed = [informer.store.get(f"n{number:05}", "default") for number in range(0, COUNT, 1000)]
                return all(each is not None and each.data["key0"] == "new" for each in changed)

            await eventually(reached, why="what changed has arrived")
            gc.collect()
            after = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()

        assert sum(heard) == COUNT // 1000, "only what changed was delivered after the relist"
        assert after - before < SLACK_BYTES, "unchanged objects are not kept twice"
