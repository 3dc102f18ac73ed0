"""Waiting in tests: for a condition, with a deadline, never for a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

WITHIN_SECONDS = 60.0
POLL_SECONDS = 0.1


async def eventually(check: Callable[[], Awaitable[T]], *, within: float = WITHIN_SECONDS, why: str = "") -> T:
    """Call `check` until what it returns is true, and return that. Fails with the last answer at the deadline."""
    deadline = time.monotonic() + within
    while True:
        answer = await check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(
                f"{why or 'the condition'} did not hold within {within:.0f} s; last answer: {answer!r}"
            )
        await asyncio.sleep(POLL_SECONDS)
