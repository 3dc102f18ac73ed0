"""The HTTP server: `/livez`, `/readyz`, `/metrics` and, where wanted, `/debug/…`. Read only.

    async with Server(asked, "127.0.0.1", 0) as server: ... server.url

The wiring runs one. It answers in the event loop that it is started in; only the text of the metrics is made in a
thread, because it can be long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict

from aiohttp import web
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from usher.server.asked import Asked
from usher.server.health import Health
from usher.server.listening import Listener
from usher.server.metrics import Collected

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server(Listener):
    """Listens from `start` to `stop`; `async with` does both."""

    def __init__(self, asked: Asked, address: str, port: int) -> None:
        super().__init__(address, port)
        self._asked = asked

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
