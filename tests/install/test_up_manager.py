"""`usher up --manager`, which `make run` is: Usher as it is installed anywhere, doors included, beside a manager."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from living import job

from usher.devcluster import Kubectl
from usher.devcluster.kubectl import KubectlError
from usher.devcluster.parts import Parts
from usher.testing.waits import eventually

QUEUE = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "Queue",
    "metadata": {"name": "main", "namespace": "default"},
    "spec": {"stopPolicy": "Hold"},
}


@pytest.fixture
async def up(tmp_path: Path, control_plane_parts: Parts) -> AsyncIterator[Kubectl]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "usher.cli", "up", "--name", "here", "--nodes", "1", "--manager",
        env={**os.environ, "USHER_STATE": str(tmp_path)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(180):
        while not (await process.stdout.readline()).startswith(b"here is up"):
            assert process.returncode is None
    yield Kubectl(control_plane_parts.path("kubectl"), tmp_path / "clusters" / "here" / "kubeconfig")
    process.send_signal(signal.SIGTERM)
    await process.wait()


async def test_a_job_that_names_a_queue_is_held_and_cannot_be_started_by_hand(up: Kubectl) -> None:
    await up.apply(QUEUE, job("one", "default", suspend=False))

    assert (await up.within("default").get("job", "one"))["spec"]["suspend"] is True

    async def enqueued() -> bool:
        units = (await up.within("default").get("queueunits.scheduling.x-k8s.io"))["items"]
        return [each.get("status", {}).get("phase") for each in units] == ["Enqueued"]

    await eventually(enqueued, why="the manager queues it")
    with pytest.raises(KubectlError, match="cannot be started by hand"):
        await up.within("default")("patch", "job", "one", "-p", '{"spec":{"suspend":false}}')
