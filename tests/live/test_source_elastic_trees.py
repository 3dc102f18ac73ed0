"""Several trees of ElasticQuotas (`tree-id`), each with a part of the cluster of its own, as Koordinator has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from acts import condition, until_unit
from living import Live
from reshuffling import evictions
from sourcing import install_elastic, remove_crds, until_queue, until_shares, until_told

from usher.testing.elastic import elastic_quota

NAME = "quota.scheduling.koordinator.sh/name"
Object = dict[str, Any]


@pytest.fixture
async def elastic(live: Live) -> AsyncIterator[Live]:
    await install_elastic(live)
    yield live
    await remove_crds(live)


def pool(name: str, cpu: int) -> Object:
    """The root of a tree: what its nodes offer, as Koordinator's profile controller writes it."""
    labels = {"tree-id": name, "is-root": "true", "is-parent": "true"}
    total = {"total-resource": {"cpu": str(cpu)}}
    return elastic_quota(f"{name}-root", max={"cpu": cpu}, min={"cpu": cpu}, labels=labels, annotations=total)


def leaf(name: str, tree: str, least: int, most: int) -> Object:
    labels = {"tree-id": tree, "parent": f"{tree}-root"}
    return elastic_quota(name, min={"cpu": least}, max={"cpu": most}, labels=labels)


async def submit(live: Live, name: str, quota: str, cpu: str) -> None:
    await live.job(name, queue="", labels={NAME: quota}, cpu=cpu)


async def test_each_tree_shares_its_own_total_and_nothing_of_the_others(elastic: Live) -> None:
    live = elastic
    await live.admin.apply(
        *(pool("big", 4), leaf("red", "big", 2, 4), leaf("blue", "big", 2, 4)),
        *(pool("small", 2), leaf("green", "small", 1, 4)),
        elastic_quota("plain", max={"cpu": 8}),
    )
    await live.start("plugins.share=koordinator", "reports.resourceReportInterval=1s")
    for name in ("red", "blue", "green", "plain"):
        assert (await until_queue(live, name))["spec"]["quota"] == name

    await submit(live, "plain-1", "plain", "2")
    await live.until("plain-1", "Running")
    await submit(live, "plain-2", "plain", "1")
    plain = await live.until("plain-2", "Enqueued")
    assert "kept by quotas that do not lend" in condition(plain, "QuotaReserved")["message"], "though six are idle"
    for i in (1, 2):
        await submit(live, f"red-{i}", "red", "2")
        await live.until(f"red-{i}", "Running")  # also what blue does not use
    await submit(live, "red-3", "red", "1")
    red = await live.until("red-3", "Enqueued")
    assert "quota " in condition(red, "QuotaReserved")["message"]
    await submit(live, "green-1", "green", "2")
    await live.until("green-1", "Running")
    await submit(live, "green-2", "green", "1")
    green = await live.until("green-2", "Enqueued")
    assert "quota small-root has 2, 2 in use" in condition(green, "QuotaReserved")["message"]
    await until_shares(live, {"big-root": {"cpu": 4000}, "small-root": {"cpu": 2000}, "red": {"cpu": 4000}})

    await submit(live, "blue-1", "blue", "2")

    await live.until("blue-1", "Running")
    assert await evictions(live, "red-1", "red-2", "green-1", "plain-1") == ["red-2"], "inside the tree, the latest"
    await until_shares(live, {"red": {"cpu": 2000}, "blue": {"cpu": 2000}, "green": {"cpu": 2000}})
    await live.kubectl("delete", "job", "plain-1")
    await live.until("plain-2", "Running")
    await live.admin.apply(pool("small", 3))  # a node more
    await live.until("green-2", "Running")


async def test_a_tree_without_its_root_and_a_parent_in_another_tree_say_so(elastic: Live) -> None:
    live = elastic
    stray = elastic_quota("stray", max={"cpu": 4}, labels={"tree-id": "nowhere"})
    crossed = elastic_quota("crossed", max={"cpu": 4}, labels={"tree-id": "small", "parent": "big-root"})
    await live.admin.apply(pool("big", 4), pool("small", 2), stray, crossed)
    await live.start("plugins.share=koordinator")

    assert "nowhere has no root quota" in await until_told(live, "ElasticQuota", "stray", "TreeWithoutRoot")
    assert "its tree-id is small" in await until_told(live, "ElasticQuota", "crossed", "TreeDiffers")
    await submit(live, "works", "stray", "2")
    await live.until("works", "Running")
    await submit(live, "waits", "crossed", "1")
    await until_unit(live, "waits", "says why", lambda unit: "crossed" in unit["status"].get("message", ""))
    await live.admin.apply(leaf("crossed", "small", 0, 4))
    await live.until("waits", "Running")
