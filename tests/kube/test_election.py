"""Elections: who leads, for how long, and what happens when the server, a clock or the main loop misbehaves."""

import asyncio
import datetime
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from clients import connected
from fenced import TIMES

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.kube import Client, load
from usher.kube.election import Election
from usher.kube.lease import LEASES, LeaseTimes, Observation, epoch_of, holder_of
from usher.kube.moments import utc_now
from usher.testing import eventually
from usher.testing.proxy import CUT, LOSE_ANSWER, Answer, Hold, Proxy

LONG = LeaseTimes(duration_s=600, deadline_s=500, renew_s=0.2, retry_s=0.1)
"""Nobody ever gets such a lease by waiting."""


def candidate(kubeconfig: Path, kubectl: Kubectl, identity: str, **options: Any) -> Election:
    assert kubectl.namespace

    def connect() -> Client:
        return Client(load(kubeconfig), user_agent=identity, field_manager=identity)

    return Election(
        connect, namespace=kubectl.namespace, name="leader", identity=identity, **({"times": TIMES} | options)
    )


@asynccontextmanager
async def looking(cluster: Cluster, kubectl: Kubectl) -> AsyncIterator[Callable[[], Any]]:
    """A way to read the lease, for somebody who takes no part."""
    async with connected(cluster.kubeconfig) as client:
        yield lambda: client.get(LEASES, "leader", kubectl.namespace)


async def renews(election: Election, times: int) -> None:
    before = election.renewals

    async def often() -> bool:
        return election.renewals >= before + times

    await eventually(often, why=f"{election.holder} renews {times} times; last error {election.last_error!r}")


async def test_one_leads_and_hands_over_at_once_when_it_stops(control_plane: Cluster, kubectl: Kubectl) -> None:
    first = candidate(control_plane.kubeconfig, kubectl, "a", times=LONG)
    second = candidate(control_plane.kubeconfig, kubectl, "b", times=LONG)
    async with looking(control_plane, kubectl) as lease:
        await first.start()
        term = await first.acquired()
        async with second:
            await renews(first, 3)
            assert (second.term, term.held(), term.epoch) == (None, True, 1)
            assert holder_of(await lease()) == first.holder
            await first.stop()
            assert not term.held()
            async with asyncio.timeout(30):  # far less than the lease lasts
                following = await second.acquired()
            assert (following.epoch, holder_of(await lease())) == (2, second.holder)
        assert (holder_of(await lease()), epoch_of(await lease())) == ("", 2)


async def test_of_many_candidates_exactly_one_leads(control_plane: Cluster, kubectl: Kubectl) -> None:
    candidates = [candidate(control_plane.kubeconfig, kubectl, f"c{number}", times=LONG) for number in range(4)]
    for each in candidates:
        await each.start()
    epochs = []
    while candidates:
        done, rest = await asyncio.wait(
            [asyncio.create_task(each.acquired()) for each in candidates], return_when=asyncio.FIRST_COMPLETED
        )
        leaders = [each for each in candidates if each.term is not None]
        assert len(leaders) == len(done) == 1
        epochs.append(done.pop().result().epoch)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        candidates.remove(leaders[0])
        await leaders[0].stop()

    assert epochs == [1, 2, 3, 4]


async def test_stopping_while_the_lease_is_being_taken_leaves_nobody_holding_it(
    control_plane: Cluster, kubectl: Kubectl
) -> None:
    async with Proxy.to(control_plane) as proxy, looking(control_plane, kubectl) as lease:
        arrive = asyncio.Event()
        proxy.rule(Hold(arrive), method="POST", times=1)
        election = candidate(proxy.kubeconfig, kubectl, "a", times=LONG)
        await election.start()

        async def taking() -> bool:
            return len(proxy.writes) == 1

        await eventually(taking)
        # It reads, before it leaves, whether what it sent has arrived meanwhile.
        hold_reading = asyncio.Event()
        proxy.rule(Hold(hold_reading), method="GET")
        stopping = asyncio.create_task(election.stop())
        arrive.set()

        async def arrived() -> bool:
            return proxy.writes[0].status == 201

        await eventually(arrived)
        hold_reading.set()
        await stopping

        assert (holder_of(await lease()), election.term) == ("", None)
        with pytest.raises(RuntimeError, match="does not stand for election any more"):
            await election.acquired()


async def test_a_leader_that_hears_nothing_steps_down_before_another_may_lead(
    control_plane: Cluster, kubectl: Kubectl
) -> None:
    async with Proxy.to(control_plane) as proxy, looking(control_plane, kubectl) as lease:
        first = candidate(proxy.kubeconfig, kubectl, "a")
        second = candidate(control_plane.kubeconfig, kubectl, "b")
        async with first:
            term = await first.acquired()
            async with second:
                await renews(first, 2)
                proxy.silence()
                await term.ended()
                # It stopped by itself: the lease is still in its name, and the other does not lead.
                assert (holder_of(await lease()), second.term) == (first.holder, None)
                following = await second.acquired()
                assert (term.held(), following.epoch) == (False, 2)
                proxy.speak()
            again = await first.acquired()
            assert again.epoch == 3
            assert not term.held()


