"""The two user stories of seed 003, as written, with the real ElasticQuota of Koordinator.

1. Each department has a quota that its developers share; their jobs are queued in one queue per department.
2. Each department has a quota; the jobs of all developers are queued in one queue, each under its own limit. This one
   also with the other kinds of quotas.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from acts import condition
from living import Live
from sourcing import install_elastic, install_trees, remove_crds, until_queue

from usher.testing.elastic import elastic_quota, quota_tree

NAME = "quota.scheduling.koordinator.sh/name"
PRIORITY = "scheduling.x-k8s.io/priority"


@pytest.fixture
async def company(live: Live) -> AsyncIterator[Live]:
    """Developers have namespaces: ann and bob do research, sue sells."""
    await install_elastic(live)
    for person in ("ann", "bob", "sue"):
        await live.admin("create", "namespace", space(live, person))
    yield live
    await remove_crds(live)
    for person in ("ann", "bob", "sue"):
        await live.admin("delete", "namespace", space(live, person), "--wait=false")


def space(live: Live, person: str) -> str:
    return f"{person}-{live.namespace[-8:].strip('-')}"


async def positions(live: Live, queue: str, namespace: str = "usher-system") -> list[int]:
    found = await until_queue(live, queue, namespace)
    return [each["position"] for each in found.get("status", {}).get("queueItemDetails", {}).get("active", ())]


async def test_one_queue_for_each_department(company: Live) -> None:
    live = company
    research = {"namespaces": [space(live, "ann"), space(live, "bob")]}
    await live.admin.apply(
        elastic_quota("research", min={"cpu": 2}, max={"cpu": 3}, annotations=research),
        elastic_quota("sales", min={"cpu": 2}, max={"cpu": 3}, annotations={"namespaces": [space(live, "sue")]}),
    )
    await live.start("plugins.share=koordinator", "reports.otherTenantsNames=true")
    await until_queue(live, "research")
    await until_queue(live, "sales")

    async def submit(person: str, name: str, department: str, priority: int = 0) -> None:
        labels = {NAME: department, PRIORITY: str(priority)}
        await live.job(name, namespace=space(live, person), queue="", labels=labels, cpu="3")

    await submit("ann", "first", "research")
    await live.until("first", "Running", space(live, "ann"))
    await submit("bob", "second", "research")
    await live.until("second", "Enqueued", space(live, "bob"))
    await submit("ann", "urgent", "research", priority=5)
    await live.until("urgent", "Enqueued", space(live, "ann"))
    await submit("sue", "offer", "sales")

    await live.until("offer", "Running", space(live, "sue"))  # another department's queue holds up nobody

    async def one_line() -> bool:
        found = await until_queue(live, "research")
        items = found.get("status", {}).get("queueItemDetails", {}).get("active", ())
        return [each["namespace"] for each in items] == [space(live, "ann"), space(live, "bob")]

    await live.wait("both developers stand in one line, by priority", one_line)
    await live.admin("delete", "job", "first", "-n", space(live, "ann"))
    urgent = await live.until("urgent", "Running", space(live, "ann"))
    assert urgent["status"]["quota"] == "research"
    second = await live.until("second", "Enqueued", space(live, "bob"))
    assert "quota research has 3, 3 in use" in condition(second, "QuotaReserved")["message"]


async def test_one_queue_for_all_and_a_quota_for_each(company: Live) -> None:
    live = company
    await live.admin.apply(
        elastic_quota("employees", min={"cpu": 4}, max={"cpu": 6}),
        elastic_quota("interns", max={"cpu": 1}, annotations={"namespaces": [space(live, "sue")]}),
    )
    await live.queue("company", namespace="usher-system", queuePolicy="PriorityBlocking")
    await live.start("plugins.share=koordinator")

    async def submit(person: str, name: str, quota: str = "", priority: int = 0, cpu: str = "1") -> None:
        labels = {**({NAME: quota} if quota else {}), PRIORITY: str(priority)}
        await live.job(name, namespace=space(live, person), queue="company", labels=labels, cpu=cpu)

    await submit("sue", "task", priority=9)
    task = await live.until("task", "Running", space(live, "sue"))
    assert task["status"]["quota"] == "interns", "by her namespace"
    await submit("sue", "more", priority=9)
    await live.until("more", "Enqueued", space(live, "sue"))
    for i in range(2):
        await submit("ann", f"build-{i}", "employees", cpu="3")
        await live.until(f"build-{i}", "Running", space(live, "ann"))
    await submit("bob", "later", "employees", priority=1, cpu="3")
    await submit("bob", "last", "employees", cpu="1")

    later = await live.until("later", "Enqueued", space(live, "bob"))
    more = await live.unit("more", space(live, "sue"))

    assert more is not None
    assert "quota interns has 1, 1 in use" in condition(more, "QuotaReserved")["message"]
    assert "quota employees has 6, 6 in use" in condition(later, "QuotaReserved")["message"]

    async def three() -> bool:
        return await positions(live, "company") == [1, 2, 3]

    await live.wait("all stand in one line", three)
    await live.admin("delete", "job", "build-0", "-n", space(live, "ann"))
    await live.until("later", "Running", space(live, "bob"))
    last = await live.until("last", "Enqueued", space(live, "bob"))
    assert "behind" in condition(last, "QuotaReserved")["message"], "the line of each quota is kept"
    await live.admin("delete", "job", "task", "-n", space(live, "sue"))
    await live.until("more", "Running", space(live, "sue"))


async def plain_quotas(live: Live) -> None:
    await live.quota("employees", max={"cpu": "6"}, namespaces=[space(live, "ann"), space(live, "bob")])
    await live.quota("interns", max={"cpu": "1"}, namespaces=[space(live, "sue")])


async def tree(live: Live) -> None:
    await install_trees(live)
    employees = {"name": "employees", "max": {"cpu": 6}, "namespaces": [space(live, "ann"), space(live, "bob")]}
    interns = {"name": "interns", "max": {"cpu": 1}, "namespaces": [space(live, "sue")]}
    await live.admin.apply(quota_tree({"name": "root", "children": [employees, interns]}))


async def resource_quotas(live: Live) -> None:
    for person, cpu in (("ann", "6"), ("sue", "1")):
        where = space(live, person)
        await live.admin("label", "namespace", where, "scheduling.x-k8s.io/managed=true")
        await live.admin("create", "quota", "hers", "-n", where, f"--hard=requests.cpu={cpu}")


SOURCES: dict[str, tuple[Callable[[Live], Awaitable[None]], str, str]] = {
    "QueueQuota": (plain_quotas, "employees", "interns"),
    "ElasticQuotaTree": (tree, "employees", "interns"),
    "ResourceQuota": (resource_quotas, "resourcequota:{ann}", "resourcequota:{sue}"),
}
"""Who makes the quotas, and how those of ann and of sue are called."""


@pytest.mark.parametrize("kind", SOURCES)
async def test_one_queue_for_all_and_a_quota_for_each_namespace(company: Live, kind: str) -> None:
    live = company
    make, *names = SOURCES[kind]
    employees, interns = (name.format(ann=space(live, "ann"), sue=space(live, "sue")) for name in names)
    await make(live)
    await live.queue("company", namespace="usher-system", queuePolicy="PriorityBlocking")
    await live.start()

    async def submit(person: str, name: str, priority: int = 0, cpu: str = "1") -> None:
        labels = {PRIORITY: str(priority)}
        await live.job(name, namespace=space(live, person), queue="company", labels=labels, cpu=cpu)

    await submit("sue", "task", priority=9)
    task = await live.until("task", "Running", space(live, "sue"))
    assert task["status"]["quota"] == interns
    await submit("sue", "more", priority=9)
    await live.until("more", "Enqueued", space(live, "sue"))
    for i in range(2):
        await submit("ann", f"build-{i}", cpu="3")
        build = await live.until(f"build-{i}", "Running", space(live, "ann"))  # past hers, who waits for another quota
        assert build["status"]["quota"] == employees
    await submit("ann", "later", cpu="3")

    later = await live.until("later", "Enqueued", space(live, "ann"))
    more = await live.unit("more", space(live, "sue"))

    assert more is not None
    assert f"quota {interns} has 1, 1 in use" in condition(more, "QuotaReserved")["message"]
    assert f"quota {employees} has 6, 6 in use" in condition(later, "QuotaReserved")["message"]

    async def both() -> bool:
        return await positions(live, "company") == [1, 2]

    await live.wait("both stand in one line", both)
    await live.admin("delete", "job", "task", "-n", space(live, "sue"))
    await live.until("more", "Running", space(live, "sue"))
    await live.admin("delete", "job", "build-0", "-n", space(live, "ann"))
    await live.until("later", "Running", space(live, "ann"))
