"""Jobs that draw on a QueueJob, on a real control plane: never more than it has, and charged once."""

from __future__ import annotations

from acts import granted, suspended, until_no_unit, until_unit
from living import Live
from queuejobs import drawing_job, queue_job, until_allocated

from usher.runtime.marks import ADMISSION_ANNOTATION


async def runs(live: Live, name: str) -> bool:
    found = await live.get("job", name)
    return bool(found.get("status", {}).get("ready") == found["spec"]["parallelism"])


async def until_runs(live: Live, *names: str) -> None:
    for name in names:
        await live.wait(f"{name} runs", lambda name=name: runs(live, name))  # type: ignore[misc]


async def until_held(live: Live, name: str) -> None:
    async def held() -> bool:
        return await suspended(live, name) and not await live.pods(name)

    await live.wait(f"{name} is held", held)


async def told(live: Live, reason: str) -> bool:
    return reason in await live.kubectl("get", "events")


async def test_jobs_draw_on_what_their_queue_job_has(live: Live) -> None:
    await live.queue()
    await live.start()
    await drawing_job(live, "early", on="mine", cpu="2")
    await live.wait("it says what it waits for", lambda: told(live, "NoQueueJob"))
    await queue_job(live, "mine", resourceno=4)
    await until_allocated(live, "mine", 4)
    await until_runs(live, "early")

    await drawing_job(live, "big", on="mine", cpu="1", pods=3)
    await drawing_job(live, "small", on="mine", cpu="1")

    await until_runs(live, "small")
    assert await suspended(live, "big")
    assert await live.unit("early") is None, "it has no unit, and is charged to nobody else"
    await live.job("other", cpu="2", pods=2)
    await live.until("other", "Running")
    await live.job("more", cpu="1")
    unit = await live.until("more", "Enqueued")
    assert "cpu" in unit["status"]["message"]

    await live.kubectl("delete", "job", "early")
    await until_runs(live, "big")


async def test_an_allocation_that_falls_holds_the_youngest_and_is_released_when_they_are_gone(live: Live) -> None:
    await live.quota("a")
    await live.quota("b")
    await live.queue("mine", quota="a")
    await live.queue("theirs", quota="b")
    await live.start("jobs.queueJobNotice=1s")
    await queue_job(live, "wide", queue="mine", resourceno=8)
    await until_allocated(live, "wide", 8)
    await drawing_job(live, "one", on="wide", cpu="3")
    await until_runs(live, "one")
    await drawing_job(live, "two", on="wide", cpu="3")
    await until_runs(live, "two")

    await live.job("owner", queue="theirs", cpu="2", pods=2)

    await until_allocated(live, "wide", 4)
    await until_held(live, "two")
    await live.until("owner", "Running")
    assert await runs(live, "one")
    await until_unit(live, "wide", "gave back", lambda unit: granted(unit) == 4)
    await live.kubectl("delete", "job", "owner")
    await until_allocated(live, "wide", 8)
    await until_runs(live, "two")


async def test_a_new_leader_goes_on_and_a_queue_job_that_goes_takes_its_jobs_along(live: Live) -> None:
    await live.queue()
    await live.start()
    await queue_job(live, "mine", resourceno=5)
    await until_allocated(live, "mine", 5)
    await drawing_job(live, "one", on="mine", pods=3)
    await until_runs(live, "one")
    await live.kill()
    await drawing_job(live, "two", on="mine", cpu="2", suspend=False)
    await live.start()
    uid = (await live.get("queuejob", "mine"))["metadata"]["uid"]

    async def let_start() -> bool:
        return (await live.get("job", "two"))["metadata"].get("annotations", {}).get(ADMISSION_ANNOTATION) == uid

    await live.wait("two was held, and let start in its turn", let_start)
    await until_runs(live, "one", "two")
    pods = {pod["metadata"]["name"] for pod in await live.pods("one")}
    await live.job("after", cpu="2", pods=2)
    await live.until("after", "Enqueued")

    await live.kubectl("delete", "queuejob", "mine")

    await until_held(live, "one")
    await until_held(live, "two")
    await until_no_unit(live, "mine")
    await live.until("after", "Running")
    await queue_job(live, "mine", resourceno=3)
    await until_runs(live, "one")
    assert pods.isdisjoint(pod["metadata"]["name"] for pod in await live.pods("one"))


async def test_an_owner_may_hold_his_drawing_job_himself(live: Live) -> None:
    await live.queue()
    await live.start()
    await queue_job(live, "mine", resourceno=2)
    await drawing_job(live, "one", on="mine", cpu="2")
    await until_runs(live, "one")
    await live.patch("job", "one", {"spec": {"suspend": True}})
    await until_held(live, "one")

    await drawing_job(live, "two", on="mine", cpu="2")

    await until_runs(live, "two")
    assert await suspended(live, "one")
    await live.patch("job", "one", {"spec": {"suspend": False}})
    await until_held(live, "two")
    await until_runs(live, "one")
