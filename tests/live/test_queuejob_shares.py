"""The example of seed 002 on a real control plane: q01 and q02 with QueueJobs, q03 without."""

from __future__ import annotations

from living import Live
from queuejobs import queue_job, until_allocated


async def until_queue(live: Live, name: str, **allocated: str) -> None:
    async def shows() -> bool:
        found = (await live.get("queue", name)).get("status", {}).get("allocated", {})
        return bool(found == allocated)

    await live.wait(f"{name} has {allocated}", shows)


async def test_queues_with_queue_jobs_and_one_without_share_the_cluster(live: Live) -> None:
    for name in ("q01", "q02", "q03"):
        await live.quota(name)
    await live.queue("q01", quota="q01")
    await live.queue("q02", quota="q02")
    await live.queue("q03", quota="q03", request={"cpu": "2"})
    await live.start("jobs.queueJobNotice=1s")

    await queue_job(live, "low", queue="q01", priority=1, resourceno=4)
    await until_allocated(live, "low", 4)
    await until_queue(live, "q03", cpu="2")
    status = (await live.get("queue", "q03"))["status"]
    assert not status.get("counts"), "it has no units"
    assert "queueItemDetails" not in status

    await queue_job(live, "high", queue="q01", priority=9, resourceno=2)
    await queue_job(live, "other", queue="q02", resourceno=4)

    await until_allocated(live, "other", 3)
    await until_queue(live, "q01", cpu="3")
    await until_queue(live, "q02", cpu="3")
    await until_queue(live, "q03", cpu="2")

    await live.job("real", queue="q03", cpu="1")
    await live.until("real", "Running")
    await until_queue(live, "q03", cpu="1")
    await live.kubectl("delete", "job", "real")
    await until_queue(live, "q03", cpu="2")


async def test_inside_each_queue_the_higher_priority_has_its_units_first(live: Live) -> None:
    for name in ("q01", "q02", "q03"):
        await live.quota(name)
    await live.queue("q01", quota="q01", stopPolicy="Hold")
    await live.queue("q02", quota="q02")
    await live.queue("q03", quota="q03", request={"cpu": "2"})
    await queue_job(live, "low", queue="q01", priority=1, resourceno=4)
    await queue_job(live, "high", queue="q01", priority=9, resourceno=2)
    await queue_job(live, "other", queue="q02", resourceno=4)

    await live.start("jobs.queueJobNotice=1s")
    for name in ("low", "high"):
        await live.until(name, "Enqueued")
    await live.queue("q01", quota="q01", stopPolicy="None")  # both are seen at once: nobody is there first

    high = await until_allocated(live, "high", 2)
    low = await until_allocated(live, "low", 1)
    other = await until_allocated(live, "other", 3)
    assert [each["allocated"] for each in (high, low, other)] == [{"cpu": "2"}, {"cpu": "1"}, {"cpu": "3"}]
    await until_queue(live, "q03", cpu="2")
    for name in ("q01", "q02"):
        await until_queue(live, name, cpu="3")

        async def asks(name: str = name) -> bool:
            demand = (await live.get("quota", name))["status"].get("demand")
            return bool(demand == {"cpu": "6" if name == "q01" else "4"})

        await live.wait(f"{name} asks for the sum of its QueueJobs", asks)
    await live.kubectl("delete", "queuejob", "high")
    await until_allocated(live, "low", 3)


async def test_a_queue_that_comes_back_for_its_request_takes_it_back(live: Live) -> None:
    await live.quota("q01")
    await live.quota("q03")
    await live.queue("q01", quota="q01")
    await live.start("jobs.queueJobNotice=1s")
    await queue_job(live, "wide", queue="q01", resourceno=8)
    await until_allocated(live, "wide", 8)

    await live.queue("q03", quota="q03", request={"cpu": "8"})

    await until_queue(live, "q03", cpu="4")
    await until_allocated(live, "wide", 4)
    await live.queue("q03", quota="q03")
    await until_allocated(live, "wide", 8)


async def test_queue_jobs_that_come_at_once_and_each_want_everything_share_it(live: Live) -> None:
    for name in ("q01", "q02"):
        await live.quota(name)
        await live.queue(name, quota=name)
        await queue_job(live, f"all-{name}", queue=name, resourceno=8)

    await live.start("jobs.queueJobNotice=1s")

    await until_allocated(live, "all-q01", 4)
    await until_allocated(live, "all-q02", 4)
    await live.kubectl("delete", "queuejob", "all-q01")
    await until_allocated(live, "all-q02", 8)


async def test_queues_that_only_ask_divide_the_cluster_exactly(live: Live) -> None:
    names = ("q01", "q02", "q03")
    for name in names:
        await live.quota(name)
        await live.queue(name, quota=name, request={"cpu": "8"})

    await live.start()

    seen: list[str] = []

    async def divided() -> bool:
        found = [(await live.get("queue", name)).get("status", {}).get("allocated", {}).get("cpu") for name in names]
        seen[:] = sorted(str(each) for each in found)
        return seen == ["2666m", "2667m", "2667m"]

    try:
        await live.wait("each has a third, to a thousandth of a core", divided)
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}") from None
    await queue_job(live, "real", queue="q01", resourceno=2)
    await until_allocated(live, "real", 2)
    await until_queue(live, "q02", cpu="3")
    await until_queue(live, "q03", cpu="3")
