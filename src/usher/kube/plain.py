"""HTTP/1.1 to the API server with asyncio alone: the transport of commands that wait for what comes.

aiohttp takes several times as long to import as a whole command may take to start. What a command needs is little
(`http1`), and streams, each with a connection of its own. Commands that only ask and answer do without asyncio, too
(`blocking`). Neither knows proxies: where one is configured, `for_commands` takes aiohttp.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping

from usher.kube.carrying import HeaderList, Transport
from usher.kube.config import Config
from usher.kube.errors import ConnectionLost, Timeout
from usher.kube.http1 import BUFFER, Connection, Http1Transport, Reader, Writer, said

BROKEN: tuple[type[Exception], ...] = (*Http1Transport.broken, asyncio.LimitOverrunError)


def for_commands(config: Config) -> Transport:
    """The transport that starts soonest, can wait for several things at once, and can reach this server."""
    if config.proxy_url:
        from usher.kube.transport import AiohttpTransport

        return AiohttpTransport(config.server, server_name=config.server_name, proxy_url=config.proxy_url)
    return PlainTransport(config.server, server_name=config.server_name)


class PlainTransport(Http1Transport):
    """`Transport` without aiohttp."""

    broken = BROKEN

    async def open(self, tls: ssl.SSLContext | None, server_name: str | None) -> tuple[Reader, Writer]:
        return await asyncio.open_connection(self.host, self.port, ssl=tls, server_hostname=server_name, limit=BUFFER)

    def limited(self, seconds: float) -> contextlib.AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)

    async def stream(
        self, target: str, headers: HeaderList, tls: ssl.SSLContext | None, timeout_s: float
    ) -> "PlainStream":
        """GET an answer that goes on."""
        what = f"GET {target}"
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self.connect(tls, what)
                try:
                    connection.send(self.head("GET", target, headers, None))
                    status, answered = await connection.head()
                except BaseException:
                    connection.close()
                    raise
        except TimeoutError as error:
            raise Timeout(f"{what}: no answer in time") from error
        except BROKEN as error:
            raise ConnectionLost(f"{what}: the connection broke: {said(error)}", sent=True) from error
        return PlainStream(connection, status, answered, what)


class PlainStream:
    """An answer that goes on."""

    def __init__(self, connection: Connection, status: int, headers: Mapping[str, str], what: str) -> None:
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
            raise ConnectionLost(f"{self._what}: the connection broke: {said(error)}", sent=True) from error

    def close(self) -> None:
        """End it, and its connection."""
        self._connection.abort()
