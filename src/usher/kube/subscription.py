"""Deltas for somebody who takes them in batches, at a pace of their own.

Between two batches the deltas of a key are folded into one (or two, when an object was replaced by another of its
name), so what waits is never more than the objects there are, and what is delivered still leads from what was delivered
before to what is. A new subscription begins with everything that the cache has.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from usher.kube.store import Added, Changed, Deleted, Delta, Key

T = TypeVar("T")


class Subscription(Generic[T]):
    """An iterator over batches; it does not end by itself."""

    def __init__(self) -> None:
        self._pending: dict[Key, list[Delta[T]]] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._pending)

    def push(self, deltas: Iterable[Delta[T]]) -> None:
        """What changed. The informer calls this."""
        pending = self._pending
        for delta in deltas:
            waiting = pending.get(delta.key)
            if waiting is None:
                pending[delta.key] = [delta]
            elif not fold(waiting, delta):
                del pending[delta.key]
        if pending:
            self._wake.set()

    async def batch(self) -> Sequence[Delta[T]]:
        """What has changed since the last batch, waiting until something has."""
        while not self._pending:
            self._wake.clear()
            await self._wake.wait()
        return self.take()

    def take(self) -> Sequence[Delta[T]]:
        """What has changed since the last batch; perhaps nothing."""
        pending, self._pending = self._pending, {}
        return [delta for deltas in pending.values() for delta in deltas]

    def __aiter__(self) -> "Subscription[T]":
        return self

    async def __anext__(self) -> Sequence[Delta[T]]:
        return await self.batch()


def fold(waiting: list[Delta[T]], new: Delta[T]) -> list[Delta[T]]:
    """Add a delta to those of the same key that wait, in place; empty if together they change nothing."""
    last = waiting[-1]
    match last, new:
        case Added(), Changed():
            waiting[-1] = Added(new.key, new.object)
        case Added(), Deleted():
            waiting.pop()
        case Changed(), Changed():
            waiting[-1] = Changed(new.key, last.old, new.object)
        case Changed(), Deleted():
            waiting[-1] = new
        case Deleted(), Added():
            waiting.append(new)
        case _:
            raise AssertionError(f"{type(new).__name__} cannot follow {type(last).__name__} of {new.key}")
    return waiting
