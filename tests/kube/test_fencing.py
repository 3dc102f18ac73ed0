"""One leader, fenced: candidates as real processes, killed, frozen and thawed, and an independent watcher's record."""

import asyncio
import contextlib
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from clients import connected
from fenced import CRDS, GROUP, Thing, definition, fence_for, things

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.kube import Client
from usher.kube.errors import Forbidden, KubeError, NotFound
from usher.kube.fencing import BINDINGS, POLICIES, Fence, FenceStuck, anchor, status_probe, wait_until_fenced
from usher.kube.lease import LEASES, holder_of
from usher.kube.resource import Resource
from usher.kube.writer import Writer, WriterSettings
from usher.kube.writes import Done, Fenced, Verb, Write
from usher.testing import eventually


@dataclass
class Candidate:
    """A process that stands for election, and what it says."""

    process: asyncio.subprocess.Process
    said: list[str] = field(default_factory=list)

    @property
    def began(self) -> tuple[int, int]:
        """The epoch in which it first began to write, and the version of the object then."""
        _, epoch, version = next(line for line in self.said if line.startswith("began")).split()
        return int(epoch), int(version)

    async def says(self, word: str, times: int = 1) -> None:
        already = self.said.count(word)

        async def so_often() -> bool:
            return sum(line.split()[0] == word for line in self.said) >= already + times

        try:
            await eventually(so_often, why=f"{word!r} is said {times} times more")
        except AssertionError as error:
            raise AssertionError(f"{error}; the candidate said {self.said[-20:]}") from None

    async def read(self) -> None:
        assert self.process.stdout
        async for line in self.process.stdout:
            self.said.append(line.decode().strip())


@dataclass
class Stage:
    """A kind with a fence, and one object of it, watched from the beginning."""

    namespace: str
    plural: str
    client: Client
    kubeconfig: Path
    stack: contextlib.AsyncExitStack
    seen: list[Thing] = field(default_factory=list)

    @property
    def resource(self) -> Resource[Thing]:
        return things(self.plural)

    @property
    def fence(self) -> Fence:
        return fence_for(self.plural, self.namespace)

    async def candidate(self, identity: str, mode: str = "prudent") -> Candidate:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("candidate.py")),
            str(self.kubeconfig),
            self.namespace,
            self.plural,
            identity,
            mode,
            stdout=asyncio.subprocess.PIPE,
        )
        made = Candidate(process)
        reading = asyncio.create_task(made.read())

        async def end() -> None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await reading

        self.stack.push_async_callback(end)
        return made

    async def watch(self) -> None:
        async with self.client.watch(self.resource, self.namespace, resource_version="0") as watch:
            async for event in watch:
                if event.object is not None:
                    self.seen.append(event.object)

    async def lease_of(self, epoch: int, holder: str = "somebody") -> None:
        """A lease in that epoch, as an election would leave it."""
        spec = {"holderIdentity": holder, "leaseTransitions": epoch, "leaseDurationSeconds": 15}
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": "leader"},
            "spec": spec,
        }
        await self.client.apply(LEASES, "leader", self.namespace, body, force=True)

    async def write(self, **status: object) -> Thing:
        return await self.client.patch(
            self.resource, "the-thing", self.namespace, {"status": status}, subresource="status"
        )

    async def fenced(self, epoch: int) -> None:
        probe = status_probe(
            self.client,
            self.resource,
            "the-thing",
            self.namespace,
            lambda epoch: {"status": {"epoch": epoch, "phase": "probe"}},
        )
        assert await wait_until_fenced(self.fence, epoch, [probe], held=lambda: True)


@asynccontextmanager
async def staged(cluster: Cluster, kubectl: Kubectl) -> AsyncIterator[Stage]:
    assert kubectl.namespace
    plural = f"things{secrets.token_hex(4)}"
    async with connected(cluster.kubeconfig) as client, contextlib.AsyncExitStack() as stack:
        stage = Stage(kubectl.namespace, plural, client, cluster.kubeconfig, stack)
        await client.create(CRDS, definition(plural))
        stack.push_async_callback(client.delete, CRDS, f"{plural}.{GROUP}")

        async def served() -> bool:
            with contextlib.suppress(NotFound):
                body = {"apiVersion": f"{GROUP}/v1", "kind": plural.title(), "metadata": {"name": "the-thing"}}
                return bool(await client.create(stage.resource, body, stage.namespace))
            return False

        await eventually(served, why="the new kind is served")
        for resource, body in zip((POLICIES, BINDINGS), anchor("tests-anchor"), strict=True):
            await client.apply(resource, "tests-anchor", None, body, force=True)  # stays: see fencing.py
        for resource in (POLICIES, BINDINGS):
            stack.push_async_callback(client.delete, resource, stage.fence.name)
        await stage.fence.install(client)
        watching = asyncio.create_task(stage.watch())
        stack.callback(watching.cancel)
        yield stage


@pytest.fixture
async def stage(control_plane: Cluster, kubectl: Kubectl) -> AsyncIterator[Stage]:
    async with staged(control_plane, kubectl) as made:
        yield made


