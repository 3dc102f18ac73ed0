"""Capacity that goes while somebody waits: at first nobody pays for it, and after the grace only who has too much.

Twelve cores, of which the borrower uses all, though four are promised to the owner. A node of four goes; the owner
comes. To make room on the eight that are left, eight must be given back: more than the borrower owes while the node
counts (four), and just what it owes when it does not.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from acts import condition, with_pod
from living import Live, job
from reshuffling import evicted_ms, evictions, extra_node, ready, running, until_hears

GRACE_MS = 5_000
LOANS = ("pinned", "loan-1", "loan-2")
Act = Callable[[Live], Awaitable[object]]


@pytest.fixture
async def lent(live: Live) -> AsyncIterator[Live]:
    """Everything is lent, four cores of it on a node that will go."""
    await live.admin.apply(extra_node())
    await live.quota("owner", min={"cpu": "4"})
    await live.quota("borrower")
    await live.queue("owner", quota="owner")
    await live.queue("borrower", quota="borrower")
    yield live
    await live.admin("delete", "node", "extra", "--ignore-not-found")
    await live.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


async def lend(live: Live, *settings: str) -> None:
    await live.start(*settings)
    pinned = job("pinned", live.namespace, queue="borrower", cpu="4")
    await live.admin.apply(with_pod(pinned, nodeSelector={"extra": "yes"}, tolerations=[{"operator": "Exists"}]))
    await live.until("pinned", "Running")
    await running(live, "borrower", "loan-1", "loan-2", cpu="4")


LOST: dict[str, Act] = {
    "it is deleted": lambda live: live.admin("delete", "node", "extra"),
    "it does not answer": lambda live: ready(live, "extra", False),
    "it is cordoned": lambda live: live.admin("cordon", "extra"),
}


@pytest.mark.parametrize("how", LOST)
async def test_a_lost_node_costs_nobody_anything_during_the_grace(lent: Live, how: str) -> None:
    live = lent
    await lend(live, f"capacityLossGrace={GRACE_MS}ms")
    lost_ms = time.time_ns() // 1_000_000

    await LOST[how](live)
    await live.job("owner", queue="owner", cpu="4")

    await live.until("owner", "Running")
    assert await evictions(live, *LOANS) == ["loan-1", "loan-2"], "then what is owed is taken, the latest first"
    for name in ("loan-1", "loan-2"):
        unit = await live.unit(name)
        assert unit is not None
        assert evicted_ms(unit) >= lost_ms + GRACE_MS


@pytest.mark.parametrize("how", [each for each in LOST if each != "it is deleted"])
async def test_a_new_leader_gives_a_lost_node_the_rest_of_its_grace(lent: Live, how: str) -> None:
    live = lent
    await lend(live)
    lost_ms = time.time_ns() // 1_000_000_000 * 1_000
    await LOST[how](live)

    async def written() -> bool:
        taints = (await live.get("node", "extra"))["spec"]["taints"]
        return any(each["key"].startswith("node.kubernetes.io/") and "timeAdded" in each for each in taints)

    await live.wait("its controller wrote since when", written)
    await live.kill()
    await live.job("owner", queue="owner", cpu="4")

    await live.start(f"capacityLossGrace={2 * GRACE_MS}ms")

    await live.until("owner", "Running")
    assert await evictions(live, *LOANS) == ["loan-1", "loan-2"]
    for name in ("loan-1", "loan-2"):
        unit = await live.unit(name)
        assert unit is not None
        assert evicted_ms(unit) >= lost_ms + 2 * GRACE_MS, "not earlier, because the leader is new"


async def cordoned(live: Live, away: bool) -> None:
    await live.admin("cordon" if away else "uncordon", "extra")


async def silent(live: Live, away: bool) -> None:
    await ready(live, "extra", not away)


@pytest.mark.parametrize("goes", [cordoned, silent])
async def test_a_node_that_comes_back_costs_nobody_anything(
    lent: Live, goes: Callable[[Live, bool], Awaitable[None]]
) -> None:
    live = lent
    await lend(live, "capacityLossGrace=1h")
    await live.job("more", queue="borrower", cpu="2")
    await live.until("more", "Enqueued")
    for _ in range(2):  # it flaps, and somebody waits
        await until_hears(live, "more", "the cluster has 12, 12 in use")
        await goes(live, True)
        await until_hears(live, "more", "the cluster has 8, 12 in use")
        await goes(live, False)
    await until_hears(live, "more", "the cluster has 12, 12 in use")
    assert await evictions(live, *LOANS) == []
    await goes(live, True)
    await until_hears(live, "more", "the cluster has 8, 12 in use")

    await live.job("owner", queue="owner", cpu="4")

    waits = await live.until("owner", "Enqueued")
    assert "the cluster has 8, 12 in use" in condition(waits, "QuotaReserved")["message"]
    assert await evictions(live, *LOANS) == [], "though it is entitled"
    await goes(live, False)
    await live.until("owner", "Running")
    assert await evictions(live, *LOANS) == ["loan-2"], "what was lent, and nothing for the node"
