"""Our client beside a bare aiohttp loop, the official Python client and kr8s: operations per second and CPU each.

Every client is a process of its own. They take turns, operation by operation, in an order that changes with every
round, so that whatever else the machine does hits all alike. CPU per operation is the client's own and hardly depends
on the server; operations per second are bounded by the server, which shares the machine. Run by `make bench`.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
from pathlib import Path
from typing import Any

from client_subjects import IN_FLIGHT, PODS, SUBJECTS
from provenance import provenance, record

from usher.devcluster import ControlPlane, Nodes

OPERATIONS = ("create", "patch", "list", "watch")
HERE = Path(__file__).parent


class Worker:
    """A client in its process."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name, self._process = name, process
        self.mine: list[str] = []

    @classmethod
    async def start(cls, name: str, kubeconfig: Path) -> "Worker":
        """Start the process."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            HERE / "client_subjects.py",
            name,
            kubeconfig,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return cls(name, process)

    async def do(self, **order: Any) -> dict[str, float]:
        """Have an operation carried out; what it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} failed at {order['do']}")
        return json.loads(line)  # type: ignore[no-any-return]

    async def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


async def one_turn(worker: Worker, operation: str, number: int, options: argparse.Namespace) -> dict[str, float]:
    """One operation of one client in one round."""
    slug = worker.name.replace(" ", "-")
    match operation:
        case "create":
            worker.mine = [f"{slug}-{number}-{each}" for each in range(options.writes)]
            return await worker.do(do="create", names=worker.mine)
        case "patch":
            return await worker.do(do="patch", names=worker.mine)
        case "list":
            return await worker.do(do="list", times=options.lists)
        case _:
            return await worker.do(do="watch", count=options.writes * len(options.clients))


async def measure(options: argparse.Namespace) -> dict[str, dict[str, list[dict[str, float]]]]:
    """All turns: by client, by operation, one entry per round. The first round warms up and is left out."""
    turns: dict[str, dict[str, list[dict[str, float]]]] = {
        name: {each: [] for each in OPERATIONS} for name in options.clients
    }
    async with ControlPlane(nodes=Nodes(count=0)) as plane:
        workers = [await Worker.start(name, plane.kubeconfig) for name in options.clients]
        order = random.Random(1)
        for number in range(options.rounds + 1):
            for operation in OPERATIONS:
                for worker in order.sample(workers, len(workers)):
                    turn = await one_turn(worker, operation, number, options)
                    if number:
                        turns[worker.name][operation].append(turn)
            await plane.kubectl("delete", "--raw", f"{PODS}?gracePeriodSeconds=0")
        for worker in workers:
            await worker.stop()
    return turns


def figures(turns: list[dict[str, float]]) -> dict[str, float]:
    """What an operation costs: medians over the rounds, and the range of the CPU time."""
    per_s = [turn["done"] / turn["s"] for turn in turns]
    cpu_us = [turn["cpu_s"] / turn["done"] * 1e6 for turn in turns]
    return {
        "per second": round(statistics.median(per_s), 1),
        "CPU us": round(statistics.median(cpu_us), 1),
        "CPU us min": round(min(cpu_us), 1),
        "CPU us max": round(max(cpu_us), 1),
    }


def ratios(turns: dict[str, dict[str, list[dict[str, float]]]]) -> dict[str, dict[str, float]]:
    """Ours beside the others, per operation: > 1 is better for us.

    The median of the ratios of each round: what the server or the machine does meanwhile differs more from round to
    round than the clients do from each other.
    """

    def beside(name: str, operation: str, what: str) -> float:
        pairs = zip(turns["usher"][operation], turns[name][operation], strict=True)
        return round(statistics.median((us["done"] / us[what]) / (them["done"] / them[what]) for us, them in pairs), 2)

    return {
        name: {
            f"{operation}, {label}": beside(name, operation, what)
            for operation in OPERATIONS
            for label, what in (("throughput", "s"), ("per CPU second", "cpu_s"))
        }
        for name in turns
        if name != "usher"
    }


def table(by_client: dict[str, dict[str, dict[str, float]]]) -> str:
    """The figures as text."""
    lines = [f"{'':<18}" + "".join(f"{each + '/s':>12}{'CPU us':>9}" for each in OPERATIONS)]
    for name, row in by_client.items():
        cells = (f"{row[each]['per second']:>12,.0f}{row[each]['CPU us']:>9,.0f}" for each in OPERATIONS)
        lines.append(f"{name:<18}" + "".join(cells))
    return "\n".join(lines)


async def main() -> None:
    """Measure, show, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--writes", type=int, default=200, help="creates and patches per client and round")
    parser.add_argument("--lists", type=int, default=2)
    parser.add_argument("--clients", nargs="+", choices=SUBJECTS, default=list(SUBJECTS))
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    origin = provenance()
    turns = await measure(options)
    by_client = {name: {each: figures(turns[name][each]) for each in OPERATIONS} for name in options.clients}
    count = options.writes * len(options.clients)
    result = {
        "what": "creates, status patches, listed objects and watch events per second, and the client's CPU for each",
        "how": f"{options.rounds} rounds after one to warm up, clients in turn and in changing order; {options.writes} "
        f"creates and as many status patches each with {IN_FLIGHT} in flight, of which the first {IN_FLIGHT} only make "
        f"connections and do not count; {options.lists} lists and one watch of {count} pods of about 2 KB; medians "
        "(of ratios, those of each round); "
        "the server shares the machine; uvloop for every asyncio client",
        "provenance": origin,
        "clients": by_client,
        "usher beside": ratios(turns),
        "rounds": turns,
    }
    print(table(by_client))
    for name, row in ratios(turns).items():
        print(f"beside {name}: " + ", ".join(f"{what} {value}" for what, value in row.items()))
    if not options.no_record:
        print(f"recorded in {record('client', result)}")


if __name__ == "__main__":
    asyncio.run(main())
