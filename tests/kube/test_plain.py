"""The transports of commands, with an event loop and without, against servers that answer in every way they may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from usher.devcluster.clusters import Cluster
from usher.kube import Client, kubeconfig, untyped
from usher.kube.blocking import BlockingTransport, drive
from usher.kube.carrying import Answer, Transport
from usher.kube.config import Config
from usher.kube.errors import BadRequest, ConnectionLost, Timeout
from usher.kube.plain import PlainTransport, for_commands

OK = b"HTTP/1.1 200 OK\r\n"
MAPS = untyped("", "v1", "configmaps", "ConfigMap", namespaced=True)


class Served:
    """A server that gives its answers in turn, one per request; what it was sent."""

    def __init__(self, answers: list[bytes | None], closes: bool) -> None:
        self.answers = answers
        self.closes = closes
        self.patience = asyncio.Event()
        self.requests: list[bytes] = []
        self.connections = 0
        self.url = ""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line.split(b":")[1]) for line in head.split(b"\r\n") if b"Content-Length" in line), 0
                )
                self.requests.append(head + await reader.readexactly(length))
                if not self.answers:
                    await self.patience.wait()  # a server that is silent
                    break
                answer = self.answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                if self.closes or (
                    b"Content-Length" not in answer and b"chunked" not in answer and b" 204 " not in answer
                ):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class Threaded(BlockingTransport):
    """The transport without a loop, where the server needs the loop that the test runs in."""

    async def request(self, *asked: Any) -> Answer:
        return await asyncio.to_thread(lambda: drive(BlockingTransport.request(self, *asked)))


Kind = type[PlainTransport] | type[Threaded]
either = pytest.mark.parametrize("kind", [PlainTransport, Threaded])


@asynccontextmanager
async def serving(
    kind: Kind, *answers: bytes | None, closes: bool = False
) -> AsyncIterator[tuple[Served, PlainTransport | Threaded]]:
    served = Served(list(answers), closes)
    server = await asyncio.start_server(served.talk, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    transport = kind(served.url)
    try:
        yield served, transport
    finally:
        served.patience.set()
        await transport.close()
        server.close()
        await server.wait_closed()


BODIES: dict[str, tuple[bytes, bytes]] = {
    "a length": (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "nothing at all": (OK + b"Content-Length: 0\r\n\r\n", b""),
    "chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n", b"hello"),
    "chunks and a trailer": (OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n", b"hello"),
    "the end of the connection": (OK + b"\r\nhello", b"hello"),
    "an interim answer first": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "an answer without a body": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
}


@either
@pytest.mark.parametrize("given", BODIES)
async def test_a_body_ends_where_its_answer_says(kind: Kind, given: str) -> None:
    answer, want = BODIES[given]
    async with serving(kind, answer) as (served, transport):
        got = await transport.request("POST", "/a?b=c", [("X", "y")], None, b"{}", 5)

        assert got.body == want
        head, body = served.requests[0].split(b"\r\n\r\n")
        assert head.splitlines()[0] == b"POST /a?b=c HTTP/1.1"
        assert {b"X: y", b"Content-Length: 2"} <= set(head.splitlines())
        assert body == b"{}"


@either
async def test_a_connection_is_kept_for_the_next_request(kind: Kind) -> None:
    answer = OK + b"Content-Length: 1\r\n\r\nx"
    async with serving(kind, answer, answer) as (served, transport):
        await transport.request("GET", "/", [], None, None, 5)
        await transport.request("GET", "/", [], None, None, 5)

        assert (served.connections, len(served.requests)) == (1, 2)


@either
async def test_a_kept_connection_that_was_closed_is_replaced_for_a_get_and_only_for_that(kind: Kind) -> None:
    answer = OK + b"Content-Length: 1\r\n\r\nx"
    async with serving(kind, answer, None, answer) as (served, transport):
        await transport.request("GET", "/1", [], None, None, 5)
        got = await transport.request("GET", "/2", [], None, None, 5)
        assert (got.body, served.connections, len(served.requests)) == (b"x", 2, 3)
    async with serving(kind, answer, None) as (served, transport):
        await transport.request("GET", "/1", [], None, None, 5)
        with pytest.raises(ConnectionLost) as caught:
            await transport.request("POST", "/2", [], None, b"", 5)
        assert caught.value.sent
        assert len(served.requests) == 2


@either
async def test_a_server_that_says_close_is_not_asked_again_on_that_connection(kind: Kind) -> None:
    answer = OK + b"Content-Length: 1\r\nConnection: close\r\n\r\nx"
    async with serving(kind, answer, answer) as (served, transport):
        await transport.request("GET", "/", [], None, None, 5)
        await transport.request("GET", "/", [], None, None, 5)

        assert served.connections == 2


BROKEN: dict[str, tuple[bytes | None, str]] = {
    "no answer": (None, "it was closed without an answer"),
    "half a body": (OK + b"Content-Length: 9\r\n\r\nhello", "it ended in the middle of the answer"),
    "no HTTP": (b"SSH-2.0-x\r\n\r\n", "this is no HTTP server"),
    "half a head": (b"HTTP/1.1 2", "it ended in the middle of the answer"),
}


@either
@pytest.mark.parametrize("given", BROKEN)
async def test_an_answer_that_breaks_off_is_never_taken_for_one(kind: Kind, given: str) -> None:
    answer, want = BROKEN[given]
    async with serving(kind, answer, closes=True) as (_, transport):
        with pytest.raises(ConnectionLost, match=want) as caught:
            await transport.request("POST", "/", [], None, b"", 5)

        assert caught.value.sent


@either
async def test_a_server_that_is_not_there_was_certainly_not_asked(kind: Kind) -> None:
    async with serving(kind) as (served, _):
        url = served.url
    with pytest.raises(ConnectionLost) as caught:
        await kind(url).request("POST", "/", [], None, b"", 5)

    assert not caught.value.sent
    assert "refused" in caught.value.message.lower()


@either
async def test_a_server_that_is_silent_times_out(kind: Kind) -> None:
    async with serving(kind) as (_, transport):
        with pytest.raises(Timeout):
            await transport.request("GET", "/", [], None, None, 0.05)


async def test_a_stream_gives_what_has_come_and_ends_with_nothing() -> None:
    answer = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    async with serving(PlainTransport, answer) as (_, transport):
        assert isinstance(transport, PlainTransport)
        stream = await transport.stream("/", [], None, 5)
        pieces = [await stream.read() for _ in range(3)]
        stream.close()

        assert (stream.status, pieces) == (200, [b"one", b"two", b""])


async def test_a_stream_of_a_silent_server_times_out() -> None:
    async with serving(PlainTransport) as (_, transport):
        assert isinstance(transport, PlainTransport)
        with pytest.raises(Timeout):
            await transport.stream("/", [], None, 0.05)


class Turn:
    """What an event loop would come back to."""

    def __await__(self) -> Iterator[None]:
        yield


def test_what_waits_for_a_loop_is_not_driven_without_one() -> None:
    async def waits() -> None:
        await Turn()

    with pytest.raises(RuntimeError, match="event loop"):
        drive(waits())


async def test_only_a_proxy_needs_the_other_transport() -> None:
    proxied = for_commands(Config("http://127.0.0.1:1", proxy_url="http://127.0.0.1:2"))

    assert isinstance(for_commands(Config("http://127.0.0.1:1")), PlainTransport)
    assert not isinstance(proxied, PlainTransport)
    await proxied.close()


async def test_the_real_server_is_read_listed_and_watched_through_it(control_plane: Cluster) -> None:
    config = kubeconfig.load(control_plane.kubeconfig)
    async with Client(config, user_agent="t", field_manager="t", transport=for_commands(config)) as client:
        page = await client.list(MAPS, "kube-system")
        names = [each["metadata"]["name"] for each in page.items]
        watch = client.watch(MAPS, "kube-system", send_initial_events=True, timeout_s=5)
        async with watch:
            events = [await anext(watch) for _ in names]

        assert sorted(each.object["metadata"]["name"] for each in events if each.object) == sorted(names)
        assert names


async def test_the_real_server_is_read_and_changed_without_a_loop(control_plane: Cluster) -> None:
    config = kubeconfig.load(control_plane.kubeconfig)

    async def names() -> list[str]:
        transport = BlockingTransport(config.server)
        async with Client(config, user_agent="t", field_manager="t", transport=transport) as client:
            body = {"metadata": {"name": "without-a-loop"}}
            await client.create(MAPS, body, "kube-system", dry_run=True)
            found = [page async for page in client.pages(MAPS, "kube-system", limit=1)]
            return [each["metadata"]["name"] for page in found for each in page.items]

    assert "kube-root-ca.crt" in await asyncio.to_thread(lambda: drive(names()))


async def test_what_the_real_server_says_besides_is_heard(control_plane: Cluster) -> None:
    config = kubeconfig.load(control_plane.kubeconfig)
    body = {"metadata": {"name": "odd"}, "dta": {"a": "b"}, 'da"ta': {}}
    want = {"""unknown field "da\\"ta\"""", 'unknown field "dta"'}

    async def heard(transport: Transport) -> set[str]:
        said = list[str]()
        client = Client(config, user_agent="t", field_manager="t", transport=transport, on_warning=said.append)
        async with client:
            await client.create(MAPS, body, "kube-system", dry_run=True)
            with pytest.raises(BadRequest, match='unknown field "dta"'):
                await client.create(MAPS, body, "kube-system", dry_run=True, strict=True)
        return set(said)

    assert await heard(for_commands(config)) == want
    assert await asyncio.to_thread(lambda: drive(heard(BlockingTransport(config.server)))) == want


async def test_a_server_whose_certificate_is_anothers_is_not_talked_to(control_plane: Cluster) -> None:
    config = structs.replace(kubeconfig.load(control_plane.kubeconfig), certificate_authority=None)
    async with Client(config, user_agent="t", field_manager="t", transport=for_commands(config)) as client:
        with pytest.raises(ConnectionLost, match="its certificate cannot be trusted") as caught:
            await client.list(MAPS, "kube-system")

    assert not caught.value.sent

    async def read() -> None:
        transport = BlockingTransport(config.server)
        async with Client(config, user_agent="t", field_manager="t", transport=transport) as client:
            await client.list(MAPS, "kube-system")

    with pytest.raises(ConnectionLost, match="its certificate cannot be trusted"):
        await asyncio.to_thread(lambda: drive(read()))
