"""Events on the real control plane: what people see, how repeats become series, and what is dropped."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from clients import MAPS, config_map, connected

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.kube import Client
from usher.kube.events import EVENTS, NORMAL, WARNING, EventCounters, Recorder, RecorderSettings, Reference
from usher.kube.writer import Writer, WriterSettings
from usher.kube.writes import Urgency
from usher.testing.proxy import Answer, Proxy


@dataclass
class Stage:
    """A recorder, with a clock that the test sets, that writes through a proxy."""

    namespace: str
    client: Client
    proxy: Proxy
    writer: Writer
    recorder: Recorder
    now: list[float]

    def about(self, name: str) -> Reference:
        return Reference("v1", "ConfigMap", name, self.namespace)

    def record(self, name: str = "a", **options: Any) -> None:
        given = {"type_": NORMAL, "reason": "Started", "action": "Start", "note": "It runs."}
        self.recorder.record(self.about(name), **(given | options))

    async def events(self) -> list[dict[str, Any]]:
        await self.recorder.flush()
        return list((await self.client.list(EVENTS, self.namespace)).items)


@asynccontextmanager
async def staged(cluster: Cluster, kubectl: Kubectl, **settings: Any) -> AsyncIterator[Stage]:
    assert kubectl.namespace
    now = [0.0]
    async with (
        Proxy.to(cluster) as proxy,
        connected(cluster.kubeconfig) as client,
        connected(proxy.kubeconfig) as through,
        Writer(through, settings=WriterSettings(concurrency=4, backoff_first_s=0.01)) as writer,
    ):
        recorder = Recorder(
            writer,
            controller="usher.dev/tests",
            instance="me",
            settings=RecorderSettings(**settings),
            clock=lambda: now[0],
        )
        yield Stage(kubectl.namespace, client, proxy, writer, recorder, now)
        await recorder.close()


@pytest.fixture
async def stage(control_plane: Cluster, kubectl: Kubectl) -> AsyncIterator[Stage]:
    async with staged(control_plane, kubectl) as made:
        yield made


async def test_people_see_the_event_and_how_often_it_happened(stage: Stage, kubectl: Kubectl) -> None:
    await stage.client.create(MAPS, config_map("a"), stage.namespace)
    for number in range(5):
        stage.record(type_=WARNING, reason="Stuck", note=f"It waits, {number}.")
    await stage.recorder.flush()

    lines = (await kubectl("events", "--for", "configmap/a", "--no-headers")).splitlines()
    assert len(lines) == 1
    assert "(x5 over" in lines[0]
    assert lines[0].split()[-6:] == ["Warning", "Stuck", "ConfigMap/a", "It", "waits,", "0."]
    shown = (await kubectl("get", "events", "--no-headers")).split()
    assert shown[-6:] == ["Warning", "Stuck", "configmap/a", "It", "waits,", "0."]


async def test_a_repeated_event_costs_two_writes_until_it_is_refreshed(stage: Stage) -> None:
    for _ in range(100):
        stage.record()
    await stage.recorder.flush()
    assert [(each.method, each.status) for each in stage.proxy.writes] == [("POST", 201), ("PATCH", 200)]
    [event] = await stage.events()
    assert event["series"]["count"] == 100

    writes = len(stage.proxy.writes)
    stage.now[0] += stage.recorder.settings.refresh_s
    stage.record()
    stage.record()
    [event] = await stage.events()
    assert event["series"]["count"] == 102
    assert len(stage.proxy.writes) <= writes + 2
    assert event["series"]["lastObservedTime"] > event["eventTime"]
    assert stage.recorder.counters == EventCounters(recorded=102, created=1, counted=101)


async def test_events_that_differ_in_more_than_their_note_are_told_apart(stage: Stage) -> None:
    stage.record()
    stage.record(note="another note")
    stage.record("b")
    stage.record(reason="Stopped")
    stage.record(type_=WARNING)
    stage.record(action="Restart")

    counts = sorted(event.get("series", {}).get("count", 1) for event in await stage.events())
    assert counts == [1, 1, 1, 1, 2]


async def test_a_series_that_does_not_go_on_is_finished_and_another_begins(stage: Stage) -> None:
    stage.record()
    stage.record()
    await stage.recorder.flush()
    stage.record()
    stage.now[0] += stage.recorder.settings.finish_s
    stage.recorder.finish_idle()
    stage.record()

    counts = sorted(event.get("series", {}).get("count", 1) for event in await stage.events())
    assert counts == [1, 3]


async def test_texts_that_are_too_long_are_cut_and_not_refused(stage: Stage) -> None:
    stage.record("n" * 253, note="ä" * 2000, reason="R" * 500, action="A" * 500)

    [event] = await stage.events()
    assert len(event["note"].encode()) <= 1024
    assert event["note"].startswith("äää")
    assert (len(event["reason"].encode()), len(event["action"].encode())) == (128, 128)
    assert stage.recorder.counters.failed == 0


async def test_an_event_about_something_without_a_namespace_goes_to_default(stage: Stage) -> None:
    related = stage.about("a")
    node = Reference("v1", "Node", f"node-{stage.namespace}")
    stage.recorder.record(node, type_=NORMAL, reason="Seen", action="See", note="It is there.", related=related)
    await stage.recorder.flush()

    found = await stage.client.list(EVENTS, "default", field_selector=f"regarding.name={node.name}")
    assert [(each["regarding"]["kind"], each["related"]["name"]) for each in found.items] == [("Node", "a")]


async def test_under_pressure_events_are_dropped_and_counted_and_nobody_waits(
    control_plane: Cluster, kubectl: Kubectl
) -> None:
    async with staged(control_plane, kubectl, pending_max=10) as stage:
        stage.proxy.silence()
        for number in range(100):
            stage.record(f"object-{number}")
        assert (stage.recorder.pending, stage.recorder.counters.dropped) == (10, 90)
        assert stage.writer.waiting[Urgency.SPARE] == 9, "one at a time"
        stage.proxy.speak()

        assert len(await stage.events()) == 10
        assert stage.recorder.counters == EventCounters(recorded=100, created=10, dropped=90)


async def test_the_oldest_series_makes_room_and_is_written_first(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with staged(control_plane, kubectl, series_max=2) as stage:
        for name in ("a", "a", "a", "b", "c"):
            stage.record(name)
        counts = {event["regarding"]["name"]: event.get("series", {}).get("count", 1) for event in await stage.events()}
        assert counts == {"a": 3, "b": 1, "c": 1}


async def test_an_event_that_the_server_has_forgotten_begins_anew(stage: Stage, kubectl: Kubectl) -> None:
    stage.record()
    await stage.recorder.flush()
    await kubectl("delete", "events", "--all")
    stage.record()
    await stage.recorder.flush()
    assert stage.recorder.counters.failed == 1
    stage.record()

    assert [event["note"] for event in await stage.events()] == ["It runs."]


async def test_a_server_in_trouble_loses_no_event_that_was_taken(stage: Stage) -> None:
    stage.proxy.rule(Answer(500), method="POST", times=3)
    for number in range(5):
        stage.record(f"object-{number}")

    assert len(await stage.events()) == 5
    assert stage.proxy.count("POST", status=201) == 5