@pytest.mark.parametrize("fault", [LOSE_ANSWER, CUT, Answer(500), Answer(429, retry_after=1)])
async def test_a_leader_survives_faults_that_are_shorter_than_its_lease(
    control_plane: Cluster, kubectl: Kubectl, fault: Any
) -> None:
    slow = LeaseTimes(duration_s=20, deadline_s=15, renew_s=0.2, retry_s=0.1)
    async with Proxy.to(control_plane) as proxy:
        rule = proxy.rule(fault, method="PUT|POST", times=1)
        async with candidate(proxy.kubeconfig, kubectl, "a", times=slow) as election:
            term = await election.acquired()
            assert rule.spent
            await renews(election, 1)
            rule = proxy.rule(fault, method="PUT", times=2)
            await renews(election, 3)

            assert rule.spent
            assert term.held()
            assert election.terms == 1


async def test_somebody_elses_label_on_the_lease_changes_nothing(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with candidate(control_plane.kubeconfig, kubectl, "a") as election, looking(control_plane, kubectl) as lease:
        term = await election.acquired()
        await kubectl("label", "lease", "leader", "seen=yes")
        await renews(election, 3)

        assert term.held()
        assert (await lease())["metadata"]["labels"] == {"seen": "yes"}


async def test_a_lease_that_is_deleted_ends_the_term_and_epochs_go_on(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with candidate(control_plane.kubeconfig, kubectl, "a") as election:
        term = await election.acquired()
        await kubectl("delete", "lease", "leader")
        await term.ended()
        assert (await election.acquired()).epoch == 2
    async with candidate(control_plane.kubeconfig, kubectl, "b", epoch_floor=lambda: 40) as election:
        assert (await election.acquired()).epoch == 41


async def test_a_lease_that_was_taken_by_force_ends_the_term(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with candidate(control_plane.kubeconfig, kubectl, "a", times=LONG) as election:
        term = await election.acquired()
        await kubectl("patch", "lease", "leader", "--type=merge", "-p", '{"spec":{"holderIdentity":"thief"}}')
        async with asyncio.timeout(30):
            await term.ended()
        assert election.term is None


async def test_wall_clocks_may_differ_by_hours(control_plane: Cluster, kubectl: Kubectl) -> None:
    def off_by(hours: int) -> Callable[[], datetime.datetime]:
        return lambda: utc_now() + datetime.timedelta(hours=hours)

    slow = candidate(control_plane.kubeconfig, kubectl, "slow", wall=off_by(-5))
    fast = candidate(control_plane.kubeconfig, kubectl, "fast", wall=off_by(+5))
    async with slow:
        term = await slow.acquired()
        async with fast:
            await renews(slow, 10)  # longer than a lease
            assert term.held()
            assert fast.term is None
            await slow.stop()
            following = await fast.acquired()
            await renews(fast, 10)
            assert (following.held(), following.epoch) == (True, 2)


async def test_a_main_loop_that_never_yields_does_not_lose_the_lease(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with candidate(control_plane.kubeconfig, kubectl, "a") as election:
        term = await election.acquired()
        until, give_up = election.renewals + 8, time.monotonic() + 60
        while election.renewals < until and time.monotonic() < give_up:
            sum(range(10_000))  # busy, and longer than a lease lasts

        assert election.renewals >= until
        assert term.held()
        assert election.terms == 1


def test_times_that_would_let_two_lead_are_refused() -> None:
    with pytest.raises(ValueError, match="renew < deadline < duration"):
        LeaseTimes(duration_s=10, deadline_s=10, renew_s=2, retry_s=1)


def test_a_lease_is_free_only_after_it_did_not_change_for_its_whole_duration() -> None:
    now = 1000.0
    observation = Observation(lambda: now)

    def lease(version: str, holder: str = "x") -> dict[str, Any]:
        metadata = {"name": "leader", "uid": "u", "resourceVersion": version}
        return {"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}}

    assert observation.free_in_s(lease("1"), 10) == 15  # seen just now, however long ago it was renewed
    now += 14
    assert observation.free_in_s(lease("1"), 10) == 1
    assert observation.free_in_s(lease("2"), 10) == 15
    now += 15
    assert observation.free_in_s(lease("2"), 20) == 5  # whoever of the two means longer
    assert observation.free_in_s(lease("2"), 10) == 0
    assert observation.free_in_s(lease("3", holder=""), 10) == 0
