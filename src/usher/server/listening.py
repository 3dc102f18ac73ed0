"""Listening on an address: an aiohttp application from `start` to `stop`, or for as long as `async with` lasts.

Where the address cannot be had, `CannotListenError` says which and why; `usher manager` tells it to people. The server
of health and metrics and that of admission reviews (`usher.webhooks.server`) are Listeners.
"""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Final, Self

from aiohttp import web

STOP_SECONDS: Final = 3.0
"""How long requests that are under way may take when a server stops."""


class CannotListenError(OSError):
    """The address cannot be listened on; the message says which and why."""


def refuse_connections(server: web.Server) -> None:
    """Hang up on whoever comes from now on.

    To close the address is not enough: a TLS handshake that is under way ends later, aiohttp has forgotten about its
    connection by then, and would answer on it for as long as the process lives.
    """
    server.connection_made = _hang_up  # type: ignore[method-assign]


def take_connections(server: web.Server) -> None:
    """Do so no more."""
    vars(server).pop("connection_made", None)


def _hang_up(handler: web.RequestHandler, transport: asyncio.Transport) -> None:
    asyncio.get_running_loop().call_soon(transport.abort)  # when aiohttp has begun with it: it cannot end before


class Listener(ABC):
    """One address; what is answered there is what `_app` gives."""

    what: str = ""
    """What it listens for, in a message."""

    def __init__(self, address: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._address, self._tls = address, tls
        self.port = port
        """The real one once it listens, also where 0 was asked for."""
        self._runner: web.AppRunner | None = None

    @abstractmethod
    def _app(self) -> web.Application:
        """What answers."""

    @property
    def url(self) -> str:
        host = f"[{self._address}]" if ":" in self._address else self._address
        return f"http{'' if self._tls is None else 's'}://{host}:{self.port}"

    @property
    def listening(self) -> bool:
        return self._runner is not None

    async def start(self) -> None:
        """Listen; raises CannotListenError."""
        runner = web.AppRunner(self._app(), access_log=None, handle_signals=False, shutdown_timeout=STOP_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._address, self.port, ssl_context=self._tls).start()
        except OSError as error:
            await runner.cleanup()
            why = error.strerror or str(error)
            raise CannotListenError(f"cannot listen{self.what} on {self.url}: {why}") from error
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening, let requests end, close what is left."""
        runner, self._runner = self._runner, None
        if runner is not None:
            assert runner.server is not None
            refuse_connections(runner.server)
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
