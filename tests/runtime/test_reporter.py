"""How often statuses of queues are written, with a cluster in memory and time in the test's hand."""

from __future__ import annotations

from typing import Any

import msgspec

from usher.api.codec import as_dict, decode
from usher.api.meta import ObjectMeta
from usher.api.queue import Queue, QueueSpec, QueueStatus, UnitCounts
from usher.core import events as ev
from usher.core.engine import Engine
from usher.core.model import Settings
from usher.policies.registry import plugins
from usher.runtime.capacity import Capacity
from usher.runtime.facts import Reading
from usher.runtime.manager import Manager
from usher.runtime.port import Outcome, Regarding, Rejected, Severity, Written
from usher.runtime.report import ReportSettings
from usher.runtime.reporter import Reporter
from usher.runtime.surroundings import Surroundings
from usher.testing.builders import unit


class Stored:
    """A cluster of Queues: patches are merged, and every write is noted."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.written: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.fails = False

    async def patch_queue_status(self, namespace: str, name: str, body: dict[str, Any]) -> Outcome[Queue]:
        if self.fails:
            return Rejected("Timeout", "no answer")
        key = f"{namespace}/{name}"
        self.written.append(key)
        before = self.queues[key]
        status = _merged(as_dict(before.status) if before.status is not None else {}, body["status"])
        version = str(int(before.metadata.resource_version) + 1)
        meta = msgspec.structs.replace(before.metadata, resource_version=version)
        self.queues[key] = msgspec.structs.replace(before, metadata=meta, status=decode(QueueStatus, status))
        return Written(self.queues[key])

    def tell(self, regarding: Regarding, severity: Severity, reason: str, action: str, note: str) -> None:
        self.told.append((regarding.name, reason))


def _merged(before: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    after = dict(before)
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        elif isinstance(value, dict):
            after[key] = _merged(after.get(key) or {}, value)
        else:
            after[key] = value
    return after


class World:
    """Queues, an engine and a reporter."""

    def __init__(self, queues: int, settings: ReportSettings | None = None) -> None:
        self.now_ms = 1_000_000
        self.cluster = Stored()
        self.engine = Engine(Settings(), plugins(share="drf"))
        self.around = Surroundings("usher-system", Capacity(0))
        self.manager = Manager(self.cluster, self.engine, Reading(), [], 1, lambda: self.now_ms)  # type: ignore[arg-type]
        self.reporter = Reporter(self.manager, self.around, settings or ReportSettings())
        for number in range(queues):
            meta = ObjectMeta(name=f"q{number}", namespace="a", uid=str(number), generation=1, resource_version="1")
            self.cluster.queues[f"a/q{number}"] = Queue(metadata=meta, spec=QueueSpec())
            self.around.see_queue(self.cluster.queues[f"a/q{number}"])
        self.happens(*self.around.take(0), ev.CapacityChanged({"cpu": 1000}), ev.Synced())

    def happens(self, *events: ev.Event) -> None:
        self.engine.handle(list(events), self.now_ms)
        self.manager.turns += 1

    async def look(self, after_ms: int = 1_000) -> list[str]:
        """What one more look writes."""
        self.now_ms += after_ms
        self.cluster.written.clear()
        await self.reporter.look()
        return sorted(self.cluster.written)

    def positions(self, queue: str) -> list[int]:
        status = self.cluster.queues[queue].status
        assert status is not None
        return [each.position for each in status.queue_item_details.get("active", ())]


async def test_what_did_not_change_is_not_written() -> None:
    world = World(2)

    assert await world.look() == ["a/q0", "a/q1"]
    assert await world.look() == []
    world.happens(ev.UnitChanged(unit("a/x", queue="q0", cpu=1)))
    assert await world.look() == ["a/q0"]
    world.happens()
    assert await world.look() == []


async def test_no_more_than_so_many_at_once_and_everybody_has_a_turn() -> None:
    world = World(5, ReportSettings(writes_max=2))

    written = [await world.look() for _ in range(3)]

    assert written == [["a/q0", "a/q1"], ["a/q2", "a/q3"], ["a/q4"]]
    assert await world.look() == []


async def test_a_long_list_is_refreshed_more_seldom_and_its_length_at_once() -> None:
    world = World(1, ReportSettings(items_per_interval=1))
    for number in range(3):
        world.happens(ev.UnitChanged(unit(f"a/{number}", queue="q0", cpu=5, seq=number)))
    await world.look()
    assert world.positions("a/q0") == [1, 2, 3]

    world.happens(ev.UnitChanged(unit("a/3", queue="q0", cpu=5, seq=3)))
    await world.look()
    status = world.cluster.queues["a/q0"].status
    assert status is not None
    assert status.counts is not None
    assert status.counts.waiting == 4
    assert world.positions("a/q0") == [1, 2, 3]
    for _ in range(4):
        await world.look()
    assert world.positions("a/q0") == [1, 2, 3, 4]
    assert [await world.look() for _ in range(5)] == [[]] * 5


async def test_a_status_that_somebody_changed_is_put_right() -> None:
    world = World(1)
    await world.look()
    before = world.cluster.queues["a/q0"]
    meta = msgspec.structs.replace(before.metadata, resource_version="9")
    assert before.status is not None
    wrong = msgspec.structs.replace(before.status, counts=UnitCounts(waiting=77))
    world.cluster.queues["a/q0"] = msgspec.structs.replace(before, metadata=meta, status=wrong)
    world.around.see_queue(world.cluster.queues["a/q0"])

    assert await world.look() == ["a/q0"]
    assert world.cluster.queues["a/q0"].status == before.status


async def test_what_an_informer_brings_late_does_not_bring_back_an_old_status() -> None:
    world = World(1)
    old = world.cluster.queues["a/q0"]
    await world.look()

    world.around.see_queue(old)

    assert await world.look() == []


async def test_a_write_that_failed_is_tried_again() -> None:
    world = World(1)
    world.cluster.fails = True
    assert await world.look() == []
    world.cluster.fails = False

    assert await world.look() == ["a/q0"]


async def test_a_problem_is_told_once() -> None:
    world = World(1)
    found = world.cluster.queues["a/q0"]
    meta = msgspec.structs.replace(found.metadata, generation=2, resource_version="2")
    world.cluster.queues["a/q0"] = Queue(metadata=meta, spec=QueueSpec(quota="nowhere"))
    world.around.see_queue(world.cluster.queues["a/q0"])
    world.happens(*world.around.take(0))

    for _ in range(3):
        await world.look()
        world.happens(ev.UnitChanged(unit(f"a/{world.now_ms}", queue="q0", cpu=1)))

    assert world.cluster.told == [("q0", "QuotaMissing")]


async def test_a_queue_that_is_gone_leaves_no_number_behind() -> None:
    world = World(2)
    await world.look()
    for queue in ("a/q0", "a/q1"):
        world.manager.numbers.admitted(queue, 1000)

    world.around.see_queue(world.cluster.queues["a/q1"], gone=True)
    world.happens(*world.around.take(0))
    await world.look()

    assert set(world.manager.numbers.admissions) == {"a/q0"}
