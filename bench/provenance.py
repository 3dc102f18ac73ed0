"""Where a figure comes from: date, versions, machine, command. Every recorded result carries this."""

import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from usher import __version__
from usher.devcluster.parts import version_of

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
MODULES = ("k8s.io/kubernetes", "go.etcd.io/etcd/server/v3", "sigs.k8s.io/kwok")


def provenance() -> dict[str, Any]:
    """What a reader needs to judge a figure or to obtain it again."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": f"python {Path(sys.argv[0]).resolve().relative_to(ROOT)} {' '.join(sys.argv[1:])}".strip(),
        "commit": commit.stdout.strip(),
        "usher": __version__,
        "python": platform.python_version(),
        "parts": {module: version_of(module) for module in MODULES},
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cpu": _first("/proc/cpuinfo", "model name"),
            "cores": os.cpu_count(),
            "memory": _first("/proc/meminfo", "MemTotal"),
            "load before": round(os.getloadavg()[0], 2),
        },
    }


def record(name: str, result: dict[str, Any]) -> Path:
    """Write a result to bench/results."""
    RESULTS.mkdir(exist_ok=True)
    return write(RESULTS / f"{name}.json", result)


def write(path: Path, result: dict[str, Any]) -> Path:
    """Write a result to a file."""
    path.write_text(json.dumps(result, indent=2) + "\n")
    return path


def _first(path: str, key: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "unknown")
