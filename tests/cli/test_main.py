"""The command line itself: help, errors, exit codes, and what it imports."""

import importlib
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from usher import __version__
from usher.cli.main import COMMANDS, main, usher

SLOW = {"asyncio", "ssl", "http", "json", "logging", "concurrent"}
"""Parts of the standard library that would cost more than the help itself."""
OURS = {"usher", "usher.cli", "usher.cli.main"}


def test_help_lists_every_command_and_imports_none_of_them() -> None:
    script = "import sys; sys.argv = ['usher', '--help']\nfrom usher.cli.main import usher\n"
    script += "try: usher.main(prog_name='usher')\nfinally: print(*sys.modules, file=sys.stderr)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert all(f"  {name} " in done.stdout and text in done.stdout for name, (_, text) in COMMANDS.items())
    imported = set(done.stderr.split())
    others = {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) - {"__main__"}
    assert {name for name in others if not name.startswith("_")} == {"click", "usher"}
    assert {name for name in imported if name.partition(".")[0] == "usher"} == OURS
    assert not SLOW & imported


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_in_the_table_exists_and_explains_itself(name: str) -> None:
    module, attribute = COMMANDS[name][0].split(":")
    command = getattr(importlib.import_module(module), attribute)

    assert isinstance(command, click.Command)
    assert CliRunner().invoke(usher, [name, "--help"]).exit_code == 0


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(usher, ["--version"]).stdout == f"usher {__version__}\n"


def test_an_unknown_command_is_a_usage_error_on_stderr() -> None:
    done = CliRunner().invoke(usher, ["frobnicate"])

    assert done.exit_code == 2
    assert done.stdout == ""
    assert "No such command 'frobnicate'" in done.stderr


def test_ctrl_c_ends_a_command_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", interrupted)

    done = CliRunner().invoke(usher, ["get", "queues"])

    assert (done.exit_code, done.output) == (130, "")


def test_a_bug_is_told_in_one_line_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("the unexpected")

    monkeypatch.setattr(usher, "main", broken)
    monkeypatch.setattr("gc.freeze", lambda: None)  # this process goes on, and as it was
    monkeypatch.setattr("gc.set_threshold", lambda _: None)
    monkeypatch.delenv("USHER_DEBUG", raising=False)

    with pytest.raises(SystemExit) as caught:
        main()

    assert caught.value.code == 1
    assert capsys.readouterr().err.startswith("Error: RuntimeError: the unexpected\n")
