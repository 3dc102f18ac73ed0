"""A tenant comes back: who gives back first, for whom the room is kept meanwhile, and not before its time."""

from __future__ import annotations

from acts import condition, granted, suspended, until_unit
from living import Live
from reshuffling import (
    PRIORITY,
    SLOW,
    evicted_ms,
    evictions,
    running,
    stop_pods,
    until_preempting,
)

from usher.api.times import ms_of


async def tenants(live: Live, **quotas: dict[str, object]) -> None:
    """A quota and a queue of the same name for each."""
    for name, spec in quotas.items():
        await live.quota(name, **spec)
        await live.queue(name, quota=name)


async def test_the_richest_gives_back_its_lowest_priority_and_of_that_the_latest(live: Live) -> None:
    await tenants(live, owner={}, rich={}, poor={})
    await live.start()
    urgent = {PRIORITY: "5"}
    await running(live, "rich", "urgent-1", cpu="1", labels=urgent)
    await running(live, "rich", "first", "second", cpu="1")
    await running(live, "rich", "urgent-2", cpu="1", labels=urgent)
    await running(live, "rich", "third", cpu="1")
    await running(live, "poor", "theirs-1", "theirs-2", "theirs-3", cpu="1")
    everybody = ("urgent-1", "first", "second", "urgent-2", "third", "theirs-1", "theirs-2", "theirs-3")
    assert await evictions(live, *everybody) == []

    await live.job("comes-back", queue="owner", cpu="1", pods=2)

    unit = await live.until("comes-back", "Running")
    assert granted(unit) == 2
    assert await evictions(live, *everybody) == ["second", "third"]
    for victim in ("second", "third"):
        given = await live.until(victim, "Enqueued")
        assert condition(given, "Evicted")["reason"] == "Reclaimed"
        assert "comes-back" in condition(given, "Evicted")["message"]
        assert await suspended(live, victim), "by its own suspend"
        described = await live.kubectl("describe", "job", victim)
        assert "Evicted" in described
        assert "What it had borrowed was taken back for" in described
    await live.job("too-much", queue="owner", cpu="1")
    more = await live.until("too-much", "Enqueued")
    assert "the cluster has 8, 8 in use" in condition(more, "QuotaReserved")["message"]
    assert await evictions(live, *everybody) == ["second", "third"], "with it the owner would be the richest"


async def test_freed_room_is_kept_while_the_last_victim_goes(live: Live) -> None:
    await tenants(live, lender={"min": {"cpu": "4"}}, borrower={})
    await live.start("reports.queueStatusInterval=200ms", "reports.resourceReportInterval=1s")
    await running(live, "borrower", "loan-1", "loan-2", "quick")
    await running(live, "borrower", "slow", template_annotations=SLOW)

    await live.job("owner", queue="lender", cpu="2", pods=2)

    claim = await until_unit(live, "owner", "has a claim", lambda unit: unit["status"].get("nomination"))
    assert claim["status"]["nomination"]["claimed"] is True
    await live.until("quick", "Enqueued")  # two cores are free now, and two more are to come
    await until_preempting(live, "queue", "lender", "4")
    await until_preempting(live, "quota", "lender", "4")
    await live.job("late", queue="borrower", cpu="1", labels={PRIORITY: "100"})
    await live.job("own", queue="lender", cpu="1", labels={PRIORITY: "100"})
    for name in ("late", "own"):
        waits = await live.until(name, "Enqueued")
        assert condition(waits, "QuotaReserved")["reason"] == "Held"
        assert "4 kept for others" in condition(waits, "QuotaReserved")["message"]
    slow = await live.unit("slow")
    assert slow is not None
    assert (slow["status"]["phase"], granted(slow)) == ("Running", 1), "charged until its pods are gone"
    assert await suspended(live, "owner")

    await stop_pods(live, "slow")

    owner = await live.until("owner", "Running")
    assert "nomination" not in owner["status"]
    await until_preempting(live, "queue", "lender", "")
    await until_preempting(live, "quota", "lender", "")
    assert await evictions(live, "loan-1", "loan-2", "quick", "slow") == ["quick", "slow"]
    for name in ("late", "own"):
        assert ((await live.unit(name)) or {})["status"]["phase"] == "Enqueued"
    await live.kubectl("delete", "job", "owner")
    await live.until("late", "Running")
    await live.until("own", "Running")


async def test_a_new_leader_keeps_the_room_that_was_being_freed(live: Live) -> None:
    await tenants(live, lender={"min": {"cpu": "4"}}, borrower={})
    await live.start()
    await running(live, "borrower", "loan-1", "loan-2", "quick")
    await running(live, "borrower", "slow", template_annotations=SLOW)
    await live.job("owner", queue="lender", cpu="2", pods=2)
    await live.until("quick", "Enqueued")
    await live.kill()
    await live.job("late", queue="borrower", cpu="1", labels={PRIORITY: "100"})

    await live.start("reports.queueStatusInterval=200ms")

    late = await live.until("late", "Enqueued")
    assert condition(late, "QuotaReserved")["reason"] == "Held"
    await until_preempting(live, "queue", "lender", "4")
    await stop_pods(live, "slow")
    await live.until("owner", "Running")
    assert await evictions(live, "loan-1", "loan-2") == []
    assert ((await live.unit("late")) or {})["status"]["phase"] == "Enqueued"


async def test_nobody_goes_before_its_protected_time(live: Live) -> None:
    await tenants(live, owner={}, borrower={})
    await live.start("engine.protectedTime=4s")
    await running(live, "borrower", "loan", cpu="4", pods=2)
    started_ms = ms_of(condition(await live.unit("loan") or {}, "QuotaReserved")["lastTransitionTime"])

    await live.job("owner", queue="owner", cpu="4")

    evicted = await until_unit(
        live, "loan", "is evicted", lambda unit: condition(unit, "Evicted").get("status") == "True"
    )
    assert evicted_ms(evicted) - started_ms >= 4_000
    await live.until("owner", "Running")
