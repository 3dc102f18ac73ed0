"""A control plane of its own for installations: what is installed concerns the whole cluster. Its API server writes an
audit log, so that tests can see who asked for what."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from installing import Installing

from usher.devcluster import Nodes
from usher.devcluster.clusters import Cluster, stop_cluster
from usher.devcluster.holding import Plan, in_background
from usher.devcluster.parts import Parts
from usher.devcluster.tools import HELM, find_tool
from usher.testing.plugin import run_directory

sys.path.append(str(Path(__file__).parents[1] / "live"))  # living.py: a manager in a test

NODES = Nodes(count=2, cpu="4", memory="16Gi", gpus=0)
AUDIT = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


@pytest.fixture(scope="session")
def helm(request: pytest.FixtureRequest, control_plane_parts: Parts) -> str:
    """The program; building it the first time is shown, because it takes minutes."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        return find_tool(HELM)


@pytest.fixture(scope="session")
def bare_cluster(request: pytest.FixtureRequest, control_plane_parts: Parts) -> Iterator[Cluster]:
    """A cluster without Usher."""
    home = run_directory(request.config)
    place = home / f"install-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    place.mkdir(parents=True)
    policy = place / "audit-policy.yaml"
    policy.write_text(AUDIT)
    flags = [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={place / 'audit.json'}",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",  # who blocks an owner must have the right to
    ]
    cluster = in_background(Plan(place, NODES, leash=home / "leash", extra_args={"kube-apiserver": flags}))
    yield cluster
    stop_cluster(place)


@pytest.fixture
async def installing(bare_cluster: Cluster) -> AsyncIterator[Installing]:
    """The cluster, without Usher before and after."""
    found = Installing(bare_cluster)
    yield found
    await found.clean()
