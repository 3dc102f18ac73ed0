"""`usher top` on a terminal: what tmux shows of it."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from commands import COMMAND, environment
from living import Live, job

TMUX = shutil.which("tmux")
pytestmark = pytest.mark.skipif(TMUX is None, reason="tmux is not installed (apt-get install tmux)")

Tmux = Callable[..., Awaitable[str]]


@pytest.fixture
async def tmux(live: Live) -> AsyncIterator[Tmux]:
    """A terminal of 24 lines and 100 columns with a server of its own; what a tmux command prints."""
    name = f"usher-{secrets.token_hex(4)}"

    async def run(*args: str) -> str:
        assert TMUX is not None
        process = await asyncio.create_subprocess_exec(
            TMUX, "-u", "-L", name, "-f", "/dev/null", *args,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment(live, TERM="xterm"),
        )  # fmt: skip
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    await run("new-session", "-d", "-s", "top", "-x", "100", "-y", "24", "sh")
    yield run
    await run("kill-server")


async def screen(tmux: Tmux) -> list[str]:
    return (await tmux("capture-pane", "-p", "-t", "top")).splitlines()


async def test_top_follows_the_cluster_fits_the_screen_and_leaves_it_as_it_was(live: Live, tmux: Tmux) -> None:
    await live.queue()
    await live.start()
    await live.job("first", cpu="3", pods=2)
    await live.until("first", "Running")

    async def shows(*wanted: str) -> bool:
        lines = await screen(tmux)
        return all(any(each in line for line in lines) for each in wanted)

    async def ready() -> bool:
        return await shows("ready$")

    await tmux("send-keys", "-t", "top", "PS1='ready$ '; clear", "Enter")
    await live.wait("the shell is there", ready)
    command = " ".join([*COMMAND, "top", "-n", live.namespace, "--interval", "200ms"])
    await tmux("send-keys", "-t", "top", f"{command}; echo ended with $?", "Enter")

    async def first() -> bool:
        return await shows("1 running, 0 starting, 0 waiting", "QUEUE ", f"{live.namespace}/first", "Running")

    await live.wait("the first job is on the screen", first)
    await live.admin.apply(*(job(f"more-{number:02}", live.namespace, cpu="3") for number in range(20)))

    async def grown() -> bool:
        return await shows("1 running, 0 starting, 20 waiting", "… and ", "more-00")

    try:
        await live.wait("the jobs that came later are on the screen, as far as they fit", grown)
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *await screen(tmux)])) from None
    assert not await shows("ready$")
    assert max(len(line) for line in await screen(tmux)) <= 100
    await tmux("send-keys", "-t", "top", "q")

    async def back() -> bool:
        return await shows("ready$", "ended with 0") and not await shows("QUEUE ")

    await live.wait("the shell is back, with what it showed before", back)


async def test_ctrl_c_leaves_the_terminal_as_it_was(live: Live, tmux: Tmux) -> None:
    command = " ".join([sys.executable, "-m", "usher.cli", "top", "-A"])
    await tmux("send-keys", "-t", "top", f"PS1='ready$ '; clear; {command}; echo ended with $?; stty -a", "Enter")

    async def up() -> bool:
        return any("0 running" in line for line in await screen(tmux))

    async def back() -> bool:
        lines = await screen(tmux)
        return any("ended with 130" in line for line in lines) and any(" icanon" in line for line in lines)

    await live.wait("top is up", up)
    await tmux("send-keys", "-t", "top", "C-c")
    await live.wait("the shell is back, and its terminal reads lines", back)
    assert not any("Traceback" in line for line in await screen(tmux))
