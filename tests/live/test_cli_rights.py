"""The command line for people who may not do everything, and through kubectl."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from acts import GROUP
from commands import environment, normal, shown, started, usher
from living import Live

TENANT = ("--as", "tenant")


async def allow_reading(live: Live) -> None:
    """The tenant reads our kinds in its namespace, and nothing else."""
    kinds = [f"{kind}.{GROUP}" for kind in ("queues", "queueunits")]
    flags = [f"--resource={','.join(kinds)}", "--verb=get,list,watch"]
    await live.kubectl("create", "role", "reader", *flags)
    await live.kubectl("create", "rolebinding", "reader", "--role=reader", "--user=tenant")

    async def may() -> bool:
        return (await usher(live, "get", "queues", *TENANT)).code == 0

    await live.wait("the role counts", may)


async def test_a_tenant_gets_the_stored_explanation_and_is_told_so(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("first", cpu="3", pods=2)
    await live.until("first", "Running")
    await live.job("second", cpu="3")
    await live.until("second", "Enqueued")
    await allow_reading(live)

    async def counted() -> bool:
        return (await live.get("queue", "main")).get("status", {}).get("counts", {}).get("waiting") == 1

    await live.wait("the queue says who waits", counted)
    by_tenant = await usher(live, "explain", "second", *TENANT)
    as_json = await usher(live, "explain", "second", "-o", "json", *TENANT)
    by_admin = await shown(live, "explain", "second")

    assert by_tenant.code == 0
    want = "NS/job-second-HASH is number 1 of 1 in queue NS/main. It asks for 3 cpu; the cluster has 8, 6 in use."
    assert normal(live, by_tenant.out) == want
    assert by_tenant.err.startswith("note: The engine cannot be asked: ")
    assert by_tenant.err.endswith("This is what the manager last wrote.\n")
    assert by_admin.startswith(want)
    document = json.loads(as_json.out)
    assert (document["source"], document["position"], document["waiting"]) == ("status", 1, 1)
    assert document["blocked"]["check"] == "Capacity"


async def test_without_a_manager_the_engine_says_what_one_would_do(live: Live) -> None:
    await live.queue()
    await live.job("small", cpu="1")
    await live.job("huge", cpu="3", pods=4)

    small, huge = await usher(live, "explain", "small"), await usher(live, "explain", "huge")
    stored = await usher(live, "explain", "small", "--stored")

    assert normal(live, small.out) == "NS/job-small-HASH is Dequeued."
    assert small.err == (
        "note: its status says nothing yet: a manager that looks at it now lets it start. "
        "If none does, see: usher version\n"
    )
    assert (huge.code, huge.err) == (0, "")
    assert "It asks for 12 cpu, and the cluster has 8 in all: it can never start." in huge.out
    assert (stored.code, stored.out) == (1, "")
    assert stored.err == "Error: Job small names a queue but has no unit yet. Does a manager run? See: usher version\n"
    assert await live.unit("small") is None


async def test_what_a_tenant_may_not_do_is_refused_with_what_to_do(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("one", cpu="1")
    await live.until("one", "Running")
    await allow_reading(live)

    quotas = await usher(live, "get", "quotas", *TENANT)
    change = await usher(live, "set", "queue", "main", "weight=2", *TENANT)
    stop = await usher(live, "stop", "job", "one", *TENANT)
    picture = await usher(live, "top", "--once", *TENANT)
    await live.kubectl("create", "role", "maker", "--resource=jobs.batch", "--verb=create")
    await live.kubectl("create", "rolebinding", "maker", "--role=maker", "--user=maker")

    async def blind() -> bool:
        flags = ["--image", "none", "--wait", "--as", "maker"]
        done = await usher(live, "submit", "-q", "main", *flags)
        assert done.code == 1
        return done.out.startswith("job.batch/none-") and 'cannot list resource "queueunits"' in done.err

    await live.wait("who may create jobs and see nothing is not kept waiting", blind)

    assert (quotas.code, quotas.out) == (1, "")
    assert quotas.err.endswith(
        "Ask an administrator for a role that may (view reads what Usher has, usher-admin changes it).\n"
    )
    assert 'User "tenant" cannot list resource "queuequotas"' in quotas.err
    assert 'User "tenant" cannot patch resource "queues"' in change.err
    assert stop.code == 1
    assert "Units are changed by usher-admin. What you may do with a job of your own that runs: kubectl" in stop.err
    assert picture.code == 0
    assert "\nQUOTAS: you may not list them\n" in picture.out
    assert f"\n{live.namespace}/one " in picture.out


async def test_a_tenant_may_use_a_shared_queue_that_he_may_not_see(live: Live) -> None:
    await live.queue(stopPolicy="Hold")
    await live.queue("shared", namespace="usher-system")
    await live.start()
    await live.job("one", cpu="1")
    await live.until("one", "Enqueued")
    await live.kubectl("create", "rolebinding", "edit", "--clusterrole=edit", "--user=tenant")
    await allow_reading(live)

    async def may() -> bool:
        return "There are: main. Shared ones" in (await usher(live, "submit", "--image", "x", *TENANT)).err

    await live.wait("the tenant may create jobs", may)
    moved = await usher(live, "move", "one", "--to", "shared", *TENANT)
    made = await usher(live, "submit", "-q", "shared", "--image", "x", "--dry-run=server", "-o", "name", *TENANT)

    assert (moved.code, moved.out, moved.err) == (0, "job one moved: main → shared\n", "")
    assert (made.code, made.err) == (0, "")
    await live.until("one", "Running")


async def test_kubectl_runs_it_as_its_plug_in_and_completes_its_words(live: Live) -> None:
    await live.queue()

    listed = await by_kubectl(live, "usher", "get", "queues", "-n", live.namespace)
    offered = await by_kubectl(live, "__complete", "usher", "get", "queues", "-n", live.namespace, "m")

    assert normal(live, listed).splitlines()[1].startswith("main  Priority  1")
    assert offered.splitlines() == ["main", ":4"]


async def by_kubectl(live: Live, *args: str) -> str:
    """What the real kubectl prints that finds our programs on its path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        live.admin.program, *args, stdout=PIPE, stderr=PIPE, env=environment(live, PATH=path)
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def test_an_usher_that_lives_elsewhere_is_found_by_its_namespace(live: Live) -> None:
    elsewhere = f"home-{live.namespace[-40:]}"
    await live.admin("create", "namespace", elsewhere)
    await live.queue("shared", namespace=elsewhere)
    await live.start(f"systemNamespace={elsewhere}")
    await live.job("one", queue="shared", cpu="99")
    await live.until("one", "Enqueued")

    async def said(*args: str) -> str:
        process = await started(live, *args, env=environment(live, USHER_NAMESPACE=elsewhere))
        out, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")
        return normal(live, out.decode())

    try:
        assert " leads (epoch " in await said("version")
        assert f"number 1 of 1 in queue {normal(live, elsewhere)}/shared. It asks" in await said("explain", "one")
        assert (await said("submit", "-q", "shared", "--image", "x", "--dry-run=server")).endswith("(server dry run)")
    finally:
        await live.stop()
        await live.admin("delete", "namespace", elsewhere, "--wait=false")


