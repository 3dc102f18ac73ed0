"""`usher uninstall` where jobs wait and run: what becomes of them is said, chosen and done, and nothing is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from installing import NAMESPACE, Installing
from living import Live, job

from usher.api.names import PAUSED, QUEUE_JOB

pytestmark = pytest.mark.controlplane

INSIDE = ("--no-wait", "--set", "replicas=0")
"""The manager of a test is a process outside."""
DOORS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@pytest.fixture
async def live(installing: Installing) -> AsyncIterator[Live]:
    """Usher, one job that runs, one that waits, and one that its owner has suspended."""
    await installing.installed(*INSIDE)
    await installing.kubectl("create", "namespace", "tenant")
    found = Live(installing.kubectl.within("tenant"), installing.kubectl)
    try:
        await found.queue()
        await installing.manages(found, *await installing.at_service())
        await found.job("runs", cpu="3", pods=2, suspend=False)
        await found.until("runs", "Running")
        await found.job("waits", cpu="3", suspend=False)
        await found.until("waits", "Enqueued")
        await found.job("paused", cpu="1", suspend=False)
        await found.until("paused", "Running")
        await found.patch("job", "paused", {"spec": {"suspend": True}})
        await found.until("paused", "Enqueued")
        yield found
    finally:
        await found.close()
        await installing.forget("tenant")


async def suspended(live: Live) -> dict[str, bool]:
    return {name: (await live.get("job", name))["spec"]["suspend"] for name in ("runs", "waits", "paused")}


async def test_it_says_what_will_happen_and_wants_a_choice(installing: Installing, live: Live) -> None:
    done = await installing.usher("uninstall", "--yes")

    assert done.code == 1
    assert (
        "waiting jobs: 1. They stay suspended (--leave-jobs) or are released, all of them (--release-jobs)." in done.out
    )
    assert "jobs that somebody suspended or made inactive: 1. They stay as they are." in done.out
    assert "running jobs: 1. They go on." in done.out
    assert "1 Queue, 3 QueueUnits. They stay." in done.out
    assert "Say what becomes of the waiting jobs: --release-jobs or --leave-jobs." in done.err
    assert "usher" in await installing.names("deployments")


async def test_a_manager_outside_must_stop_first(installing: Installing, live: Live) -> None:
    done = await installing.usher("uninstall", "--yes", "--release-jobs")

    assert done.code == 1
    assert f"A manager that is no pod in {NAMESPACE} leads" in done.err
    assert await suspended(live) == {"runs": False, "waits": True, "paused": True}
    for kind in DOORS:
        assert "usher" in await installing.names(kind)
    for kind in await installing.mutating_policies():
        assert "usher-hold.jobs.batch" in await installing.names(kind)


async def test_jobs_are_released_after_the_doors_are_gone(installing: Installing, live: Live) -> None:
    await live.stop()

    done = await installing.usher("uninstall", "--yes", "--release-jobs")

    assert done.code == 0, done.err
    assert "tenant/waits released" in done.out
    assert await suspended(live) == {"runs": False, "waits": False, "paused": True}
    assert await live.unit("waits") is None, "a later Usher finds a job that just runs"
    assert await live.unit("runs") is not None
    for kind in (*DOORS, *await installing.mutating_policies()):
        assert await installing.names(kind) == set()
    assert await installing.names("validatingadmissionpolicies") == {"usher-lease-anchor"}
    assert "usher-webhook-tls" not in await installing.names("secrets")


async def test_jobs_that_are_left_wait_for_the_next_usher(installing: Installing, live: Live) -> None:
    before = {name: (await live.unit(name) or {})["metadata"]["uid"] for name in ("runs", "waits", "paused")}
    await live.stop()

    done = await installing.usher("uninstall", "--yes", "--leave-jobs")

    assert done.code == 0, done.err
    assert await suspended(live) == {"runs": False, "waits": True, "paused": True}
    await installing.installed(*INSIDE)
    await installing.manages(live, *await installing.at_service())
    await live.kubectl("delete", "job", "runs")
    await live.until("waits", "Running")
    assert (await live.unit("waits") or {})["metadata"]["uid"] == before["waits"]
    assert await suspended_of(live, "paused"), "whom its owner has suspended stays so"


async def suspended_of(live: Live, name: str) -> bool:
    return bool((await live.get("job", name))["spec"]["suspend"])


@pytest.mark.since136  # before that, no job is taken while nobody answers
async def test_jobs_that_no_manager_has_seen_are_not_forgotten(installing: Installing) -> None:
    await installing.installed(*INSIDE, "--set", 'config.labels.queue=["example.com/queue"]')
    named = job("named", "default", queue="", labels={"example.com/queue": "main"}, suspend=False)
    plain = job("plain", "default", queue="", suspend=True)
    await installing.kubectl.apply(plain)
    await installing.holds("default", queue="", labels={"example.com/queue": "main"})
    await installing.kubectl.apply(named)

    done = await installing.usher("uninstall", "--yes", "--release-jobs")

    assert "waiting jobs: 1. They are released and start at once, all of them." in done.out
    assert "default/named released" in done.out
    inside = installing.kubectl.within("default")
    assert not (await inside.get("job", "named"))["spec"]["suspend"]
    assert (await inside.get("job", "plain"))["spec"]["suspend"], "none of Usher's"


@pytest.mark.since136
async def test_jobs_that_draw_on_a_queue_job_are_not_forgotten(installing: Installing) -> None:
    """They have no unit of their own, and the doors hold them as well."""
    await installing.installed(*INSIDE)
    drawing = job("drawing", "default", queue="", labels={QUEUE_JOB: "mine"}, suspend=False)
    paused = job("paused", "default", queue="", labels={QUEUE_JOB: "mine"}, annotations={PAUSED: "true"}, suspend=True)
    await installing.kubectl.apply(paused)
    await installing.holds("default", queue="", labels={QUEUE_JOB: "mine"})
    await installing.kubectl.apply(drawing)
    inside = installing.kubectl.within("default")
    asked = await installing.usher("uninstall", "--yes")
    assert "Say what becomes of the waiting jobs" in asked.err

    done = await installing.usher("uninstall", "--yes", "--release-jobs")

    assert done.code == 0, done.err
    assert "waiting jobs: 1. They are released and start at once, all of them." in done.out
    assert "jobs that somebody suspended or made inactive: 1. They stay as they are." in done.out
    assert "default/drawing released" in done.out
    assert not (await inside.get("job", "drawing"))["spec"]["suspend"]
    assert (await inside.get("job", "paused"))["spec"]["suspend"]


async def test_what_the_manager_made_goes_by_whatever_name_the_settings_give_it(installing: Installing) -> None:
    names = ("--set", "config.election.leaseName=the-lease", "--set", "config.admission.secret=the-keys")
    await installing.installed(*INSIDE, *names)
    inside = installing.kubectl.within(NAMESPACE)
    await inside("create", "secret", "generic", "the-keys", "--from-literal=ca.key=x")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "the-lease"}}
    await inside.apply({**lease, "spec": {"holderIdentity": ""}})

    done = await installing.usher("uninstall", "--yes")

    assert done.code == 0, done.err
    assert "the-keys" not in await installing.names("secrets")
    assert "the-lease" not in await installing.names("leases")
