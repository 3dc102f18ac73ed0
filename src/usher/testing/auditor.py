"""Watches the cluster from outside, as nobody in Usher does: how much really runs, at every moment.

The auditor follows pods with a watch of its own and adds up what those that are alive ask for. More than the limit, at
any observed moment, is a violation. It also counts how often each pod set of a job was started.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Any

from usher.core.amounts import add, subtract
from usher.core.podrequest import effective_request
from usher.kube.client import Client
from usher.kube.config import Config
from usher.kube.informer import Informer
from usher.kube.resource import untyped
from usher.kube.store import Deleted, Delta

PODS = untyped("", "v1", "pods", "Pod", namespaced=True)


class Auditor:
    """`async with Auditor(config, namespace, limit)`; at the end look at `violations`."""

    def __init__(self, config: Config, namespace: str | None, limit: dict[str, int]) -> None:
        self.limit = limit
        self.used: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.violations: list[str] = []
        self.pods_seen: dict[str, set[str]] = {}
        """Every pod that ever was, by job."""
        self._alive: dict[str, dict[str, int]] = {}
        self._client = Client(config, user_agent="usher-auditor", field_manager="usher-auditor")
        self._informer: Informer[dict[str, Any]] = Informer(self._client, PODS, namespace)
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Auditor:
        await self._stack.enter_async_context(self._client)
        await self._stack.enter_async_context(self._informer)
        await self._informer.synced.wait()
        self._informer.listen(self._hear)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _hear(self, deltas: list[Delta[dict[str, Any]]] | Any) -> None:
        for delta in deltas:
            self._see(delta.object, isinstance(delta, Deleted))

    def _see(self, pod: dict[str, Any], gone: bool) -> None:
        meta, status = pod["metadata"], pod.get("status", {})
        uid = meta["uid"]
        owner = next((each["name"] for each in meta.get("ownerReferences", ()) if each.get("controller")), "")
        self.pods_seen.setdefault(owner, set()).add(uid)
        gated = bool(pod["spec"].get("schedulingGates"))
        alive = not gone and not gated and status.get("phase") not in ("Succeeded", "Failed")
        before = self._alive.pop(uid, None)
        if before is not None:
            subtract(self.used, before)
        if alive:
            self._alive[uid] = effective_request(pod["spec"], "spec")
            add(self.used, self._alive[uid])
        for resource, most in self.limit.items():
            now = self.used.get(resource, 0)
            self.most[resource] = max(now, self.most.get(resource, 0))
            if now > most:
                self.violations.append(f"{now} of {most} {resource} after {owner}/{meta['name']}")

    async def settled(self) -> None:
        """Let what is under way arrive."""
        page = await self._client.list(PODS, limit=1)
        async with asyncio.timeout(30):
            await self._informer.reached(page.resource_version)
