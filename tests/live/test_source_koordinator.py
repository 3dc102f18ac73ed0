"""Beside the real koord-scheduler: the same shares, object by object, and nothing released that it cannot place.

Long, because the scheduler is built once (minutes): part of `make flow`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from living import KINDS, Live, job
from sourcing import ELASTIC, install_elastic, offer, remove_crds, shares, unit, until_queue

from usher.api.times import ms_of
from usher.app.process import ManagerProcess
from usher.core import events as ev
from usher.core.amounts import amount
from usher.core.commands import Admit, Command, Reserve
from usher.core.engine import Engine
from usher.kube.informer import Informer
from usher.kube.store import Delta
from usher.testing.elastic import CHIP, KOORDINATOR, OTHER, elastic_quota
from usher.testing.koordscheduler import NAME as SCHEDULER
from usher.testing.koordscheduler import QUOTAS, find_koord_scheduler, koord_scheduler
from usher.testing.modules import KOORDINATOR as MODULE
from usher.testing.modules import module_folder
from usher.testing.runtimes import (
    UNIT,
    by_largest_remainder,
    random_demand,
    random_tree,
    requests_of,
    rounded_each,
    runtimes,
)

pytestmark = pytest.mark.flow

LABEL = f"{KOORDINATOR}name"
JOBS = int(os.environ.get("USHER_KOORDINATOR_JOBS", "60"))
LEFT_S = 5
"""Longer than the scheduler's pause before it tries a pod again."""
PATIENT = ("election.leaseDuration=60s", "election.renewDeadline=40s", "election.retryPeriod=2s")
"""One term for the whole run, however busy the machine is: what is being written when a term ends is decided anew."""
WAITED_MS = 3_000
"""Who was let start later than so long after it came did wait."""
Object = dict[str, Any]


@pytest.fixture
async def beside(live: Live, tmp_path: Path) -> AsyncIterator[Live]:
    """A control plane with the CRDs of Koordinator and its scheduler."""
    program = await asyncio.to_thread(find_koord_scheduler)
    bases = module_folder(MODULE) / "config" / "crd" / "bases"
    await live.admin("apply", "--server-side", "-f", str(bases))
    await install_elastic(live)
    await live.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": QUOTAS}})
    with koord_scheduler(program, live.admin.kubeconfig, tmp_path):
        yield live
    await live.admin("delete", "-f", str(bases), "--ignore-not-found", "--wait=true")
    await remove_crds(live)


def pod(name: str, quota: str, request: Mapping[str, int]) -> Object:
    requests = {resource: str(n) for resource, n in request.items()}
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL: quota}, "annotations": {"sim.usher.dev/runs-for": "1h"}},
        "spec": {"schedulerName": SCHEDULER, "containers": [container]},
    }


