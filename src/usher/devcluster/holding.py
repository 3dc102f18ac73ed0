"""Holding a cluster: start it, say that it is ready, keep it until told to stop.

`usher up` holds in the foreground. `in_background` starts this module as a process of its own that holds: for
`usher up --detach` until SIGTERM, for the test fixture until the test run lets go of a leash (a FIFO that the run keeps
open, so however the run ends, the cluster ends too).
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from usher.devcluster.clusters import Cluster, read_record, write_record
from usher.devcluster.controlplane import ControlPlane
from usher.devcluster.errors import DevClusterError
from usher.devcluster.nodes import Nodes
from usher.devcluster.parts import find_parts


@dataclass(frozen=True)
class Plan:
    """What to hold."""

    directory: Path
    nodes: Nodes
    keep_data: bool = False
    leash: Path | None = None
    extra_args: Mapping[str, Sequence[str]] | None = None
    """Flags that components get besides their own, by name."""


async def hold(plan: Plan, on_ready: Callable[[Cluster], Any]) -> None:
    """Run a cluster until SIGINT, SIGTERM or the end of the leash; raises if a component dies.

    `on_ready` is called with the cluster, and awaited if it returns an awaitable.
    """
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    leash = os.open(plan.leash, os.O_RDONLY | os.O_NONBLOCK) if plan.leash else None
    if leash is not None:
        loop.add_reader(leash, told.set)
    stop = asyncio.create_task(told.wait())
    work = asyncio.create_task(_run(plan, on_ready))
    try:
        await asyncio.wait({stop, work}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        work.cancel()
        (result,) = await asyncio.gather(work, return_exceptions=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        if leash is not None:
            loop.remove_reader(leash)
            os.close(leash)
    if isinstance(result, Exception):
        raise result


async def _run(plan: Plan, on_ready: Callable[[Cluster], Any]) -> None:
    control_plane = ControlPlane(
        nodes=plan.nodes, directory=plan.directory, keep_data=plan.keep_data, extra_args=plan.extra_args
    )
    try:
        await control_plane.start(on_locked=lambda: write_record(plan.directory, None))
        write_record(plan.directory, control_plane)
        cluster = read_record(plan.directory)
        assert cluster is not None
        result = on_ready(cluster)
        if asyncio.iscoroutine(result):
            await result
        await control_plane.watch()
    finally:
        await control_plane.stop()


def in_background(plan: Plan) -> Cluster:
    """Start a process that holds the cluster, and return when the cluster is ready."""
    find_parts()  # if they must be built, that is shown here, not in a log
    plan.directory.mkdir(parents=True, exist_ok=True)
    order = json.dumps(asdict(plan), default=str)
    with (plan.directory / "background.log").open("wb") as log:
        holder = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "usher.devcluster.holding", order],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert holder.stdout is not None
    try:
        answer = holder.stdout.read().decode()
    except BaseException:
        holder.terminate()
        holder.wait()
        raise
    finally:
        holder.stdout.close()
    holder.returncode = 0  # it goes on without us: nobody waits for it
    cluster = read_record(plan.directory) if not answer else None
    if cluster is None:
        raise DevClusterError(answer or f"The cluster ended at once. See {plan.directory / 'background.log'}")
    return cluster


def main() -> None:
    """Hold what the argument says. Stdout tells the parent: closed empty when ready, or why not."""
    order = json.loads(sys.argv[1])
    leash = Path(order["leash"]) if order["leash"] else None
    plan = Plan(Path(order["directory"]), Nodes(**order["nodes"]), order["keep_data"], leash, order["extra_args"])
    ready = False

    def on_ready(_: Cluster) -> None:
        nonlocal ready
        ready = True
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)

    try:
        asyncio.run(hold(plan, on_ready))
    except DevClusterError as error:
        (sys.stderr if ready else sys.stdout).write(f"{error}\n")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
