"""What `usher get`, `describe`, `explain` and `top` print of a real cluster, word by word."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from commands import lines, normal, shown, usher
from living import Live

CAPACITY = "It asks for 3 cpu; the cluster has 8, 6 in use."
NEVER = "It asks for 12 cpu, and the cluster has 8 in all: it can never start."


@pytest.fixture
async def scene(live: Live) -> Live:
    """One job runs, two wait: one for room, one for ever."""
    await live.quota("all")
    await live.quota("team", parent="all", namespaces=[live.namespace], weight=2)
    await live.queue()
    await live.start()
    await live.job("first", cpu="3", pods=2)
    await live.until("first", "Running")
    await live.job("second", cpu="3", labels={"team": "blue"})
    await live.until("second", "Enqueued")
    await live.job("huge", cpu="3", pods=4)
    await live.until("huge", "Enqueued")

    async def reported() -> bool:
        status: dict[str, Any] = (await live.get("queue", "main")).get("status", {})
        counts, quota = status.get("counts", {}), (await live.get("quota", "team")).get("status", {})
        return (
            (counts.get("waiting"), counts.get("running")) == (2, 1)
            and len(status.get("queueItemDetails", {}).get("active", ())) == 2
            and (quota.get("waiting"), quota.get("used"), quota.get("deserved")) == (2, {"cpu": "6"}, {"cpu": "8"})
            and status.get("used") == {"cpu": "6"}
        )

    await live.wait("the statuses say how it stands", reported)
    return live


GOLDENS = {
    "queues": (
        ["get", "queues"],
        """
        NAME  POLICY  WEIGHT  WAITING  RUNNING  ALLOCATED  DESERVED  STATE  AGE
        main  Priority  1  2  1  cpu 6  cpu 8  Active  AGE
        """,
    ),
    "queues in full width": (
        ["get", "q", "-o", "wide"],
        "NAME  POLICY  WEIGHT  WAITING  RUNNING  ALLOCATED  DESERVED  STATE  AGE"
        "  PRIORITY  QUOTA  USED  PREEMPTING  MAX-UNITS\n"
        "main  Priority  1  2  1  cpu 6  cpu 8  Active  AGE  -  -  cpu 6  -  -",
    ),
    "units": (
        ["get", "units"],
        """
        NAME  QUEUE  PRIORITY  PHASE  KIND  JOB  AGE
        job-first-HASH  main  0  Running  Job  first  AGE
        job-huge-HASH  main  0  Enqueued  Job  huge  AGE
        job-second-HASH  main  0  Enqueued  Job  second  AGE
        """,
    ),
    "jobs": (
        ["get", "jobs"],
        """
        NAME  KIND  QUEUE  PRIORITY  PHASE  POSITION  AGE
        first  Job  main  0  Running  -  AGE
        huge  Job  main  0  Enqueued  2  AGE
        second  Job  main  0  Enqueued  1  AGE
        """,
    ),
    "jobs in full width": (
        ["get", "job", "second", "huge", "-o", "wide"],
        f"""
        NAME  KIND  QUEUE  PRIORITY  PHASE  POSITION  AGE  QUOTA  REQUEST  EVICTIONS  MESSAGE
        second  Job  main  0  Enqueued  1  AGE  -  cpu 3  0  {CAPACITY}
        huge  Job  main  0  Enqueued  2  AGE  -  cpu 12  0  {NEVER}
        """,
    ),
    "jobs by label": (
        ["get", "jobs", "-l", "team=blue", "--no-headers"],
        "second  Job  main  0  Enqueued  1  AGE",
    ),
    "units by phase": (
        ["get", "units", "--field-selector", "status.phase=Running", "-o", "name"],
        "queueunit.scheduling.x-k8s.io/job-first-HASH",
    ),
    "names of jobs": (
        ["get", "jobs", "-o", "name"],
        """
        job.batch/first
        job.batch/huge
        job.batch/second
        """,
    ),
    "quotas as a tree": (
        ["get", "quotas"],
        """
        NAME  WEIGHT  MIN  MAX  DESERVED  USED  WAITING  HOLDING  STATE  AGE
        all  1  -  -  cpu 8  cpu 6  2  1  Active  AGE
          team  2  -  -  cpu 8  cpu 6  2  1  Active  AGE
        """,
    ),
    "a quota in full width": (
        ["get", "qq/team", "-o", "wide"],
        """
        NAME  WEIGHT  MIN  MAX  DESERVED  USED  WAITING  HOLDING  STATE  AGE  PARENT  LENDS  DEMAND  PREEMPTING
        team  2  -  -  cpu 8  cpu 6  2  1  Active  AGE  all  yes  cpu 9  -
        """,
    ),
    "every namespace": (
        ["get", "queues", "-A", "--field-selector", "metadata.namespace=NS"],
        """
        NAMESPACE  NAME  POLICY  WEIGHT  WAITING  RUNNING  ALLOCATED  DESERVED  STATE  AGE
        NS  main  Priority  1  2  1  cpu 6  cpu 8  Active  AGE
        """,
    ),
    "a queue described": (
        ["describe", "queue", "main"],
        """
        Name:  main
        Namespace:  NS
        State:  Active
        Policy:  Priority
        Weight:  1
        Priority:  -
        Quota:  -
        Checks:  -
        Most units:  -
        Waiting:  2
        Reserved:  0
        Starting:  0
        Running:  1
        Deserved:  cpu 8
        Allocated:  cpu 6
        Used:  cpu 6
        Preempting:  -

        Waiting:
          POSITION  NAMESPACE  UNIT  PRIORITY
          1  NS  job-second-HASH  0
          2  NS  job-huge-HASH  0

        Conditions:
          TYPE  STATUS  REASON  AGE  MESSAGE
          Active  True  Accepted  AGE  -
        """,
    ),
    "a quota described": (
        ["describe", "quota", "team"],
        """
        Name:  team
        State:  Active
        Parent:  all
        Weight:  2
        Lends:  yes
        Namespaces:  NS
        Min:  -
        Max:  -
        Deserved:  cpu 8
        Used:  cpu 6
        Demand:  cpu 9
        Preempting:  -
        Waiting:  2
        Holding:  1

        Conditions:
          TYPE  STATUS  REASON  AGE  MESSAGE
          Active  True  Accepted  AGE  -
        """,
    ),
    "an explanation": (
        ["explain", "second"],
        f"NS/job-second-HASH is number 1 of 2 in queue NS/main. {CAPACITY} "
        "Held by NS/job-first-HASH (6) in quota team. To start it needs 1 more cpu free there.",
    ),
    "an explanation of what can never start": (
        ["explain", "job/huge"],
        f"NS/job-huge-HASH is number 2 of 2 in queue NS/main. {NEVER} Ask for less, or have the limit raised.",
    ),
    "an explanation of what runs": (["explain", "first"], "NS/job-first-HASH is Running."),
    "an explanation as it is stored": (
        ["explain", "second", "--stored"],
        f"NS/job-second-HASH is number 1 of 2 in queue NS/main. {CAPACITY}",
    ),
    "the whole picture": (
        ["top", "--once"],
        f"""
        1 running, 0 starting, 2 waiting, 0 ended

        QUOTA  USED  DESERVED  MAX  WAITING  HOLDING
        all  [|||||||||...]  cpu 6  cpu 8  -  2  1
          team  [|||||||||...]  cpu 6  cpu 8  -  2  1

        QUEUE  POLICY  WAITING  RUNNING  ALLOCATED  DESERVED  STATE
        NS/main  Priority  2  1  cpu 6  cpu 8  Active

        JOB  QUEUE  PHASE  POSITION  PRIORITY  REQUEST  AGE  MESSAGE
        NS/first  main  Running  -  0  cpu 6  AGE  -
        NS/second  main  Enqueued  1  0  cpu 3  AGE  {CAPACITY}
        NS/huge  main  Enqueued  2  0  cpu 12  AGE  {NEVER}
        """,
    ),
}


async def test_what_is_printed_of_a_cluster_is_what_it_was(scene: Live) -> None:
    """One cluster for all of them: a scene takes longer than all the commands."""
    found = {}
    for name, (args, _) in GOLDENS.items():
        found[name] = await shown(scene, *(each.replace("NS", scene.namespace) for each in args))

    assert found == {name: lines(want) for name, (_, want) in GOLDENS.items()}
    await _objects_are_the_servers_own(scene)
    await _a_job_is_described_with_its_events(scene)
    await _names_that_are_not_there_are_named(scene)


async def _objects_are_the_servers_own(live: Live) -> None:
    one = json.loads((await usher(live, "get", "queue", "main", "-o", "json")).out)
    many = yaml.safe_load((await usher(live, "get", "jobs", "-o", "yaml")).out)

    there = await live.get("queue", "main")
    there["metadata"].pop("managedFields")
    assert one == there
    assert [(each["kind"], each["metadata"]["name"]) for each in many["items"]] == [
        ("Job", "first"),
        ("Job", "huge"),
        ("Job", "second"),
    ]
    assert "managedFields" not in many["items"][0]["metadata"]


async def _a_job_is_described_with_its_events(live: Live) -> None:
    text = await shown(live, "describe", "job", "second")

    assert (
        lines(
            """
        Job:  Job second
        Unit:  job-second-HASH
        Namespace:  NS
        Queue:  main
        Position:  1
        """
        )
        in text
    )
    assert f"\nSays:  {CAPACITY}\n" in text
    assert f"\n  QuotaReserved  False  Capacity  AGE  {CAPACITY}" in text
    assert f"\n  Normal  Waiting  AGE  {CAPACITY}" in text


async def _names_that_are_not_there_are_named(live: Live) -> None:
    done = await usher(live, "get", "queues", "main", "nope")

    assert done.code == 1
    assert normal(live, done.out).splitlines()[1].startswith("main  Priority")
    assert done.err == f"Error: There is no Queue nope in namespace {live.namespace}.\n"
    done = await usher(live, "describe", "job", "nope")
    assert (done.code, done.out) == (1, "")
    assert normal(live, done.err) == (
        "Error: There is no job nope in namespace NS. Queued there are: first, huge, second. "
        "Another namespace is chosen by -n."
    )
