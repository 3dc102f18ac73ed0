"""How long a warm control plane takes to start and stop, and how much memory each component has when it is ready.

Run by `make bench`. The parts must be built (`make parts`): what is measured is the start, not the build.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from provenance import provenance, record

from usher.devcluster import ControlPlane, Nodes


async def one_run(nodes: int) -> dict[str, Any]:
    """Start and stop one control plane: seconds, and resident memory in MiB by component."""
    control_plane = ControlPlane(nodes=Nodes(count=nodes))
    await control_plane.start()
    try:
        seconds = dict(control_plane.seconds)
        memory = {name: resident_mib(pid) for name, pid in control_plane.pids.items()}
    finally:
        began = time.monotonic()
        await control_plane.stop()
    seconds["stopped"] = time.monotonic() - began
    return {"seconds": {key: round(value, 2) for key, value in seconds.items()}, "memory MiB": memory}


def resident_mib(pid: int) -> int:
    """VmRSS of a process."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in status if line.startswith("VmRSS:")]
    return round(int(line.split()[1]) / 1024)


def help_seconds() -> float:
    """How long `usher --help` takes, the best of five: what is slower is the machine's doing."""
    program = Path(sys.executable).with_name("usher")
    taken = []
    for _ in range(5):
        began = time.monotonic()
        subprocess.run([program, "--help"], stdout=subprocess.DEVNULL, check=True)
        taken.append(time.monotonic() - began)
    return round(min(taken), 3)


def summary(runs: list[dict[str, Any]], what: str) -> dict[str, dict[str, float]]:
    """Minimum, median and maximum of each figure."""
    names = runs[0][what]
    columns = {name: [run[what][name] for run in runs] for name in names}
    return {
        name: {"min": min(values), "median": round(statistics.median(values), 2), "max": max(values)}
        for name, values in columns.items()
    }


def table(title: str, rows: dict[str, dict[str, float]]) -> str:
    """Rows as text."""
    lines = [f"{title:<26}{'min':>8}{'median':>8}{'max':>8}"]
    lines += [f"  {name:<24}{row['min']:>8}{row['median']:>8}{row['max']:>8}" for name, row in rows.items()]
    return "\n".join(lines)


async def main() -> None:
    """Measure, show, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=4)
    options = parser.parse_args()
    origin = provenance()
    runs = [await one_run(options.nodes) for _ in range(options.runs)]
    result = {
        "what": "start and stop of a warm local control plane, memory when all is ready",
        "how": f"{options.runs} runs one after another, {options.nodes} simulated nodes, temporary data (no fsync); "
        "memory is VmRSS at the moment everything is ready; usher --help is the best of five",
        "provenance": origin,
        "seconds": summary(runs, "seconds"),
        "memory MiB": summary(runs, "memory MiB"),
        "memory MiB in all": summary([{"all": {"all": sum(run["memory MiB"].values())}} for run in runs], "all")["all"],
        "usher --help seconds": help_seconds(),
        "runs": runs,
    }
    print(table("seconds", result["seconds"]))  # type: ignore[arg-type]
    print(table("memory, MiB", {**result["memory MiB"], "in all": result["memory MiB in all"]}))  # type: ignore[dict-item]
    print(f"usher --help: {result['usher --help seconds']} s")
    print(f"recorded in {record('controlplane', result)}")


if __name__ == "__main__":
    asyncio.run(main())
