"""When a manager says that it is not well."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp

from usher.app.process import ManagerProcess
from usher.app.shown import Shown
from usher.kube.config import Config
from usher.settings.loader import load_text
from usher.settings.tree import Settings
from usher.testing.waits import eventually


def process() -> ManagerProcess:
    """One that was never started."""
    return ManagerProcess(Config("http://127.0.0.1:1"), Settings())


def test_a_loop_that_is_stuck_fails() -> None:
    found = process()
    live = Shown(found).asked().live
    assert live["loop"]() == ""

    found.numbers.lagged(60.0)

    assert live["loop"]() == "the event loop came 60.0 s late"
    assert live["lease"]() == ""


def test_a_leader_that_goes_on_without_its_lease_fails() -> None:
    found = process()
    live = Shown(found).asked().live
    assert live["lease"]() == ""

    found.lease_seen_s -= 1000

    assert live["lease"]().startswith("still leads 1000 s after")
    assert live["loop"]() == ""


def test_nobody_is_ready_before_everything_was_listed() -> None:
    assert Shown(process()).asked().ready["caches"]() == "not listed yet: everything"


def test_debugging_is_answered_only_where_it_was_asked_for() -> None:
    asked = Shown(process()).asked()

    assert (asked.explain, asked.violations) == (None, None)


async def test_a_manager_that_reaches_no_server_is_live_but_not_ready() -> None:
    settings = load_text("", "test", ("server.port=0",))
    found = ManagerProcess(Config("http://127.0.0.1:1"), settings)
    running = asyncio.ensure_future(found.run())

    async def listening() -> bool:
        return found.server.port != 0 and found.numbers.watch_problems.total() > 0

    try:
        await eventually(listening, why="it listens, and has tried to reach the server")
        async with aiohttp.ClientSession(found.server.url) as session:
            async with session.get("/livez") as live:
                assert live.status == 200
            async with session.get("/readyz") as ready:
                assert ready.status == 500
                assert "[-]caches failed: not listed yet: namespaces" in await ready.text()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
