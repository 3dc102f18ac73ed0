"""What a manager writes for people: statuses of Queues, QueueQuotas and units, Events, on a real control plane."""

from __future__ import annotations

import json
import re
from typing import Any

from living import Live

Object = dict[str, Any]


async def status_of(live: Live, kind: str, name: str, namespace: str | None = None) -> Object:
    found: Object = (await live.get(kind, name, namespace)).get("status", {})
    return found


async def shows(live: Live, kind: str, name: str, want: Object, namespace: str | None = None) -> Object:
    """Wait until the status of an object has all of this; the status."""
    seen: list[Object] = [{}]

    async def there() -> bool:
        seen[0] = await status_of(live, kind, name, namespace)
        return all(seen[0].get(key) == value for key, value in want.items())

    try:
        await live.wait(f"{kind} {name} shows {want}", there)
    except AssertionError as error:
        raise AssertionError(f"{error}: {json.dumps(seen[0], indent=1)}") from None
    return seen[0]


def active(status: Object) -> Object:
    found: Object = next(each for each in status["conditions"] if each["type"] == "Active")
    return found


async def events_about(live: Live, kind: str, name: str, namespace: str | None = None) -> list[Object]:
    text = await live.admin("get", "events.events.k8s.io", "-A", "-o", "json")
    return [
        each
        for each in json.loads(text)["items"]
        if (each["regarding"]["kind"], each["regarding"]["name"]) == (kind, name)
        and each["regarding"].get("namespace", "") == (live.namespace if namespace is None else namespace)
    ]


