"""A proxy between a client and a real API server that a test steers: it cuts, holds, delays, refuses and loses.

    async with Proxy.to(cluster) as proxy:
        client = Client(proxy.kubeconfig)                          # the admin's kubeconfig, but through the proxy
        proxy.rule(Answer(429, retry_after=1), method="PATCH", times=3)
        proxy.rule(LOSE_ANSWER, method="POST", path="/configmaps", skip=4, times=1)  # the fifth
        ...
        assert proxy.count("POST", "/configmaps", status=201) == 1

It ends TLS with the API server's own certificate, so that only the address in a kubeconfig differs. Credentials: a
request that has an `Authorization` header goes on with that and nothing else; any other goes on as the user of the
kubeconfig that the proxy was given (a client certificate cannot be passed through somebody who ends TLS).

Watches are relayed line by line, as they come. What passed is in `proxy.seen`, also what the server never got. Tests of
`usher.kube` and of everything on top of it use this. It lives in the event loop that entered it.
"""

import asyncio
import contextlib
import json
import re
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

from usher.devcluster.clusters import Cluster
from usher.devcluster.pki import Identity
from usher.server.listening import refuse_connections, take_connections

LOOPBACK = "127.0.0.1"
BODY_BYTES_MAX = 64 * 2**20
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length", "te", "trailer", "upgrade"}
REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired",
    422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """Answer this instead of asking the server, with a Status object as a server would."""

    status: int
    reason: str = ""
    message: str = "said the proxy"
    retry_after: int | None = None

    def body(self) -> dict[str, Any]:
        """The Status object."""
        answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message}
        reason = self.reason or REASONS.get(self.status, "Unknown")
        details = {} if self.retry_after is None else {"retryAfterSeconds": self.retry_after}
        return {**answer, "reason": reason, "code": self.status, "details": details}


@dataclass(frozen=True)
class Cut:
    """Close the connection instead of an answer: before the server got the request, or after it answered."""

    after: bool


CUT = Cut(after=False)
LOSE_ANSWER = Cut(after=True)


@dataclass(frozen=True)
class Hold:
    """Keep the request until the event is set, then pass it on, even if the client has gone meanwhile."""

    until: asyncio.Event


@dataclass(frozen=True)
class Delay:
    """Pass the request on so much later."""

    seconds: float


Fault = Answer | Cut | Hold | Delay


@dataclass
class Passed:
    """One request: what it was, what the server said (None: it never got it), and what the client was told."""

    method: str
    path: str
    query: str
    body: bytes
    status: int | None = None
    told: int | None = None
    fault: Fault | None = None
    answer: bytes = b""

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    @property
    def is_write(self) -> bool:
        """Whether the request asked for a change."""
        return self.method not in ("GET", "HEAD", "OPTIONS")


Matcher = Callable[[Passed], bool]
Decider = Callable[[Passed], Fault | None]


@dataclass
class Rule:
    """A fault for requests that match: not for the first `skip`, then for `times` of them (None: for all)."""

    fault: Fault
    matches: Matcher
    skip: int
    times: int | None
    met: int = field(default=0, init=False)
    """How many requests have matched."""

    @property
    def spent(self) -> bool:
        """Whether it will never act again."""
        return self.times is not None and self.met >= self.skip + self.times

    def decide(self, request: Passed) -> Fault | None:
        """The fault, if it is this request's turn."""
        if self.spent or not self.matches(request):
            return None
        self.met += 1
        return self.fault if self.met > self.skip else None


def matching(method: str | None = None, path: str = "", watch: bool | None = None) -> Matcher:
    """Requests of that method (several: `"PUT|PATCH"`) whose path has a match for the regular expression."""

    def matches(request: Passed) -> bool:
        return (
            (method is None or request.method in method.split("|"))
            and re.search(path, request.path) is not None
            and (watch is None or watch == _is_watch(request.query))
        )

    return matches


