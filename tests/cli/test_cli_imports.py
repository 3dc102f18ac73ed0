"""What a command imports before it does anything: what is not imported cannot be slow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from usher.cli.main import COMMANDS

HEAVY = {"aiohttp", "uvloop", "prometheus_client", "cryptography", "asyncio", "http", "email", "tempfile"}
"""Each takes a good part of the time that a command may take to start, or more than all of it."""
ENGINE = ("usher.core.engine", "usher.core.world", "usher.app", "usher.runtime", "usher.server", "usher.sim")
"""Only what decides needs these."""
OTHERS = {"up", "down", "manager", "simulate", "install", "uninstall"}
"""Commands that start or write something large, and may take their time."""

SCRIPT = """
import sys
from usher.cli.main import usher
try: usher.main(prog_name="usher")
finally: print(*sys.modules, file=sys.stderr)
"""


def imported(*args: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *args], capture_output=True, text=True, check=False)
    return set(done.stderr.splitlines()[-1].split())


KINDS = {"usher.api.names", "usher.api.times"}
"""What names and times are; the types of our kinds are for those who decide."""


def too_much(modules: set[str]) -> set[str]:
    types = {name for name in modules if name.startswith("usher.api.")} - KINDS
    return _too_much(modules) | types


def _too_much(modules: set[str]) -> set[str]:
    engine = {name for name in modules if any(name == each or name.startswith(f"{each}.") for each in ENGINE)}
    return engine | (HEAVY & {name.partition(".")[0] for name in modules})


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - OTHERS))
def test_a_command_explains_itself_without_the_engine_and_without_aiohttp(name: str) -> None:
    modules = imported(name, "--help")

    assert f"usher.cli.{COMMANDS[name][0].split('.')[2].partition(':')[0]}" in modules
    assert not too_much(modules)


ASKING = {
    "a table": ["get", "queues"],
    "jobs": ["get", "jobs", "-A"],
    "a description": ["describe", "queue", "main"],
    "a picture": ["top", "--once"],
    "a change": ["set", "queue", "main", "weight=1"],
    "a job": ["submit", "-q", "main", "--image", "x"],
    "versions": ["version"],
    "a move": ["move", "a", "--to", "b"],
    "a stop": ["stop", "job", "a"],
}
"""Commands that ask and answer."""
WAITING = {
    "changes": ["get", "queues", "-w"],
    "a job to its end": ["submit", "-q", "main", "--image", "x", "--wait"],
    "a job that is stopped first": ["move", "a", "--to", "b", "--evict"],
    "a job that is taken back": ["resume", "job", "a"],
}
"""Commands that wait for more than answers."""


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    """The kubeconfig of a server that is not there."""
    config = tmp_path / "config"
    config.write_text(
        '{"kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a"}}],'
        '"clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}]}'
    )
    return str(config)


@pytest.mark.parametrize("given", ASKING)
def test_a_cluster_is_asked_without_the_engine_and_without_a_loop(given: str, nowhere: str) -> None:
    modules = imported("--kubeconfig", nowhere, *ASKING[given])

    assert "usher.kube.blocking" in modules
    assert not too_much(modules)


@pytest.mark.parametrize("given", WAITING)
def test_what_waits_does_so_without_the_engine_and_without_aiohttp(given: str, nowhere: str) -> None:
    modules = imported("--kubeconfig", nowhere, *WAITING[given])

    assert "usher.kube.plain" in modules
    assert not too_much(modules) - {"asyncio", "tempfile"}


@pytest.mark.parametrize("given", [["install"], ["uninstall", "--leave-jobs", "--yes"]])
def test_what_installs_waits_for_replicas_and_so_has_a_loop(given: list[str], nowhere: str) -> None:
    assert "usher.kube.plain" in imported("--kubeconfig", nowhere, *given)


def test_the_engine_explains_without_what_only_a_leader_needs(nowhere: str, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("")
    modules = imported("--kubeconfig", nowhere, "explain", "--config", str(settings), "a")

    assert "usher.app.looking" in modules
    assert not {"aiohttp", "uvloop", "prometheus_client", "cryptography"} & modules
    assert not {"usher.app.process", "usher.app.doors", "usher.server.server"} & modules


def test_what_was_written_is_explained_without_deciding_anything(nowhere: str) -> None:
    modules = imported("--kubeconfig", nowhere, "explain", "--stored", "a")

    assert "usher.kube.blocking" in modules
    assert not too_much(modules)
