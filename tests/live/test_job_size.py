"""Jobs that start small, shrink, grow and end pod by pod, on a real control plane."""

from __future__ import annotations

from acts import GROUP, activate, condition, granted, loose_pods, suspend, until_unit
from living import Live

MIN = {f"{GROUP}/min-count": "2"}
ELASTIC = {f"{GROUP}/elastic": "true"}
REDUCED = f"{GROUP}/reduced"


async def parallelism(live: Live, name: str) -> int:
    return int((await live.get("job", name))["spec"]["parallelism"])


async def test_a_job_starts_with_fewer_pods_and_gets_its_own_size_back(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("big", cpu="2", pods=2)
    await live.until("big", "Running")
    await live.job("part", cpu="2", pods=4, completions=6, labels=MIN)

    unit = await live.until("part", "Running")

    assert granted(unit) == 2
    job = await live.get("job", "part")
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (2, 6)
    assert job["metadata"]["annotations"][REDUCED] == "main=2/4"
    assert unit["spec"]["podSets"][0]["count"] == 4
    await activate(live, "part", False)
    await live.until("part", "Enqueued")
    job = await live.get("job", "part")
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (4, 6)
    assert REDUCED not in job["metadata"]["annotations"]

    await activate(live, "part", True)
    await live.until("part", "Running")
    await suspend(live, "part", True)  # by its owner: the runtime has nothing to suspend, but to restore
    paused = await live.until("part", "Enqueued")
    assert condition(paused, "Evicted")["reason"] == "Paused"
    assert await parallelism(live, "part") == 4
    assert paused["spec"]["podSets"][0]["count"] == 4
    await live.kubectl("delete", "job", "big")

    async def gone() -> bool:
        return not await live.pods("big") and await live.unit("big") is None

    await live.wait("the room of big is free", gone)
    await suspend(live, "part", False)
    whole = await live.until("part", "Running")
    assert granted(whole) == 4
    assert await parallelism(live, "part") == 4


async def test_an_owner_gives_back_by_parallelism_and_may_not_take_again(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("wide", cpu="2", pods=4)
    await live.job("next", cpu="2", pods=2)
    await live.until("wide", "Running")
    await live.until("next", "Enqueued")

    await live.patch("job", "wide", {"spec": {"parallelism": 2}})

    await live.until("next", "Running")
    shrunk = await until_unit(live, "wide", "says what it holds", lambda unit: granted(unit) == 2)
    assert shrunk["status"]["phase"] == "Running"
    await live.patch("job", "wide", {"spec": {"parallelism": 4}})

    async def brought_back() -> bool:
        return await parallelism(live, "wide") == 2

    await live.wait("it was brought back", brought_back)
    await live.wait("kubectl shows why", lambda: told(live, "GrowthRefused"))
    await activate(live, "wide", False)
    await live.until("wide", "Enqueued")
    assert await parallelism(live, "wide") == 2, "what its owner wanted last and was allowed"


async def told(live: Live, reason: str) -> bool:
    return reason in await live.kubectl("get", "events")


async def test_pods_that_end_give_back_before_their_job_does(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("long", cpu="2", pods=4)
    await live.job("next", cpu="2", pods=2)
    await live.until("long", "Running")
    await live.until("next", "Enqueued")

    ended = [pod["metadata"]["name"] for pod in await live.pods("long")][:2]
    for name in ended:  # as if their work were done
        status = {"phase": "Succeeded", "containerStatuses": None, "conditions": None}
        await live.patch("pod", name, {"status": status}, "status")

    await live.until("next", "Running")
    unit = await live.unit("long")
    assert unit is not None
    assert unit["status"]["phase"] == "Running"
    assert len(await loose_pods(live, "long")) == 2


async def test_a_job_with_more_to_do_than_runs_at_once_gives_back_only_at_its_end(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("long", cpu="2", pods=3, completions=4)
    await live.job("next", cpu="2", pods=2)
    await live.until("long", "Running")
    await live.until("next", "Enqueued")

    async def ends(count: int) -> None:
        for pod in (await loose_pods(live, "long"))[:count]:
            status = {"phase": "Succeeded", "containerStatuses": None, "conditions": None}
            await live.patch("pod", pod["metadata"]["name"], {"status": status}, "status")

    async def replaced() -> bool:
        return (await live.get("job", "long"))["status"].get("succeeded") == 1 and len(
            await loose_pods(live, "long")
        ) == 3

    await ends(1)
    await live.wait("a fourth pod has taken its place", replaced)
    assert (await live.unit("next") or {})["status"]["phase"] == "Enqueued", "all three are still needed"
    await ends(1)

    await live.until("next", "Running")
    assert len(await loose_pods(live, "long")) == 2


async def test_an_elastic_job_grows_into_room_and_gives_it_back(live: Live) -> None:
    await live.quota("a")
    await live.quota("b")
    await live.queue("mine", quota="a")
    await live.queue("theirs", quota="b")
    await live.start()
    await live.job("other", queue="theirs", cpu="2", pods=1)
    await live.until("other", "Running")
    await live.job(
        "stretchy", queue="mine", cpu="2", pods=4, labels={**ELASTIC, f"{GROUP}/min-count": "1"}, backoffLimit=0
    )

    unit = await live.until("stretchy", "Running")

    assert granted(unit) == 3
    assert await parallelism(live, "stretchy") == 4
    assert len(await live.pods("stretchy")) == 4
    assert len(await loose_pods(live, "stretchy")) == 3
    await live.kubectl("delete", "job", "other")
    await until_unit(live, "stretchy", "has grown", lambda unit: granted(unit) == 4)

    async def all_let_in() -> bool:
        return len(await loose_pods(live, "stretchy")) == 4

    await live.wait("every pod is let in", all_let_in)
    born = {pod["metadata"]["name"]: pod["metadata"]["creationTimestamp"] for pod in await live.pods("stretchy")}

    await live.job("owner", queue="theirs", cpu="2", pods=2)

    await live.until("owner", "Running")
    shrunk = await until_unit(live, "stretchy", "gave back", lambda unit: granted(unit) == 2)
    assert shrunk["status"]["phase"] == "Running", "it shrank, it was not evicted"
    stayed = [pod["metadata"]["name"] for pod in await loose_pods(live, "stretchy")]
    assert len(stayed) == 2
    assert max(born[name] for name in stayed) <= min(at for name, at in born.items() if name not in stayed)

    async def others_wait() -> bool:
        return len(await live.pods("stretchy")) == 4 and len(await loose_pods(live, "stretchy")) == 2

    await live.wait("pods made anew stay at the gate", others_wait)
    await live.kubectl("delete", "job", "owner")
    await live.wait("it grows again", all_let_in)
    status = (await live.get("job", "stretchy"))["status"]
    assert not status.get("failed"), "pods that were taken back are no failures of the job"

    await live.patch("job", "stretchy", {"spec": {"parallelism": 1}})
    await until_unit(live, "stretchy", "follows its owner down", lambda unit: granted(unit) == 1)
    await live.patch("job", "stretchy", {"spec": {"parallelism": 3}})
    await until_unit(live, "stretchy", "and up", lambda unit: granted(unit) == 3)
    assert (await live.unit("stretchy") or {})["status"]["phase"] == "Running"


async def test_an_elastic_job_ends_pod_by_pod(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("batch", cpu="2", pods=4, completions=6, runs="2s", labels=ELASTIC)
    await live.job("next", cpu="2", pods=2)

    await live.until("batch", "Succeed")
    await live.until("next", "Running")
    assert (await live.get("job", "batch"))["status"]["succeeded"] == 6
