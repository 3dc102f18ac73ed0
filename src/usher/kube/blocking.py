"""HTTP/1.1 to the API server with blocking sockets: the transport of commands that ask and answer, and nothing else.

    drive(work(Client(config, ..., transport=BlockingTransport(config.server))))

Importing asyncio takes longer than all that such a command does. Nothing here ever waits for an event loop, so what is
written for one (the client, what is built on it) runs to its end when it is asked to begin: `drive` does that. Streams
and programs that give credentials need a loop, and `plain`.
"""

import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from usher.kube.carrying import HeaderList, Stream
from usher.kube.http1 import BUFFER, Http1Transport, Reader, Writer

T = TypeVar("T")

PIECE = 2**16
LEAST_S = 0.001
"""What is left of a time that is over: a socket that may take no time at all would not block."""


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end what never waits for an event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
    work.close()
    raise RuntimeError("this waits for an event loop, and there is none")


class BlockingTransport(Http1Transport):
    """`Transport` without asyncio; one request at a time."""

    def __init__(self, server: str, *, server_name: str = "") -> None:
        super().__init__(server, server_name=server_name)
        self._limits: list[float] = []
        """Until when whatever is under way may take; the earliest counts."""

    async def open(self, tls: ssl.SSLContext | None, server_name: str | None) -> tuple[Reader, Writer]:
        found = socket.create_connection((self.host, self.port), timeout=self.left_s())
        try:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ends = _Ends(self, found if tls is None else tls.wrap_socket(found, server_hostname=server_name))
        except BaseException:
            found.close()
            raise
        return ends, ends

    @contextlib.asynccontextmanager
    async def limited(self, seconds: float) -> AsyncIterator[None]:
        self._limits.append(time.monotonic() + seconds)
        try:
            yield
        finally:
            self._limits.pop()

    def left_s(self) -> float:
        """How long the next step may take."""
        return max(min(self._limits) - time.monotonic(), LEAST_S)

    async def stream(self, target: str, headers: HeaderList, tls: ssl.SSLContext | None, timeout_s: float) -> Stream:
        raise RuntimeError("an answer that goes on needs an event loop: this command must say that it waits")


class _Ends:
    """Both ends of a connection, as asyncio has them."""

    def __init__(self, transport: BlockingTransport, found: socket.socket) -> None:
        self._transport, self._socket = transport, found
        self._buffer = bytearray()
        self._unsent = b""
        self._ended = False

    def write(self, data: bytes) -> None:
        self._unsent += data

    async def drain(self) -> None:
        self._socket.settimeout(self._transport.left_s())
        self._socket.sendall(self._unsent)
        self._unsent = b""

    async def readuntil(self, separator: bytes) -> bytes:
        while (at := self._buffer.find(separator)) < 0:
            if len(self._buffer) > BUFFER:
                raise ValueError("the answer has a line without end")
            self._more()
        return self._taken(at + len(separator))

    async def readexactly(self, n: int) -> bytes:
        while len(self._buffer) < n:
            self._more()
        return self._taken(n)

    async def read(self, n: int) -> bytes:
        if not self._buffer:
            with contextlib.suppress(_EndedError):
                self._more()
        return self._taken(min(n, len(self._buffer)))

    def at_eof(self) -> bool:
        return self._ended and not self._buffer

    def close(self) -> None:
        self._socket.close()

    @property
    def transport(self) -> "_Ends":
        return self

    abort = close

    async def wait_closed(self) -> None:
        pass

    def _more(self) -> None:
        if not self._ended:
            self._socket.settimeout(self._transport.left_s())
            piece = self._socket.recv(PIECE)
            self._buffer += piece
            self._ended = not piece
        if self._ended:
            raise _EndedError(bytes(self._buffer))

    def _taken(self, n: int) -> bytes:
        found = bytes(self._buffer[:n])
        del self._buffer[:n]
        return found


class _EndedError(EOFError):
    """The server has closed the connection; `partial` is what had come."""

    def __init__(self, partial: bytes) -> None:
        super().__init__()
        self.partial = partial
