"""Jobs that were there before their namespace was managed: nothing is taken from them, nothing gets past the queue."""

from __future__ import annotations

import pytest
from acts import until_stopped
from commands import normal, usher
from doorway import JOBS, NAMESPACES, doorway, job_of
from living import Live

from usher.api.names import MANAGED, QUEUE_NAME
from usher.kube.errors import KubeError

BEFORE = "is not queued: it was there before its namespace was managed"


@pytest.mark.parametrize("way_of", ["policies", "webhook"])
async def test_jobs_of_before_go_on_and_are_queued_when_they_are_started(live: Live, way_of: str) -> None:
    async with doorway(live, policies=way_of == "policies") as way:
        await live.queue()
        await way.install()
        await way.manager()
        await way.effective()
        tenant = way.as_("tenant")
        await tenant.create(JOBS, job_of("ran", queue=""), way.team)
        await tenant.create(JOBS, job_of("rested", queue="", suspend=True), way.team)
        await live.kubectl("wait", "--for=jsonpath={.status.ready}=1", "job/ran", "--timeout=60s")
        label = {"metadata": {"labels": {MANAGED: "true"}}}
        await live.client.patch(NAMESPACES, way.team, None, label)

        async def managed() -> bool:
            try:
                made = await tenant.create(JOBS, job_of("new", queue=""), way.team, dry_run=True)
            except KubeError:  # the webhook is not answered in an instant
                return False
            return bool(made["spec"]["suspend"])

        await live.wait("the namespace is managed", managed)
        said = {name: normal(live, (await usher(live, "explain", name)).err) for name in ("ran", "rested")}
        assert said == {
            "ran": f"Error: Job ran {BEFORE}, and it goes on. To have it stopped until its turn comes, name a queue: "
            f"kubectl label job ran {QUEUE_NAME}=QUEUE",
            "rested": f"Error: Job rested {BEFORE}, and somebody else holds it. It is queued as soon as it is "
            'unsuspended: kubectl patch job rested -p \'{"spec":{"suspend":false}}\'',
        }

        await live.queue(stopPolicy="Hold")
        await until_stopped(live)
        await tenant.patch(JOBS, "rested", way.team, {"spec": {"suspend": False}})
        await live.until("rested", "Enqueued")
        rested = await live.get("job", "rested")
        assert rested["spec"]["suspend"] is True
        assert rested["metadata"]["labels"][MANAGED] == "true"
        await live.queue(stopPolicy="None")
        await live.until("rested", "Running")

        ran = await live.get("job", "ran")
        assert ran["spec"]["suspend"] is False
        assert ran["status"]["ready"] == 1
        assert MANAGED not in ran["metadata"]["labels"]
        assert await live.unit("ran") is None