def check_history(stage: Stage, old: Candidate, new: Candidate) -> None:
    """Epochs never fall, and nothing of an older one was accepted after the new leader began."""
    epochs = [thing.status.epoch for thing in stage.seen if thing.status.epoch]
    assert epochs == sorted(epochs)
    (old_epoch, _), (new_epoch, new_version) = old.began, new.began
    assert old_epoch < new_epoch
    assert {old_epoch, new_epoch} <= set(epochs)
    after = [thing for thing in stage.seen if int(thing.metadata.resource_version) > new_version]
    assert after
    assert not [thing for thing in after if thing.status.epoch < new_epoch]
    assert "unexpected" not in " ".join(old.said + new.said)


async def test_when_the_leader_is_killed_another_takes_over_in_the_next_epoch(stage: Stage) -> None:
    old = await stage.candidate("a")
    await old.says("done", 3)
    new = await stage.candidate("b")
    old.process.send_signal(signal.SIGKILL)
    await new.says("done", 3)

    check_history(stage, old, new)


@pytest.mark.parametrize(("mode", "word"), [("prudent", "lost"), ("reckless", "refused")])
async def test_a_leader_that_was_frozen_past_its_lease_writes_nothing_when_it_thaws(
    stage: Stage, mode: str, word: str
) -> None:
    old = await stage.candidate("a", mode)
    await old.says("done", 3)
    new = await stage.candidate("b")
    old.process.send_signal(signal.SIGSTOP)
    await new.says("done", 3)
    old.process.send_signal(signal.SIGCONT)
    await old.says(word)
    await new.says("done", 3)

    check_history(stage, old, new)


async def test_the_same_identity_gets_a_new_epoch_after_a_restart(stage: Stage) -> None:
    first = await stage.candidate("a")
    await first.says("done")
    first.process.send_signal(signal.SIGKILL)
    again = await stage.candidate("a")
    await again.says("done")

    assert first.began[0] < again.began[0]
    assert holder_of(await stage.client.get(LEASES, "leader", stage.namespace)).startswith("a_")


async def test_only_writes_that_concern_the_leader_need_the_epoch_of_the_lease(stage: Stage) -> None:
    await stage.write(note="before there was a lease")
    await stage.lease_of(7)
    await stage.fenced(7)

    with pytest.raises(Forbidden, match=r"written in epoch 6, while the lease .*/leader is in epoch 7"):
        await stage.write(epoch=6, phase="old")
    with pytest.raises(Forbidden, match=r"written in epoch \(none\)"):
        await stage.write(phase="none")
    await stage.write(note="somebody's")
    written = await stage.write(epoch=7, phase="new")
    await stage.write(note="somebody's again")

    assert (written.status.epoch, written.status.phase) == (7, "new")
    await stage.lease_of(8)
    await stage.fenced(8)
    await stage.write(note="not about the epoch")


async def test_without_the_lease_nothing_that_concerns_the_leader_is_written(stage: Stage) -> None:
    await stage.lease_of(1)
    await stage.fenced(1)
    await stage.client.delete(LEASES, "leader", stage.namespace)

    async def refused() -> KubeError | None:
        try:
            await stage.write(epoch=1, phase=secrets.token_hex(4))
        except KubeError as error:
            return error
        return None

    error = await eventually(refused, why="the fence is closed")
    assert stage.fence.refused(error), error
    with pytest.raises(KubeError, match="no params found"):  # nor what concerns others: see Fence.binding
        await stage.write(note="somebody's")
    await stage.lease_of(2)
    await stage.fenced(2)
    await stage.write(note="somebody's")


async def test_waiting_for_the_fence_ends_with_the_term_and_tells_other_refusals(stage: Stage) -> None:
    asked = iter([True, True, False, False])

    async def never(epoch: int) -> None:
        await stage.client.get(stage.resource, "the-thing", stage.namespace)

    assert not await wait_until_fenced(stage.fence, 2, [never], held=lambda: next(asked, False))
    with pytest.raises(FenceStuck, match=r"does not let epoch 2 of the lease .*/leader in, and only that"):
        await wait_until_fenced(stage.fence, 2, [never], held=lambda: True, within_s=0.2)
    probe = status_probe(stage.client, stage.resource, "missing", stage.namespace, lambda epoch: {"status": {}})
    with pytest.raises(NotFound):
        await wait_until_fenced(stage.fence, 2, [probe], held=lambda: True)


async def test_a_writer_that_leads_waits_for_a_server_that_has_not_heard_of_its_epoch(stage: Stage) -> None:
    await stage.lease_of(1)
    await stage.fenced(1)
    leads = True
    writer = Writer(
        stage.client,
        fence=lambda: leads,
        refused_by_fence=stage.fence.refused,
        settings=WriterSettings(backoff_first_s=0.01, backoff_max_s=0.05),
    )

    def phase(epoch: int, text: str) -> Write[Thing]:
        return Write(
            resource=stage.resource,
            verb=Verb.PATCH,
            name="the-thing",
            namespace=stage.namespace,
            subresource="status",
            body={"status": {"epoch": epoch, "phase": text}},
        )

    early = writer.submit(phase(2, "early"))

    async def tried() -> bool:
        return writer.counters.retries["fence"] >= 2

    await eventually(tried)
    assert not early.done()
    await stage.lease_of(2)
    assert isinstance(await early, Done)

    late = writer.submit(phase(1, "late"))
    before = writer.counters.retries["fence"]
    await eventually(lambda: _more(writer, before))
    leads = False
    assert isinstance(await late, Fenced)


async def _more(writer: Writer, than: int) -> bool:
    return writer.counters.retries["fence"] > than
