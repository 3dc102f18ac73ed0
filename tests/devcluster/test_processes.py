"""What happens to processes and files when a control plane stops, dies, or loses its owner."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from usher.devcluster import ControlPlane, DevClusterError, Nodes, components
from usher.devcluster.clusters import is_running, read_record, stop_cluster
from usher.devcluster.holding import Plan, in_background
from usher.devcluster.parts import Parts
from usher.testing import eventually

FEW = Nodes(count=1)
RUNNING = {"keeper", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}


@pytest.fixture(autouse=True)
def logs_of_failures_do_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failed control plane leaves for its owner to read goes where pytest tidies up."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


async def all_gone(pids: dict[str, int]) -> None:
    async def none_is_alive() -> bool:
        return not any(alive(pid) for pid in pids.values())

    await eventually(none_is_alive, why=f"{pids} are gone")


async def test_stopping_leaves_no_process_and_no_file(control_plane_parts: Parts) -> None:
    async with ControlPlane(nodes=FEW, parts=control_plane_parts) as cluster:
        pids, directory = cluster.pids, cluster.directory
        assert pids.keys() == RUNNING
        assert all(alive(pid) for pid in pids.values())
        assert (await cluster.kubectl("get", "nodes", "-o", "name")).split() == ["node/node-0"]

    assert not any(alive(pid) for pid in pids.values())
    assert not directory.exists()


async def test_two_control_planes_run_side_by_side(control_plane_parts: Parts) -> None:
    one, two = (ControlPlane(nodes=FEW, parts=control_plane_parts) for _ in range(2))
    await asyncio.gather(one.start(), two.start())
    try:
        await one.kubectl("create", "configmap", "only-in-one")

        assert "only-in-one" in await one.kubectl("get", "configmaps")
        assert "only-in-one" not in await two.kubectl("get", "configmaps")
        await one.stop()
        assert await two.kubectl("get", "--raw", "/readyz") == "ok"
    finally:
        await asyncio.gather(one.stop(), two.stop())


OWNER = """
import asyncio, json, sys
from usher.devcluster import ControlPlane, Nodes