async def said_by_the_scheduler(live: Live, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """By quota: what the scheduler says its runtime is; what it does not mention is zero, there as here."""
    items = json.loads(await live.admin("get", ELASTIC, "-n", "default", "-o", "json"))["items"]
    found: dict[str, dict[str, int]] = {name: {} for name in names}
    for each in items:
        said = json.loads(each["metadata"].get("annotations", {}).get(f"{KOORDINATOR}runtime", "{}"))
        found[each["metadata"]["name"]] = {r: amount(r, said.get(r, 0)) for r in (CHIP, OTHER)}
    return found


@pytest.mark.parametrize("seed", range(6))
async def test_the_same_shares_as_the_real_scheduler(beside: Live, seed: int) -> None:
    """Unit for unit: its annotations are what its release computes, and ours differs from that in how it rounds, only.

    `usher.testing.runtimes` says how: one computation, and two ways to divide an amount. With that of release 1.8.0 it
    must give every annotation, with the other what we say, both exactly. Between the two are more than one unit only
    where an amount is divided more than once, in rounds or from level to level (`test_elastic_quotas.py` counts).
    """
    live, random = beside, Random(seed)
    quotas, leaves = random_tree(random)
    asked = random_demand(random, leaves)
    total = {CHIP: 100 * UNIT, OTHER: 80 * UNIT}
    names = [each["metadata"]["name"] for each in quotas]
    want_ours = runtimes(total, quotas, requests_of(asked), by_largest_remainder)
    want_theirs = runtimes(total, quotas, requests_of(asked), rounded_each)
    await offer(live, total)
    try:
        await live.admin.apply(*quotas)
        await live.start("plugins.share=koordinator", "quotas.outsidePods=ignore", "capacityLossGrace=0s")
        await live.admin.apply(*(unit(name, live.namespace, leaf, request) for name, leaf, request in asked))
        await live.kubectl.apply(*(pod(name, leaf, request) for name, leaf, request in asked))
        seen: list[Object] = [{}, {}]

        async def agree() -> bool:
            ours, theirs = shares(live), await said_by_the_scheduler(live, names)
            seen[0] = {name: {r: ours.get(name, {}).get(r, 0) for r in total} for name in names}
            seen[1] = theirs
            return seen == [want_ours, want_theirs]

        try:
            await live.wait("both say what they should", agree, timeout_s=90)
        except AssertionError as error:
            lines = [f"{n}: we {seen[0][n]} of {want_ours[n]}, they {seen[1][n]} of {want_theirs[n]}" for n in names]
            raise AssertionError("\n".join([str(error), *lines])) from None
        assert any(n for each in seen[1].values() for n in each.values())
    finally:
        await live.kubectl("delete", "queueunits", "--all", "--wait=false")
        await live.kubectl("delete", "pods", "--all", "--wait=true")
        await live.admin("delete", ELASTIC, "-n", "default", "--all", "--wait=true")
        await offer(live, {CHIP: None, OTHER: None})


def ten_quotas() -> list[Object]:
    made = [elastic_quota(f"org{o}", min={"cpu": 3}, max={"cpu": 6}, labels={"is-parent": "true"}) for o in range(2)]
    made += [
        elastic_quota(f"org{o}-{t}", min={"cpu": "500m"}, max={"cpu": 2}, labels={"parent": f"org{o}"})
        for o in range(2)
        for t in range(5)
    ]
    return made


class Pending:
    """Who was refused for want of quota, and who was left so.

    This scheduler refuses many a pod at first whose own request it has not counted yet (its quota may be empty), and
    tries again after a second or so: that is no want of quota. Who is still refused after `LEFT_S` was left.
    """

    def __init__(self) -> None:
        self.pods: set[str] = set()
        self.refused: dict[str, int] = {}
        self.left: set[str] = set()

    def hear(self, deltas: Sequence[Delta[Object]]) -> None:
        """Of pods."""
        for delta in deltas:
            found = delta.object
            uid = found["metadata"]["uid"]
            self.pods.add(uid)
            for each in found.get("status", {}).get("conditions", ()):
                if each["type"] == "PodScheduled":
                    self._scheduled(uid, each)
            gone = found["metadata"].get("deletionTimestamp")
            if gone and not found["spec"].get("nodeName"):
                self._over(uid, ms_of(gone))  # it never came to anything

    def _scheduled(self, uid: str, condition: Object) -> None:
        at_ms = ms_of(condition["lastTransitionTime"])
        if condition["status"] == "False":
            if "Insufficient quotas" in condition.get("message", ""):
                self.refused.setdefault(uid, at_ms)
        else:
            self._over(uid, at_ms)

    def _over(self, uid: str, at_ms: int) -> None:
        if uid in self.refused and at_ms - self.refused[uid] > LEFT_S * 1000:
            self.left.add(uid)

    def __str__(self) -> str:
        return f"{len(self.pods)} pods, {len(self.refused)} refused at first, {len(self.left)} left pending for quota"


class Decisions:
    """What a manager's engine hears and says, by job: nothing in it is late, as what is read from a status may be."""

    def __init__(self, process: ManagerProcess) -> None:
        assert process.manager is not None
        self.manager = process.manager
        self._engine = process.manager.engine
        self._calls = 0
        self.came: dict[str, tuple[int, int]] = {}
        """In which call the engine came to know of it, and when."""
        self.let: dict[str, tuple[int, int]] = {}
        """And the same of when it was first let start."""
        process.manager.engine = cast(Engine, self)

    def handle(self, events: Sequence[ev.Event], now_ms: int) -> list[Command]:
        self._calls += 1
        now = (self._calls, now_ms)
        for event in events:
            if isinstance(event, ev.UnitChanged):
                self.came.setdefault(self._job(event.unit.key), now)
        commands = self._engine.handle(events, now_ms)
        for command in commands:
            if isinstance(command, Admit | Reserve):
                self.let.setdefault(self._job(command.key), now)
        return commands

    def _job(self, key: str) -> str:
        job = self.manager.entries[key].job
        assert job is not None
        return job.found.metadata.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def passed(self, alike: Sequence[str]) -> list[tuple[str, str]]:
        """Of jobs that ask for the same, in the order in which they came: who was passed by whom while it waited."""
        return [
            (first, then)
            for place, then in enumerate(alike)
            for first in alike[:place]
            if self.came[first] <= self.let[then] < self.let[first]
        ]


async def run_all(live: Live, queued: bool) -> tuple[Pending, list[list[str]]]:
    """Ten quotas, many jobs of one or two pods; who was left pending, and which jobs of one quota ask for the same."""
    random, pending = Random(8), Pending()
    bodies = []
    alike: dict[tuple[str, str, int], list[str]] = {}
    for i in range(JOBS):
        quota = f"org{random.randrange(2)}-{random.randrange(5)}"
        body = job(
            f"j{i}",
            live.namespace,
            queue="",
            labels={LABEL: quota} if queued else {},
            cpu=random.choice(["250m", "500m"]),  # a core is more than each quota's share: without us none would start
            pods=random.choice([1, 1, 2]),
            runs=f"{random.randint(1, 3)}s",
            suspend=queued,
        )
        template = body["spec"]["template"]
        template["spec"]["schedulerName"] = SCHEDULER
        (container,) = template["spec"]["containers"]
        shape = (quota, container["resources"]["requests"]["cpu"], body["spec"]["parallelism"])
        alike.setdefault(shape, []).append(f"j{i}")
        if not queued:
            template["metadata"]["labels"] = {LABEL: quota}
        bodies.append(body)

    async def done() -> bool:
        page = await live.client.list(KINDS["job"], live.namespace)
        return sum(bool(each.get("status", {}).get("completionTime")) for each in page.items) == JOBS

    pods: Informer[Object] = Informer(live.client, KINDS["pod"], live.namespace)
    pods.listen(pending.hear)
    async with pods:
        for start in range(0, JOBS, 50):
            await live.admin.apply(*bodies[start : start + 50])
        await live.wait("every job is done", done, timeout_s=1800)
    await live.kubectl("delete", "jobs", "--all", "--cascade=foreground", "--wait=true")
    return pending, list(alike.values())


async def test_nothing_is_released_that_the_scheduler_cannot_place(beside: Live) -> None:
    live = beside
    await live.admin.apply(*ten_quotas())
    without, _ = await run_all(live, queued=False)
    process = await live.start("plugins.share=koordinator", *PATIENT)
    await until_queue(live, "org0-0")

    decisions = Decisions(process)
    beneath, alike = await run_all(live, queued=True)

    print(f"{JOBS} jobs: {beneath}; without Usher {without}")  # noqa: T201 - the measurement
    assert without.left, f"there was something to wait for: {without}"
    assert len(beneath.left) * 50 <= len(beneath.pods), f"{beneath}; without Usher {without}"
    assert process.manager is decisions.manager, "one term"
    assert len(decisions.let) == JOBS
    waited = sum(decisions.let[name][1] - came_ms > WAITED_MS for name, (_, came_ms) in decisions.came.items())
    assert waited > JOBS // 4, "many waited"
    assert not [pair for names in alike for pair in decisions.passed(names)], "in queue order"
