"""What the simulated nodes promise about pods and Jobs, on the real control plane."""

from typing import Any

import pytest

from usher.devcluster import Kubectl, KubectlError
from usher.testing import eventually


def job(
    name: str, *, annotations: dict[str, str] | None = None, pod: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.example/none:1", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


async def condition(kubectl: Kubectl, name: str, kind: str) -> dict[str, Any]:
    """The status of a Job, once it has a condition."""

    async def has_it() -> Any:
        status = (await kubectl.get("job", name))["status"]
        holds = any(each["type"] == kind and each["status"] == "True" for each in status.get("conditions", []))
        return status if holds else None

    return dict(await eventually(has_it, why=f"{name} is {kind}"))


async def pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    return list((await kubectl.get("pods"))["items"])


async def running_pods(kubectl: Kubectl, count: int) -> list[dict[str, Any]]:
    """All pods, once that many run."""

    async def they_run() -> list[dict[str, Any]]:
        found = [each for each in await pods(kubectl) if each["status"]["phase"] == "Running"]
        return found if len(found) == count else []

    return await eventually(they_run, why=f"{count} pods run")


async def test_a_jobs_pods_are_scheduled_run_and_complete(kubectl: Kubectl) -> None:
    await kubectl.apply(job("sum", annotations={"sim.usher.dev/runs-for": "100ms"}, completions=6, parallelism=3))

    status = await condition(kubectl, "sum", "Complete")

    assert status["succeeded"] == 6
    assert "failed" not in status
    assert status["uncountedTerminatedPods"] == {}
    done = await pods(kubectl)
    assert [each["status"]["phase"] for each in done] == ["Succeeded"] * 6
    assert {each["spec"]["nodeName"] for each in done} <= {f"node-{number}" for number in range(4)}
    assert all(not each["metadata"].get("finalizers") for each in done)


async def test_a_job_asked_to_fail_fails(kubectl: Kubectl) -> None:
    annotations = {"sim.usher.dev/runs-for": "100ms", "sim.usher.dev/fails": "true"}
    await kubectl.apply(job("broken", annotations=annotations, backoffLimit=0))

    status = await condition(kubectl, "broken", "Failed")

    assert status["failed"] == 1
    assert "succeeded" not in status
    (pod,) = await pods(kubectl)
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


async def test_a_pod_without_a_job_runs_until_it_is_deleted(kubectl: Kubectl) -> None:
    pod = job("unused", annotations={})["spec"]["template"]
    lone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone"}, "spec": pod["spec"]}
    timed = {**lone, "metadata": {"name": "timed", "annotations": {"sim.usher.dev/runs-for": "100ms"}}}
    await kubectl.apply(lone, timed)

    async def timed_has_ended() -> bool:
        return (await kubectl.get("pod", "timed"))["status"]["phase"] == "Succeeded"

    await eventually(timed_has_ended)
    (still,) = await running_pods(kubectl, 1)
    assert still["metadata"]["name"] == "lone"
    await kubectl("delete", "pod", "lone", "--timeout=30s")
    assert [each["metadata"]["name"] for each in await pods(kubectl)] == ["timed"]


async def test_a_suspended_jobs_pods_go_and_come_back(kubectl: Kubectl) -> None:
    await kubectl.apply(job("pausing", annotations={"sim.usher.dev/runs-for": "1h"}, completions=2, parallelism=2))
    first = {each["metadata"]["uid"] for each in await running_pods(kubectl, 2)}

    await kubectl("patch", "job", "pausing", "-p", '{"spec": {"suspend": true}}')

    async def no_pod_is_left() -> bool:
        return not await pods(kubectl)

    await eventually(no_pod_is_left)
    assert "failed" not in await condition(kubectl, "pausing", "Suspended"), "being suspended is no failure"
    await kubectl("patch", "job", "pausing", "-p", '{"spec": {"suspend": false}}')
    second = {each["metadata"]["uid"] for each in await running_pods(kubectl, 2)}
    assert not first & second


async def test_a_deleted_pod_of_a_job_is_counted_and_replaced(kubectl: Kubectl) -> None:
    await kubectl.apply(job("hardy", annotations={"sim.usher.dev/runs-for": "1h"}, podReplacementPolicy="Failed"))
    (first,) = await running_pods(kubectl, 1)

    await kubectl("delete", "pod", first["metadata"]["name"], "--timeout=30s")

    (second,) = await running_pods(kubectl, 1)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert (await kubectl.get("job", "hardy"))["status"]["failed"] == 1


async def test_a_pod_that_stops_slowly_is_terminating_meanwhile(kubectl: Kubectl) -> None:
    annotations = {"sim.usher.dev/runs-for": "1h", "sim.usher.dev/stops-in": "1h"}
    await kubectl.apply(job("slow", annotations=annotations))
    (pod,) = await running_pods(kubectl, 1)
    await kubectl("patch", "job", "slow", "-p", '{"spec": {"suspend": true}}')

    async def is_terminating() -> bool:
        return (await kubectl.get("job", "slow"))["status"].get("terminating") == 1

    await eventually(is_terminating)
    (still,) = await pods(kubectl)
    assert still["metadata"]["uid"] == pod["metadata"]["uid"]
    assert still["status"]["phase"] == "Running"


async def test_a_pod_that_is_labelled_while_it_runs_does_not_run_longer(kubectl: Kubectl) -> None:
    await kubectl.apply(job("labelled", annotations={"sim.usher.dev/runs-for": "3s"}))
    (pod,) = await running_pods(kubectl, 1)
    count = 0

    async def has_ended() -> bool:
        nonlocal count
        count += 1
        await kubectl("label", "--overwrite", "pod", pod["metadata"]["name"], f"count={count}")
        return (await kubectl.get("pod", pod["metadata"]["name"]))["status"]["phase"] == "Succeeded"

    await eventually(has_ended)
    assert count > 1, "it was labelled while it ran"


async def test_a_pod_that_asks_for_more_than_a_node_has_stays_pending(kubectl: Kubectl) -> None:
    greedy = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "3"}}}
    fits = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    long = {"sim.usher.dev/runs-for": "1h"}
    await kubectl.apply(
        job("greedy", annotations=long, pod={"containers": [greedy]}),
        job("fits", annotations=long, pod={"containers": [fits]}),
    )

    (running,) = await running_pods(kubectl, 1)

    assert running["metadata"]["labels"]["job-name"] == "fits"

    async def says_why() -> bool:
        (waiting,) = [each for each in await pods(kubectl) if each["status"]["phase"] == "Pending"]
        return any(
            "Insufficient nvidia.com/gpu" in each.get("message", "") for each in waiting["status"].get("conditions", [])
        )

    await eventually(says_why)


async def test_a_job_that_kubernetes_refuses_is_refused(kubectl: Kubectl) -> None:
    with pytest.raises(KubectlError, match="parallelism"):
        await kubectl.apply(job("negative", parallelism=-1))
