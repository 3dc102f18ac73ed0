"""HTTP/1.1 to the API server with asyncio alone: the transport of commands, which must start quickly.

aiohttp takes several times as long to import as a whole command may take to start. What a command needs is little: a
few requests at a time, connections that are kept for the next one, bodies with a length or in chunks, and streams with
a connection of their own. Like the other transport it sends a request once; only a GET on a kept connection that had
been closed meanwhile is repeated. It knows no proxies: where one is configured, `for_commands` takes aiohttp.
"""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

from usher.kube.carrying import Answer, HeaderList, Transport
from usher.kube.config import Config
from usher.kube.errors import ConnectionLost, Timeout

BUFFER = 2**20
CONNECT_S = 10.0
BODILESS = (204, 304)
BROKEN = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)
"""What a connection, or an answer that is none, can end in."""


def for_commands(config: Config) -> Transport:
    """The transport that starts soonest and can reach this server."""
    if config.proxy_url:
        from usher.kube.transport import AiohttpTransport

        return AiohttpTransport(config.server, server_name=config.server_name, proxy_url=config.proxy_url)
    return PlainTransport(config.server, server_name=config.server_name)


class PlainTransport:
    """`Transport` without aiohttp."""

    def __init__(self, server: str, *, server_name: str = "") -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._path = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]
        self._server_name = server_name
        self._idle: list[_Connection] = []

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
            async with asyncio.timeout(timeout_s):
                while self._idle:
                    connection = self._idle.pop()
                    try:
                        return await self._exchange(connection, method, target, headers, body)
                    except (OSError, EOFError):
                        if method != "GET":
                            raise
                return await self._exchange(await self._connect(tls, what), method, target, headers, body)
        except TimeoutError as error:
            raise Timeout(f"{what}: no answer in time") from error
        except BROKEN as error:
            raise ConnectionLost(f"{what}: the connection broke: {_said(error)}", sent=True) from error

    async def stream(
        self, target: str, headers: HeaderList, tls: ssl.SSLContext | None, timeout_s: float
    ) -> "PlainStream":
        """GET an answer that goes on."""
        what = f"GET {target}"
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connect(tls, what)
                try:
                    connection.send(self._head("GET", target, headers, None))
                    status, answered = await connection.head()
                except BaseException:
                    connection.close()
                    raise
        except TimeoutError as error:
            raise Timeout(f"{what}: no answer in time") from error
        except BROKEN as error:
            raise ConnectionLost(f"{what}: the connection broke: {_said(error)}", sent=True) from error
        return PlainStream(connection, status, answered, what)

    async def close(self) -> None:
        """Close every connection that waits for a request; those of streams are closed by their readers."""
        while self._idle:
            connection = self._idle.pop()
            connection.close()
            await connection.closed()

    async def _connect(self, tls: ssl.SSLContext | None, what: str) -> "_Connection":
        name = (self._server_name or self._host) if tls is not None else None
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    self._host, self._port, ssl=tls, server_hostname=name, limit=BUFFER
                )
        except TimeoutError as error:
            raise ConnectionLost(f"{what}: {self._authority} does not answer", sent=False) from error
        except BROKEN as error:
            raise ConnectionLost(f"{what}: {self._authority}: {_said(error)}", sent=False) from error
        return _Connection(reader, writer)

    async def _exchange(
        self, connection: "_Connection", method: str, target: str, headers: HeaderList, body: bytes | None
    ) -> Answer:
        try:
            connection.send(self._head(method, target, headers, body) + (body or b""))
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

    def _head(self, method: str, target: str, headers: HeaderList, body: bytes | None) -> bytes:
        lines = [f"{method} {self._path}{target} HTTP/1.1", f"Host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class PlainStream:
    """An answer that goes on."""

    def __init__(self, connection: "_Connection", status: int, headers: Mapping[str, str], what: str) -> None:
        self.status = status
        self.headers = headers
        self._connection = connection
        self._pieces = connection.body(status, headers)
        self._what = what

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        try:
            return await anext(self._pieces, b"")
        except BROKEN as error:
            raise ConnectionLost(f"{self._what}: the connection broke: {_said(error)}", sent=True) from error

    def close(self) -> None:
        """End it, and its connection."""
        self._connection.close()


class _Headers(dict[str, str]):
    """Headers by name, in whatever case."""

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        return super().get(key.lower(), default)


class _Connection:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._delimited = False

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def head(self) -> tuple[int, _Headers]:
        """Status and headers of the answer; interim answers are passed over."""
        await self._writer.drain()
        while True:
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            version, _, rest = lines[0].partition(" ")
            if not version.startswith("HTTP/1."):
                raise ValueError(f"this is no HTTP server: it answered {lines[0][:60]!r}")
            status = int(rest.partition(" ")[0])
            if status >= 200:
                fields = (line.partition(":") for line in lines[1:] if line)
                return status, _Headers({name.strip().lower(): value.strip() for name, _, value in fields})

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

    async def closed(self) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()


def _said(error: BaseException) -> str:
    """What went wrong, without the numbers that only programmers want."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {error.verify_message}"
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, asyncio.IncompleteReadError):
        return "it ended in the middle of the answer" if error.partial else "it was closed without an answer"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
