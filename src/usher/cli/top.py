"""`usher top`: quotas, queues and jobs, live on a terminal; `q` or Ctrl-C ends it and leaves the terminal as it was.

It follows the objects and draws what it knows once per interval. Without a terminal, or with `--once`, it prints the
picture once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from usher.cli.connecting import Connection, Seconds, Session, connected, run
from usher.cli.kinds import QUEUES, QUOTAS, UNITS, Kind, Object
from usher.cli.printing import emit
from usher.cli.screen import Shown, frame
from usher.cli.units import listed
from usher.kube.errors import Forbidden

if TYPE_CHECKING:
    import asyncio

    from usher.kube.informer import Informer

ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""The other screen, without a cursor."""
LEAVE: Final = "\x1b[?25h\x1b[?1049l"
HOME: Final = "\x1b[H"
TO_LINE_END: Final = "\x1b[K"
TO_SCREEN_END: Final = "\x1b[J"

Found = dict[Kind, list[Object] | None]
Followed = dict[Kind, "Informer[Object] | None"]


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@click.option("--once", is_flag=True, help="Print it once, for scripts.")
@click.option("--interval", type=Seconds(), default="1s", show_default=True, help="How often it is drawn.")
@connected
def top(connection: Connection, all_namespaces: bool, once: bool, interval: float) -> None:
    """Watch quotas, queues and jobs, live. q ends it."""
    if once or not sys.stdout.isatty():
        emit(frame(run(connection, lambda session: _once(session, all_namespaces))))
    else:
        run(connection, lambda session: _live(session, all_namespaces, max(interval, 0.1)), waits=True)


def _places(session: Session, everywhere: bool) -> dict[Kind, str | None]:
    namespace = None if everywhere else session.namespace
    return {QUOTAS: None, QUEUES: namespace, UNITS: namespace}


async def _once(session: Session, everywhere: bool) -> Shown:
    async def ask(kind: Kind, namespace: str | None) -> list[Object] | None:
        try:
            return await listed(session, kind.resource, namespace)
        except Forbidden:
            return None

    return _shown({kind: await ask(kind, namespace) for kind, namespace in _places(session, everywhere).items()})


def _shown(found: Found, problems: tuple[str, ...] = ()) -> Shown:
    return Shown(time.time_ns() // 1_000_000, found[QUOTAS], found[QUEUES], found[UNITS], problems)


async def _live(session: Session, everywhere: bool, interval_s: float) -> None:
    import asyncio

    ended = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        followed = await _follow(session, everywhere, stack)
        stack.enter_context(_terminal(ended))
        while not ended.is_set():
            _draw(followed)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await ended.wait()


async def _follow(session: Session, everywhere: bool, stack: contextlib.AsyncExitStack) -> Followed:
    """An informer for each kind that we may list; the first list is complete."""
    from usher.kube.informer import Informer

    followed: Followed = {}
    for kind, namespace in _places(session, everywhere).items():
        try:
            await session.client.list(kind.resource, namespace, limit=1)
        except Forbidden:
            followed[kind] = None
            continue
        informer: Informer[Object] = Informer(session.client, kind.resource, namespace)
        followed[kind] = await stack.enter_async_context(informer)
    for each in followed.values():
        if each is not None:
            await each.synced.wait()
    return followed


def _draw(followed: Followed) -> None:
    size = os.get_terminal_size(sys.stdout.fileno())  # the terminal's own word; COLUMNS may be another's
    found = {kind: None if each is None else list(each.store.list()) for kind, each in followed.items()}
    problems = tuple(
        f"{kind.plural}: {each.problem.message}"
        for kind, each in followed.items()
        if each is not None and each.problem is not None
    )
    lines = frame(_shown(found, problems), size.columns, size.lines - 1)
    body = "".join(f"{line}{TO_LINE_END}\r\n" for line in lines)
    sys.stdout.write(f"{HOME}{body}{TO_SCREEN_END}")
    sys.stdout.flush()


@contextlib.contextmanager
def _terminal(ended: asyncio.Event) -> Iterator[None]:
    """The other screen, with keys as they are pressed; everything is put back, however it ends."""
    import asyncio

    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:
        if sys.stdin.isatty():
            stack.enter_context(_keys(loop, ended))
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, ended.set)
            stack.callback(loop.remove_signal_handler, number)
        sys.stdout.write(ENTER)
        stack.callback(sys.stdout.flush)
        stack.callback(sys.stdout.write, LEAVE)
        yield


@contextlib.contextmanager
def _keys(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> Iterator[None]:
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before: list[Any] = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)

    def pressed() -> None:
        if os.read(descriptor, 64)[:1].lower() in (b"q", b"\x04", b""):
            ended.set()

    loop.add_reader(descriptor, pressed)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