async def test_versions_are_those_of_usher_the_server_and_the_leader(live: Live) -> None:
    await live.start()

    found = json.loads((await usher(live, "version", "-o", "json")).out)
    text = await shown(live, "version")

    assert found["server"].startswith("v1.")
    assert found["manager"]["leads"] is True
    assert found["manager"]["epoch"] >= 1
    assert [line.partition(":")[0] for line in text.splitlines()] == ["client", "server", "manager"]
    assert " leads (epoch " in text
    await live.stop()
    assert "nobody leads" in await shown(live, "version")


async def test_the_leader_is_the_holder_of_the_lease_that_the_settings_name(live: Live) -> None:
    elsewhere = f"turn-{live.namespace[-40:]}"
    await live.admin("create", "namespace", elsewhere)
    text = f"systemNamespace: {elsewhere}\nelection:\n  leaseName: turn\n  namespace: {live.namespace}\n"
    await live.admin("create", "configmap", "usher-settings", "-n", elsewhere, f"--from-literal=settings.yaml={text}")
    here = environment(live, USHER_NAMESPACE=elsewhere)
    try:
        await live.start(
            f"systemNamespace={elsewhere}", "election.leaseName=turn", f"election.namespace={live.namespace}"
        )
        process = await started(live, "version", env=here)
        out, err = await process.communicate()
    finally:
        await live.stop()
        await live.admin("delete", "namespace", elsewhere, "--wait=false")
    assert (process.returncode, err) == (0, b"")
    assert " leads (epoch " in out.decode()
