"""`usher manager --print-config`: what it would run with, in a form that it can read again."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from usher.cli.manager import manager
from usher.settings.loader import load_file, load_text
from usher.settings.tree import Settings


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(manager, ["--print-config", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_without_a_file_it_prints_every_default() -> None:
    assert load_text(printed(), "printed") == Settings()


def test_what_is_printed_is_what_file_and_command_line_say(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("engine: {oversell: 1.2}\nlog: {level: debug}\n")

    found = load_text(printed("--config", str(file), "--set", "log.level=error"), "printed")

    assert found == load_file(file, ["log.level=error"])
    assert (str(found.engine.oversell), found.log.level) == ("6/5", "error")


def test_a_mistake_is_said_and_nothing_is_printed(tmp_path: Path) -> None:
    done = CliRunner().invoke(manager, ["--print-config", "--set", "engine.oversel=2"])

    assert done.exit_code == 1
    assert done.stdout == ""
    assert "engine.oversel: no such setting; did you mean oversell?" in done.stderr
