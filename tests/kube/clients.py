"""What the tests of the client share: config maps, clients, and ways to compare a cache with the server."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from usher.kube import Client, ObjectMeta, Resource, load
from usher.kube.informer import Informer
from usher.kube.pacing import Pacing
from usher.kube.store import Added, Changed, Deleted, Delta, Key
from usher.testing import eventually
from usher.testing.proxy import Proxy

QUICK = Pacing(first_s=0.05, most_s=0.2, good_s=0.3)
"""An informer in a hurry."""


class ConfigMap(msgspec.Struct, frozen=True, kw_only=True):
    """What these tests need of a ConfigMap."""

    metadata: ObjectMeta
    data: dict[str, str] = {}


MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, ConfigMap)


@asynccontextmanager
async def connected(kubeconfig: Path, **options: Any) -> AsyncIterator[Client]:
    """A client."""
    async with Client(load(kubeconfig), user_agent="usher-tests", field_manager="tests", **options) as client:
        yield client


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"made-by": "test"}}, "data": data}


async def versions(client: Client, namespace: str) -> dict[Key, str]:
    """The resourceVersion of every config map, by an independent list."""
    page = await client.list(MAPS, namespace)
    return {(each.metadata.namespace, each.metadata.name): each.metadata.resource_version for each in page.items}


async def agrees(client: Client, informer: Informer[Any], namespace: str) -> dict[Key, str]:
    """Wait until the cache is what an independent list says; that list."""

    async def same() -> dict[Key, str] | None:
        listed = await versions(client, namespace)
        return listed if informer.store.versions() == listed else None

    return await eventually(same, why="the cache equals a list")


async def watched(proxy: Proxy, count: int = 1) -> None:
    """Wait until so many watches pass through the proxy."""

    async def passes() -> bool:
        return proxy.watching() == count

    await eventually(passes, why=f"{count} watches pass")


class Mirror:
    """Somebody who knows only the deltas, and insists that each follows from what came before."""

    def __init__(self) -> None:
        self.objects: dict[Key, ConfigMap] = {}
        self.deltas: list[Delta[ConfigMap]] = []

    def take(self, deltas: Sequence[Delta[ConfigMap]]) -> None:
        for delta in deltas:
            self.deltas.append(delta)
            match delta:
                case Added(key, new):
                    assert key not in self.objects, f"{key} was added twice"
                    self.objects[key] = new
                case Changed(key, old, new):
                    assert self.objects[key] == old
                    assert old.metadata.resource_version != new.metadata.resource_version
                    assert old.metadata.uid == new.metadata.uid
                    self.objects[key] = new
                case Deleted(key, last):
                    assert self.objects.pop(key).metadata.uid == last.metadata.uid

    def versions(self) -> dict[Key, str]:
        return {key: each.metadata.resource_version for key, each in self.objects.items()}

    def of(self, name: str) -> list[Delta[ConfigMap]]:
        return [delta for delta in self.deltas if delta.key[1] == name]


def following(client: Client, namespace: str | None, **options: Any) -> tuple[Informer[ConfigMap], Mirror]:
    """An informer in a hurry, and a mirror that listens to it."""
    informer: Informer[ConfigMap] = Informer(client, MAPS, namespace, **({"pacing": QUICK} | options))
    mirror = Mirror()
    informer.listen(mirror.take)
    return informer, mirror
