"""Clusters that others can find: where a named cluster lives, whether it runs, and how to stop it.

A cluster is a directory. It runs while the lock in it is held, which the kernel guarantees ends with its processes; the
record beside the lock says who holds it. `usher up`, `usher down` and the test fixture find each other through here.
"""

import contextlib
import json
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from usher.devcluster.controlplane import ControlPlane, lock_directory
from usher.devcluster.errors import DevClusterError
from usher.devcluster.kubectl import Kubectl
from usher.devcluster.logs import tail
from usher.devcluster.pki import Authority
from usher.devcluster.places import state_dir

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
STOP_SECONDS = 60.0
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Cluster:
    """A control plane that another process holds."""

    directory: Path
    pid: int
    kubectl: Kubectl

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig file."""
        return self.kubectl.kubeconfig

    @property
    def logs(self) -> Path:
        """One log per component."""
        return self.directory / "logs"

    @property
    def authority(self) -> Authority:
        """What signs the cluster's certificates, e.g. for a webhook that it shall trust."""
        return Authority(self.directory / "pki")


def cluster_dir(name: str) -> Path:
    """Where the cluster of that name lives, running or not."""
    if not NAME.fullmatch(name):
        raise DevClusterError(f"{name!r} cannot be a cluster's name: use a-z, 0-9 and '-', at most 63 of them.")
    return state_dir() / "clusters" / name


def running() -> list[str]:
    """The names of the clusters that run."""
    home = state_dir() / "clusters"
    return sorted(path.name for path in home.iterdir() if is_running(path)) if home.is_dir() else []


def is_running(directory: Path) -> bool:
    """Whether a control plane holds a directory."""
    if not (directory / ".lock").exists():
        return False
    try:
        os.close(lock_directory(directory, tries=1))
    except DevClusterError:
        return True
    return False


def write_record(directory: Path, control_plane: ControlPlane | None) -> None:
    """Say who holds a directory: first without, then with the control plane that is ready."""
    record: dict[str, Any] = {"pid": os.getpid()}
    if control_plane is not None:
        record |= {"kubeconfig": str(control_plane.kubeconfig), "kubectl": control_plane.kubectl.program}
    written = directory / ".cluster.json"
    written.write_text(json.dumps(record))
    written.replace(directory / "cluster.json")


def read_record(directory: Path) -> Cluster | None:
    """The cluster in a directory, if it is ready."""
    record = _record(directory)
    if "kubeconfig" not in record or not is_running(directory):
        return None
    kubectl = Kubectl(record["kubectl"], Path(record["kubeconfig"]))
    return Cluster(directory, record["pid"], kubectl)


def stop_cluster(directory: Path, seconds: float = STOP_SECONDS) -> None:
    """Stop the cluster in a directory and wait until nothing of it runs."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        pid = _record(directory).get("pid")
        if pid is not None and is_running(directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while is_running(directory):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        else:
            (directory / "cluster.json").unlink(missing_ok=True)
            return
    raise DevClusterError(f"The cluster in {directory} did not stop. Its process is {pid}; logs: {directory / 'logs'}")


def why_not_running(name: str) -> str:
    """What to say about a cluster that does not run, with the reason if it ended by itself."""
    others = ", ".join(running()) or "none"
    text = f"No cluster named {name} is running. Running: {others}."
    log = cluster_dir(name) / "background.log"
    return f"{text}\nWhen it last ran, it ended with:\n{tail(log)}" if log.exists() and log.stat().st_size else text


def _record(directory: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((directory / "cluster.json").read_text()))
    except (OSError, ValueError):
        return {}
