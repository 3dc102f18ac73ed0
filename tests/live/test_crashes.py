"""A manager stops exactly there, another takes over: nothing is lost, nothing starts twice, no quota is exceeded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from failpoints import Match, StopAt, evicts, phase, resumes, suspends
from living import Live

from usher.kube import kubeconfig
from usher.testing.auditor import Auditor

pytestmark = pytest.mark.crash

CPU = {"cpu": 8_000}
"""What the nodes offer."""


@pytest.fixture
async def auditor(live: Live) -> AsyncIterator[Auditor]:
    async with Auditor(kubeconfig.load(live.admin.kubeconfig), live.namespace, CPU) as found:
        yield found
        await found.settled()
        assert found.violations == []


PLAIN: dict[str, tuple[str, Match | None, bool]] = {
    "before the unit is created": ("create_unit", None, False),
    "after the unit was created, unconfirmed": ("create_unit", None, True),
    "before it is told that it may start": ("patch_unit_status", phase("Dequeued"), False),
    "Dequeued, but still suspended": ("patch_unit_status", phase("Dequeued"), True),
    "before the job is resumed": ("patch_job", resumes, False),
    "resumed, unconfirmed": ("patch_job", resumes, True),
    "before Running is written": ("patch_unit_status", phase("Running"), False),
    "after Running was written": ("patch_unit_status", phase("Running"), True),
    "ended, but not written": ("patch_unit_status", phase("Succeed"), False),
    "ended and written": ("patch_unit_status", phase("Succeed"), True),
}


@pytest.mark.parametrize("where", PLAIN)
async def test_a_job_ends_once_wherever_the_manager_stops(live: Live, auditor: Auditor, where: str) -> None:
    stop = StopAt(*PLAIN[where][:2], after=PLAIN[where][2])
    await live.queue()
    await live.start(wrap=stop)
    await live.job("one", cpu="2", pods=2, runs="2s")
    await stop.arrives()
    await live.kill()

    await live.start()

    await live.until("one", "Succeed")
    await auditor.settled()
    assert len(auditor.pods_seen["one"]) == 2, "its pods were made once"


TAKING_BACK: dict[str, tuple[str, Match | None, bool]] = {
    "before the nomination is stored": ("patch_unit_status", lambda _, body: "nomination" in body["status"], False),
    "after the nomination was stored": ("patch_unit_status", lambda _, body: "nomination" in body["status"], True),
    "before the victim is told": ("patch_unit_status", evicts, False),
    "Evicted, but not suspended": ("patch_unit_status", evicts, True),
    "before the victim is suspended": ("patch_job", suspends, False),
    "suspended, its pods terminating": ("patch_job", suspends, True),
    "its pods gone, but not Enqueued": ("patch_unit_status", phase("Enqueued"), False),
    "the victim gone, the claimant not started": ("patch_unit_status", phase("Enqueued"), True),
}


@pytest.mark.parametrize("where", TAKING_BACK)
async def test_what_was_lent_comes_back_wherever_the_manager_stops(live: Live, auditor: Auditor, where: str) -> None:
    await live.quota("a")
    await live.quota("b")
    await live.queue("a", quota="a")
    await live.queue("b", quota="b")
    await live.start()
    await live.job("lent-1", queue="b", cpu="2", pods=2)
    await live.until("lent-1", "Running")
    await live.job("lent-2", queue="b", cpu="2", pods=2)
    await live.until("lent-2", "Running")
    await live.stop()
    stop = StopAt(*TAKING_BACK[where][:2], after=TAKING_BACK[where][2])
    await live.start(wrap=stop)
    await live.job("owner", queue="a", cpu="2", pods=2)
    await stop.arrives()
    await live.kill()

    await live.start()

    await live.until("owner", "Running")
    assert (await live.until("lent-2", "Enqueued"))["status"]["evictions"] == 1, "the later one gives back"
    kept = await live.unit("lent-1")
    assert kept is not None
    assert kept["status"]["phase"] == "Running"
    assert kept["status"].get("evictions", 0) == 0


async def test_a_reserved_unit_is_reserved_for_the_next_manager_too(live: Live, auditor: Auditor) -> None:
    await live.queue(admissionChecks=[{"name": "sample"}])
    stop = StopAt("patch_unit_status", phase("Reserved"), after=True)
    await live.start(wrap=stop)
    await live.job("one", cpu="2", pods=2, runs="2s")
    await stop.arrives()
    await live.kill()

    await live.start()

    unit = await live.until("one", "Reserved")
    state = {"name": "sample", "state": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await live.kubectl(
        "patch", "queueunit", unit["metadata"]["name"], "--subresource=status", "--type=merge",
        "-p", f'{{"status":{{"admissionChecks":[{str(state).replace(chr(39), chr(34))}]}}}}',
    )  # fmt: skip
    await live.until("one", "Succeed")


async def test_pods_of_a_deleted_job_count_until_they_are_gone(live: Live, auditor: Auditor) -> None:
    await live.queue()
    await live.start()
    await live.job("old", cpu="4", pods=2, template_annotations={"sim.usher.dev/stops-in": "8s"})
    await live.until("old", "Running")
    await live.kubectl("delete", "job", "old", "--wait=false")
    await live.job("new", cpu="4", pods=2)

    async def unit_gone() -> bool:
        return await live.unit("old") is None

    await live.wait("the unit of old is gone", unit_gone)
    await live.kill()

    await live.start()

    await live.until("new", "Running")


async def test_a_unit_that_somebody_deleted_comes_back_as_it_was(live: Live, auditor: Auditor) -> None:
    await live.queue()
    await live.start()
    await live.job("one", cpu="4", pods=2)
    first = await live.until("one", "Running")
    await live.job("two", cpu="4", pods=1)
    await live.until("two", "Enqueued")

    await live.kubectl("delete", "queueunit", first["metadata"]["name"])

    async def is_back() -> bool:
        unit = await live.unit("one")
        return (
            unit is not None
            and unit["metadata"]["uid"] != first["metadata"]["uid"]
            and unit.get("status", {}).get("phase") == "Running"
        )

    await live.wait("the unit of one is back", is_back)
    assert (await live.get("job", "one"))["spec"]["suspend"] is False
    assert (await live.unit("two") or {})["status"]["phase"] == "Enqueued"


async def test_a_unit_that_was_deleted_while_nobody_led_comes_back_as_it_was(live: Live, auditor: Auditor) -> None:
    await live.queue()
    await live.start()
    await live.job("one", cpu="4", pods=2)
    unit = await live.until("one", "Running")
    await live.kill()
    await live.kubectl("delete", "queueunit", unit["metadata"]["name"])

    await live.start()

    await live.until("one", "Running")
    assert (await live.get("job", "one"))["spec"]["suspend"] is False
    await auditor.settled()
    assert len(auditor.pods_seen["one"]) == 2
