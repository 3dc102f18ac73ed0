"""A pytest plug-in: one real control plane per test run, a namespace per test.

    pytest_plugins = ["usher.testing.plugin"]

    async def test_a_pod_runs(kubectl): ...

The control plane starts when the first test asks for it, in a process of its own, so all workers of pytest-xdist share
it. The run holds its leash: when the run ends, however it ends, the control plane ends too. Tests that use it are
marked `controlplane`, so `-m "not controlplane"` leaves them out.
"""

import asyncio
import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from usher.devcluster import Kubectl, Nodes
from usher.devcluster.clusters import Cluster, read_record, stop_cluster
from usher.devcluster.holding import Plan, in_background
from usher.devcluster.parts import Parts, find_parts
from usher.testing.waits import eventually

NODES = Nodes(count=4, cpu="8", memory="32Gi", gpus=2)
"""What the shared control plane offers."""

FIXTURES = {"control_plane", "control_plane_parts"}
"""Tests that use one of these are marked `controlplane`."""

WORKER_INPUT = "usher_control_plane"


@dataclass
class _Run:
    """This test run's own directory, and the end of the leash that keeps its control plane."""

    directory: Path
    leash: int


RUN = pytest.StashKey[_Run]()


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the place; nothing is started yet. Only the process that owns the run does this."""
    config.addinivalue_line("markers", "controlplane: needs the real control plane (added by its fixtures)")
    config.addinivalue_line("markers", "flow: takes minutes; `make flow` runs it")
    config.addinivalue_line("markers", "since136: needs what Kubernetes has since 1.36; `make oldest` leaves it out")
    config.addinivalue_line("markers", "crash: stops a manager at one of its writes; `make crashes` runs them all")
    if not hasattr(config, "workerinput"):
        directory = Path(tempfile.mkdtemp(prefix="usher-tests-"))
        os.mkfifo(directory / "leash")
        config.stash[RUN] = _Run(directory, os.open(directory / "leash", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let go, and leave when nothing runs any more."""
    run = config.stash.get(RUN, None)
    if run is not None:
        os.close(run.leash)
        stop_cluster(run.directory / "cluster")
        shutil.rmtree(run.directory, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where the run's directory is."""
    node.workerinput[WORKER_INPUT] = str(node.config.stash[RUN].directory)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the control plane."""
    for item in items:
        if FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.controlplane)


def run_directory(config: pytest.Config) -> Path:
    """The run's own directory, the same for all its workers; `leash` in it ends when the run does."""
    given = getattr(config, "workerinput", {}).get(WORKER_INPUT)
    return Path(given) if given else config.stash[RUN].directory


@pytest.fixture(scope="session")
def control_plane_parts(request: pytest.FixtureRequest) -> Parts:
    """The programs of a control plane, for tests that start one of their own."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        return find_parts()  # if they must be built, that is shown: it takes minutes


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, control_plane_parts: Parts) -> Cluster:
    """The run's control plane; whoever asks first starts it."""
    home = run_directory(request.config)
    with (home / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return read_record(home / "cluster") or in_background(Plan(home / "cluster", NODES, leash=home / "leash"))


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, control_plane: Cluster) -> Iterator[Kubectl]:
    """kubectl in a namespace that only this test has; it is deleted afterwards."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    name = f"{words}-{secrets.token_hex(3)}"
    asyncio.run(_create_namespace(control_plane.kubectl, name))
    yield control_plane.kubectl.within(name)
    asyncio.run(control_plane.kubectl("delete", "namespace", name, "--wait=false"))


async def _create_namespace(admin: Kubectl, name: str) -> None:
    await admin("create", "namespace", name)
    inside = admin.within(name)

    async def has_account() -> bool:
        return bool((await inside.get("serviceaccounts"))["items"])

    await eventually(has_account, why=f"namespace {name} has a service account")
