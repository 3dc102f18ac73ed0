"""Audit mode: the engine decides, what would be done is said, and nothing is written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made import KIND, READING, job

from usher.core import events as ev
from usher.core.engine import Engine
from usher.core.model import Check, Queue, Quota, Settings
from usher.policies.registry import plugins
from usher.runtime.audit import Auditor
from usher.runtime.facts import JobFacts, read_job
from usher.runtime.port import Regarding, Severity

STARTED = {"active": 4, "ready": 4, "startTime": "2026-01-01T00:00:00Z"}
DONE = {"conditions": [{"type": "Complete", "status": "True"}]}


class Heard:
    """A cluster that can only be told things: any write is an error."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def tell(self, regarding: Regarding, severity: Severity, reason: str, action: str, note: str) -> None:
        self.said.append((regarding.name, reason, note))


class World:
    """An auditor over eight cores, and two quotas that share them."""

    def __init__(self, *checks: str) -> None:
        self.cluster, self.now_ms = Heard(), 0
        engine = Engine(Settings(), plugins("drf", "lowest-priority-latest-start"))
        self.auditor = Auditor(self.cluster, engine, READING, [KIND], 1, lambda: self.now_ms)  # type: ignore[arg-type]
        for name in ("red", "blue"):
            quota = Quota(name, namespaces=frozenset({name}))
            queue = Queue(name, "main", quota=name, checks=tuple(Check(each, ()) for each in checks))
            self.auditor.see(ev.QuotaChanged(quota), ev.QueueChanged(queue))
        self.auditor.see(ev.CapacityChanged({"cpu": 8000}))

    def take(self, name: str, namespace: str = "red", status: dict[str, Any] | None = None, **said: Any) -> None:
        """A job of that name is seen."""
        gone = said.pop("gone", False)
        self.auditor.take_job(named(job(status, **said), name, namespace), gone)
        self.auditor.turn()

    def heard(self) -> list[tuple[str, str]]:
        """Who was told what since the last time."""
        found = [(name, reason) for name, reason, _ in self.cluster.said]
        self.texts = [note for _, _, note in self.cluster.said]
        self.cluster.said.clear()
        return found


def named(facts: JobFacts, name: str, namespace: str) -> JobFacts:
    found = facts.found
    meta = msgspec.structs.replace(found.metadata, name=name, namespace=namespace, uid=f"{namespace}-{name}")
    return read_job(KIND, msgspec.structs.replace(found, metadata=meta), READING)


async def test_a_job_that_fits_would_start_and_the_next_would_wait() -> None:
    world = World()
    world.auditor.begin()

    world.take("one", cpu="1")
    world.take("two", cpu="2", suspend=False, status=STARTED)

    assert world.heard() == [("one", "WouldStart"), ("two", "WouldWait")]
    assert world.texts[0] == "Usher would let it start with 4 pods."
    assert world.texts[1].startswith("Usher would keep it waiting. It asks for 8 cpu")


async def test_the_real_end_of_a_job_makes_room() -> None:
    world = World()
    world.auditor.begin()
    world.take("one", cpu="2")
    world.take("two", cpu="2")
    assert world.heard() == [("one", "WouldStart"), ("two", "WouldWait")]

    world.take("one", cpu="2", status=DONE)

    assert world.heard() == [("two", "WouldStart")]


async def test_a_job_that_is_deleted_or_changed_is_decided_anew() -> None:
    world = World()
    world.auditor.begin()
    world.take("one", cpu="2")
    world.take("two", cpu="2")
    world.heard()

    world.take("one", cpu="2", gone=True)
    assert world.heard() == [("two", "WouldStart")]

    world.take("two", cpu="1")
    world.take("three", cpu="1")
    assert world.heard() == [("two", "WouldStart"), ("three", "WouldStart")]


async def test_what_was_lent_would_be_taken_back() -> None:
    world = World()
    world.auditor.begin()
    world.take("borrower", cpu="2")

    world.take("lender", "blue", cpu="1")

    assert world.heard() == [
        ("borrower", "WouldStart"),
        ("borrower", "WouldStop"),
        ("lender", "WouldWait"),
        ("lender", "WouldStart"),
    ]
    assert world.texts[1].startswith("Usher would stop it. What it had borrowed was taken back for blue/job-lender-")
    assert world.auditor.numbers.evictions.total() == 1


async def test_jobs_that_run_when_it_comes_are_charged_and_not_spoken_of() -> None:
    world = World()
    world.take("old", cpu="2", suspend=False, status=STARTED)
    world.auditor.begin()

    world.take("new", cpu="1")

    assert world.heard() == [("new", "WouldWait")]


async def test_checks_are_not_asked_and_count_as_agreed() -> None:
    world = World("budget")
    world.auditor.begin()

    world.take("one", cpu="1")

    assert world.heard() == [("one", "WouldCheck"), ("one", "WouldStart")]
    view = world.auditor.engine.unit(next(iter(world.auditor.entries)))
    assert view is not None
    assert view.phase.value == "Running"


async def test_jobs_without_a_queue_are_none_of_its_business() -> None:
    world = World()
    world.auditor.begin()

    world.take("plain", queue="")

    assert world.heard() == []
    assert world.auditor.entries == {}


@pytest.mark.parametrize("adopt", [True, False])
async def test_jobs_that_are_to_be_left_alone_take_no_room(adopt: bool) -> None:
    world = World()
    world.auditor.settings = msgspec.structs.replace(world.auditor.settings, adopt=adopt)
    world.take("old", cpu="2", suspend=False, status=STARTED)
    world.auditor.begin()

    world.take("new", cpu="1")

    assert world.heard() == [("new", "WouldWait" if adopt else "WouldStart")]
