"""What a command imports before it does anything: what is not imported cannot be slow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from usher.cli.main import COMMANDS

HEAVY = {"aiohttp", "uvloop", "prometheus_client", "cryptography"}
"""Each takes longer to import than a command may take to start."""
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


def too_much(modules: set[str]) -> set[str]:
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
}


@pytest.mark.parametrize("given", ASKING)
def test_a_cluster_is_asked_without_the_engine_and_without_aiohttp(given: str, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        '{"kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a"}}],'
        '"clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}]}'
    )

    modules = imported("--kubeconfig", str(config), *ASKING[given])

    assert "usher.kube.plain" in modules
    assert not too_much(modules)
