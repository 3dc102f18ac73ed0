"""The webhook as the API server of a cluster finds it: by its Service, and trusted by the Service's name.

Services have loopback addresses here. The manager listens at that of its own, where elsewhere kube-proxy would lead to
a pod of the Deployment.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
from installing import NAMESPACE, Installing
from living import QUICK

from usher.app.process import ManagerProcess
from usher.devcluster.kubectl import KubectlError
from usher.settings.loader import load_text
from usher.testing.waits import eventually
from usher.webhooks.terms import MANAGED

pytestmark = pytest.mark.controlplane

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "stray", "namespace": "tenant"},
    "spec": {"containers": [{"name": "main", "image": "none"}]},
}


@pytest.fixture
async def tenant(installing: Installing) -> AsyncIterator[str]:
    """A managed namespace without a Queue: a pod there is refused by the webhook alone."""
    await installing.kubectl("create", "namespace", "tenant")
    await installing.kubectl("label", "namespace", "tenant", f"{MANAGED}=true")
    yield "tenant"
    await installing.forget("tenant")


async def refusal(installing: Installing) -> str:
    """What the API server says to somebody who would make the pod."""
    try:
        await installing.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(POD))
    except KubectlError as error:
        return str(error)
    return ""


async def test_the_api_server_asks_the_manager_by_its_service(installing: Installing, tenant: str) -> None:
    await installing.installed()
    inside = installing.kubectl.within(NAMESPACE)

    async def unanswered() -> bool:
        return "failed calling webhook" in await refusal(installing)

    await eventually(unanswered, why="nobody listens yet, and nothing slips past")
    there = await installing.at_service()
    if not there:
        pytest.skip("only root may listen at the port of a Service here")

    text = (await inside.get("configmap", "usher-settings"))["data"]["settings.yaml"]
    settings = load_text(text, "installed", (*QUICK, *there))
    task = asyncio.ensure_future(ManagerProcess(await installing.account(), settings).run())
    try:

        async def answered() -> bool:
            assert not task.done(), task.exception()
            return f"namespace {tenant} is managed by Usher and has no usable Queue" in await refusal(installing)

        await eventually(answered, why="the manager answers at the address of the Service")
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            for each in (await installing.kubectl.get(kind, "usher"))["webhooks"]:
                assert each["clientConfig"]["service"]["name"] == "usher-webhook"
                assert "url" not in each["clientConfig"]
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert "failed calling webhook" in await refusal(installing)
