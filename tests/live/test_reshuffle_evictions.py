"""Two pods are to go and one may: whoever was refused at the last moment is left as it was."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from living import Live, Object

from usher.app.cluster import LiveCluster
from usher.kube import kubeconfig
from usher.kube.client import Client
from usher.kube.writer import Writer
from usher.runtime.port import Rejected, Vanished, Written

HELD = "example.com/held"


class Together(Client):
    """Asks for two pods before it evicts either."""

    asked: asyncio.Barrier

    async def evict(self, *args: Any, dry_run: bool = False, **options: Any) -> None:
        await super().evict(*args, dry_run=dry_run, **options)
        if dry_run:
            await self.asked.wait()


def pod(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "kept"}, "finalizers": [HELD]},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }


async def test_a_pod_that_is_refused_after_all_has_its_finalizer_back(live: Live) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}, "spec": spec}
    await live.kubectl.apply(pod("a"), pod("b"), budget)

    async def counted() -> bool:
        return await live.kubectl("get", "pdb", "kept", "-o", "jsonpath={.status.disruptionsAllowed}") == "1"

    await live.wait("one may go", counted)
    uids = {name: (await live.get("pod", name))["metadata"]["uid"] for name in "ab"}
    config = kubeconfig.load(live.admin.kubeconfig)
    async with Together(config, user_agent="usher-tests", field_manager="usher-tests") as client:
        client.asked = asyncio.Barrier(2)
        async with Writer(client) as writer:
            cluster = LiveCluster(client, writer)

            outcomes = await asyncio.gather(*(cluster.evict_pod(live.namespace, n, uids[n], HELD) for n in "ab"))

            again = await LiveCluster(live.client, writer).evict_pod(live.namespace, "gone", uids["a"], HELD)

    assert sorted(type(each).__name__ for each in outcomes) == ["Rejected", "Written"]
    refused = next(each for each in outcomes if isinstance(each, Rejected))
    assert "disruption budget" in refused.message
    assert isinstance(again, Vanished)
    stays = "ab"[next(number for number, each in enumerate(outcomes) if not isinstance(each, Written))]
    left = await live.get("pod", stays)
    assert left["metadata"]["finalizers"] == [HELD]
    assert "deletionTimestamp" not in left["metadata"]

    async def alone() -> bool:
        items = json.loads(await live.kubectl("get", "pods", "-o", "json"))["items"]
        return [each["metadata"]["name"] for each in items] == [stays]

    await live.wait("the other one is gone", alone)
    await live.patch("pod", stays, {"metadata": {"finalizers": None}})
