"""What nodes, LimitRanges and RuntimeClasses mean for jobs, on a real control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from acts import activate, condition, granted, suspended, until_unit, with_pod
from living import Live, Object, job


async def test_a_job_is_charged_what_the_cluster_adds_to_its_pods(live: Live) -> None:
    limits = {"type": "Container", "default": {"cpu": "3"}, "defaultRequest": {"cpu": "2"}}
    ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "d", "namespace": live.namespace}}
    heavy = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "heavy"}, "handler": "none"}
    await live.admin.apply({**ranges, "spec": {"limits": [limits]}}, {**heavy, "overhead": {"podFixed": {"cpu": "1"}}})
    await live.queue()
    await live.start("reports.resourceReportInterval=1s")
    silent = with_pod(job("silent", live.namespace, pods=2), runtimeClassName="heavy")
    silent["spec"]["template"]["spec"]["containers"] = [{"name": "main", "image": "none"}]

    await live.admin.apply(silent)

    running = await live.until("silent", "Running")
    template = running["spec"]["podSets"][0]["template"]["spec"]
    assert template["overhead"] == {"cpu": "1"}
    assert template["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    await live.job("next", cpu="3")
    waiting = await live.until("next", "Enqueued")
    assert "6" in condition(waiting, "QuotaReserved")["message"], "three cores for each of its two pods"
    pods = await live.pods("silent")
    assert [pod["spec"]["overhead"] for pod in pods] == [{"cpu": "1"}] * 2
    reported = await until_unit(
        live, "silent", "is reported", lambda unit: unit["status"]["admissions"][0].get("running") == 2
    )
    assert reported["status"]["admissions"][0]["resources"] == {"cpu": "6"}, "as its pods say"

    await live.kubectl("delete", "limitrange", "d")
    await live.job("plain", cpu="1")
    await live.until("plain", "Running")


@pytest.fixture
async def whole(live: Live) -> AsyncIterator[None]:
    yield
    await live.admin("uncordon", "node-0", "node-1")


@pytest.mark.usefixtures("whole")
async def test_a_cordoned_node_offers_nothing_and_what_runs_there_goes_on(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("first", cpu="3", pods=2)
    await live.until("first", "Running")

    await live.admin("cordon", "node-0", "node-1")
    await live.job("second", cpu="1")

    waiting = await live.until("second", "Enqueued")
    assert condition(waiting, "QuotaReserved")["reason"] in ("Capacity", "NeverFits")
    assert (await live.unit("first") or {})["status"]["phase"] == "Running"
    await live.admin("uncordon", "node-1")
    await live.job("tiny", cpu="100m")
    assert (await live.until("tiny", "Enqueued"))["status"]["phase"] == "Enqueued", "6 of 4 cores are used"
    await live.admin("uncordon", "node-0")
    await live.until("second", "Running")
    await live.until("tiny", "Running")


def another_node(name: str) -> Object:
    offers = {"cpu": "4", "memory": "1Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"lost": "soon"}},
        "spec": {"taints": [{"key": "lost", "effect": "NoSchedule"}]},
        "status": {"capacity": offers, "allocatable": offers},
    }


@pytest.fixture
async def no_other_nodes(live: Live) -> AsyncIterator[None]:
    yield
    await live.admin("delete", "node", "-l", "lost", "--ignore-not-found")
    await live.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


async def one_that_cannot_stop(live: Live, *settings: str) -> None:
    """A job that is taken back, whose pod stays Terminating on the node `lost`, and another that waits for its room."""
    await live.quota("only", max={"cpu": "4"})
    await live.queue(quota="only")
    await live.start(*settings)
    await live.admin.apply(another_node("lost"))
    stops = {"sim.usher.dev/stops-in": "1h"}
    stuck = job("stuck", live.namespace, cpu="3", template_annotations=stops)
    await live.admin.apply(with_pod(stuck, nodeSelector={"lost": "soon"}, tolerations=[{"operator": "Exists"}]))
    await live.until("stuck", "Running")
    await activate(live, "stuck", False)
    await live.wait("it is held", lambda: suspended(live, "stuck"))
    await live.job("next", cpu="3")
    await live.until("next", "Enqueued")
    unit = await live.unit("stuck")
    assert unit is not None
    assert granted(unit) == 1, "its pod may still run, for all that anybody knows"


@pytest.mark.usefixtures("no_other_nodes")
async def test_pods_that_cannot_stop_give_back_when_their_node_does_not_answer_for_long(live: Live) -> None:
    await one_that_cannot_stop(live, "jobs.terminatingGrace=1s")

    await live.patch("node", "lost", {"metadata": {"annotations": {"sim.usher.dev/silent": "true"}}})
    await live.patch("node", "lost", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "status")

    await live.until("stuck", "Enqueued")
    await live.until("next", "Running")
    assert len(await live.pods("stuck")) == 1, "it is still there"


@pytest.mark.usefixtures("no_other_nodes")
async def test_pods_that_cannot_stop_give_back_when_their_node_is_gone(live: Live) -> None:
    await one_that_cannot_stop(live)

    await live.admin("delete", "node", "lost")

    await live.until("stuck", "Enqueued")
    await live.until("next", "Running")
    assert len(await live.pods("stuck")) == 1, "it is still there"


@pytest.mark.usefixtures("no_other_nodes")
async def test_a_node_that_comes_or_goes_changes_what_there_is(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("most", cpu="3", pods=2)
    await live.until("most", "Running")
    await live.admin.apply(with_pod(job("more", live.namespace, cpu="4"), tolerations=[{"operator": "Exists"}]))
    waiting = await live.until("more", "Enqueued")
    assert "the cluster has 8, 6 in use" in condition(waiting, "QuotaReserved")["message"]

    await live.admin.apply(another_node("extra"))
    await live.until("more", "Running")
    await live.admin("delete", "node", "extra")
    await live.job("late", cpu="1")

    late = await live.until("late", "Enqueued")
    assert "the cluster has 8, 10 in use" in condition(late, "QuotaReserved")["message"]
    assert (await live.unit("more") or {})["status"]["phase"] in ("Dequeued", "Running"), "nobody claims: nobody goes"
