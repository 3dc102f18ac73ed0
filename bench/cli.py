"""How long commands take, from the start of the process to its end, against a real API server.

Usher and what it depends on are installed into a virtual environment of their own, compiled, as pip would leave them.
Each round runs every command once, and Python itself twice: doing nothing, and importing what any client of an HTTPS
server must. So a busy machine slows all of them alike, and the ratio says more than the time. What counts is processor
time (user and system), which waiting for others does not lengthen.

Start-up is a part of that: until the command opens its first connection to the server, which a listener of ours sees.
Run by `make bench`.
"""

import argparse
import asyncio
import compileall
import importlib.metadata
import json
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provenance import ROOT, provenance, record

from usher.devcluster import ControlPlane, Kubectl, Nodes

BARE = "python -c pass"
HTTPS = "python -c 'import json, ssl, http.client'"
COMMANDS: dict[str, tuple[str, ...]] = {
    "usher --help": ("--help",),
    "usher submit --help": ("submit", "--help"),
    "usher version --client": ("version", "--client"),
    "usher version": ("version",),
    "usher get queues": ("get", "queues"),
    "usher get jobs": ("get", "jobs"),
    "usher get jobs -o json": ("get", "jobs", "-o", "json"),
    "usher describe job": ("describe", "job", "train"),
    "usher submit": ("submit", "-q", "main", "--image", "none", "--dry-run=server"),
    "usher explain --stored": ("explain", "train", "--stored"),
    "usher explain": ("explain", "train"),
    "usher set": ("set", "queue", "main", "weight=2"),
    "usher top --once": ("top", "--once"),
}
QUEUE = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "Queue",
    "metadata": {"name": "main", "namespace": "default"},
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "default", "labels": {"scheduling.x-k8s.io/queue-name": "main"}},
    "spec": {
        "suspend": True,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}},
    },
}


def unit_of(job: dict[str, Any]) -> dict[str, Any]:
    """The unit of a job, as a manager would make it."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "namespace": "default"}
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {"name": "job-train", "namespace": "default"},
        "spec": {"queue": "main", "request": {"cpu": "1"}, "consumerRef": {**reference, "uid": job["metadata"]["uid"]}},
    }


def needed(name: str, found: set[str] | None = None) -> set[str]:
    """A distribution and everything that it needs here."""
    found = set() if found is None else found
    for line in importlib.metadata.requires(name) or ():
        matched = re.match(r"[A-Za-z0-9._-]+", line)
        if matched is None or "extra ==" in line or matched[0] in found:
            continue
        try:
            importlib.metadata.distribution(matched[0])
        except importlib.metadata.PackageNotFoundError:
            continue  # for another Python or another system
        found.add(matched[0])
        needed(matched[0], found)
    return found


def installed(place: Path) -> Path:
    """A virtual environment with Usher in it; where its Python is."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    site = next((place / "lib").glob("python*")) / "site-packages"
    for name in sorted(needed("usher")):
        distribution = importlib.metadata.distribution(name)
        for file in distribution.files or ():
            source = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and "__pycache__" not in file.parts and source.is_file():
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, site / file)
    shutil.copytree(ROOT / "src" / "usher", site / "usher", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(site, quiet=2)
    python = place / "bin" / "python"
    script = place / "bin" / "usher"
    script.write_text(f"#!{python}\nimport sys\nfrom usher.cli.main import main\nsys.exit(main())\n")
    script.chmod(0o755)
    return python


def took(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Milliseconds of processor time and of the clock that a command takes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=env, capture_output=True, check=False)
    clock = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr.decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000, clock * 1000


def until_it_asks(command: list[str], env: dict[str, str], server: socket.socket) -> float | None:
    """Milliseconds of processor time until a command connects to the server; None: it ends without."""
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            nanoseconds = int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])
            process.kill()
            connection.close()
            return nanoseconds / 1e6
    return None


@dataclass
class Times:
    """Of one command, in every round."""

    cpu: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)


def measured(python: Path, kubeconfig: Path, rounds: int) -> dict[str, Times]:
    """Every command in turn, so many times."""
    env = {**os.environ, "KUBECONFIG": str(kubeconfig), "COLUMNS": "120"}
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED"):
        env.pop(name, None)
    lines = {
        BARE: [str(python), "-c", "pass"],
        HTTPS: [str(python), "-c", "import json, ssl, http.client"],
        **{name: [str(python.with_name("usher")), *words] for name, words in COMMANDS.items()},
    }
    for line in lines.values():
        took(line, env)  # files are read from the disk once
    times = {name: Times() for name in lines}
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(1.0)
        elsewhere = python.parents[2] / "kubeconfig"
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        elsewhere.write_text(re.sub(r"https://[^\s\"]+", address, kubeconfig.read_text()))
        for _ in range(rounds):
            for name, line in lines.items():
                cpu, clock = took(line, env)
                times[name].cpu.append(cpu)
                times[name].clock.append(clock)
                start = until_it_asks(line, {**env, "KUBECONFIG": str(elsewhere)}, server)
                times[name].start.extend([] if start is None else [start])
    return times


def figures(times: dict[str, Times]) -> dict[str, dict[str, float]]:
    """Best and median of each, and how many times a bare Python that is."""
    best = {name: min(each.cpu) for name, each in times.items()}
    return {
        name: {
            "start-up ms, best": round(min(each.start, default=0)),
            "start-up ms, median": round(statistics.median(each.start or [0])),
            "cpu ms, best": round(best[name]),
            "cpu ms, median": round(statistics.median(each.cpu)),
            "clock ms, best": round(min(each.clock)),
            "clock ms, median": round(statistics.median(each.clock)),
            "times bare python": round(best[name] / best[BARE], 1),
            "times python with https": round(best[name] / best[HTTPS], 1),
        }
        for name, each in times.items()
    }


async def against_a_server(rounds: int) -> dict[str, dict[str, float]]:
    """All of it on a control plane with one queue and one job that waits."""
    with tempfile.TemporaryDirectory(prefix="usher-bench-") as temporary:
        python = installed(Path(temporary) / "venv")
        async with ControlPlane(nodes=Nodes(count=1)) as plane:
            kubectl: Kubectl = plane.kubectl
            await kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "crds"))
            await kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
            await kubectl("create", "namespace", "usher-system")
            await kubectl.apply(QUEUE, JOB)
            job = json.loads(await kubectl("get", "job", "train", "-n", "default", "-o", "json"))
            await kubectl.apply(unit_of(job))
            return figures(await asyncio.to_thread(measured, python, Path(kubectl.kubeconfig), rounds))


def main() -> None:
    """Measure, show, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--no-record", action="store_true", help="only show")
    options = parser.parse_args()
    origin = provenance()
    rows = asyncio.run(against_a_server(options.rounds))
    heads = ("start ms", "median", "cpu ms", "median", "clock", "median", "× bare", "× https")
    print(f"{'':42}" + "".join(f"{head:>9}" for head in heads))
    for name, row in rows.items():
        print(f"{name:42}" + "".join(f"{value:>9}" for value in row.values()))
    if not options.no_record:
        result = {
            "what": "processor time and clock time of whole commands, and processor time until they first connect to "
            "the server (start-up; 0: they do not), beside those of Python itself",
            "how": f"{options.rounds} rounds of all commands in turn, in a virtual environment with byte code, against "
            "a local control plane without a manager; user and system time of the process, the API server's not",
            "provenance": origin,
            "commands": rows,
        }
        print(f"recorded in {record('cli', result)}")


if __name__ == "__main__":
    main()
