"""The review server: HTTPS in, a verdict out. It answers in the loop it is started in, from memory.

    async with ReviewServer(rules, context, "127.0.0.1", 0) as server: ... server.port

What is no review gets a status code and a text: 400, 413 (too large), 415 (not JSON); the API server then does what the
webhook's failurePolicy says. A rule that raises is a bug: it is logged, answered with 500, and the next question is
answered as if nothing had happened. Certificates are changed in the context while it runs.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from aiohttp import web

from usher.server.listening import Listener
from usher.webhooks.configurations import IN_MANAGED, MUTATE, VALIDATE
from usher.webhooks.review import Asked, BadReviewError, Verdict, answer, read

log = logging.getLogger("usher.webhooks")

BODY_MAX: Final = 16 * 1024 * 1024
"""A review holds an object twice, and the API server takes objects of up to three megabytes."""
JSON: Final = "application/json"

Heard = Callable[[str, Asked, Verdict, float], None]
"""What is called with each answer: the path, the question, the verdict, and the seconds that it took."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Decides(Protocol):
    """What a server asks."""

    def mutate(self, asked: Asked) -> Verdict: ...

    def validate(self, asked: Asked) -> Verdict: ...


class ReviewServer(Listener):
    """Listens from `start` to `stop`; `async with` does both."""

    what = " for reviews"

    def __init__(
        self, rules: Decides, context: ssl.SSLContext, address: str, port: int, heard: Heard | None = None
    ) -> None:
        super().__init__(address, port, context)
        self._rules = rules
        self._heard = heard

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=BODY_MAX)
        for path, decide in ((MUTATE, self._rules.mutate), (VALIDATE, self._rules.validate)):
            app.router.add_post(path, self._handler(path, decide, managed=False))
            app.router.add_post(f"{path}{IN_MANAGED}", self._handler(path, decide, managed=True))
        return app

    def _handler(self, path: str, decide: Callable[[Asked], Verdict], *, managed: bool) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if request.content_type != JSON:
                return web.Response(status=415, text=f"reviews are {JSON}\n")
            body = await request.read()
            began = time.perf_counter()
            try:
                question = read(body, managed=managed)
            except BadReviewError as error:
                return web.Response(status=400, text=f"{error}\n")
            try:
                verdict = decide(question.asked)
                answered = answer(question, verdict)
            except Exception:
                asked = question.asked
                log.exception("no answer about %s %s/%s", asked.resource, asked.namespace, asked.name)
                return web.Response(status=500, text="Usher could not decide: see its log\n")
            if self._heard is not None:
                self._heard(path, question.asked, verdict, time.perf_counter() - began)
            return web.Response(body=answered, content_type=JSON)

        return handle