async def main():
    async with ControlPlane(nodes=Nodes(count=1)) as cluster:
        print(json.dumps({"pids": cluster.pids, "directory": str(cluster.directory)}), flush=True)
        await cluster.watch()

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def owner_process() -> AsyncIterator[tuple[asyncio.subprocess.Process, dict[str, int], Path]]:
    """A process that owns a control plane: the process, and what it said about it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        said = json.loads(await process.stdout.readline())
        yield process, said["pids"], Path(said["directory"])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_killing_the_owner_leaves_no_process_and_no_file(control_plane_parts: Parts) -> None:
    async with owner_process() as (process, pids, directory):
        assert all(alive(pid) for pid in pids.values())

        process.send_signal(signal.SIGKILL)
        await process.wait()

        await all_gone(pids)
        assert not directory.exists()


async def test_killing_the_keeper_takes_the_components_with_it(control_plane_parts: Parts) -> None:
    async with owner_process() as (process, pids, _):
        os.kill(pids["keeper"], signal.SIGKILL)

        await all_gone(pids)
        assert process.stderr is not None
        assert "keeper stopped by itself" in (await process.stderr.read()).decode()


async def test_a_component_that_dies_is_named_with_the_end_of_its_log(control_plane_parts: Parts) -> None:
    cluster = ControlPlane(nodes=FEW, parts=control_plane_parts)
    await cluster.start()
    pids = cluster.pids
    os.kill(pids["kube-scheduler"], signal.SIGKILL)

    with pytest.raises(DevClusterError) as caught:
        await cluster.watch()

    log = cluster.directory / "logs" / "kube-scheduler.log"
    assert str(caught.value).startswith("kube-scheduler stopped by itself")
    assert log.read_text().splitlines()[-1] in str(caught.value)
    assert str(log.parent) in str(caught.value)
    await all_gone(pids)
    assert [path.name for path in cluster.directory.iterdir()] == ["logs"]


async def test_giving_up_while_it_starts_leaves_no_process_and_no_file(control_plane_parts: Parts) -> None:
    cluster = ControlPlane(nodes=FEW, parts=control_plane_parts)
    starting = asyncio.create_task(cluster.start())

    async def etcd_runs() -> dict[str, int]:
        return cluster.pids if "etcd" in cluster.pids else {}

    pids = await eventually(etcd_runs)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    assert not any(alive(pid) for pid in pids.values())
    assert not cluster.directory.exists()


async def test_a_component_that_does_not_start_is_named_with_the_end_of_its_log(control_plane_parts: Parts) -> None:
    cluster = ControlPlane(nodes=FEW, parts=control_plane_parts, extra_args={"kube-scheduler": ["--no-such-flag"]})

    with pytest.raises(DevClusterError, match=r"(?s)kube-scheduler stopped by itself.*unknown flag: --no-such-flag"):
        await cluster.start()


async def test_a_port_that_was_taken_meanwhile_is_replaced(
    control_plane_parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_ports = components.free_ports
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = taken.getsockname()[1]
        chosen = iter([components.Ports(*(used,) * 5), free_ports()])
        monkeypatch.setattr("usher.devcluster.controlplane.free_ports", lambda: next(chosen))

        async with ControlPlane(nodes=FEW, parts=control_plane_parts) as cluster:
            assert cluster.layout.ports.apiserver != used
            assert await cluster.kubectl("get", "--raw", "/readyz") == "ok"


async def test_kept_data_is_there_again_and_is_not_lost_by_mistake(control_plane_parts: Parts, tmp_path: Path) -> None:
    async with ControlPlane(nodes=FEW, parts=control_plane_parts, directory=tmp_path, keep_data=True) as first:
        await first.kubectl("create", "configmap", "precious")
        token = await first.kubectl("create", "token", "default")
        with pytest.raises(DevClusterError, match="is running in"):
            await ControlPlane(nodes=FEW, parts=control_plane_parts, directory=tmp_path, keep_data=True).start()

    with pytest.raises(DevClusterError, match="was to be kept"):
        await ControlPlane(nodes=FEW, parts=control_plane_parts, directory=tmp_path).start()
    async with ControlPlane(nodes=FEW, parts=control_plane_parts, directory=tmp_path, keep_data=True) as second:
        assert "precious" in await second.kubectl("get", "configmaps")
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token.strip()}}
        answer = await second.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review))
        assert json.loads(answer)["status"]["authenticated"]


async def test_a_cluster_in_the_background_ends_when_its_leash_is_let_go(
    control_plane_parts: Parts, tmp_path: Path
) -> None:
    leash = tmp_path / "leash"
    os.mkfifo(leash)
    end = os.open(leash, os.O_RDWR | os.O_NONBLOCK)
    cluster = await asyncio.to_thread(in_background, Plan(tmp_path / "cluster", FEW, leash=leash))
    assert await cluster.kubectl("get", "--raw", "/readyz") == "ok"

    os.close(end)

    async def has_stopped() -> bool:
        return not is_running(cluster.directory)

    await eventually(has_stopped)
    assert not cluster.kubeconfig.exists()
    assert (cluster.logs / "kube-apiserver.log").exists()


async def test_a_cluster_whose_holder_is_killed_can_be_found_out_and_started_again(
    control_plane_parts: Parts, tmp_path: Path
) -> None:
    cluster = await asyncio.to_thread(in_background, Plan(tmp_path, FEW))
    os.kill(cluster.pid, signal.SIGKILL)

    async def has_stopped() -> bool:
        return not is_running(tmp_path)

    await eventually(has_stopped)
    assert read_record(tmp_path) is None
    again = await asyncio.to_thread(in_background, Plan(tmp_path, FEW))
    assert await again.kubectl("get", "--raw", "/readyz") == "ok"
    await asyncio.to_thread(stop_cluster, tmp_path)
    assert not is_running(tmp_path)
