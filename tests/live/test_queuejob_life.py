"""QueueJobs on a real control plane: allocated, grown, taken back after a notice, and gone."""

from __future__ import annotations

import pytest
from acts import granted, until_no_unit, until_unit
from living import Live
from queuejobs import has, queue_job, until_allocated, until_status

from usher.kube.errors import Forbidden

QUICK = "jobs.queueJobNotice=1s"
LONG = "jobs.queueJobNotice=1h"


async def told(live: Live, reason: str) -> bool:
    return reason in await live.kubectl("get", "events")


async def test_a_queue_job_gets_what_there_is_and_grows_with_it(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("first", cpu="2", pods=2)
    await live.until("first", "Running")

    await queue_job(live, "wide", resourceno=6, resourceunit={"cpu": "1500m", "memory": "1Gi"})

    status = await until_allocated(live, "wide", 2)
    assert status["allocated"] == {"cpu": "3", "memory": "2Gi"}
    assert status["epoch"] >= 1
    unit = await live.until("wide", "Running")
    assert granted(unit) == 2
    assert unit["spec"]["podSets"][0]["count"] == 6
    await live.wait("kubectl shows it", lambda: told(live, "Allocated"))

    await live.kubectl("delete", "job", "first")
    status = await until_allocated(live, "wide", 5)
    assert status["allocated"] == {"cpu": "7500m", "memory": "5Gi"}

    await live.job("after", cpu="2")
    await live.until("after", "Enqueued")
    await live.kubectl("delete", "queuejob", "wide")
    await until_no_unit(live, "wide")
    await live.until("after", "Running")


async def test_what_is_taken_back_is_announced_and_released_after_its_notice(live: Live) -> None:
    await live.quota("a")
    await live.quota("b")
    await live.queue("mine", quota="a")
    await live.queue("theirs", quota="b")
    await live.start(LONG)
    await queue_job(live, "wide", queue="mine", resourceno=8)
    await until_allocated(live, "wide", 8)

    await live.job("owner", queue="theirs", cpu="2", pods=2)

    status = await until_status(live, "wide", "must shrink", lambda found: found.get("shrinkTo") == 4)
    assert has(status) == 8, "not before its time"
    assert status["shrinkAt"]
    assert next(each for each in status["conditions"] if each["type"] == "Shrinking")["status"] == "True"
    await live.wait("kubectl shows it", lambda: told(live, "Shrinking"))
    await live.until("owner", "Enqueued")

    await live.stop()
    await live.start(LONG)
    again = (await live.get("queuejob", "wide"))["status"]
    assert (has(again), again["shrinkAt"]) == (8, status["shrinkAt"]), "a new leader keeps the time"

    await live.patch("queuejob", "wide", {"spec": {"resourceno": 3}})

    await until_allocated(live, "wide", 3)
    await live.until("owner", "Running")
    await until_unit(live, "wide", "gave back", lambda unit: granted(unit) == 3)


async def test_the_notice_ends(live: Live) -> None:
    await live.quota("a")
    await live.quota("b")
    await live.queue("mine", quota="a")
    await live.queue("theirs", quota="b")
    await live.start(QUICK)
    await queue_job(live, "wide", queue="mine", resourceno=8)
    await until_allocated(live, "wide", 8)
    await live.job("owner", queue="theirs", cpu="2", pods=2)

    await until_allocated(live, "wide", 4)
    await live.until("owner", "Running")
    unit = await until_unit(live, "wide", "gave back", lambda unit: granted(unit) == 4)
    assert unit["status"]["phase"] == "Running"
    await live.kubectl("delete", "job", "owner")
    await until_allocated(live, "wide", 8)


async def test_a_queue_job_that_asks_for_nothing_waits_aside_and_one_that_changes_is_allocated_anew(live: Live) -> None:
    await live.queue()
    await live.start(LONG)
    await queue_job(live, "asks", resourceno=3)
    await until_allocated(live, "asks", 3)

    await live.patch("queuejob", "asks", {"spec": {"resourceno": 0}})
    await until_allocated(live, "asks", 0)
    await live.until("asks", "Enqueued")
    await live.patch("queuejob", "asks", {"spec": {"resourceno": 2}})
    await until_allocated(live, "asks", 2)

    await live.patch("queuejob", "asks", {"spec": {"resourceunit": {"cpu": "2"}}})
    status = await until_status(live, "asks", "in new units", lambda found: found.get("allocated") == {"cpu": "4"})
    assert has(status) == 2


async def test_a_leader_of_the_past_allocates_nothing(live: Live) -> None:
    await live.queue()
    await live.start()
    await queue_job(live, "asks", resourceno=2)
    status = await until_allocated(live, "asks", 2)

    with pytest.raises(Forbidden, match="epoch"):
        await live.patch("queuejob", "asks", {"status": {"allocatedno": 8, "epoch": status["epoch"] - 1}}, "status")

    assert has((await live.get("queuejob", "asks"))["status"]) == 2
