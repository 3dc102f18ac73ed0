"""Tasks side by side: for the process, which runs some of them until the first ends."""

from __future__ import annotations

import asyncio
from typing import Any


async def cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def first_of(*waits: Any) -> None:
    """Until the first ends, however it ends; the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
