"""Our CRDs on the run's control plane, and a namespace for the tests of one process."""

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver import ApiServer

from usher.devcluster.clusters import Cluster

CRDS = Path(__file__).parents[2] / "deploy" / "crds"


@pytest.fixture(scope="session")
def api_cluster(control_plane: Cluster) -> Cluster:
    """The control plane, once it serves our kinds."""
    kubectl = control_plane.kubectl
    asyncio.run(kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS)))
    asyncio.run(
        kubectl("wait", "--for=condition=Established", "crd", "-l", "app.kubernetes.io/part-of=usher", "--timeout=60s")
    )
    return control_plane


@pytest.fixture(scope="session")
def server(api_cluster: Cluster) -> Iterator[ApiServer]:
    """The bare server, in a namespace that only this process has."""
    name = f"api-{secrets.token_hex(4)}"
    asyncio.run(api_cluster.kubectl("create", "namespace", name))
    opened = ApiServer(api_cluster.kubeconfig, name)
    yield opened
    opened.close()
    asyncio.run(api_cluster.kubectl("delete", "namespace", name, "--wait=false"))
