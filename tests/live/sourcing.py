"""What the tests of quota sources share: CRDs of others, resources that no machine has, and looking at shares."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from living import Live

from usher.api.names import API_VERSION
from usher.testing.elastic import TREE_CRD
from usher.testing.modules import ELASTIC_QUOTA_CRD, KOORDINATOR, module_file

SYSTEM = "usher-system"
ELASTIC = "elasticquotas.scheduling.sigs.k8s.io"
TREES = "elasticquotatrees.scheduling.sigs.k8s.io"
Object = dict[str, Any]


def plain_pod(name: str, cpu: str) -> Object:
    """A pod that is none of Usher's."""
    resources = {"requests": {"cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]},
    }


async def install_elastic(live: Live) -> None:
    """The real ElasticQuota of Koordinator."""
    await live.admin("apply", "-f", str(module_file(KOORDINATOR, ELASTIC_QUOTA_CRD)))
    await live.admin("wait", "--for=condition=Established", "crd", ELASTIC, "--timeout=30s")


async def install_trees(live: Live) -> None:
    """ElasticQuotaTree, with a schema of ours: no module has one."""
    await live.admin.apply(TREE_CRD)
    await live.admin("wait", "--for=condition=Established", "crd", TREES, "--timeout=30s")


async def remove_crds(live: Live) -> None:
    await live.admin("delete", "crd", ELASTIC, TREES, "--ignore-not-found", "--timeout=5m")


async def offer(live: Live, amounts: Mapping[str, int | None]) -> None:
    """Let the first node offer this much of resources that nobody has; None: no more of it."""
    offered = {name: None if amount is None else str(amount) for name, amount in amounts.items()}
    body = {"status": {"allocatable": offered, "capacity": offered}}
    await live.patch("node", "node-0", body, subresource="status")


def unit(name: str, namespace: str, quota: str, request: Mapping[str, int]) -> Object:
    """A place in the queue of a quota that no job stands behind."""
    requests = {resource: str(amount) for resource, amount in request.items()}
    template = {"spec": {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}]}}
    return {
        "apiVersion": API_VERSION,
        "kind": "QueueUnit",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"quota": quota, "podSets": [{"name": "main", "count": 1, "template": template}]},
    }


def shares(live: Live) -> dict[str, dict[str, int]]:
    """By quota: what it deserves, as the manager sees it."""
    manager = live.processes[-1][0].manager
    if manager is None:
        return {}  # between two terms
    return {view.name: {name: n for name, n in view.deserved.items() if n} for view in manager.engine.quotas()}


async def until_shares(live: Live, want: Mapping[str, Mapping[str, int]]) -> None:
    """Wait until these quotas deserve this."""

    async def there() -> bool:
        found = shares(live)
        return bool(found) and all(found.get(name, {}) == dict(amounts) for name, amounts in want.items())

    try:
        await live.wait("the shares are right", there, timeout_s=30)
    except AssertionError as error:
        raise AssertionError(f"{error}\nwant {want}\nhave {shares(live)}") from None


async def until_queue(live: Live, name: str, namespace: str = SYSTEM, **status: Any) -> Object:
    """Wait until a Queue is there, and its status has all of this; the Queue."""
    seen: list[Object] = [{}]

    async def there() -> bool:
        text = await live.admin("get", "queues.scheduling.x-k8s.io", "-n", namespace, "-o", "json")
        items = json.loads(text)["items"]
        seen[0] = next((each for each in items if each["metadata"]["name"] == name), {})
        found = seen[0].get("status", {})
        return bool(seen[0]) and all(found.get(key) == value for key, value in status.items())

    try:
        await live.wait(f"queue {namespace}/{name} shows {status}", there)
    except AssertionError as error:
        raise AssertionError(f"{error}: {json.dumps(seen[0].get('status'), indent=1)}") from None
    return seen[0]


async def until_no_queue(live: Live, name: str, namespace: str = SYSTEM) -> None:
    async def gone() -> bool:
        text = await live.admin("get", "queues.scheduling.x-k8s.io", "-n", namespace, "-o", "name")
        return f"queue.scheduling.x-k8s.io/{name}" not in text.split()

    await live.wait(f"queue {namespace}/{name} is gone", gone)


async def until_told(live: Live, kind: str, name: str, reason: str) -> str:
    """Wait for an Event about an object; what it says."""
    seen: list[list[str]] = [[]]

    async def there() -> bool:
        text = await live.admin("get", "events.events.k8s.io", "-A", "-o", "json")
        seen[0] = [
            each["note"]
            for each in json.loads(text)["items"]
            if (each["regarding"]["kind"], each["regarding"]["name"], each["reason"]) == (kind, name, reason)
        ]
        return bool(seen[0])

    await live.wait(f"an Event says {reason} about {kind} {name}", there)
    return seen[0][0]
