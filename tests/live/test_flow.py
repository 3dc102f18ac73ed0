"""Faults on the real thing, while jobs flow: nothing is lost, nothing starts twice, no limit is exceeded."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from pathlib import Path
from random import Random

import pytest
from flow import Flow, flowing, freeze, thaw

from usher.devcluster.parts import Parts
from usher.testing import eventually
from usher.testing.proxy import CUT, LOSE_ANSWER, Answer, Fault, Passed, Proxy

pytestmark = pytest.mark.flow

OUTAGE_S = 20
"""Long enough for the lease to run out."""
COUNT = int(os.environ.get("USHER_FLOW_JOBS", "500"))


async def test_managers_that_are_killed_at_random_moments_lose_nothing(control_plane_parts: Parts) -> None:
    random = Random(6)
    async with flowing(control_plane_parts) as flow:
        submitting = asyncio.ensure_future(flow.submit(COUNT))
        for share in sorted(random.uniform(0, 0.9) for _ in range(6)):
            process = await flow.manager()
            await _done_in_part(flow, share)
            process.kill()
            await process.wait()
        await submitting
        await flow.manager()
        await flow.until_done(COUNT)
        await flow.check(COUNT)


async def test_an_api_server_that_is_away_for_a_while_costs_only_time(control_plane_parts: Parts) -> None:
    async with flowing(control_plane_parts) as flow:
        await flow.manager()
        submitting = asyncio.ensure_future(flow.submit(COUNT))
        await _done_in_part(flow, 0.2)
        server = Path(f"/proc/{flow.plane.pids['kube-apiserver']}")
        command = (await asyncio.to_thread((server / "cmdline").read_bytes)).split(b"\0")[:-1]
        os.kill(int(server.name), signal.SIGKILL)
        until = time.monotonic() + OUTAGE_S

        async def over() -> bool:
            return time.monotonic() >= until

        await eventually(over, why="the outage is over")  # the length of an outage is what is tried here
        with flow.plane.layout.log("kube-apiserver-again").open("ab") as output:
            again = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
        try:
            await submitting
            await flow.until_done(COUNT)
            await flow.check(COUNT)
        finally:
            again.kill()
            await again.wait()


async def test_a_leader_that_freezes_past_its_lease_changes_nothing_when_it_thaws(control_plane_parts: Parts) -> None:
    async with flowing(control_plane_parts) as flow:
        first = await flow.manager()
        await _somebody_leads(flow, "")
        submitting = asyncio.ensure_future(flow.submit(COUNT))
        await flow.manager()
        await _done_in_part(flow, 0.2)
        holder = await flow.leader()
        freeze(first)
        await _somebody_leads(flow, holder)
        await _done_in_part(flow, 0.4)
        thaw(first)
        await submitting
        await flow.until_done(COUNT)
        await flow.check(COUNT)


async def test_a_standby_takes_over_when_the_leader_is_killed(control_plane_parts: Parts) -> None:
    async with flowing(control_plane_parts) as flow:
        first = await flow.manager()
        await _somebody_leads(flow, "")
        submitting = asyncio.ensure_future(flow.submit(COUNT))
        await flow.manager()
        await _done_in_part(flow, 0.3)
        first.kill()
        await first.wait()
        await submitting
        await flow.until_done(COUNT)
        await flow.check(COUNT)


async def test_cut_watches_failing_writes_and_lost_answers_cost_only_time(control_plane_parts: Parts) -> None:
    async with (
        flowing(control_plane_parts) as flow,
        Proxy(flow.plane.kubeconfig, flow.plane.layout.server) as proxy,
    ):
        flow.kubeconfig = proxy.kubeconfig
        _disturb(proxy)
        await flow.manager("election.leaseDuration=15s", "election.renewDeadline=10s", "election.retryPeriod=2s")
        submitting = asyncio.ensure_future(flow.submit(COUNT))
        for share in (0.1, 0.3, 0.5, 0.7):
            await _done_in_part(flow, share)
            proxy.cut()
        await submitting
        await flow.until_done(COUNT)
        await flow.check(COUNT)


async def _done_in_part(flow: Flow, share: float) -> None:
    async def enough() -> bool:
        return await flow.done() >= share * COUNT

    await eventually(enough, within=900, why=f"{share:.0%} of the jobs have ended")


async def _somebody_leads(flow: Flow, but_not: str) -> None:
    async def leads() -> bool:
        try:
            return await flow.leader() not in ("", but_not)
        except Exception:
            return False

    await eventually(leads, why="somebody else leads")


def _disturb(proxy: Proxy) -> None:
    """Every seventh write fails, each time in another way: not done, done without an answer, or put off."""
    faults = itertools.cycle(
        (Answer(500), LOSE_ANSWER, Answer(429, retry_after=1), CUT, Answer(503), Answer(504), LOSE_ANSWER)
    )
    count = itertools.count(1)

    def decide(request: Passed) -> Fault | None:
        return next(faults) if request.is_write and next(count) % 7 == 0 else None

    proxy.decide(decide)
