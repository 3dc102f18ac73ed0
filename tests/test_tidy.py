"""Style as a test: what a reviewer would otherwise have to say again and again."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES_MAX = 500
PUBLIC_HOSTS = {"pypi.org", "files.pythonhosted.org"}
MACHINE_PATH = re.compile(r"(?<![\w.~$}])/(?:root|work|home|Users)/")
SLEEP = re.compile(r"\b(?:time|asyncio)\.sleep\(")


def tracked(*patterns: str) -> list[Path]:
    """The files of the repository that match, as git knows them."""
    listed = subprocess.run(["git", "ls-files", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


PYTHON = tracked("src/*.py", "tests/*.py", "bench/*.py")
TEXT = tracked("*.py", "*.md", "*.toml", "*.yaml", "*.yml", "*.json", "Makefile", ".ci/*")


def shown(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_the_repository_is_read_at_all() -> None:
    assert len(PYTHON) > 20
    assert {"README.md", "Makefile", ".ci/run"} <= set(shown(TEXT))


def test_no_file_is_too_long_to_read_in_one_go() -> None:
    long = [path for path in PYTHON if len(path.read_text().splitlines()) > LINES_MAX]

    assert not shown(long)


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in PYTHON if path.name != "conftest.py" and not path.read_text().lstrip().startswith('"""')]

    assert not shown(silent)


def test_nothing_names_a_path_of_one_machine() -> None:
    naming = [path for path in TEXT if MACHINE_PATH.search(path.read_text())]

    assert not shown(naming)


@pytest.mark.parametrize("example", ["cd {}work/main", "open('{}root/x')", "X={}home/me/x"])
def test_a_path_of_one_machine_would_be_noticed(example: str) -> None:
    assert MACHINE_PATH.search(example.format("/"))


def test_no_test_waits_for_a_time() -> None:
    sleeping = [path for path in tracked("tests/*.py") if SLEEP.search(path.read_text())]

    assert not shown([path for path in sleeping if path != Path(__file__)])


def test_test_names_are_sentences() -> None:
    terse = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked("tests/*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
        if len(name.split("_")) < 4
    ]

    assert not terse


def test_no_two_modules_of_tests_have_one_name() -> None:
    """pytest imports them by their name alone: of two, one would not be collected."""
    names = Counter(path.name for path in tracked("tests/*.py") if path.name != "conftest.py")

    assert not [name for name, count in names.items() if count > 1]


def test_the_lock_names_public_hosts_only() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", (ROOT / "uv.lock").read_text()))

    assert hosts == PUBLIC_HOSTS
