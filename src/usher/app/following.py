"""Everything that the manager follows: an informer for each kind, and those of other systems while they are there.

The order is that in which a new term is told. `usher.app.process` says which kinds, and who hears what they bring.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from usher.app.sources import Sources
from usher.kube.client import Client
from usher.kube.errors import Forbidden, NotFound
from usher.kube.informer import Informer
from usher.kube.resource import Resource

CATCH_UP_S: Final = 10.0
"""How long a kind that may go away at any time is waited for."""


class Watched(Struct):
    """One kind that is followed, and what is done with what it brings."""

    informer: Informer[Any]
    see: Callable[[Any, bool], None]


class Following:
    """The caches of one process."""

    def __init__(self) -> None:
        self.watched: list[Watched] = []
        """Kinds that are always there."""
        self.sources: Sources | None = None

    def everything(self) -> list[Watched]:
        """What is followed now: some kinds of others may not be installed."""
        return [*self.watched, *(Watched(*each) for each in (self.sources.on() if self.sources else ()))]

    def store_of(self, resource: Resource[Any]) -> Any:
        return next(each.informer.store for each in self.watched if each.informer.resource is resource)

    async def listed(self, stack: contextlib.AsyncExitStack) -> None:
        """Follow everything as long as the stack is open; wait until all of it was listed once."""
        for watched in self.watched:
            await stack.enter_async_context(watched.informer)
        if self.sources is not None:
            await stack.enter_async_context(self.sources)
        for watched in self.watched:
            await watched.informer.synced.wait()
        if self.sources is not None:
            await self.sources.settled()

    async def listed_once(self) -> None:
        """Take in everything that is there now, and follow none of it; raises what keeps us from reading it."""
        for watched in self.watched:
            await watched.informer.list_once()
        if self.sources is not None:
            await self.sources.list_once()

    def unsynced(self) -> list[str]:
        """The kinds that were not listed yet."""
        if not self.watched:
            return ["everything"]
        missing = [each.informer.resource.plural for each in self.watched if not each.informer.synced.is_set()]
        return missing + (self.sources.unsettled() if self.sources is not None else [])

    def ages(self) -> dict[str, float]:
        """By kind: for how many seconds nothing was heard of it."""
        now_s = time.monotonic()
        heard = ((each.informer.resource.plural, each.informer.heard_at) for each in self.everything())
        return {plural: now_s - at_s for plural, at_s in heard if at_s is not None}

    async def caught_up(self, client: Client) -> None:
        """Wait until the caches hold everything that was written before now."""

        async def catch_up(informer: Informer[Any]) -> None:
            page = await client.list(informer.resource, limit=1)
            await informer.reached(page.resource_version)

        async def catch_up_if_there(informer: Informer[Any]) -> None:
            with contextlib.suppress(NotFound, Forbidden, TimeoutError):
                async with asyncio.timeout(CATCH_UP_S):
                    await catch_up(informer)

        optional = self.sources.on() if self.sources is not None else []
        await asyncio.gather(
            *(catch_up(watched.informer) for watched in self.watched),
            *(catch_up_if_there(informer) for informer, _ in optional),
        )
