"""The asyncio side of the keeper: start components, hear of their exits, stop them all.

`ControlPlane` owns one `Keeper`. A component (or the keeper) that exits while nobody asked it to is a fault: `died`
completes with its name, and whoever waits for something races against it.
"""

import asyncio
import json
import sys
from pathlib import Path

from usher.devcluster import keeper

STOP_SECONDS = 30.0


class Keeper:
    """A running keeper process; everything it starts ends with it, and it ends with us."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._reader = asyncio.create_task(self._read())
        self.died: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.pids: dict[str, int] = {}

    @classmethod
    async def launch(cls, lock: int | None) -> "Keeper":
        """Start the keeper in a session of its own, so that a terminal's signals do not reach the components.

        It shares the open file `lock`: a directory stays locked until everything in it has stopped, even if we die.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-IS",
            keeper.__file__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            pass_fds=() if lock is None else (lock,),
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """The keeper's own process."""
        return self._process.pid

    def start(self, name: str, argv: list[str], log: Path) -> None:
        """Have a component started; its output is appended to `log`."""
        self._order({"start": name, "argv": argv, "log": str(log)})

    def remove_at_end(self, paths: list[Path]) -> None:
        """What to delete once everything has stopped, whatever the reason; replaces what was said before."""
        self._order({"remove": [str(path) for path in paths]})

    async def stop(self) -> None:
        """Stop everything and wait until it is gone."""
        if not self.died.done():
            self.died.cancel()
        stdin = self._process.stdin
        assert stdin is not None
        stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reader

    def _order(self, order: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            event = json.loads(line)
            if name := event.get("started"):
                self.pids[name] = event["pid"]
            else:
                self._say_died(event.get("failed") or event["exited"])
        self._say_died("keeper")

    def _say_died(self, name: str) -> None:
        if not self.died.done():
            self.died.set_result(name)
