"""One watch: bytes from a stream in, events out, in batches of what has arrived.

A watch ends quietly when the server ends it; a broken connection and an error that the server put into the stream are
raised. It does not begin again: that is the informer's work. Lines may be of any length, and only the line that is
not yet complete is kept.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, TypeVar

from usher.kube.carrying import Stream
from usher.kube.errors import KubeError
from usher.kube.wire import Codec, WatchEvent

T = TypeVar("T")


class Watch(Generic[T]):
    """An iterator over events. The connection is made at the first step, and closed by the end of `async with`."""

    def __init__(self, codec: Codec[T], connect: Callable[[], Awaitable[Stream]]) -> None:
        self._decode = codec.event
        self._connect = connect
        self._stream: Stream | None = None
        self._closed = False
        self.began = False
        """Whether the server took the watch, whatever came of it."""
        self._rest: list[bytes] = []
        """The beginning of a line."""
        self._lines: list[bytes] = []
        """Whole lines that nobody has asked for yet, the first one last."""
        self._failed: KubeError | None = None

    async def __aenter__(self) -> "Watch[T]":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> "Watch[T]":
        return self

    async def __anext__(self) -> WatchEvent[T]:
        # Decoded one by one: what is not kept goes at once, and the garbage collector has nothing to look at.
        if not self._lines and not await self._more():
            raise StopAsyncIteration
        try:
            return self._decode(self._lines.pop())
        except KubeError:
            self.close()
            raise

    async def connected(self) -> None:
        """Make the connection, if that is not done yet; raises what the server answers instead of a stream."""
        if self._stream is None and not self._closed:
            self._stream = await self._connect()
            self.began = True

    async def batch(self) -> list[WatchEvent[T]]:
        """The events that have arrived, waiting for the first; empty at the end of the watch.

        An error in the stream is raised after the events before it were given out.
        """
        if self._failed is not None:
            raise self._failed
        if not self._lines and not await self._more():
            return []
        events: list[WatchEvent[T]] = []
        decode = self._decode
        lines, self._lines = self._lines, []
        lines.reverse()
        try:
            for line in lines:
                events.append(decode(line))  # noqa: PERF401 - those before an error stay
        except KubeError as error:
            self.close()
            if not events:
                raise
            self._failed = error
        return events

    def close(self) -> None:
        """End the watch."""
        self._closed = True
        self._lines = []
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    async def _more(self) -> bool:
        """Wait for at least one whole line; false at the end."""
        await self.connected()
        while self._stream is not None:
            chunk = await self._stream.read()
            if not chunk:
                self.close()
                break
            first, *lines = chunk.split(b"\n")
            self._rest.append(first)
            if lines:
                whole = b"".join(self._rest)
                self._rest = [lines.pop()]
                self._lines = [line for line in (whole, *lines) if line]
                self._lines.reverse()
                if self._lines:
                    return True
        return False
