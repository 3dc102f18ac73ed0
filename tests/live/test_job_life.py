"""A job's life in its queue: held, released, followed, stopped and started again, on a real control plane."""

from __future__ import annotations

from acts import (
    GROUP,
    activate,
    condition,
    loose_pods,
    suspend,
    suspended,
    until_no_unit,
    until_unit,
    with_pod,
)
from living import Live, job


async def test_a_unit_says_what_its_job_says(live: Live) -> None:
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    await live.admin.apply({**priority, "value": 1000})
    await live.queue(stopPolicy="Hold")
    await live.start()
    await live.admin.apply(
        job("plain", live.namespace, cpu="500m", pods=3),
        with_pod(job("classy", live.namespace), priorityClassName="urgent"),
        with_pod(job("labelled", live.namespace, labels={f"{GROUP}/priority": "7"}), priorityClassName="urgent"),
        job("loose", live.namespace, suspend=False),
        job("unqueued", live.namespace, queue="", runs="1s", suspend=False),
    )

    plain = await live.until("plain", "Enqueued")
    classy = await live.until("classy", "Enqueued")
    labelled = await live.until("labelled", "Enqueued")
    loose = await live.until("loose", "Enqueued")

    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "plain", "controller": True, "blockOwnerDeletion": True}
    uid = (await live.get("job", "plain"))["metadata"]["uid"]
    assert plain["metadata"]["ownerReferences"] == [{**owner, "uid": uid}]
    assert plain["spec"]["queue"] == "main"
    (pods,) = plain["spec"]["podSets"]
    assert (pods["name"], pods["count"]) == ("main", 3)
    assert pods["template"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}}
    assert plain["spec"]["priority"] == 0
    assert (classy["spec"]["priority"], classy["spec"]["priorityClassName"]) == (1000, "urgent")
    assert labelled["spec"]["priority"] == 7
    assert condition(plain, "QuotaReserved")["reason"] == "QueueStopped"
    assert await suspended(live, "plain")
    assert await suspended(live, "loose"), "one that was created without suspend is suspended at once"
    assert loose["spec"]["podSets"][0]["count"] == 1
    assert await loose_pods(live, "loose") == []
    await live.kubectl("wait", "--for=condition=Complete", "job/unqueued", "--timeout=60s")
    assert await live.unit("unqueued") is None, "a job that names no queue is left alone"


async def test_pods_that_do_not_start_in_time_make_a_job_back_off_and_try_again(live: Live) -> None:
    await live.queue()
    await live.start("engine.startTimeout=1s", "engine.backoffBase=8s")
    await live.admin.apply(with_pod(job("stray", live.namespace), nodeSelector={"no": "where"}))

    backing_off = await live.until("stray", "TimeoutBackoff")

    assert condition(backing_off, "QuotaReserved")["status"] == "False"
    assert condition(backing_off, "Evicted")["reason"] == "StartTimeout"
    assert backing_off["status"]["requeueState"]["count"] == 1
    assert await suspended(live, "stray")
    again = await until_unit(live, "stray", "tried again", lambda unit: unit["status"]["attempts"] >= 2)
    assert again["status"]["requeueState"]["count"] >= 1


async def test_a_job_that_ends_while_it_waits_is_followed(live: Live) -> None:
    await live.queue(stopPolicy="Hold")
    await live.start()
    await live.job("fine")
    await live.until("fine", "Enqueued")

    now = "2026-01-01T00:00:00Z"
    said = {"status": "True", "lastProbeTime": now, "lastTransitionTime": now}
    ended = [{"type": "SuccessCriteriaMet", **said}, {"type": "Complete", **said}]
    times = {"startTime": now, "completionTime": now, "succeeded": 1}
    await live.patch("job", "fine", {"status": {"conditions": ended, **times}}, "status")  # as its controller would

    await live.until("fine", "Succeed")
    await live.job("at-once", pods=1, parallelism=0, completions=0)  # over, perhaps before anybody has seen it
    await live.kubectl("wait", "--for=condition=Complete", "job/at-once", "--timeout=60s")


