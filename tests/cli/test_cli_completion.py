"""What the shell offers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from usher.cli.completion import SHELLS, for_kubectl
from usher.cli.main import COMMANDS, usher


def offered(*words: str) -> list[str]:
    *before, incomplete = words
    return [item.value for item in ShellComplete(usher, {}, "usher", "").get_completions(before, incomplete)]


OFFERS = {
    "commands": (("st",), ["stop"]),
    "kinds": (("get", "qu"), ["queues", "quotas", "queuejobs"]),
    "kinds after flags of the connection": (("-n", "red", "get", "un"), ["units"]),
    "values of a flag": (("get", "queues", "-o", "j"), ["json"]),
    "flags": (("get", "--no"), ["--no-headers"]),
    "nothing where nothing is known": (("get", "frogs", ""), []),
}


@pytest.mark.parametrize("given", OFFERS)
def test_words_are_completed(given: str) -> None:
    words, want = OFFERS[given]

    assert offered(*words) == want


def test_all_commands_are_offered_and_names_need_no_cluster_to_fail_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "does-not-exist")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    assert offered("") == list(COMMANDS)
    assert offered("get", "queues", "") == []
    assert offered("explain", "") == []


def test_kubectl_is_answered_with_words_their_meaning_and_that_no_files_belong_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-usher", "expl"])

    for_kubectl()

    assert capsys.readouterr().out == f"explain\t{COMMANDS['explain'][1]}\n:4\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_for_a_shell_asks_this_program_and_is_one_that_the_shell_can_read(shell: str) -> None:
    done = CliRunner().invoke(usher, ["completion", shell])

    assert done.exit_code == 0
    assert f"_USHER_COMPLETE={shell}_complete" in done.stdout
    program = shutil.which(shell)
    if program is not None:
        checked = subprocess.run([program, "-n"], input=done.stdout, text=True, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_offers_what_the_program_says() -> None:
    script = "source <(usher completion bash); COMP_WORDS=(usher st) COMP_CWORD=1; _usher_completion usher; "
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "-c", script + 'echo "${COMPREPLY[@]}"'],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )

    assert (done.stdout, done.stderr) == ("stop\n", "")
