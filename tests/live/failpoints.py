"""Between a manager and the cluster: stop exactly before or after a write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from usher.app.cluster import LiveCluster

Match = Callable[[str, dict[str, Any]], bool]
PATIENCE_S = 120.0


class StopAt:
    """The first write that matches is the last: it is not sent, or sent and its answer never comes."""

    def __init__(self, method: str, match: Match | None = None, *, after: bool = False) -> None:
        self._method, self._match, self._after = method, match or (lambda *_: True), after
        self.reached = asyncio.Event()
        self._cluster: LiveCluster | None = None

    def __call__(self, cluster: LiveCluster) -> StopAt:
        self._cluster = cluster
        return self

    async def arrives(self) -> None:
        """Wait until a write has matched; one that never does is a failure."""
        async with asyncio.timeout(PATIENCE_S):
            await self.reached.wait()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._cluster, name)
        if name == "tell":
            return method

        async def call(*args: Any) -> Any:
            body = next((arg for arg in args if isinstance(arg, dict)), {})
            if self.reached.is_set():
                await asyncio.Event().wait()
            if name == self._method and self._match(name, body):
                if self._after:
                    await method(*args)
                self.reached.set()
                await asyncio.Event().wait()
            return await method(*args)

        return call


def phase(name: str) -> Match:
    """A status write that brings this phase."""
    return lambda _, body: body.get("status", {}).get("phase") == name


def evicts(_: str, body: dict[str, Any]) -> bool:
    return any(
        each["type"] == "Evicted" and each["status"] == "True" for each in body.get("status", {}).get("conditions", ())
    )


def suspends(_: str, body: dict[str, Any]) -> bool:
    return body.get("spec", {}).get("suspend") is True


def resumes(_: str, body: dict[str, Any]) -> bool:
    return body.get("spec", {}).get("suspend") is False
