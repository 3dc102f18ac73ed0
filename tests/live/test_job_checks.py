"""Admission checks: third parties that must agree between the reservation and the start, on a real control plane."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from acts import activate, condition, granted, suspended, until_unit, with_pod
from living import KINDS, Live, job

from usher.kube import kubeconfig
from usher.kube.client import Client

EXAMPLE = Path(__file__).parents[2] / "examples" / "check-controller" / "licenses.py"
CHECKS = [
    {"name": "licenses", "labelSelector": {"matchExpressions": [{"key": "example.com/licenses", "operator": "Exists"}]}}
]


def licensed(count: int) -> dict[str, str]:
    return {"example.com/licenses": str(count)}


def state(unit: dict[str, object], check: str) -> str:
    status = unit["status"]
    assert isinstance(status, dict)
    return next((each["state"] for each in status.get("admissionChecks", ()) if each["name"] == check), "")


async def say(live: Live, name: str, check: str, answer: str, message: str = "", **more: object) -> None:
    """Answer as the controller of a check would: by server-side apply, under a name of its own."""
    unit = await live.unit(name)
    assert unit is not None
    entry = {"name": check, "state": answer, "message": message, **more}
    body = {
        "apiVersion": unit["apiVersion"],
        "kind": "QueueUnit",
        "status": {"admissionChecks": [entry]},
    }
    name = unit["metadata"]["name"]
    await live.client.apply(
        KINDS["unit"], name, live.namespace, body, subresource="status", force=True, field_manager=f"checks-{check}"
    )


async def test_a_reserved_job_starts_when_every_check_is_ready(live: Live) -> None:
    await live.queue(admissionChecks=[{"name": "money"}, {"name": "data"}])
    await live.start()
    await live.job("asks", cpu="3", pods=2)
    await live.job("next", cpu="3", pods=2)

    reserved = await live.until("asks", "Reserved")

    assert granted(reserved) == 2
    assert condition(reserved, "QuotaReserved")["status"] == "True"
    assert condition(reserved, "Admitted").get("status") != "True"
    assert {each["name"]: each["state"] for each in reserved["status"]["admissionChecks"]} == {
        "money": "Pending",
        "data": "Pending",
    }
    assert await suspended(live, "asks")
    await live.until("next", "Enqueued")
    await say(live, "asks", "money", "Ready", "there is enough")
    await until_unit(live, "asks", "one has answered", lambda unit: state(unit, "money") == "Ready")
    assert await suspended(live, "asks")
    assert (await live.unit("asks") or {})["status"]["phase"] == "Reserved"
    await say(live, "asks", "data", "Ready")
    await live.until("asks", "Running")


def updates(**said: object) -> list[dict[str, object]]:
    return [{"name": "main", **said}]


async def test_what_a_check_adds_is_on_the_pods_and_only_for_this_admission(live: Live) -> None:
    await live.queue(admissionChecks=[{"name": "place"}])
    await live.start()
    await live.job("asks")
    await live.until("asks", "Reserved")
    spot = {"key": "spot", "operator": "Exists"}

    await say(
        live,
        "asks",
        "place",
        "Ready",
        podSetUpdates=updates(labels={"example.com/place": "here"}, nodeSelector={"place": "no"}, tolerations=[spot]),
    )

    await until_unit(live, "asks", "may start", lambda unit: unit["status"]["phase"] == "Dequeued")

    async def has_pods() -> bool:
        return bool(await live.pods("asks"))

    await live.wait("its pod is there", has_pods)
    (pod,) = await live.pods("asks")
    assert pod["metadata"]["labels"]["example.com/place"] == "here"
    assert pod["spec"]["nodeSelector"] == {"place": "no"}
    assert spot in pod["spec"]["tolerations"]

    await activate(live, "asks", False)
    await live.until("asks", "Enqueued")
    await activate(live, "asks", True)
    await live.until("asks", "Reserved")
    await say(live, "asks", "place", "Ready", podSetUpdates=updates(labels={"example.com/turn": "second"}))
    await live.until("asks", "Running")
    template = (await live.get("job", "asks"))["spec"]["template"]
    assert template["metadata"]["labels"]["example.com/turn"] == "second"
    assert "example.com/place" not in template["metadata"]["labels"], "that was for the first time"
    assert "nodeSelector" not in template["spec"]
    assert "tolerations" not in template["spec"]


async def test_a_check_cannot_overrule_what_the_job_says(live: Live) -> None:
    await live.queue(admissionChecks=[{"name": "place"}])
    await live.start()
    await live.admin.apply(with_pod(job("picky", live.namespace), nodeSelector={"disk": "ssd"}))
    await live.until("picky", "Reserved")

    await say(live, "picky", "place", "Ready", podSetUpdates=updates(nodeSelector={"disk": "hdd"}))

    waiting = await live.until("picky", "Enqueued")
    message = condition(waiting, "QuotaReserved")["message"]
    assert "nodeSelector[disk] cannot be 'hdd': it is 'ssd' in the job" in message
    assert await suspended(live, "picky")


async def test_a_check_that_says_retry_or_rejected_gives_the_quota_back(live: Live) -> None:
    await live.queue(admissionChecks=[{"name": "money"}])
    await live.start("engine.backoffBase=8s")
    await live.job("asks", cpu="3", pods=2)
    await live.until("asks", "Reserved")

    await say(live, "asks", "money", "Retry", "not now")

    backing_off = await live.until("asks", "TimeoutBackoff")
    assert condition(backing_off, "Evicted")["reason"] == "CheckRetry"
    assert condition(backing_off, "QuotaReserved")["status"] == "False"
    again = await live.until("asks", "Reserved")
    assert state(again, "money") == "Pending", "it is asked anew"
    await say(live, "asks", "money", "Rejected", "never")
    aside = await live.until("asks", "Enqueued")
    assert "rejected" in aside["status"]["inactive"]
    assert await suspended(live, "asks")
    await live.job("next", cpu="3", pods=2)
    await live.until("next", "Reserved")
    await live.kubectl("delete", "job", "next")
    await activate(live, "asks", False)
    await until_unit(live, "asks", "is no longer set aside", lambda unit: not unit["status"].get("inactive"))
    await activate(live, "asks", True)
    await live.until("asks", "Reserved")
    await say(live, "asks", "money", "Ready")
    await live.until("asks", "Running")


async def test_a_check_that_does_not_answer_in_time_counts_as_retry(live: Live) -> None:
    await live.queue(admissionChecks=[{"name": "money"}])
    await live.start("engine.checkTimeout=1s", "engine.backoffBase=30s")
    await live.job("asks")

    unit = await live.until("asks", "TimeoutBackoff")

    assert condition(unit, "Evicted")["reason"] == "CheckTimeout"
    assert await suspended(live, "asks")


@pytest.fixture
async def licenses(live: Live) -> AsyncIterator[ModuleType]:
    """The sample controller at work, with five licenses."""
    spec = importlib.util.spec_from_file_location("licenses", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "AdmissionCheck", "metadata": {"name": "licenses"}}
    await live.admin.apply({**check, "spec": {"controllerName": module.CONTROLLER}})
    config = kubeconfig.load(live.admin.kubeconfig)
    async with Client(config, user_agent="licenses", field_manager="licenses") as client:
        task = asyncio.ensure_future(module.run(client, 5))
        yield module
        assert not task.done(), task
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await live.admin("delete", "admissionchecks", "licenses")


async def test_the_sample_controller_counts_licenses(live: Live, licenses: ModuleType) -> None:
    await live.queue(admissionChecks=CHECKS)
    await live.start("engine.backoffBase=1s")
    await live.job("free")
    await live.job("three", labels=licensed(3))
    await live.until("three", "Running")
    await live.until("free", "Running")
    await live.job("four", labels=licensed(4))
    await live.job("six", labels=licensed(6))

    def backs_off(unit: dict[str, Any]) -> bool:
        return "requeueState" in unit["status"] and condition(unit, "Evicted")["reason"] == "CheckRetry"

    four = await until_unit(live, "four", "backs off", backs_off)
    six = await until_unit(live, "six", "is set aside", lambda unit: unit["status"].get("inactive"))

    assert "rejected" in six["status"]["inactive"]
    await live.kubectl("delete", "job", "three")
    await live.until("four", "Running")
    assert licenses.needs(four) == 4