async def test_a_failed_job_is_followed_and_kubectl_can_wait_for_it(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("bad", runs="1s", template_annotations={"sim.usher.dev/fails": "true"}, backoffLimit=0)

    unit = await live.until("bad", "Failed")

    name = unit["metadata"]["name"]
    await live.kubectl("wait", "--for=condition=Finished", f"qu/{name}", "--timeout=30s")
    assert condition(unit, "Finished")["reason"] == "JobFailed"
    table = (await live.kubectl("get", "qu", "-o", "wide")).splitlines()
    assert table[0].split()[:2] == ["NAME", "QUEUE"]
    assert name in table[1]
    assert "Failed" in table[1]
    described = await live.kubectl("describe", "qu", name)
    assert "JobFailed" in described


async def test_a_unit_that_is_made_inactive_gives_back_and_comes_back(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("one", cpu="3", pods=2)
    await live.until("one", "Running")

    await activate(live, "one", False)

    waiting = await live.until("one", "Enqueued")
    assert condition(waiting, "Evicted")["reason"] == "Deactivated"
    assert waiting["status"].get("admissions", []) == []
    assert await suspended(live, "one")
    assert await loose_pods(live, "one") == []
    await live.job("two", cpu="3", pods=2, runs="1s")
    await live.until("two", "Succeed")
    assert await suspended(live, "one")
    await activate(live, "one", True)
    again = await live.until("one", "Running")
    assert condition(again, "Evicted")["status"] == "False"


async def test_a_job_that_ran_for_its_time_is_set_aside_until_its_owner_says_so(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("long", labels={f"{GROUP}/max-exec-time-seconds": "8"})
    await live.until("long", "Running")

    aside = await live.until("long", "Enqueued")

    assert condition(aside, "Evicted")["reason"] == "MaximumExecutionTimeExceeded"
    assert "maximum execution time" in aside["status"]["inactive"]
    assert await suspended(live, "long")
    await activate(live, "long", False)
    await until_unit(live, "long", "is no longer set aside", lambda unit: not unit["status"].get("inactive"))
    await activate(live, "long", True)
    await live.until("long", "Running")


async def test_an_owner_pauses_a_job_by_its_suspend_and_lets_it_go_on(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("mine", cpu="3", pods=2)
    await live.job("next", cpu="3", pods=2)
    await live.until("mine", "Running")
    await live.until("next", "Enqueued")

    await suspend(live, "mine", True)

    paused = await live.until("mine", "Enqueued")
    assert condition(paused, "Evicted")["reason"] == "Paused"
    assert "suspended the job" in condition(paused, "QuotaReserved")["message"]
    await live.until("next", "Running")
    await suspend(live, "mine", False)
    waiting = await until_unit(live, "mine", "queues again", lambda unit: not unit["status"].get("inactive"))
    assert waiting["status"]["phase"] == "Enqueued"
    await live.wait("it is held again", lambda: suspended(live, "mine"))
    await live.kubectl("delete", "job", "next")
    await live.until("mine", "Running")


async def test_a_job_may_be_deleted_at_any_moment(live: Live) -> None:
    await live.queue()
    await live.start()
    stops = {"sim.usher.dev/stops-in": "3s"}
    await live.job("running", cpu="3", pods=2, template_annotations=stops)
    await live.job("waiting", cpu="3", pods=2)
    await live.job("next", cpu="3", pods=2, template_annotations=stops)
    await live.until("running", "Running")
    await live.until("waiting", "Enqueued")

    await live.kubectl("delete", "job", "waiting")
    await until_no_unit(live, "waiting")
    await live.kubectl("delete", "job", "running", "--wait=false")
    await until_no_unit(live, "running")
    next_unit = await live.unit("next")
    if await live.pods("running"):
        assert next_unit is not None
        assert next_unit["status"]["phase"] == "Enqueued", "pods that are still there are charged"
    await live.until("next", "Running")

    await activate(live, "next", False)
    await until_unit(live, "next", "is evicted", lambda unit: condition(unit, "Evicted").get("status") == "True")
    await live.kubectl("delete", "job", "next", "--wait=false")  # while its pods stop
    await live.job("last", cpu="3", pods=2, runs="1s")
    await live.until("last", "Succeed")
    await until_no_unit(live, "next")


async def test_a_job_that_is_deleted_before_it_runs_gives_back(live: Live) -> None:
    await live.queue(admissionChecks=[{"name": "never", "labelSelector": {"matchLabels": {"ask": "yes"}}}])
    await live.start()
    await live.admin.apply(with_pod(job("stray", live.namespace, cpu="3", pods=2), nodeSelector={"no": "where"}))
    await live.until("stray", "Dequeued")
    await live.job("next", cpu="3", pods=2, labels={"ask": "yes"})
    await live.until("next", "Enqueued")

    await live.kubectl("delete", "job", "stray", "--wait=false")
    await until_no_unit(live, "stray")
    await live.until("next", "Reserved")
    await live.job("last", cpu="3", pods=2)
    await live.until("last", "Enqueued")
    await live.kubectl("delete", "job", "next", "--wait=false")

    await until_no_unit(live, "next")
    await live.until("last", "Running")


async def test_what_was_lent_comes_back_from_a_job_that_is_deleted_and_stays(live: Live) -> None:
    """A finalizer of its owner's keeps it, and so the garbage collector and the Job controller leave its pods alone."""
    await live.quota("lender", min={"cpu": "6"})
    await live.quota("borrower")
    await live.queue("mine", quota="lender")
    await live.queue("theirs", quota="borrower")
    await live.start()
    for name in ("runs", "waits"):
        kept = job(name, live.namespace, queue="theirs", cpu="3", pods=2)
        kept["metadata"]["finalizers"] = ["example.com/test"]
        await live.admin.apply(kept)
        await live.until(name, "Running" if name == "runs" else "Enqueued")
        await live.kubectl("delete", "job", name, "--wait=false")

    try:
        await until_no_unit(live, "waits")
        await live.job("owner", queue="mine", cpu="3", pods=2)

        await live.until("owner", "Running")
        await until_no_unit(live, "runs")
        for name in ("runs", "waits"):
            assert (await live.get("job", name))["metadata"]["deletionTimestamp"]
            assert not await live.pods(name)
    finally:
        for name in ("runs", "waits"):
            await live.patch("job", name, {"metadata": {"finalizers": None}})


async def test_pods_that_outlive_their_job_stay_charged(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("left", cpu="3", pods=2)
    await live.until("left", "Running")

    await live.kubectl("delete", "job", "left", "--cascade=orphan")
    await live.job("next", cpu="3", pods=2)

    await live.until("next", "Enqueued")
    orphans = [pod["metadata"]["name"] for pod in await live.pods("left")]
    assert len(orphans) == 2
    await live.kubectl("delete", "pod", *orphans, "--wait=false")
    await live.until("next", "Running")
    await until_no_unit(live, "left")


async def test_a_queue_may_come_later_and_must_be_open(live: Live) -> None:
    await live.queue("shared", namespace="usher-system", namespaceSelector={"matchLabels": {"team": "other"}})
    await live.start()
    await live.job("early", queue="later")
    await live.job("barred", queue="shared")

    early = await live.until("early", "Enqueued")
    barred = await live.until("barred", "Enqueued")

    assert condition(early, "QuotaReserved")["reason"] == "QueueMissing"
    assert condition(barred, "QuotaReserved")["reason"] == "QueueForbidden"
    assert live.namespace in barred["status"]["message"]
    await live.queue("later")
    await live.until("early", "Running")
    await live.admin("label", "namespace", live.namespace, "team=other")
    await live.until("barred", "Running")
