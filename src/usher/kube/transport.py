"""HTTP/1.1 to the API server. The only module here that knows aiohttp: the rest sees a `Transport`.

Requests share a pool of connections that are kept alive; every stream (a watch) has a connection of its own. The
transport sends a request once: aiohttp's habit of repeating what looks idempotent is turned off, because a PUT or
DELETE that was carried out and repeated gives a wrong answer. Only a GET whose connection broke (usually one that the
server had closed while it was idle) is repeated, once.
"""

import asyncio
import ssl
from collections.abc import Mapping
from types import TracebackType

import aiohttp
from yarl import URL

from usher.kube.carrying import Answer, HeaderList
from usher.kube.errors import ConnectionLost, Timeout

CONNECTIONS = 64
CONNECT_S = 10.0
TICKS = 5
"""Turns of the loop in which sockets that were told to close do so, TLS and TCP: a loop that ends sooner leaks them."""
KEEP_ALIVE_S = 60.0
"""Less than the 90 s after which API servers close an idle connection: we close first, no request meets the close."""
BUFFER = 2**20
"""How much may arrive before it is read: with less, a long answer is stopped and started again and again."""


class AiohttpTransport:
    """`Transport` with aiohttp. Must be made inside a running loop."""

    def __init__(
        self, server: str, *, server_name: str = "", proxy_url: str = "", connections: int = CONNECTIONS
    ) -> None:
        self._server = server.rstrip("/")
        self._server_name = server_name or None
        self._proxy = proxy_url or None
        self._session = _session(aiohttp.TCPConnector(limit=connections, keepalive_timeout=KEEP_ALIVE_S))
        self._streams = _session(aiohttp.TCPConnector(limit=0, force_close=True))
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

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
        try:
            return await self._once(method, target, headers, tls, body, timeout_s)
        except ConnectionLost as lost:
            if method == "GET" and lost.sent:
                return await self._once(method, target, headers, tls, body, timeout_s)
            raise

    async def _once(
        self,
        method: str,
        target: str,
        headers: HeaderList,
        tls: ssl.SSLContext | None,
        body: bytes | None,
        timeout_s: float,
    ) -> Answer:
        timeout = self._timeouts.get(timeout_s) or self._timeout(timeout_s)
        try:
            response = await self._session.request(
                method,
                URL(self._server + target, encoded=True),
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                ssl=tls or True,
                server_hostname=self._server_name,
                proxy=self._proxy,
            )
            content = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _translated(error, f"{method} {target}") from error
        return Answer(response.status, response.headers, content)

    async def stream(
        self, target: str, headers: HeaderList, tls: ssl.SSLContext | None, timeout_s: float
    ) -> "AiohttpStream":
        """GET an answer that goes on."""
        begin = self._streams.get(
            URL(self._server + target, encoded=True),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            allow_redirects=False,
            ssl=tls or True,
            server_hostname=self._server_name,
            proxy=self._proxy,
        )
        try:
            async with asyncio.timeout(timeout_s):
                response = await begin
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _translated(error, f"GET {target}") from error
        return AiohttpStream(response, target)

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()
        await self._streams.close()
        for _ in range(TICKS):
            await asyncio.sleep(0)

    def _timeout(self, timeout_s: float) -> aiohttp.ClientTimeout:
        return self._timeouts.setdefault(
            timeout_s, aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_S, timeout_s))
        )

    async def __aenter__(self) -> "AiohttpTransport":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AiohttpStream:
    """An answer that goes on."""

    def __init__(self, response: aiohttp.ClientResponse, target: str) -> None:
        self._response = response
        self._content = response.content
        self._target = target
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _translated(error, f"GET {self._target}") from error

    def close(self) -> None:
        """End it, and its connection."""
        self._response.close()


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=BUFFER,
        trust_env=False,
    )
    session._retry_connection = False  # see above; a test holds that nothing is sent twice
    return session


def _translated(error: Exception, what: str) -> ConnectionLost | Timeout:
    """Our error for aiohttp's: the question is whether the server may have seen the request."""
    text = str(error) or type(error).__name__
    if isinstance(
        error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.ClientProxyConnectionError
    ):
        return ConnectionLost(f"{what}: {text}", sent=False)
    if isinstance(error, TimeoutError):
        return Timeout(f"{what}: no answer in time")
    return ConnectionLost(f"{what}: the connection broke: {text}", sent=True)
