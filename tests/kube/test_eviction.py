"""Evictions by the writer on the real control plane: pods go, unless a disruption budget is against it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from clients import connected

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.kube.errors import Disrupts, Throttled, from_answer
from usher.kube.resource import untyped
from usher.kube.writer import Writer, WriterSettings
from usher.kube.writes import Done, Outcome, Refused, Vanished, Verb, Write
from usher.testing import eventually
from usher.testing.proxy import LOSE_ANSWER, Proxy

PODS = untyped("", "v1", "pods", "Pod", namespaced=True)
Object = dict[str, Any]


class Stage:
    """Two pods of which one must stay, one that is free to go, and a writer."""

    def __init__(self, kubectl: Kubectl, proxy: Proxy, writer: Writer) -> None:
        self.kubectl, self.proxy, self.writer = kubectl, proxy, writer

    async def pods(self) -> dict[str, str]:
        """Those that are there and stay, and their uids."""
        items = json.loads(await self.kubectl("get", "pods", "-o", "json"))["items"]
        metas = [each["metadata"] for each in items]
        return {meta["name"]: meta["uid"] for meta in metas if "deletionTimestamp" not in meta}

    async def evict(self, name: str, uid: str) -> Outcome[Object]:
        return await self.writer.submit(
            Write(resource=PODS, verb=Verb.EVICT, name=name, namespace=self.kubectl.namespace, uid=uid)
        )


@pytest.fixture
async def stage(control_plane: Cluster, kubectl: Kubectl) -> AsyncIterator[Stage]:
    containers = [{"name": "main", "image": "none"}]
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    await kubectl.apply(
        *(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": {"app": app}},
                "spec": {"containers": containers},
            }
            for name, app in (("a", "kept"), ("b", "kept"), ("c", "free"))
        ),
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}, "spec": budget},
    )

    async def counted() -> bool:
        return await kubectl("get", "pdb", "kept", "-o", "jsonpath={.status.disruptionsAllowed}") == "1"

    await eventually(counted, why="one may go")
    async with Proxy.to(control_plane) as proxy, connected(proxy.kubeconfig) as through:
        writer = Writer(through, settings=WriterSettings(backoff_first_s=0.01, patience_s=60))
        yield Stage(kubectl, proxy, writer)
        await writer.drain(0.0)


async def test_a_pod_goes_unless_a_budget_is_against_it(stage: Stage) -> None:
    uids = await stage.pods()

    another = await stage.evict("c", uids["b"])
    assert isinstance(another, Vanished), "another pod of its name"
    assert await stage.evict("a", uids["a"]) == Done(None)
    before = len(stage.proxy.seen)
    refused = await stage.evict("b", uids["b"])

    assert isinstance(refused, Refused)
    assert isinstance(refused.error, Disrupts)
    assert "disruption budget" in str(refused.error)
    assert len(stage.proxy.seen) == before + 1, "it is not tried again, and nobody else waits for it"
    assert set(await stage.pods()) == {"b", "c"}


async def test_an_eviction_whose_answer_is_lost_is_done_once(stage: Stage) -> None:
    uids = await stage.pods()
    stage.proxy.rule(LOSE_ANSWER, method="POST", times=1)

    assert isinstance(await stage.evict("a", uids["a"]), Done)

    assert set(await stage.pods()) == {"b", "c"}


def test_too_many_requests_for_a_budget_are_told_from_others() -> None:
    causes = [{"reason": "DisruptionBudget", "message": "The disruption budget kept needs 1 healthy pods"}]
    said = {"reason": "TooManyRequests", "message": "Cannot evict pod", "details": {"causes": causes}}

    assert type(from_answer(429, json.dumps(said).encode())) is Disrupts
    assert type(from_answer(429, json.dumps({**said, "details": {}}).encode())) is Throttled