class Proxy:
    """The proxy; see the module. Everything that a test can do to it is a method."""

    def __init__(self, kubeconfig: Path, serving: Identity) -> None:
        config = json.loads(kubeconfig.read_text())
        self._config = config
        self._server: str = config["clusters"][0]["cluster"]["server"]
        self._authority: str = config["clusters"][0]["cluster"]["certificate-authority"]
        user = config["users"][0]["user"]
        self._certificate = (user["client-certificate"], user["client-key"])
        self._serving = serving
        self._deciders: list[Decider] = []
        self._speaks = asyncio.Event()
        self._speaks.set()
        self._streams: dict[asyncio.Queue[bytes | None], Passed] = {}
        self._exits = contextlib.AsyncExitStack()
        self._late: set[asyncio.Task[Any]] = set()
        self._port = 0
        self.seen: list[Passed] = []
        self.kubeconfig = Path()

    @classmethod
    def to(cls, cluster: Cluster) -> Self:
        """In front of a cluster that runs on this machine."""
        pki = cluster.directory / "pki"
        return cls(cluster.kubeconfig, Identity(pki / "server.crt", pki / "server.key"))

    @property
    def url(self) -> str:
        """Where the proxy listens."""
        return f"https://{LOOPBACK}:{self._port}"

    @property
    def writes(self) -> list[Passed]:
        """Every request for a change, in the order they came."""
        return [request for request in self.seen if request.is_write]

    def count(self, method: str | None = None, path: str = "", status: int | None = None) -> int:
        """How many such requests came or, with a status, got that from the server."""
        matches = matching(method, path)
        return sum(matches(request) and (status is None or request.status == status) for request in self.seen)

    def rule(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        path: str = "",
        watch: bool | None = None,
        when: Matcher | None = None,
        skip: int = 0,
        times: int | None = None,
    ) -> Rule:
        """From now on, give requests this fault. Earlier rules come first."""
        by_form = matching(method, path, watch)
        made = Rule(fault, (lambda request: by_form(request) and when(request)) if when else by_form, skip, times)
        self._deciders.append(made.decide)
        return made

    def decide(self, decider: Decider) -> None:
        """From now on, ask this about every request (e.g. a seeded chance); None lets it pass."""
        self._deciders.append(decider)

    def behave(self) -> None:
        """Forget all rules and speak again."""
        self._deciders.clear()
        self.speak()

    def silence(self) -> None:
        """From now on, take requests and hold them, and let no event of a watch through."""
        self._speaks.clear()

    def speak(self) -> None:
        """Let everything that was held go on."""
        self._speaks.set()

    def cut(self) -> int:
        """Cut every connection now; how many there were. New ones are taken."""
        handlers = self._listener.connections
        for handler in handlers:
            if handler.transport is not None:
                handler.transport.abort()
        return len(handlers)

    async def down(self) -> None:
        """Refuse connections, as when the server is not there."""
        refuse_connections(self._listener)
        for site in list(self._runner.sites):
            await site.stop()
        self.cut()

    async def up(self) -> None:
        """Take connections again, on the same port."""
        take_connections(self._listener)
        site = web.TCPSite(self._runner, LOOPBACK, self._port, ssl_context=self._tls)
        await site.start()

    def watching(self, path: str = "") -> int:
        """How many watches pass through at the moment."""
        return sum(re.search(path, request.path) is not None for request in self._streams.values())

    def end_watches(self, path: str = "", last: dict[str, Any] | None = None) -> int:
        """End watches properly, after one more event if given; how many there were."""
        ended = [queue for queue, request in self._streams.items() if re.search(path, request.path)]
        for queue in ended:
            if last is not None:
                queue.put_nowait(json.dumps(last).encode() + b"\n")
            queue.put_nowait(None)
        return len(ended)

    def expire_watches(self, path: str = "") -> int:
        """Say in the stream that the resourceVersion is too old, as a server does after a compaction; then end it."""
        status = Answer(410, message="too old resource version: 1 (2)").body()
        return self.end_watches(path, {"type": "ERROR", "object": status})

    async def __aenter__(self) -> Self:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(self._serving.certificate, self._serving.key)
        self._as_user = await self._exits.enter_async_context(self._session(with_certificate=True))
        self._as_bearer = await self._exits.enter_async_context(self._session(with_certificate=False))
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application, handler_cancellation=True, access_log=None, auto_decompress=False, shutdown_timeout=0.1
        )
        await self._runner.setup()
        assert self._runner.server is not None
        self._listener = self._runner.server
        site = web.TCPSite(self._runner, LOOPBACK, 0, ssl_context=self._tls)
        await site.start()
        self._port = self._runner.addresses[0][1]
        home = Path(self._exits.enter_context(tempfile.TemporaryDirectory(prefix="usher-proxy-")))
        self._config["clusters"][0]["cluster"]["server"] = self.url
        self.kubeconfig = home / "kubeconfig"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(self._config))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.speak()
        for task in self._late:
            task.cancel()
        refuse_connections(self._listener)
        self.cut()
        await self._runner.cleanup()
        await self._exits.aclose()

    def _session(self, *, with_certificate: bool) -> ClientSession:
        context = ssl.create_default_context(cafile=self._authority)
        if with_certificate:
            context.load_cert_chain(*self._certificate)
        return ClientSession(
            connector=TCPConnector(limit=0, ssl=context),
            timeout=ClientTimeout(total=None),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=2**20,
        )

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        writes = request.method not in ("GET", "HEAD")
        passed = Passed(request.method, request.path, request.query_string, await request.read() if writes else b"")
        self.seen.append(passed)
        await self._speaks.wait()
        fault = passed.fault = next((made for each in self._deciders if (made := each(passed)) is not None), None)
        if isinstance(fault, Answer):
            passed.told = fault.status
            headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
            return web.json_response(fault.body(), status=fault.status, headers=headers)
        if fault == CUT:
            return _hang_up(request)
        if isinstance(fault, Delay):
            await asyncio.sleep(fault.seconds)
        if isinstance(fault, Hold):
            # What is under way arrives, whether or not its sender still waits: so this goes on when we are cancelled.
            task = asyncio.create_task(self._held(request, passed, fault.until))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            return await asyncio.shield(task)
        return await self._pass_on(request, passed)

    async def _held(self, request: web.Request, passed: Passed, until: asyncio.Event) -> web.StreamResponse:
        await until.wait()
        return await self._pass_on(request, passed)

    async def _pass_on(self, request: web.Request, passed: Passed) -> web.StreamResponse:
        headers = _end_to_end(request.headers)
        session = self._as_bearer if "Authorization" in headers else self._as_user
        target = self._server + request.raw_path
        try:
            async with session.request(
                passed.method, target, headers=headers, data=passed.body or None, allow_redirects=False
            ) as answer:
                passed.status = answer.status
                if _is_watch(passed.query) and answer.status == 200:
                    return await self._relay(request, passed, answer)
                passed.answer = await answer.read()
        except ClientError:
            return _hang_up(request)  # the real server is gone or ended in the middle: so do we
        await self._speaks.wait()
        if passed.fault == LOSE_ANSWER:
            return _hang_up(request)
        passed.told = passed.status
        return web.Response(status=answer.status, headers=_end_to_end(answer.headers), body=passed.answer)

    async def _relay(self, request: web.Request, passed: Passed, answer: ClientResponse) -> web.StreamResponse:
        """A watch: whole lines, as they come, and what the test puts between them."""
        response = web.StreamResponse(status=answer.status, headers=_end_to_end(answer.headers))
        await response.prepare(request)
        passed.told = passed.status
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        reader = asyncio.create_task(_read_lines(answer, lines))
        self._streams[lines] = passed
        try:
            while (line := await lines.get()) is not None:
                await self._speaks.wait()
                await response.write(line)
            await response.write_eof()
        except ConnectionError:
            pass  # the client left: so do we
        finally:
            del self._streams[lines]
            reader.cancel()
        return response


async def _read_lines(answer: ClientResponse, lines: asyncio.Queue[bytes | None]) -> None:
    rest = b""
    with contextlib.suppress(ClientError):
        async for chunk in answer.content.iter_any():
            whole, newline, tail = chunk.rpartition(b"\n")
            if newline:
                lines.put_nowait(rest + whole + newline)
                rest = tail
            else:
                rest += chunk
    lines.put_nowait(None)


def _is_watch(query: str) -> bool:
    return re.search(r"(^|&)watch=(true|1)(&|$)", query) is not None


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP}


def _hang_up(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)
