"""Who gets what first: QueueJobs by priority inside one quota, and QueueJobs and jobs in one ledger."""

from __future__ import annotations

from acts import granted, until_unit
from living import Live
from queuejobs import has, queue_job, until_allocated, until_status
from reshuffling import PRIORITY, evictions, running

QUICK = "jobs.queueJobNotice=1s"


async def until_waits(live: Live, name: str) -> None:
    """Wait until a QueueJob says that it has nothing, and why."""

    def said(status: dict[str, list[dict[str, str]]]) -> bool:
        found = [each for each in status.get("conditions", ()) if each["type"] == "QuotaReserved"]
        return bool(found) and found[0]["status"] == "False" and "cpu" in found[0]["message"]

    await until_status(live, name, "waits", said)


async def test_the_higher_priority_gets_first_to_begin_and_to_grow(live: Live) -> None:
    await live.quota("only", max={"cpu": "8"})
    await live.queue(quota="only")
    await live.start(QUICK)
    await running(live, "main", "before", cpu="4", pods=2)
    await queue_job(live, "low", priority=1, resourceno=6)
    await until_waits(live, "low")
    await queue_job(live, "high", priority=9, resourceno=5)
    await until_waits(live, "high")

    await live.kubectl("delete", "job", "before")

    await until_allocated(live, "high", 5)
    await until_allocated(live, "low", 3)
    rows = [line.split() for line in (await live.kubectl("get", "queuejobs")).splitlines()]
    assert [(row[0], *row[2:5]) for row in rows[1:]] == [("high", "9", "5", "5"), ("low", "1", "6", "3")]
    await live.patch("queuejob", "high", {"spec": {"resourceno": 8}})
    await until_unit(live, "high", "asks for more", lambda unit: unit["spec"]["podSets"][0]["count"] == 8)
    await queue_job(live, "middle", priority=5, resourceno=2)
    await until_waits(live, "middle")
    await live.patch("queuejob", "low", {"spec": {"resourceno": 1}})
    await until_allocated(live, "low", 1)
    await until_allocated(live, "high", 7)
    assert has((await live.get("queuejob", "middle")).get("status", {})) == 0
    await live.kubectl("delete", "queuejob", "high")
    await until_allocated(live, "middle", 2)


async def test_a_queue_that_says_so_lets_a_higher_priority_take_from_a_lower_one(live: Live) -> None:
    await live.quota("only", max={"cpu": "8"})
    await live.queue(quota="only", preemption={"withinQuota": "LowerPriority"})
    await live.start("jobs.queueJobNotice=5s")
    await queue_job(live, "low", priority=1, resourceno=8)
    await until_allocated(live, "low", 8)

    await queue_job(live, "high", priority=9, resourceno=3)

    told = await until_status(live, "low", "must shrink", lambda status: status.get("shrinkTo") == 5)
    assert has(told) == 8, "it has notice first"
    await until_allocated(live, "high", 3)
    await until_allocated(live, "low", 5)
    await queue_job(live, "lowest", priority=0, resourceno=1)
    await until_waits(live, "lowest")


async def test_queue_jobs_and_jobs_compete_in_one_ledger(live: Live) -> None:
    await live.quota("only", max={"cpu": "8"})
    await live.queue(quota="only")
    await live.start(QUICK, "reports.queueStatusInterval=200ms")
    await running(live, "main", "before", cpu="4", pods=2)
    await queue_job(live, "rest", priority=1, resourceno=8)
    await until_waits(live, "rest")
    await live.job("job", cpu="2", pods=2, labels={PRIORITY: "5"})
    await live.until("job", "Enqueued")
    await live.job("small", cpu="1", labels={PRIORITY: "0"})
    await live.until("small", "Enqueued")
    await queue_job(live, "first", priority=9, resourceno=3)
    await until_waits(live, "first")

    await live.kubectl("delete", "job", "before")

    await until_allocated(live, "first", 3)
    await live.until("job", "Running")
    await until_allocated(live, "rest", 1)
    small = await live.unit("small")
    assert small is not None
    assert (small["status"]["phase"], granted(small)) == ("Enqueued", 0)

    async def full() -> bool:
        status = (await live.get("queue", "main")).get("status", {})
        return status.get("allocated") == {"cpu": "8"} and status.get("counts", {}).get("running") == 3

    await live.wait("the queue shows what all have together", full)
    await live.kubectl("delete", "job", "job")
    await until_allocated(live, "rest", 5)
    await live.kubectl("delete", "queuejob", "rest")
    await live.until("small", "Running")


async def test_a_queue_job_and_a_job_of_two_tenants_share_by_the_same_rule(live: Live) -> None:
    for name in ("asks", "runs"):
        await live.quota(name)
        await live.queue(name, quota=name)
    await live.start(QUICK)
    await running(live, "runs", "one", "two", "three", "four")

    await queue_job(live, "wide", queue="asks", resourceno=8)

    await until_allocated(live, "wide", 4)
    assert await evictions(live, "one", "two", "three", "four") == ["three", "four"], "what was lent, the latest first"
    await live.kubectl("delete", "job", "one")
    await live.until("three", "Running")
    await until_allocated(live, "wide", 4)
