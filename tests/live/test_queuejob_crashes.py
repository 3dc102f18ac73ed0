"""A manager stops exactly at a write for a QueueJob, another takes over: nothing is given twice, nothing is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from acts import granted, until_unit
from failpoints import Match, StopAt, phase
from living import KINDS, Live
from queuejobs import queue_job, until_allocated

from usher.kube.informer import Informer
from usher.kube.store import Delta

pytestmark = pytest.mark.crash

NOTICE = "jobs.queueJobNotice=1s"
Where = tuple[str, Match | None, bool]


def says(name: str, value: int) -> Match:
    """A status in which this is said of the QueueJob."""
    return lambda _, body: body.get("status", {}).get(name) == value


def holds(count: int) -> Match:
    """The status of a unit that records how much it holds."""
    return lambda _, body: [each.get("replicas") for each in body["status"].get("admissions") or ()] == [count]


def must_shrink(_: str, body: dict[str, Any]) -> bool:
    return any("reclaimState" in each for each in body["status"].get("admissions") or ())


def both(table: dict[str, tuple[str, Match | None]]) -> dict[str, Where]:
    """Each write twice: before it is sent, and after it, unconfirmed."""
    return {
        f"{when} {what}": (method, match, when == "after")
        for what, (method, match) in table.items()
        for when in ("before", "after")
    }


class Book:
    """Follows QueueJobs and pods by their versions, which are one order for all objects."""

    def __init__(self) -> None:
        self.most: list[tuple[int, int]] = []
        """What a QueueJob had, from which version on."""
        self.pods: dict[str, int] = {}
        """When each pod came."""

    def hear_queue_jobs(self, deltas: Sequence[Delta[dict[str, Any]]]) -> None:
        for delta in deltas:
            version = int(delta.object["metadata"]["resourceVersion"])
            self.most.append((version, delta.object.get("status", {}).get("allocatedno", 0)))

    def hear_pods(self, deltas: Sequence[Delta[dict[str, Any]]]) -> None:
        for delta in deltas:
            meta = delta.object["metadata"]
            self.pods.setdefault(meta["uid"], int(meta["resourceVersion"]))

    def units_at(self, version: int) -> int:
        """What was allocated when something else had this version."""
        return next(units for at, units in reversed(self.most) if at <= version)


@pytest.fixture
async def book(live: Live) -> AsyncIterator[Book]:
    found = Book()
    jobs: Informer[dict[str, Any]] = Informer(live.client, KINDS["queuejob"], live.namespace)
    pods: Informer[dict[str, Any]] = Informer(live.client, KINDS["pod"], live.namespace)
    jobs.listen(found.hear_queue_jobs)
    pods.listen(found.hear_pods)
    async with jobs, pods:
        await jobs.synced.wait()
        await pods.synced.wait()
        yield found


BEGINNING = both(
    {
        "its unit is made": ("create_unit", None),
        "its unit may start": ("patch_unit_status", phase("Dequeued")),
        "it is told what it has": ("patch_job", says("allocatedno", 3)),
        "its unit is Running": ("patch_unit_status", phase("Running")),
    }
)


@pytest.mark.parametrize("where", BEGINNING)
async def test_it_gets_its_units_once_wherever_the_manager_stops(live: Live, where: str) -> None:
    stop = StopAt(*BEGINNING[where][:2], after=BEGINNING[where][2])
    await live.queue()
    await live.start(wrap=stop)
    await queue_job(live, "asks", resourceno=3)
    await stop.arrives()
    await live.kill()

    await live.start()

    await until_allocated(live, "asks", 3)
    unit = await live.until("asks", "Running")
    assert granted(unit) == 3
    await live.job("rest", cpu="1", pods=5)
    await live.until("rest", "Running")
    await live.job("more", cpu="1")
    more = await live.until("more", "Enqueued")
    assert "the cluster has 8, 8 in use" in more["status"]["message"]


TAKING_BACK = both(
    {
        "the claim is stored": ("patch_unit_status", lambda _, body: "nomination" in body["status"]),
        "its unit is told to shrink": ("patch_unit_status", must_shrink),
        "it is told when": ("patch_job", says("shrinkTo", 4)),
        "it falls": ("patch_job", says("allocatedno", 4)),
        "its unit gives back": ("patch_unit_status", holds(4)),
    }
)


@pytest.mark.parametrize("where", TAKING_BACK)
async def test_what_it_gives_back_is_used_once_wherever_the_manager_stops(live: Live, book: Book, where: str) -> None:
    for name in ("mine", "theirs"):
        await live.quota(name)
        await live.queue(name, quota=name)
    await live.start(NOTICE)
    await queue_job(live, "wide", queue="mine", resourceno=8)
    await until_allocated(live, "wide", 8)
    await live.stop()
    stop = StopAt(*TAKING_BACK[where][:2], after=TAKING_BACK[where][2])
    await live.start(NOTICE, wrap=stop)
    await live.job("owner", queue="theirs", cpu="2", pods=2)
    await stop.arrives()
    await live.kill()

    await live.start(NOTICE)

    await until_allocated(live, "wide", 4)
    await live.until("owner", "Running")
    unit = await until_unit(live, "wide", "holds the rest", lambda unit: granted(unit) == 4)
    assert unit["status"].get("evictions", 0) == 0
    assert len(book.pods) == 2
    assert [book.units_at(version) for version in book.pods.values()] == [4, 4], "its pods came when it had fallen"


GIVING_UP = both(
    {
        "it falls": ("patch_job", says("allocatedno", 2)),
        "its unit follows": ("patch_unit", None),
        "its unit gives back": ("patch_unit_status", holds(2)),
    }
)


@pytest.mark.parametrize("where", GIVING_UP)
async def test_what_its_owner_gives_up_is_free_wherever_the_manager_stops(live: Live, book: Book, where: str) -> None:
    await live.queue()
    await live.start()
    await queue_job(live, "wide", resourceno=8)
    await until_allocated(live, "wide", 8)
    await live.job("next", cpu="3", pods=2)
    await live.until("next", "Enqueued")
    await live.stop()
    stop = StopAt(*GIVING_UP[where][:2], after=GIVING_UP[where][2])
    await live.start(wrap=stop)

    await live.patch("queuejob", "wide", {"spec": {"resourceno": 2}})
    await stop.arrives()
    await live.kill()
    await live.start()

    await until_allocated(live, "wide", 2)
    await live.until("next", "Running")
    await until_unit(live, "wide", "holds the rest", lambda unit: granted(unit) == 2)
    assert [book.units_at(version) for version in book.pods.values()] == [2, 2]
