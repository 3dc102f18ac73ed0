"""The writer on the real control plane: outcomes, order, urgency, limits, and what it does when things go wrong."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from clients import MAPS, ConfigMap, config_map, connected

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.kube import Client, PatchKind
from usher.kube.errors import NotFound
from usher.kube.writer import Writer, WriterSettings
from usher.kube.writes import (
    Conflicted,
    Done,
    Dropped,
    Exists,
    Fenced,
    GaveUp,
    Outcome,
    Refused,
    Stopped,
    Superseded,
    Urgency,
    Vanished,
    Verb,
    Write,
)
from usher.testing import eventually
from usher.testing.proxy import CUT, LOSE_ANSWER, Answer, Fault, Hold, Passed, Proxy

QUICK = WriterSettings(backoff_first_s=0.01, backoff_max_s=0.1, patience_s=60)


@dataclass
class Stage:
    """A namespace seen two ways: directly, and by a writer through a proxy."""

    namespace: str
    direct: Client
    through: Client
    proxy: Proxy
    writer: Writer

    def write(self, verb: Verb, name: str, body: Any = None, **options: Any) -> Write[ConfigMap]:
        return Write(resource=MAPS, verb=verb, name=name, namespace=self.namespace, body=body, **options)

    def patch(self, name: str, number: int | str, **options: Any) -> Write[ConfigMap]:
        return self.write(Verb.PATCH, name, {"data": {"n": str(number)}}, **options)

    async def made(self, name: str, **data: str) -> ConfigMap:
        return await self.direct.create(MAPS, config_map(name, **data), self.namespace)

    async def now(self, name: str) -> ConfigMap:
        return await self.direct.get(MAPS, name, self.namespace)

    async def arrives(self, count: int) -> None:
        """Wait until so many writes came to the proxy."""

        async def came() -> bool:
            return len(self.proxy.writes) == count

        await eventually(came, why=f"{count} writes came to the proxy")


@asynccontextmanager
async def staged(cluster: Cluster, kubectl: Kubectl, **options: Any) -> AsyncIterator[Stage]:
    assert kubectl.namespace
    async with (
        Proxy.to(cluster) as proxy,
        connected(cluster.kubeconfig) as direct,
        connected(proxy.kubeconfig) as through,
    ):
        writer = Writer(through, **({"settings": QUICK} | options))
        yield Stage(kubectl.namespace, direct, through, proxy, writer)
        await writer.drain(0.0)


@pytest.fixture
async def stage(control_plane: Cluster, kubectl: Kubectl) -> AsyncIterator[Stage]:
    async with staged(control_plane, kubectl) as made:
        yield made


def number_of(outcome: Outcome[ConfigMap]) -> str:
    assert isinstance(outcome, Done), outcome
    assert outcome.object is not None
    return outcome.object.data["n"]


async def test_every_verb_is_done_and_counted(stage: Stage) -> None:
    made = await stage.writer.submit(stage.write(Verb.CREATE, "a", config_map("a", n="1")))
    assert number_of(made) == "1"
    assert number_of(await stage.writer.submit(stage.patch("a", 2))) == "2"
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"n": "3"}}
    assert number_of(await stage.writer.submit(stage.write(Verb.APPLY, "a", whole, force=True))) == "3"
    whole["data"] = {"n": "4"}
    assert number_of(await stage.writer.submit(stage.write(Verb.REPLACE, "a", whole))) == "4"
    assert await stage.writer.submit(stage.write(Verb.DELETE, "a")) == Done(None)

    with pytest.raises(NotFound):
        await stage.now("a")
    counters = stage.writer.counters
    assert counters.requests == {
        ("create", 201): 1, ("patch", 200): 1, ("apply", 200): 1, ("replace", 200): 1, ("delete", 200): 1,
    }  # fmt: skip
    assert (counters.submitted, counters.outcomes) == (5, {"Done": 5})
    assert all(counters.seconds[verb.value] > 0 for verb in Verb if verb is not Verb.EVICT)  # see test_eviction


async def test_what_the_server_says_comes_back_as_an_outcome(stage: Stage) -> None:
    old = await stage.made("a", n="1")
    await stage.direct.patch(MAPS, "a", stage.namespace, {"data": {"n": "2"}})
    version = old.metadata.resource_version

    stale = await stage.writer.submit(stage.patch("a", 3, guard=version))
    stale_json = await stage.writer.submit(
        stage.write(
            Verb.PATCH,
            "a",
            [{"op": "replace", "path": "/data/n", "value": "3"}],
            patch=PatchKind.JSON,
            guard=version,
        )
    )
    stale_delete = await stage.writer.submit(stage.write(Verb.DELETE, "a", guard=version))
    there = await stage.writer.submit(stage.write(Verb.CREATE, "a", config_map("a")))
    missing = await stage.writer.submit(stage.patch("b", 1))
    absent = await stage.writer.submit(stage.write(Verb.DELETE, "b"))
    bad = await stage.writer.submit(stage.write(Verb.PATCH, "a", {"data": {"not a key!": "1"}}))

    assert [type(each) for each in (stale, stale_json, stale_delete, there, missing, absent, bad)] == [
        Conflicted, Conflicted, Conflicted, Exists, Vanished, Vanished, Refused,
    ]  # fmt: skip
    assert (await stage.now("a")).data == {"n": "2"}
    assert len(stage.proxy.seen) == 7  # nothing was tried twice, nothing was read


async def test_a_field_of_another_owner_is_a_conflict_and_not_tried_again(stage: Stage) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"n": "1"}}
    await stage.direct.apply(MAPS, "a", stage.namespace, body, field_manager="somebody")
    mine = {**body, "data": {"n": "2"}}

    outcome = await stage.writer.submit(stage.write(Verb.APPLY, "a", mine))

    assert isinstance(outcome, Conflicted)
    assert "somebody" in outcome.error.message
    assert len(stage.proxy.seen) == 1


async def test_a_write_for_an_object_that_was_made_anew_does_not_touch_the_new_one(stage: Stage) -> None:
    old = await stage.made("a", n="1")
    await stage.direct.delete(MAPS, "a", stage.namespace)
    await stage.made("a", n="new")

    for write in (stage.patch("a", 2, uid=old.metadata.uid), stage.write(Verb.DELETE, "a", uid=old.metadata.uid)):
        assert isinstance(await stage.writer.submit(write), Vanished), write
    assert (await stage.now("a")).data == {"n": "new"}


def test_a_write_that_nobody_could_decide_about_cannot_be_made() -> None:
    operations = [{"op": "add", "path": "/list/-", "value": 1}]
    with pytest.raises(ValueError, match="a JSON patch needs a guard"):
        Write(resource=MAPS, verb=Verb.PATCH, name="a", namespace="b", patch=PatchKind.JSON, body=operations)
    with pytest.raises(ValueError, match="needs the object's name"):
        Write(resource=MAPS, verb=Verb.CREATE, name="", namespace="b", body={})


FAULTS: dict[str, Fault] = {
    "throttled": Answer(429, retry_after=1),
    "server error": Answer(500),
    "unavailable": Answer(503),
    "server's time-out": Answer(504),
    "cut before it arrived": CUT,
    "answer lost": LOSE_ANSWER,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("times", [1, 3])
async def test_a_write_that_meets_a_fault_is_done_exactly_once(stage: Stage, fault: Fault, times: int) -> None:
    patched, deleted = await stage.made("patched", n="1"), await stage.made("deleted")
    writes = {
        "POST": stage.write(Verb.CREATE, "created", config_map("created", n="1")),
        "PATCH": stage.patch("patched", 2, guard=patched.metadata.resource_version),
        "DELETE": stage.write(Verb.DELETE, "deleted", uid=deleted.metadata.uid),
    }
    for method in writes:
        stage.proxy.rule(fault, method=method, times=times)

    outcomes = await asyncio.gather(*(stage.writer.submit(write) for write in writes.values()))

    assert [type(outcome) for outcome in outcomes] == [Done, Done, Done], outcomes
    assert (await stage.now("created")).data == {"n": "1"}
    assert (await stage.now("patched")).data == {"n": "2"}
    with pytest.raises(NotFound):
        await stage.now("deleted")
    for method, status in (("POST", 201), ("PATCH", 200), ("DELETE", 200)):
        assert stage.proxy.count(method, status=status) == 1, method


async def test_a_conflict_of_a_write_without_guard_is_tried_again(stage: Stage) -> None:
    await stage.made("a", n="1")
    stage.proxy.rule(Answer(409), method="PATCH", times=2)

    assert number_of(await stage.writer.submit(stage.patch("a", 2))) == "2"
    assert stage.writer.counters.retries == {"conflict": 2}


async def test_a_lost_answer_followed_by_somebodys_change_is_told_as_unsure(stage: Stage) -> None:
    old = await stage.made("a", n="1")
    look = asyncio.Event()
    stage.proxy.rule(LOSE_ANSWER, method="PATCH", times=1)
    stage.proxy.rule(Hold(look), method="GET", times=1)
    pending = stage.writer.submit(stage.patch("a", 2, guard=old.metadata.resource_version))
    await stage.arrives(1)

    async def happened() -> bool:
        return (await stage.now("a")).data == {"n": "2"}

    await eventually(happened)
    await stage.direct.patch(MAPS, "a", stage.namespace, {"data": {"n": "somebody's"}})
    look.set()
    outcome = await pending

    assert isinstance(outcome, Conflicted)
    assert outcome.unsure
    assert outcome.current is not None
    assert outcome.current.data == {"n": "somebody's"}
    assert stage.proxy.count("PATCH") == 1


async def test_a_creation_that_never_arrived_does_not_claim_what_another_made(stage: Stage) -> None:
    look = asyncio.Event()
    stage.proxy.rule(CUT, method="POST", times=1)
    stage.proxy.rule(Hold(look), method="GET", times=1)
    pending = stage.writer.submit(stage.write(Verb.CREATE, "a", config_map("a", n="mine")))
    await stage.arrives(1)
    await stage.made("a", n="theirs")
    look.set()
    outcome = await pending

    assert isinstance(outcome, Exists)
    assert outcome.current is not None
    assert outcome.current.data == {"n": "theirs"}


async def test_a_creation_that_arrives_late_is_not_done_twice(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with staged(control_plane, kubectl) as stage, connected(stage.proxy.kubeconfig, timeout_s=2) as hasty:
        arrive = asyncio.Event()
        stage.proxy.rule(Hold(arrive), method="POST", times=1)
        writer = Writer(hasty, settings=QUICK)
        outcome = await writer.submit(stage.write(Verb.CREATE, "a", config_map("a", n="1")))
        arrive.set()

        async def late() -> bool:
            return stage.proxy.writes[0].status is not None

        await eventually(late, why="the first request arrives after all")
        assert number_of(outcome) == "1"
        assert sorted(each.status or 0 for each in stage.proxy.writes) == [201, 409]


async def test_a_guarded_write_that_arrives_late_is_known_as_ours(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with staged(control_plane, kubectl) as stage, connected(stage.proxy.kubeconfig, timeout_s=2) as hasty:
        old = await stage.made("a", n="1")
        first, second = asyncio.Event(), asyncio.Event()
        stage.proxy.rule(Hold(first), method="PATCH", times=1)
        stage.proxy.rule(Hold(second), method="PATCH", times=1)
        writer = Writer(hasty, settings=QUICK)
        pending = writer.submit(stage.patch("a", 2, guard=old.metadata.resource_version))
        await stage.arrives(2)  # nobody had written when it looked, so it sent again
        first.set()

        async def happened() -> bool:
            return (await stage.now("a")).data == {"n": "2"}

        await eventually(happened, why="the first one arrives after all")
        second.set()

        assert number_of(await pending) == "2"
        assert [each.status for each in stage.proxy.writes] == [200, 409]


async def test_writes_to_one_object_keep_their_order_and_never_overlap(stage: Stage) -> None:
    await stage.made("a", n="0")
    under_way = 0

    def overlaps(request: Passed) -> Fault | None:
        nonlocal under_way
        if request.is_write:
            under_way = max(under_way, stage.writer.in_flight)
            return Answer(503) if len(stage.proxy.writes) % 3 == 0 else None
        return None

    stage.proxy.decide(overlaps)
    outcomes = await asyncio.gather(*(stage.writer.submit(stage.patch("a", n)) for n in range(1, 21)))

    assert [number_of(outcome) for outcome in outcomes] == [str(n) for n in range(1, 21)]
    arrived = [each.json["data"]["n"] for each in stage.proxy.writes if each.status == 200]
    assert arrived == [str(n) for n in range(1, 21)]
    assert under_way == 1


async def test_a_newer_write_replaces_an_older_one_of_its_kind_that_waits(stage: Stage) -> None:
    await stage.made("a", n="0")
    go_on = asyncio.Event()
    stage.proxy.rule(Hold(go_on), method="PATCH", times=1)
    told: list[Outcome[ConfigMap]] = []
    pending = [stage.writer.submit(stage.patch("a", 1, coalesce="n"))]
    await stage.arrives(1)
    pending += [stage.writer.submit(stage.patch("a", n, coalesce="n"), told.append) for n in range(2, 10)]
    go_on.set()
    outcomes = await asyncio.gather(*pending)

    assert [type(each) for each in outcomes] == [Done, *[Superseded] * 7, Done]
    assert told == outcomes[1:]
    assert isinstance(outcomes[1], Superseded)
    assert outcomes[1].by.body == {"data": {"n": "3"}}
    assert [each.json["data"]["n"] for each in stage.proxy.writes] == ["1", "9"]


async def test_a_write_of_another_kind_between_two_keeps_both(stage: Stage) -> None:
    await stage.made("a", n="0")
    go_on = asyncio.Event()
    stage.proxy.rule(Hold(go_on), method="PATCH", times=1)
    pending = [stage.writer.submit(stage.patch("a", 1))]
    await stage.arrives(1)
    for number, kind in ((2, "status"), (3, "resume"), (4, "status")):
        pending.append(stage.writer.submit(stage.patch("a", number, coalesce=kind)))
    go_on.set()
    outcomes = await asyncio.gather(*pending)

    assert [number_of(each) for each in outcomes] == ["1", "2", "3", "4"]


async def test_the_urgent_go_before_the_cosmetic_under_load(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with staged(control_plane, kubectl, settings=WriterSettings(concurrency=2)) as stage:
        for name in ("c", "u"):
            for number in range(20):
                await stage.made(f"{name}{number}")
        go_on = asyncio.Event()
        stage.proxy.rule(Hold(go_on), method="PATCH", times=2)
        pending = [stage.writer.submit(stage.patch(f"c{n}", n, urgency=Urgency.COSMETIC)) for n in range(20)]
        await stage.arrives(2)
        # The last cosmetic object gets an urgent write as well: what waits before it goes early too, in order.
        pending += [stage.writer.submit(stage.patch(f"u{n}", n, urgency=Urgency.URGENT)) for n in range(20)]
        pending.append(stage.writer.submit(stage.patch("c19", "urgent", urgency=Urgency.URGENT)))
        assert stage.writer.waiting == {
            Urgency.URGENT: 21, Urgency.NORMAL: 0, Urgency.COSMETIC: 18, Urgency.SPARE: 0,
        }  # fmt: skip
        go_on.set()
        await asyncio.gather(*pending)

        order = [each.path.rsplit("/", 1)[-1] for each in stage.proxy.writes]
        last_urgent = max(place for place, name in enumerate(order) if name[0] == "u" or name == "c19")
        assert set(order[2 : last_urgent + 1]) == {f"u{n}" for n in range(20)} | {"c19"}
        assert (await stage.now("c19")).data == {"n": "urgent"}


async def test_a_full_queue_drops_the_least_urgent_and_says_so(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with staged(control_plane, kubectl, settings=WriterSettings(concurrency=1, queue_max=3)) as stage:
        for name in "abcdef":
            await stage.made(name)
        go_on = asyncio.Event()
        stage.proxy.rule(Hold(go_on), method="PATCH", times=1)
        levels = {
            "a": Urgency.NORMAL, "b": Urgency.SPARE, "c": Urgency.COSMETIC, "d": Urgency.COSMETIC,
            "e": Urgency.URGENT, "f": Urgency.SPARE,
        }  # fmt: skip
        pending = {"a": stage.writer.submit(stage.patch("a", 1, urgency=levels["a"]))}
        await stage.arrives(1)
        for name in "bcdef":
            pending[name] = stage.writer.submit(stage.patch(name, 1, urgency=levels[name]))
        go_on.set()
        outcomes = dict(zip(pending, await asyncio.gather(*pending.values()), strict=True))

        # b made room for e, and f found it full of what is no less urgent.
        assert {name for name, outcome in outcomes.items() if outcome == Dropped()} == {"b", "f"}
        assert stage.writer.counters.outcomes == {"Done": 4, "Dropped": 2}
        assert (await stage.now("b")).data == {}


async def test_when_the_server_asks_for_quiet_nothing_is_sent(stage: Stage) -> None:
    await stage.made("a")
    await stage.made("b")
    stage.proxy.rule(Answer(429, retry_after=3600), path="/a$", times=1)
    first = stage.writer.submit(stage.patch("a", 1))

    async def throttled() -> bool:
        return stage.writer.counters.retries["throttled"] == 1

    await eventually(throttled)
    second = stage.writer.submit(stage.patch("b", 1, urgency=Urgency.URGENT))

    assert not await stage.writer.drain(0.3)
    assert await first == Stopped(unsure=False)
    assert await second == Stopped(unsure=False)
    assert len(stage.proxy.writes) == 1
    assert stage.writer.allowance == QUICK.concurrency / 2


async def test_the_fence_is_asked_before_every_send_and_after_every_wait(
    control_plane: Cluster, kubectl: Kubectl
) -> None:
    open_ = True
    async with staged(control_plane, kubectl, fence=lambda: open_) as stage:
        old = await stage.made("a", n="0")

        def closes(request: Passed) -> Fault | None:
            nonlocal open_
            open_ = False
            return Answer(503)

        assert number_of(await stage.writer.submit(stage.patch("a", 1))) == "1"
        stage.proxy.decide(closes)
        assert await stage.writer.submit(stage.patch("a", 2)) == Fenced(unsure=True)
        stage.proxy.behave()
        assert await stage.writer.submit(stage.patch("a", 3)) == Fenced(unsure=False)
        own = stage.patch("a", 4, fence=lambda: True, uid=old.metadata.uid)
        assert number_of(await stage.writer.submit(own)) == "4"
        assert [each.json["data"]["n"] for each in stage.proxy.writes] == ["1", "2", "4"]


async def test_a_write_is_given_up_when_its_time_is_over(control_plane: Cluster, kubectl: Kubectl) -> None:
    now = 0.0

    def slow(request: Passed) -> Fault | None:
        nonlocal now
        now += 1
        return Answer(503)

    impatient = WriterSettings(backoff_first_s=0.01, backoff_max_s=0.02, patience_s=5)
    async with staged(control_plane, kubectl, settings=impatient, clock=lambda: now) as stage:
        stage.proxy.decide(slow)
        outcome = await stage.writer.submit(stage.patch("a", 1))

        assert isinstance(outcome, GaveUp)
        assert (outcome.error.status, outcome.unsure) == (503, True)
        assert len(stage.proxy.writes) == stage.writer.counters.retries["unknown"] == 5


async def test_draining_waits_for_what_was_given_and_takes_nothing_more(stage: Stage) -> None:
    for number in range(50):
        await stage.made(f"a{number}")
    stage.proxy.rule(Answer(503), method="PATCH", times=20)
    pending = [stage.writer.submit(stage.patch(f"a{number}", number)) for number in range(50)]

    assert await stage.writer.drain(30)
    assert await stage.writer.submit(stage.patch("a0", "late")) == Stopped()
    assert [number_of(await each) for each in pending] == [str(number) for number in range(50)]


async def test_a_stop_in_the_middle_says_which_writes_may_have_happened(
    control_plane: Cluster, kubectl: Kubectl
) -> None:
    async with staged(control_plane, kubectl, settings=WriterSettings(concurrency=1)) as stage:
        stage.proxy.silence()
        sent = stage.writer.submit(stage.patch("a", 1))
        await stage.arrives(1)
        waiting = stage.writer.submit(stage.patch("b", 1))

        assert not await stage.writer.drain(0.05)
        assert (await sent, await waiting) == (Stopped(unsure=True), Stopped(unsure=False))
        stage.proxy.cut()
