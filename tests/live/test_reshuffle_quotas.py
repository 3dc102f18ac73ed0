"""Quotas that are lowered while somebody waits: what one may not keep any more is taken back for a claim, only then."""

from __future__ import annotations

from typing import Any

import pytest
from living import Live
from reshuffling import evictions, running, until_hears

LOWERED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "min": ({"min": {"cpu": "6"}}, {"min": {"cpu": "2"}}),
    "weight": ({"weight": 3}, {"weight": 1}),
}


@pytest.mark.parametrize("what", LOWERED)
async def test_who_waits_takes_what_a_lowered_quota_sets_free(live: Live, what: str) -> None:
    before, after = LOWERED[what]
    await live.quota("big", **before)
    await live.quota("small")
    await live.queue("big", quota="big")
    await live.queue("small", quota="small")
    await live.start("reports.queueStatusInterval=200ms")
    await running(live, "big", "big-1", "big-2", "big-3")
    await running(live, "small", "small-1")
    await live.job("waits", queue="small", cpu="2")
    await live.until("waits", "Enqueued")
    await until_deserved(live, big="6", small="2")
    assert await evictions(live, "big-1", "big-2", "big-3") == []

    await live.quota("big", **after)

    await live.until("waits", "Running")
    await until_deserved(live, big="4", small="4")
    assert await evictions(live, "big-1", "big-2", "big-3", "small-1") == ["big-3"]


async def test_a_lowered_max_evicts_nobody_until_somebody_claims(live: Live) -> None:
    await live.quota("org", max={"cpu": "6"})
    for name in ("first", "second"):
        await live.quota(name, parent="org")
        await live.queue(name, quota=name)
    await live.start()
    await running(live, "first", "one", "two", "three")
    await live.job("four", queue="first", cpu="2")
    await live.until("four", "Enqueued")

    await live.quota("org", max={"cpu": "4"})

    await until_hears(live, "four", "quota org has 4, 6 in use")
    assert await evictions(live, "one", "two", "three") == [], "nobody claims"
    await live.job("theirs", queue="second", cpu="2")
    await live.until("theirs", "Running")
    assert await evictions(live, "one", "two", "three") == ["two", "three"], "what was over, and what is claimed"
    assert ((await live.unit("one")) or {})["status"]["phase"] == "Running"


async def until_deserved(live: Live, **cpu: str) -> None:
    """Wait until the quotas show this as deserved."""

    async def shows() -> bool:
        found = {name: (await live.get("quota", name)).get("status", {}).get("deserved", {}) for name in cpu}
        return all(each.get("cpu") == cpu[name] for name, each in found.items())

    await live.wait(f"deserved is {cpu}", shows)
