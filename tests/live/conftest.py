"""A control plane of its own for the tests in which a manager runs: a manager sees every namespace.

One per worker of pytest-xdist, kept on the leash of the run.
"""

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from living import Live, clean, prepare

from usher.devcluster import Nodes
from usher.devcluster.clusters import Cluster, stop_cluster
from usher.devcluster.holding import Plan, in_background
from usher.devcluster.parts import Parts
from usher.testing.plugin import run_directory

NODES = Nodes(count=2, cpu="4", memory="16Gi", gpus=0)
"""Eight cores in all."""


@pytest.fixture(scope="session")
def live_cluster(request: pytest.FixtureRequest, control_plane_parts: Parts) -> Iterator[Cluster]:
    home: Path = run_directory(request.config)
    place = home / f"live-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    cluster = in_background(Plan(place, NODES, leash=home / "leash"))
    asyncio.run(prepare(cluster.kubectl))
    yield cluster
    stop_cluster(place)


@pytest.fixture
async def live(request: pytest.FixtureRequest, live_cluster: Cluster) -> AsyncIterator[Live]:
    admin = live_cluster.kubectl
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    name = f"{words}-{secrets.token_hex(3)}"
    await admin("create", "namespace", name)
    found = Live(admin.within(name), admin)
    yield found
    await found.close()
    await clean(admin)
    await admin("delete", "namespace", name, "--wait=false")
