"""How late the event loop is: asks to be woken at a time and sees when it was. The manager runs it as a task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from usher.runtime.numbers import Numbers

EVERY_SECONDS: Final = 0.5


async def watch_lag(
    numbers: Numbers,
    every_s: float = EVERY_SECONDS,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Until cancelled, count how much later than asked the loop came back."""
    while True:
        asked = clock() + every_s
        await sleep(every_s)
        numbers.lagged(max(0.0, clock() - asked))
