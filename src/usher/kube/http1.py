"""HTTP/1.1 as commands speak it to the API server: what asyncio's streams and blocking sockets have in common.

A few requests, one after another on a connection; connections that are kept for the next one; bodies with a length or
in chunks. A request is sent once; only a GET on a kept connection that had been closed meanwhile is repeated. How bytes
come and go is a reader's and a writer's business, which have the methods of asyncio's. `plain` and `blocking` are the
transports; neither asyncio nor aiohttp is imported here, because that alone takes as long as a command may.
"""

import contextlib
import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from usher.kube.carrying import Answer, HeaderList
from usher.kube.errors import ConnectionLost, Timeout

BUFFER = 2**20
CONNECT_S = 10.0
BODILESS = (204, 304)


class Reader(Protocol):
    """Where bytes come from; raises EOFError with `partial` where they end too early."""

    async def readuntil(self, separator: bytes) -> bytes: ...

    async def readexactly(self, n: int) -> bytes: ...

    async def read(self, n: int) -> bytes: ...

    def at_eof(self) -> bool: ...


class Line(Protocol):
    """What reader and writer are the ends of."""

    def abort(self) -> None: ...


class Writer(Protocol):
    """Where bytes go to."""

    @property
    def transport(self) -> Line: ...

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...

    async def wait_closed(self) -> None: ...


class Http1Transport(ABC):
    """`Transport` but for streams; how to connect and what limits a request is said below it."""

    broken: tuple[type[Exception], ...] = (OSError, EOFError, ValueError)
    """What a connection, or an answer that is none, can end in."""

    def __init__(self, server: str, *, server_name: str = "") -> None:
        parts = urlsplit(server)
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self._path = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]
        self._server_name = server_name
        self._idle: list[Connection] = []

    @abstractmethod
    async def open(self, tls: ssl.SSLContext | None, server_name: str | None) -> tuple[Reader, Writer]:
        """A new connection."""

    @abstractmethod
    def limited(self, seconds: float) -> contextlib.AbstractAsyncContextManager[object]:
        """Within it, whatever takes longer raises TimeoutError."""

    async def request(
        self,
        method: str,
        target: str,
        headers: HeaderList,
        tls: ssl.SSLContext | None,
        body: bytes | None,
        timeout_s: float,
    ) -> Answer:
        """Send one request and read its answer."""
        what = f"{method} {target}"
        try:
            async with self.limited(timeout_s):
                while self._idle:
                    connection = self._idle.pop()
                    try:
                        return await self._exchange(connection, method, target, headers, body)
                    except TimeoutError:
                        raise
                    except (OSError, EOFError):
                        if method != "GET":
                            raise
                return await self._exchange(await self.connect(tls, what), method, target, headers, body)
        except TimeoutError as error:
            raise Timeout(f"{what}: no answer in time") from error
        except self.broken as error:
            raise ConnectionLost(f"{what}: the connection broke: {said(error)}", sent=True) from error

    async def close(self) -> None:
        """Close every connection that waits for a request; those of streams are closed by their readers."""
        while self._idle:
            connection = self._idle.pop()
            connection.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with self.limited(1.0):
                    await connection.closed()

    async def connect(self, tls: ssl.SSLContext | None, what: str) -> "Connection":
        """A new connection, or ConnectionLost that says why there is none."""
        name = (self._server_name or self.host) if tls is not None else None
        try:
            async with self.limited(CONNECT_S):
                reader, writer = await self.open(tls, name)
        except TimeoutError as error:
            raise ConnectionLost(f"{what}: {self._authority} does not answer", sent=False) from error
        except self.broken as error:
            raise ConnectionLost(f"{what}: {self._authority}: {said(error)}", sent=False) from error
        return Connection(reader, writer)

    async def _exchange(
        self, connection: "Connection", method: str, target: str, headers: HeaderList, body: bytes | None
    ) -> Answer:
        try:
            connection.send(self.head(method, target, headers, body) + (body or b""))
            status, answered = await connection.head()
            content = b"".join([piece async for piece in connection.body(status, answered)])
        except BaseException:
            connection.close()
            raise
        if connection.reusable(answered):
            self._idle.append(connection)
        else:
            connection.close()
        return Answer(status, answered, content)

    def head(self, method: str, target: str, headers: HeaderList, body: bytes | None) -> bytes:
        """The head of a request."""
        lines = [f"{method} {self._path}{target} HTTP/1.1", f"Host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Headers(dict[str, str]):
    """Headers by name, in whatever case."""

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        return super().get(key.lower(), default)


class Connection:
    """One connection, one request at a time."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer
        self._delimited = False

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def head(self) -> tuple[int, Headers]:
        """Status and headers of the answer; interim answers are passed over."""
        await self._writer.drain()
        while True:
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            version, _, rest = lines[0].partition(" ")
            if not version.startswith("HTTP/1."):
                raise ValueError(f"this is no HTTP server: it answered {lines[0][:60]!r}")
            status = int(rest.partition(" ")[0])
            if status >= 200:
                found = Headers()
                for name, _, value in (line.partition(":") for line in lines[1:] if line):
                    key = name.strip().lower()
                    found[key] = f"{found[key]}, {value.strip()}" if key in found else value.strip()
                return status, found

    async def body(self, status: int, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The body piece by piece, as it comes."""
        length = headers.get("content-length")
        self._delimited = True
        if status in BODILESS:
            return
        if "chunked" in (headers.get("transfer-encoding") or "").lower():
            while size := int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16):
                async for piece in self._exactly(size):
                    yield piece
                await self._reader.readexactly(2)
            while await self._reader.readuntil(b"\r\n") != b"\r\n":
                pass
        elif length is not None:
            async for piece in self._exactly(int(length)):
                yield piece
        else:
            self._delimited = False
            while piece := await self._reader.read(BUFFER):
                yield piece

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        while size:
            piece = await self._reader.read(min(size, BUFFER))
            if not piece:
                raise EOFError("it ended in the middle of the answer")
            size -= len(piece)
            yield piece

    def reusable(self, headers: Mapping[str, str]) -> bool:
        return self._delimited and (headers.get("connection") or "").lower() != "close" and not self._reader.at_eof()

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        """Close it without a word: a server that still sends would be heard after the goodbye, which TLS forbids."""
        self._writer.transport.abort()

    async def closed(self) -> None:
        await self._writer.wait_closed()


def said(error: BaseException) -> str:
    """What went wrong, without the numbers that only programmers want."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {error.verify_message}"
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    partial = getattr(error, "partial", None)  # as asyncio's IncompleteReadError has it
    if isinstance(error, EOFError) and partial is not None:
        return "it ended in the middle of the answer" if partial else "it was closed without an answer"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