async def test_a_queue_shows_its_line_its_counts_and_what_it_has(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("first", cpu="3", pods=2)
    await live.until("first", "Running")
    for name, priority in (("low", "1"), ("high", "9"), ("mid", "5")):
        await live.job(name, cpu="3", labels={"scheduling.x-k8s.io/priority": priority})
    waiting = {name: (await live.until(name, "Enqueued"))["metadata"]["name"] for name in ("high", "mid", "low")}

    counts = {"waiting": 3, "running": 1}
    status = await shows(live, "queue", "main", {"counts": counts, "used": {"cpu": "6"}})

    assert status["queueItemDetails"] == {
        "active": [
            {"name": waiting["high"], "namespace": live.namespace, "priority": 9, "position": 1},
            {"name": waiting["mid"], "namespace": live.namespace, "priority": 5, "position": 2},
            {"name": waiting["low"], "namespace": live.namespace, "priority": 1, "position": 3},
        ]
    }
    assert status["allocated"] == {"cpu": "6"}
    assert status["deserved"] == {"cpu": "8"}
    assert status["observedGeneration"] == 1
    assert (active(status)["status"], active(status)["reason"]) == ("True", "Accepted")

    await live.kubectl("delete", "job", "first")
    for name in ("high", "mid"):
        await live.until(name, "Running")
    await shows(live, "queue", "main", {"counts": {"waiting": 1, "running": 2}, "used": {"cpu": "6"}})


async def test_a_list_is_cut_and_the_rest_is_counted(live: Live) -> None:
    await live.queue(stopPolicy="Hold")
    await live.start("reports.queueItemsMax=2")
    for number in range(4):
        await live.job(f"job-{number}")

    status = await shows(live, "queue", "main", {"counts": {"waiting": 4}})

    async def listed() -> bool:
        found = await status_of(live, "queue", "main")
        return [each["position"] for each in found.get("queueItemDetails", {}).get("active", ())] == [1, 2]

    await live.wait("the first two are listed", listed)
    assert active(status)["reason"] == "Stopped"
    assert active(status)["status"] == "False"


async def test_a_shared_queue_names_nobody_unless_told(live: Live) -> None:
    await live.queue("shared", namespace="usher-system", stopPolicy="Hold")
    process = await live.start()
    await live.job("one", queue="shared")

    status = await shows(live, "queue", "shared", {"counts": {"waiting": 1}}, "usher-system")
    assert status["queueItemDetails"] == {"active": [{"position": 1}]}

    await live.stop(process)
    await live.start("reports.otherTenantsNames=true")
    unit = await live.unit("one")
    assert unit is not None
    named = {"active": [{"name": unit["metadata"]["name"], "namespace": live.namespace, "position": 1}]}
    await shows(live, "queue", "shared", {"queueItemDetails": named}, "usher-system")


async def test_a_status_is_written_only_when_it_changes(live: Live) -> None:
    await live.queue()
    await live.start("reports.queueStatusInterval=100ms", "reports.resourceReportInterval=1s")
    await live.job("one", cpu="1")
    await live.until("one", "Running")
    await shows(live, "queue", "main", {"counts": {"running": 1}, "used": {"cpu": "1"}})
    before = (await live.get("queue", "main"))["metadata"]["resourceVersion"]

    await live.job("other", queue="")  # the manager sees it, and goes round
    for number in range(5):
        await live.kubectl("annotate", "job", "one", f"round={number}", "--overwrite")
    await live.job("two", cpu="1", runs="1s")
    await live.until("two", "Succeed")
    await shows(live, "queue", "main", {"counts": {"running": 1}, "used": {"cpu": "1"}})

    status = await status_of(live, "queue", "main")
    await live.kubectl("annotate", "job", "one", "round=last", "--overwrite")
    after = (await live.get("queue", "main"))["metadata"]
    assert after["resourceVersion"] != before  # the second job was shown
    assert (await live.get("queue", "main"))["status"] == status
    assert after["generation"] == 1


async def test_a_problem_of_a_queue_is_a_condition_and_an_event(live: Live) -> None:
    await live.queue("odd", queuePolicy="Fancy", quota="nowhere")
    await live.start()

    async def told() -> bool:
        return bool(await events_about(live, "Queue", "odd"))

    status = await shows(live, "queue", "odd", {"observedGeneration": 1})
    condition = active(status)
    assert (condition["status"], condition["reason"]) == ("False", "QuotaMissing")
    assert "its quota nowhere does not exist" in condition["message"]
    assert "there is no queue policy Fancy; Priority is used" in condition["message"]
    await live.wait("there is an Event", told)

    await live.quota("nowhere")

    async def mended() -> bool:
        found = active(await status_of(live, "queue", "odd"))
        return (found["status"], found["reason"]) == ("True", "PolicyMissing")

    await live.wait("only the policy is missing", mended)


async def test_a_quota_shows_what_it_deserves_uses_and_lacks(live: Live) -> None:
    await live.quota("tree", max={"cpu": "6"})
    await live.quota("leaf", parent="tree", min={"cpu": "2"}, namespaces=[live.namespace])
    await live.quota("stray", parent="missing")
    await live.queue()
    await live.start()
    await live.job("one", cpu="2", pods=2)
    await live.job("two", cpu="3")
    await live.until("one", "Running")
    await live.until("two", "Enqueued")

    want = {"used": {"cpu": "4"}, "waiting": 1, "holding": 1}
    leaf = await shows(live, "quota", "leaf", want)
    tree = await shows(live, "quota", "tree", want)

    assert leaf["deserved"] == {"cpu": "6"}
    assert leaf["demand"] == {"cpu": "7"}
    assert tree["deserved"] == {"cpu": "6"}
    assert active(leaf)["reason"] == "Accepted"
    stray = await shows(live, "quota", "stray", {"observedGeneration": 1})
    assert (active(stray)["status"], active(stray)["reason"]) == ("False", "ParentMissing")

    async def told() -> bool:
        found = await events_about(live, "QueueQuota", "stray", namespace="")
        return [each["reason"] for each in found] == ["ParentMissing"]

    await live.wait("there is an Event on the quota", told)


async def test_a_unit_shows_what_its_pods_take(live: Live) -> None:
    await live.queue()
    await live.start("reports.resourceReportInterval=1s")
    await live.job("one", cpu="1", pods=3, backoffLimit=10)
    unit = await live.until("one", "Running")
    assert unit["status"]["admissions"] == [{"name": "main", "replicas": 3, "running": 3, "resources": {"cpu": "3"}}]

    await live.admin("cordon", "-l", "kubernetes.io/os=linux")
    try:
        pods = json.loads(await live.kubectl("get", "pods", "-o", "json"))["items"]
        await live.kubectl("delete", "pod", pods[0]["metadata"]["name"])

        async def fewer() -> bool:
            found = await live.unit("one")
            admission = (found or {})["status"]["admissions"][0]
            return (admission["replicas"], admission["running"], admission["resources"]) == (3, 2, {"cpu": "2"})

        await live.wait("two pods are reported", fewer)
    finally:
        await live.admin("uncordon", "-l", "kubernetes.io/os=linux")


async def test_the_reason_of_a_waiting_unit_follows_without_a_decision(live: Live) -> None:
    await live.queue()
    await live.start("reports.resourceReportInterval=1s")
    await live.job("first", cpu="3", pods=2)
    await live.until("first", "Running")
    await live.job("second", cpu="3")
    await live.until("second", "Enqueued")

    await live.queue(stopPolicy="Hold")

    async def says() -> bool:
        unit = await live.unit("second")
        found = next(each for each in (unit or {})["status"]["conditions"] if each["type"] == "QuotaReserved")
        return (found["status"], found["reason"]) == ("False", "QueueStopped")

    await live.wait("the unit says that its queue is stopped", says)


async def test_since_when_a_unit_is_overtaken_is_stored_though_nothing_else_is_written(live: Live) -> None:
    await live.queue()
    await live.start("reports.resourceReportInterval=1s")
    await live.job("first", cpu="3", pods=2)
    await live.until("first", "Running")
    await live.job("big", cpu="3")
    await live.until("big", "Enqueued")
    await live.job("small", cpu="1")
    await live.until("small", "Running")

    async def noted() -> bool:
        return bool(((await live.unit("big")) or {})["status"].get("overtakenSince"))

    await live.wait("it is stored", noted)


async def test_kubectl_describe_shows_what_happened_to_a_job(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("first", cpu="3", pods=2)
    await live.until("first", "Running")
    await live.job("second", cpu="3")
    await live.until("second", "Enqueued")
    await live.queue(stopPolicy="HoldAndDrain")
    await live.until("first", "Enqueued")

    async def told() -> bool:
        first = await live.kubectl("describe", "job", "first")
        second = await live.kubectl("describe", "job", "second")
        return (
            "Admitted" in first
            and "Evicted" in first
            and "Its queue is being drained" in first
            and ("Waiting" in second and "asks for 3 cpu" in second)
        )

    await live.wait("describe shows Admitted, Evicted and Waiting", told)


async def test_a_job_that_cannot_be_read_says_so(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("odd", labels={"scheduling.x-k8s.io/priority": "much"})
    await live.until("odd", "Running")

    async def told() -> bool:
        found = [each for each in await events_about(live, "Job", "odd") if each["reason"] == "BadJob"]
        return len(found) == 1 and "'much' is not a whole number" in found[0]["note"]

    await live.wait("there is one Event", told)


async def test_kubectl_get_shows_queues_and_quotas_at_a_glance(live: Live) -> None:
    await live.quota("glance", namespaces=[live.namespace])
    await live.queue()
    await live.start()
    await live.job("one", cpu="3", pods=2)
    await live.job("two", cpu="3", pods=1)
    await live.until("one", "Running")
    await shows(live, "queue", "main", {"counts": {"waiting": 1, "running": 1}})
    await shows(live, "quota", "glance", {"waiting": 1, "holding": 1})

    async def columns(kind: str, name: str) -> dict[str, str]:
        head, row = (await live.kubectl("get", kind, name, "-o", "wide")).splitlines()
        starts = [match.span() for match in re.finditer(r"\S+\s*", head)]
        return {head[a:b].strip(): row[a:b].strip() for a, b in starts}

    queue = await columns("queue", "main")
    assert (queue["POLICY"], queue["WAITING"], queue["RUNNING"]) == ("Priority", "1", "1")
    assert queue["DESERVED"] == '{"cpu":"8"}'
    quota = await columns("queuequota", "glance")
    assert (quota["USED"], quota["WAITING"]) == ('{"cpu":"6"}', "1")


async def test_events_can_be_turned_off(live: Live) -> None:
    await live.queue()
    await live.start("events.enabled=false")
    await live.job("one", runs="1s")
    await live.until("one", "Succeed")

    found = await events_about(live, "Job", "one")
    assert {each.get("reportingController", "") for each in found} == {"job-controller"}


async def test_units_of_ended_jobs_are_kept_up_to_a_number(live: Live) -> None:
    await live.queue()
    process = await live.start("jobs.finishedUnitsMax=1")
    for name in ("one", "two", "three"):
        await live.job(name, runs="1s")
        await live.wait(f"{name} has ended", _ended(live, name))

    async def kept() -> bool:
        return [name for name in ("one", "two", "three") if await live.unit(name) is not None] == ["three"]

    await live.wait("only the last unit is kept", kept)
    for name in ("one", "two"):
        assert (await live.get("job", name))["status"]["succeeded"] == 1
        await live.kubectl("annotate", "job", name, "seen=again")
    await live.job("four", runs="1s")
    await live.until("four", "Succeed")
    await live.wait("the next takes its place", _gone(live, "three"))
    assert [name for name in ("one", "two") if await live.unit(name) is not None] == []

    async def forgotten() -> bool:
        return process.manager is not None and len(process.manager.entries) == 1

    await live.wait("what is deleted is forgotten", forgotten)

    await live.stop()
    await live.start("jobs.finishedUnitsAge=1s")
    await live.wait("time takes the last", _gone(live, "four"))


def _ended(live: Live, name: str) -> Any:
    async def ended() -> bool:
        return bool((await live.get("job", name)).get("status", {}).get("completionTime"))

    return ended


def _gone(live: Live, name: str) -> Any:
    async def gone() -> bool:
        return await live.unit(name) is None

    return gone
