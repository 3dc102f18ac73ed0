"""The HTTP server: `/livez`, `/readyz`, `/metrics` and, where wanted, `/debug/…`. Read only.

    async with Server(asked, "127.0.0.1", 0) as server: ... server.url

The wiring runs one. It answers in the event loop that it is started in; only the text of the metrics is made in a
thread, because it can be long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from types import TracebackType
from typing import Final

from aiohttp import web
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from usher.server.asked import Asked
from usher.server.health import Health
from usher.server.metrics import Collected

STOP_SECONDS: Final = 2.0
"""How long requests that are under way may take when the server stops."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class CannotListenError(OSError):
    """The address cannot be listened on; the message says which and why."""


class Server:
    """Listens from `start` to `stop`; `async with` does both."""

    def __init__(self, asked: Asked, address: str, port: int) -> None:
        self._asked = asked
        self._address = address
        self.port = port
        """The real one once it listens, also where 0 was asked for."""
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        host = f"[{self._address}]" if ":" in self._address else self._address
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Listen; raises CannotListenError."""
        runner = web.AppRunner(self._app(), access_log=None, handle_signals=False, shutdown_timeout=STOP_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._address, self.port).start()
        except OSError as error:
            await runner.cleanup()
            raise CannotListenError(f"cannot listen on {self.url}: {error.strerror or error}") from error
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening, let requests end, close what is left."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[_plain])
        for health in (Health("livez", self._asked.live), Health("readyz", self._asked.ready)):
            app.router.add_get(f"/{health.name}", health.all)
            app.router.add_get(f"/{health.name}/{{check}}", health.one)
        app.router.add_get("/metrics", self._metrics)
        if self._asked.violations is not None:
            app.router.add_get("/debug/violations", self._violations)
        if self._asked.explain is not None:
            app.router.add_get("/debug/explain/{namespace}/{name}", self._explain)
        return app

    async def _metrics(self, request: web.Request) -> web.Response:
        families: list[Metric] = []
        for family in self._asked.metrics():
            families.append(family)
            await asyncio.sleep(0)  # a thousand queues make long families: let others have a turn between them
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = await asyncio.to_thread(encode, Collected(families))
        response = web.Response(body=body, headers={"Content-Type": content_type})
        response.enable_compression()
        return response

    async def _violations(self, request: web.Request) -> web.Response:
        assert self._asked.violations is not None
        return web.json_response({"violations": list(self._asked.violations())})

    async def _explain(self, request: web.Request) -> web.Response:
        assert self._asked.explain is not None
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        explanation = self._asked.explain(key)
        if explanation is None:
            return web.json_response({"error": f"there is no unit {key}"}, status=404)
        return web.json_response({**asdict(explanation), "text": explanation.text()})


@web.middleware
async def _plain(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Nothing here may be kept or taken for something else."""
    response = await handler(request)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
