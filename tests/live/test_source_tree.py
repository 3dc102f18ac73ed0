"""ElasticQuotaTree as quotas, and two sources at once, on a real control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from acts import condition
from living import Live
from reshuffling import evictions, running
from sourcing import (
    install_elastic,
    install_trees,
    remove_crds,
    until_no_queue,
    until_queue,
    until_told,
)

from usher.testing.elastic import elastic_quota, quota_tree

NAME = "quota.scheduling.koordinator.sh/name"


@pytest.fixture
async def trees(live: Live) -> AsyncIterator[Live]:
    await install_trees(live)
    yield live
    await remove_crds(live)


async def test_a_tree_limits_amounts_and_jobs_and_may_change_as_a_whole(trees: Live) -> None:
    live = trees
    red = {"name": "Red_Team", "max": {"cpu": 3, "koord-queue/max-jobs": 2}, "namespaces": [live.namespace]}
    blue = {"name": "blue", "max": {"cpu": 2}}
    root = {"name": "root", "min": {"cpu": 4}, "max": {"cpu": 4}, "children": [red, blue]}
    await live.admin.apply(quota_tree(root))
    await live.start()
    queue = await until_queue(live, "red-team")
    assert queue["spec"]["quota"] == "Red_Team"
    await live.job("one", queue="red-team", cpu="1")
    one = await live.until("one", "Running")
    assert one["status"]["quota"] == "Red_Team"
    await live.job("two", queue="", labels={NAME: "Red_Team"}, cpu="1")
    await live.until("two", "Running")
    await live.job("three", queue="red-team", cpu="1")
    await live.job("wide", queue="", labels={NAME: "blue"}, cpu="2", pods=2)

    three = await live.until("three", "Enqueued")
    wide = await live.until("wide", "Enqueued")

    assert "at most 2 units" in condition(three, "QuotaReserved")["message"]
    assert "quota blue has 2 in all" in condition(wide, "QuotaReserved")["message"]
    await live.kubectl("delete", "job", "one")
    await live.until("three", "Running")
    blue["max"] = {"cpu": 4}
    root["min"] = root["max"] = {"cpu": 8}
    await live.admin.apply(quota_tree(root))
    await live.until("wide", "Running")
    root["children"] = [{**red, "min": {"cpu": 9}}]
    await live.admin.apply(quota_tree(root))
    assert "max counts" in await until_told(live, "ElasticQuotaTree", "company", "MinAboveMax")
    await live.kubectl("delete", "job", "wide")
    await until_no_queue(live, "blue")


async def test_a_leaf_has_its_namespaces_and_lends_no_more_than_its_limit(trees: Live) -> None:
    live = trees
    lends = {"alibabacloud.com/lendlimit": '{"cpu": 2}'}
    red = {"name": "red", "min": {"cpu": 4}, "max": {"cpu": 8}, "attributes": lends, "namespaces": [live.namespace]}
    blue = {"name": "blue", "max": {"cpu": 8}}
    await live.admin.apply(quota_tree({"name": "root", "min": {"cpu": 8}, "max": {"cpu": 8}, "children": [red, blue]}))
    await live.queue("all", namespace="usher-system")
    await live.start()
    await running(live, "all", "loan-1", "loan-2", "loan-3", labels={NAME: "blue"})

    await live.job("loan-4", queue="all", labels={NAME: "blue"}, cpu="2")

    refused = await live.until("loan-4", "Enqueued")
    assert "8 of 8 are in use, or kept by quotas that do not lend" in condition(refused, "QuotaReserved")["message"]
    await live.job("first", queue="all", cpu="2")
    first = await live.until("first", "Running")
    assert first["status"]["quota"] == "red", "the leaf that names its namespace"
    assert await evictions(live, "loan-1", "loan-2", "loan-3") == [], "it was not lent"
    await live.job("second", queue="all", cpu="2")
    await live.until("second", "Running")
    assert await evictions(live, "loan-1", "loan-2", "loan-3") == ["loan-3"], "what was lent comes back"


async def test_two_sources_share_one_cluster(trees: Live) -> None:
    live = trees
    await install_elastic(live)
    root = {"name": "root", "children": [{"name": "leaf", "min": {"cpu": 2}, "max": {"cpu": 6}}]}
    await live.admin.apply(
        quota_tree(root), elastic_quota("elastic", min={"cpu": 4}, max={"cpu": 6}), elastic_quota("leaf")
    )
    await live.quota("plain", max={"cpu": "1"})
    await live.start("plugins.share=koordinator")
    for i in range(3):
        await live.job(f"leaf-{i}", queue="", labels={NAME: "leaf"}, cpu="2")
        await live.until(f"leaf-{i}", "Running")
    await live.job("plain", queue="", labels={NAME: "plain"}, cpu="1")
    await live.until("plain", "Running")

    await live.job("elastic", queue="", labels={NAME: "elastic"}, cpu="2", pods=2)

    elastic = await live.until("elastic", "Running")
    assert elastic["status"]["quota"] == "elastic"
    evicted = await live.until("leaf-2", "Enqueued")
    assert condition(evicted, "Evicted")["reason"] == "Reclaimed", "what the one source lent, the other gives back"
    assert (await live.unit("plain") or {})["status"]["phase"] == "Running"
    said = await until_told(live, "ElasticQuotaTree", "company", "NameTaken")
    assert said == "quota leaf is there already, from ElasticQuota default/leaf"
