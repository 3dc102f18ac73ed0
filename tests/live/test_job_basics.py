"""The life of a batch Job under a manager, on a real control plane."""

from __future__ import annotations

from living import KINDS, Live, job


async def test_a_job_that_names_a_queue_runs_to_its_end(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("one", cpu="1", pods=2, runs="1s")

    unit = await live.until("one", "Succeed")

    job = await live.get("job", "one")
    assert job["status"]["succeeded"] == 2
    conditions = {each["type"]: each["status"] for each in unit["status"]["conditions"]}
    conditions.pop("PodsReady", None)  # a short job may end before anybody sees it run
    assert conditions == {"QuotaReserved": "False", "Admitted": "True", "Finished": "True"}


async def test_a_job_waits_until_there_is_room(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("first", cpu="3", pods=2)
    await live.until("first", "Running")
    await live.job("second", cpu="3", pods=1)

    unit = await live.until("second", "Enqueued")

    reserved = next(each for each in unit["status"]["conditions"] if each["type"] == "QuotaReserved")
    assert reserved["status"] == "False"
    assert reserved["reason"] == "Capacity"
    assert "asks for 3 cpu" in reserved["message"]
    assert (await live.get("job", "second"))["spec"]["suspend"] is True
    await live.kubectl("delete", "job", "first")
    await live.until("second", "Running")


async def test_what_was_lent_is_taken_back_through_the_jobs_own_suspend(live: Live) -> None:
    await live.quota("a", namespaces=[live.namespace])
    await live.quota("b")
    await live.queue()
    await live.queue("other", quota="b")
    await live.start()
    for i in range(4):
        await live.job(f"borrower-{i}", cpu="2", queue="other", labels={"scheduling.x-k8s.io/quota-name": "b"})
    for i in range(4):
        await live.until(f"borrower-{i}", "Running")

    await live.job("owner", cpu="2", pods=2, labels={"scheduling.x-k8s.io/quota-name": "a"})

    await live.until("owner", "Running")
    phases = [(await live.unit(f"borrower-{i}") or {})["status"]["phase"] for i in range(4)]
    assert sorted(phases) == ["Enqueued", "Enqueued", "Running", "Running"]
    for i in range(4):
        job = await live.get("job", f"borrower-{i}")
        assert job["spec"]["suspend"] is (phases[i] == "Enqueued")


async def test_a_unit_has_the_place_of_its_job_when_that_was_first_seen(live: Live) -> None:
    await live.queue()
    await live.start()

    made = await live.client.create(KINDS["job"], job("runs", live.namespace, suspend=False), live.namespace)

    unit = await live.until("runs", "Running")
    assert unit["spec"]["sequence"] == int(made["metadata"]["resourceVersion"]), "though it was held after that"
