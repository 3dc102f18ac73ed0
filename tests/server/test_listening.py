"""Servers that stop: whoever comes too late is hung up on, and nothing is left of it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import Any

import aiohttp
from aiohttp import web

from usher.server.listening import refuse_connections, take_connections


async def hung_up(port: int) -> bool:
    """Whether somebody who connects is hung up on."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(10):
            return await reader.read() == b""
    except ConnectionError:
        return True
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_connections_are_refused_until_they_are_taken_again() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    runner = web.AppRunner(web.Application(), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        assert runner.server is not None
        port = runner.addresses[0][1]

        refuse_connections(runner.server)
        assert await hung_up(port)
        gc.collect()  # a task that failed is complained about when it is forgotten
        assert complaints == []

        take_connections(runner.server)
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/") as answer:
            assert answer.status == 404
    finally:
        await runner.cleanup()
