"""`usher up` and `usher down` as a person meets them."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from usher.cli.main import usher
from usher.devcluster.clusters import is_running
from usher.devcluster.parts import Parts

EXAMPLE = Path(__file__).parents[2] / "examples" / "sample-jobs.yaml"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("USHER_STATE", str(tmp_path))
    return tmp_path


async def run(*args: str) -> tuple[int, str, str]:
    """Run `usher` as a process of its own: exit code, stdout, stderr."""
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-c", "from usher.cli.main import main; main()", *args]
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


REFUSALS = {
    "a name that is no name": (["up", "--name", "My Cluster"], 1, "cannot be a cluster's name"),
    "a quantity that is none": (["up", "--memory", "lots"], 1, "memory 'lots' is not a quantity"),
    "a negative number of nodes": (["up", "--nodes", "-1"], 2, "not in the range"),
    "a file that does not exist": (["up", "--apply", "no/such/file"], 2, "does not exist"),
    "stopping what does not run": (["down", "--name", "ghost"], 1, "No cluster named ghost is running. Running: none."),
}


@pytest.mark.parametrize("given", REFUSALS)
def test_what_cannot_be_done_is_refused_in_plain_words(given: str) -> None:
    args, code, want = REFUSALS[given]

    done = CliRunner().invoke(usher, args)

    assert done.exit_code == code
    assert done.stdout == ""
    assert want in done.stderr


async def test_a_detached_cluster_is_up_until_it_is_taken_down(control_plane_parts: Parts, state: Path) -> None:
    code, out, err = await run("up", "--name", "demo", "--nodes", "2", "--detach", "--apply", str(EXAMPLE))
    try:
        assert code == 0, err
        assert "demo is up after" in out
        assert "2 simulated nodes of 8 cpu, 32Gi" in out
        assert "job.batch/train-small created" in out
        assert f"export KUBECONFIG={state / 'clusters/demo/kubeconfig'}" in out

        code, out, err = await run("up", "--name", "demo")
        assert (code, out) == (1, "")
        assert "demo is running already. Stop it with: usher down --name demo" in err
        code, out, err = await run("down", "--name", "other")
        assert (code, out) == (1, "")
        assert "Running: demo." in err
    finally:
        code, out, err = await run("down", "--name", "demo")
    assert (code, err) == (0, "")
    assert str(state / "clusters/demo/logs") in out
    assert not is_running(state / "clusters/demo")
    assert (state / "clusters/demo/logs/etcd.log").exists()


@pytest.mark.parametrize("mode", [["--detach"], []])
async def test_a_cluster_whose_manifests_are_refused_does_not_stay(
    control_plane_parts: Parts, state: Path, tmp_path: Path, mode: list[str]
) -> None:
    manifest = tmp_path / "bad.yaml"
    manifest.write_text("apiVersion: v1\nkind: NoSuchKind\nmetadata: {name: x}\n")

    code, out, err = await run("up", "--nodes", "1", "--apply", str(manifest), *mode)

    assert (code, out) == (1, "")
    assert 'no matches for kind "NoSuchKind"' in err
    assert not is_running(state / "clusters/usher")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
async def test_a_cluster_in_the_foreground_stops_cleanly_when_told_to(
    control_plane_parts: Parts, state: Path, how: signal.Signals
) -> None:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-c", "from usher.cli.main import main; main()", "up", "--nodes", "1"]
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    first = await process.stdout.readline()
    assert first.startswith(b"usher is up after")

    process.send_signal(how)
    _, err = await process.communicate()

    assert process.returncode == 0
    assert err.decode().splitlines() == ["Starting the control plane ...", "usher has stopped."]
    assert not is_running(state / "clusters/usher")


async def test_a_foreground_cluster_whose_component_dies_says_which_and_fails(control_plane_parts: Parts) -> None:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-c", "from usher.cli.main import main; main()", "up", "--nodes", "1"]
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    await process.stdout.readline()
    os.kill(_component_of(process.pid, "kwok"), signal.SIGKILL)

    _, err = await process.communicate()

    assert process.returncode == 1
    assert "Error: kwok stopped by itself. The end of its log:" in err.decode()
    assert "Traceback" not in err.decode()


def _component_of(owner: int, name: str) -> int:
    """The process of a component: a grandchild of the owner, whose child is the keeper."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue  # it ended while we looked
        parents[int(stat.parent.name)] = (
            text[text.index("(") + 1 : text.rindex(")")],
            int(text.rsplit(")", 1)[1].split()[1]),
        )
    (found,) = [
        pid for pid, (comm, parent) in parents.items() if comm == name and parents.get(parent, ("", 0))[1] == owner
    ]
    return found
