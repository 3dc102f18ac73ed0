"""ElasticQuotas as quotas: the real kind of Koordinator, on a real control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from acts import condition, until_unit
from commands import shown
from living import Live
from sourcing import (
    SYSTEM,
    install_elastic,
    offer,
    remove_crds,
    unit,
    until_no_queue,
    until_queue,
    until_shares,
    until_told,
)

from usher.testing.elastic import CHIP, OTHER, RUNTIMES, elastic_quota

NAME = "quota.scheduling.koordinator.sh/name"
KINDS = "elasticquotas.scheduling.sigs.k8s.io"


@pytest.fixture
async def elastic(live: Live) -> AsyncIterator[Live]:
    await install_elastic(live)
    yield live
    await remove_crds(live)


@pytest.mark.flow  # twenty trees, one after another
async def test_the_shares_are_what_koordinator_computes(elastic: Live) -> None:
    live = elastic
    await live.start("plugins.share=koordinator", "capacityLossGrace=0s")
    try:
        for case in RUNTIMES.values():
            await offer(live, {**dict.fromkeys((CHIP, OTHER), None), **case.total})
            await live.admin.apply(*case.quotas)
            asked = [unit(name, live.namespace, quota, request) for name, quota, request in case.units()]
            if asked:
                await live.admin.apply(*asked)
            names = [each["metadata"]["name"] for each in case.quotas]

            await until_shares(live, {name: case.want.get(name, {}) for name in names})

            await live.kubectl("delete", "queueunits", "--all", "--wait=true")
            await live.admin("delete", KINDS, "-n", "default", "--all", "--wait=true")
    finally:
        await offer(live, dict.fromkeys((CHIP, OTHER)))


async def test_each_quota_has_a_queue_and_jobs_find_both_by_label_or_by_namespace(elastic: Live) -> None:
    live = elastic
    await live.admin.apply(
        elastic_quota("org", max={"cpu": 4}, min={"cpu": 2}, labels={"is-parent": "true"}),
        elastic_quota("red", max={"cpu": 3}, labels={"parent": "org"}, annotations={"namespaces": [live.namespace]}),
        elastic_quota("blue", max={"cpu": 3}, min={"cpu": 2}, labels={"parent": "org"}),
    )
    await live.start("plugins.share=koordinator")
    blue = await until_queue(live, "blue")
    assert blue["spec"]["quota"] == "blue"
    await until_queue(live, "red")
    await live.job("named", queue="", labels={NAME: "blue"}, cpu="2")
    named = await live.until("named", "Running")
    assert named["status"]["quota"] == "blue"
    await live.queue("own")
    await live.job("unnamed", queue="own", cpu="2")

    unnamed = await live.until("unnamed", "Running")

    assert unnamed["status"]["quota"] == "red", "the quota of its namespace"
    (pod,) = await live.pods("unnamed")
    assert pod["metadata"]["labels"][NAME] == "red", "as Koordinator's scheduler wants to find it"
    await live.job("more", queue="", labels={NAME: "blue"}, cpu="1")
    more = await live.until("more", "Enqueued")
    assert "quota org" in condition(more, "QuotaReserved")["message"]
    assert "quota org has 4, 4 in use" in await shown(live, "explain", "more"), "what a command reads once, too"
    never = {NAME: "red", "quota.scheduling.koordinator.sh/preemptible": "false"}
    await live.job("guaranteed", queue="", labels=never, cpu="1")
    stopped = await until_unit(live, "guaranteed", "waits", lambda each: each["status"].get("phase") == "Enqueued")
    assert "min of quota red" in condition(stopped, "QuotaReserved")["message"]
    await live.admin.apply(elastic_quota("org", max={"cpu": 8}, min={"cpu": 2}, labels={"is-parent": "true"}))
    await live.until("more", "Running")
    queues = await live.admin("get", "queues.scheduling.x-k8s.io", "-n", SYSTEM, "-o", "name")
    assert "queue.scheduling.x-k8s.io/org" not in queues.split(), "a parent has no queue"
    await live.admin("delete", KINDS, "-n", "default", "red", "--wait=true")
    runs = await live.unit("unnamed")
    assert runs is not None
    assert runs["status"]["phase"] == "Running", "what runs goes on"


async def test_a_job_that_names_nothing_has_the_quota_of_its_namespace_and_the_queue_of_that(elastic: Live) -> None:
    live = elastic
    await live.admin.apply(
        elastic_quota("red", max={"cpu": 2}, annotations={"namespaces": [live.namespace]}),
        elastic_quota("blue", max={"cpu": 2}),
    )
    await live.start("plugins.share=koordinator", f"managedNamespaces=[{live.namespace}]")
    await until_queue(live, "red")
    await until_queue(live, "blue")

    await live.job("plain", queue="", cpu="2")

    plain = await live.until("plain", "Running")
    assert plain["status"]["quota"] == "red"
    await live.job("next", queue="", cpu="1")
    following = await live.until("next", "Enqueued")
    assert "quota red has 2, 2 in use" in condition(following, "QuotaReserved")["message"]

    async def in_line() -> bool:
        status = (await until_queue(live, "red")).get("status", {})
        return [each["position"] for each in status.get("queueItemDetails", {}).get("active", ())] == [1]

    await live.wait("it waits in the default queue of that quota", in_line)


async def test_a_kind_that_is_installed_later_comes_on_and_goes_off(live: Live) -> None:
    await remove_crds(live)
    await live.start()
    await live.queue("own")
    await live.job("waits", queue="own", labels={NAME: "late"}, cpu="1")
    waits = await live.until("waits", "Enqueued")
    assert "Quota late does not exist" in waits["status"]["message"]

    await install_elastic(live)
    await live.admin.apply(elastic_quota("late", max={"cpu": 2}))

    await live.until("waits", "Running")
    await until_queue(live, "late")
    await live.job("next", queue="own", labels={NAME: "late"}, cpu="2")
    await live.until("next", "Enqueued")
    await remove_crds(live)
    await until_unit(live, "next", "lacks it", lambda each: "late does not exist" in each["status"]["message"])
    await until_no_queue(live, "late")


async def test_what_is_wrong_with_a_tree_is_said_and_the_rest_works(elastic: Live) -> None:
    live = elastic
    bad: list[dict[str, Any]] = [
        elastic_quota("a", labels={"parent": "b", "is-parent": "true"}),
        elastic_quota("b", labels={"parent": "a", "is-parent": "true"}),
        elastic_quota("lost", labels={"parent": "nobody"}),
        elastic_quota("odd", min={"cpu": 3}, max={"cpu": 2}),
        elastic_quota("sum", min={"cpu": 2}, max={"cpu": 8}, labels={"is-parent": "true"}),
        elastic_quota("part", min={"cpu": 3}, max={"cpu": 8}, labels={"parent": "sum"}),
    ]
    await live.admin.apply(*bad, elastic_quota("good", max={"cpu": 2}))
    await live.start()
    await live.job("works", queue="", labels={NAME: "good"}, cpu="1")

    await live.until("works", "Running")

    assert "a → b → a" in await until_told(live, "ElasticQuota", "a", "Cycle")
    assert "nobody does not exist" in await until_told(live, "ElasticQuota", "lost", "ParentMissing")
    assert "max counts" in await until_told(live, "ElasticQuota", "odd", "MinAboveMax")
    assert "3 cpu of 2" in await until_told(live, "ElasticQuota", "sum", "MinsAboveMin")
    shown = await until_queue(live, "odd")

    def said(queue: dict[str, Any]) -> str:
        return next((each["reason"] for each in queue.get("status", {}).get("conditions", ())), "")

    async def told() -> bool:
        return said(await until_queue(live, "odd")) == "MinAboveMax"

    await live.wait("the queue of a quota says what is wrong with it", told)
    assert shown["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "usher"
