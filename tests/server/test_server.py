"""The server, asked over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import pytest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from served import engine, watched

from usher.core.invariants import violations
from usher.server.asked import Asked
from usher.server.listening import CannotListenError
from usher.server.metrics import gatherer
from usher.server.server import Server


def well() -> str:
    return ""


def ill() -> str:
    return "the lease is 12s old"


def broken() -> str:
    raise KeyError("lease")


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def get(session: aiohttp.ClientSession, asked: Asked, path: str) -> tuple[int, str]:
    async with Server(asked, "127.0.0.1", 0) as server, session.get(f"{server.url}{path}") as response:
        return response.status, await response.text()


HEALTH: dict[str, tuple[dict[str, Callable[[], str]], str, int, str]] = {
    "well": ({"loop": well}, "", 200, "ok"),
    "nothing to check": ({}, "", 200, "ok"),
    "well, verbosely": ({"loop": well, "lease": well}, "?verbose", 200, "[+]loop ok\n[+]lease ok\nNAME check passed\n"),
    "ill": (
        {"loop": well, "lease": ill},
        "",
        500,
        "[+]loop ok\n[-]lease failed: the lease is 12s old\nNAME check failed\n",
    ),
    "a check that raises": ({"lease": broken}, "", 500, "[-]lease failed: KeyError: 'lease'\nNAME check failed\n"),
    "ill but left out": ({"loop": well, "lease": ill}, "?exclude=lease", 200, "ok"),
    "ill but left out, verbosely": (
        {"loop": well, "lease": ill},
        "?verbose&exclude=lease",
        200,
        "[+]loop ok\n[+]lease excluded: ok\nNAME check passed\n",
    ),
    "left out what is not there": (
        {"loop": well},
        "?verbose&exclude=moon",
        200,
        "[+]loop ok\nwarn: some health checks cannot be excluded: no matches for moon\nNAME check passed\n",
    ),
    "one check": ({"loop": well, "lease": ill}, "/loop", 200, "ok"),
    "one check that fails": (
        {"loop": well, "lease": ill},
        "/lease",
        500,
        "[-]lease failed: the lease is 12s old\nlease check failed\n",
    ),
    "one check that is not there": ({"loop": well}, "/moon", 404, "no check moon; there are loop\n"),
}


@pytest.mark.parametrize(("checks", "tail", "status", "text"), HEALTH.values(), ids=HEALTH)
@pytest.mark.parametrize("endpoint", ["livez", "readyz"])
async def test_health_is_told_as_in_kubernetes(
    http: aiohttp.ClientSession,
    endpoint: str,
    checks: dict[str, Callable[[], str]],
    tail: str,
    status: int,
    text: str,
) -> None:
    asked = Asked(live=checks) if endpoint == "livez" else Asked(ready=checks)

    assert await get(http, asked, f"/{endpoint}{tail}") == (status, text.replace("NAME", endpoint))


async def test_live_and_ready_are_two_questions(http: aiohttp.ClientSession) -> None:
    asked = Asked(live={"loop": well}, ready={"synced": ill})

    assert (await get(http, asked, "/livez"))[0] == 200
    assert (await get(http, asked, "/readyz"))[0] == 500


async def test_a_check_is_asked_anew_each_time(http: aiohttp.ClientSession) -> None:
    answers = ["not yet", ""]
    async with Server(Asked(ready={"synced": lambda: answers.pop(0)}), "127.0.0.1", 0) as server:
        statuses = []
        for _ in range(2):
            async with http.get(f"{server.url}/readyz") as response:
                statuses.append(response.status)

    assert statuses == [500, 200]


async def test_metrics_are_served_in_the_format_of_prometheus(http: aiohttp.ClientSession) -> None:
    async with Server(Asked(metrics=gatherer(watched())), "127.0.0.1", 0) as server:
        async with http.get(f"{server.url}/metrics") as response:
            names = {family.name for family in text_string_to_metric_families(await response.text())}
            kind = response.headers["Content-Type"]
        openmetrics = {"Accept": "application/openmetrics-text; version=1.0.0"}
        async with http.get(f"{server.url}/metrics", headers=openmetrics) as response:
            assert response.headers["Content-Type"].startswith("application/openmetrics-text")
            assert (await response.text()).endswith("# EOF\n")

    assert kind.startswith("text/plain; version=")
    assert {"usher_quota_deserved", "usher_loop_lag_seconds", "process_resident_memory_bytes"} <= names


async def test_a_unit_is_explained_as_json(http: aiohttp.ClientSession) -> None:
    made = engine()
    async with Server(Asked(explain=made.explain), "127.0.0.1", 0) as server:
        async with http.get(f"{server.url}/debug/explain/team/large") as response:
            found: dict[str, Any] = await response.json()
        async with http.get(f"{server.url}/debug/explain/team/nobody") as response:
            missing = response.status, await response.json()

    assert (found["unit"], found["queue"], found["position"]) == ("team/large", "team/jobs", 1)
    assert found["blocked"]["resource"] == "cpu"
    explanation = made.explain("team/large")
    assert explanation is not None
    assert found["text"] == explanation.text()
    assert missing == (404, {"error": "there is no unit team/nobody"})


async def test_violations_of_the_engine_are_listed(http: aiohttp.ClientSession) -> None:
    made = engine()
    asked = Asked(violations=lambda: violations(made))
    assert await get(http, asked, "/debug/violations") == (200, '{"violations": []}')

    made.world.ledger.root.used["cpu"] += 1
    _, text = await get(http, asked, "/debug/violations")
    assert "root" in text


@pytest.mark.parametrize("path", ["/debug/violations", "/debug/explain/a/b", "/", "/nothing"])
async def test_what_is_not_wanted_is_not_there(http: aiohttp.ClientSession, path: str) -> None:
    assert (await get(http, Asked(), path))[0] == 404


async def test_nobody_may_write(http: aiohttp.ClientSession) -> None:
    async with Server(Asked(), "127.0.0.1", 0) as server, http.post(f"{server.url}/livez") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET,HEAD"


async def test_an_answer_is_not_kept(http: aiohttp.ClientSession) -> None:
    async with Server(Asked(), "127.0.0.1", 0) as server, http.get(f"{server.url}/livez") as response:
        assert response.headers["Cache-Control"] == "no-store"


async def test_an_address_that_is_taken_is_an_error_for_people() -> None:
    async with Server(Asked(), "127.0.0.1", 0) as first:
        second = Server(Asked(), "127.0.0.1", first.port)
        with pytest.raises(CannotListenError, match=f"cannot listen on http://127.0.0.1:{first.port}: "):
            await second.start()
        await second.stop()


async def test_a_stopped_server_lets_go_of_its_port(http: aiohttp.ClientSession) -> None:
    server = Server(Asked(), "127.0.0.1", 0)
    await server.start()
    port = server.port
    await server.stop()
    await server.stop()

    with pytest.raises(aiohttp.ClientConnectorError):
        await http.get(f"{server.url}/livez")
    async with Server(Asked(), "127.0.0.1", port):
        pass


class Slow(list[Any]):
    """Samples whose text takes until it is told to end."""

    def __init__(self, samples: list[Any]) -> None:
        super().__init__(samples)
        self.asked, self.release = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[Any]:
        self.asked.set()
        assert self.release.wait(60)
        return super().__iter__()


async def test_a_request_under_way_is_answered_when_the_server_stops(http: aiohttp.ClientSession) -> None:
    metric = GaugeMetricFamily("slow", "It took its time", value=1)
    metric.samples = slow = Slow(metric.samples)
    server = Server(Asked(metrics=lambda: [metric]), "127.0.0.1", 0)
    await server.start()
    async with asyncio.TaskGroup() as group:
        answer = group.create_task(_text(http, f"{server.url}/metrics"))
        assert await asyncio.to_thread(slow.asked.wait, 60)
        stopping = group.create_task(server.stop())
        slow.release.set()
        await stopping

    assert "slow 1.0" in answer.result()


async def _text(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as response:
        return await response.text()
