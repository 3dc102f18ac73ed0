"""What the Dockerfile puts into the image, made by its own instructions in a folder, and run as the user of the image.

Images cannot be fetched from where the tests run, so Python is that of the machine; everything else is as in the image:
what is copied, what is run, the environment, the user, and that nothing can be written.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_dockerfile import FOUND, LAST, ROOT

from usher import __version__
from usher.settings.loader import load_text
from usher.settings.tree import Settings

pytestmark = pytest.mark.flow  # the engine is compiled: minutes

UV = Path(sys.executable).with_name("uv")
PLACES = ("/opt/usher", "/source")
"""Folders of the image, which are below another root here."""
(USER,) = [rest for name, rest in LAST if name == "USER"]
NOBODY = {"user": int(USER.split(":")[0]), "group": int(USER.split(":")[1]), "extra_groups": []}
WHO = NOBODY if os.getuid() == 0 else {}
"""Only root can become somebody else; everybody else is nobody in particular already."""


def interpreter() -> str:
    """A Python that the user of the image can run, too."""
    for each in (getattr(sys, "_base_executable", sys.executable), "/usr/local/bin/python3", "/usr/bin/python3"):
        asked = [each, "-c", "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(asked, cwd="/", capture_output=True, check=False, **WHO).returncode == 0:  # type: ignore[call-overload]
                return str(each)
        except OSError:
            continue
    pytest.skip("no Python here can be run by the user of the image")


@dataclass(frozen=True)
class Image:
    """What would be in it, below a folder."""

    root: Path

    def here(self, text: str) -> str:
        for place in PLACES:
            text = text.replace(place, f"{self.root}{place}")
        return text

    def environment(self, instructions: list[tuple[str, str]], base: dict[str, str]) -> dict[str, str]:
        found = dict(base)
        for _, rest in (each for each in instructions if each[0] == "ENV"):
            for word in rest.split():
                key, _, value = word.partition("=")
                found[key] = self.here(value).replace("${PATH}", found.get("PATH", ""))
        return found

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run the entry point as the container would: its user, its environment, and nowhere to write."""
        (entry,) = [rest for name, rest in LAST if name == "ENTRYPOINT"]
        env = self.environment(LAST, {"PATH": "/usr/bin:/bin"})
        program = shutil.which(json.loads(entry)[0], path=env["PATH"])
        assert program == self.here("/opt/usher/bin/usher")
        return subprocess.run([program, *command], cwd="/", env=env, capture_output=True, text=True, check=False, **WHO)  # type: ignore[call-overload, no-any-return]

    def files(self) -> set[tuple[str, int]]:
        return {(str(each), each.lstat().st_mtime_ns) for each in self.root.rglob("*")}


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """The first stage, instruction by instruction; then the sources go, as they are not in the image."""
    with tempfile.TemporaryDirectory(prefix="usher-image-", ignore_cleanup_errors=True) as folder:
        made = Image(Path(folder))
        made.root.chmod(0o755)
        source = Path(made.here("/source"))
        source.mkdir()
        build = FOUND[: len(FOUND) - len(LAST)]
        env = made.environment(build, {**os.environ, "UV_PYTHON": interpreter()})
        env.pop("VIRTUAL_ENV", None)
        for name, rest in build:
            if name == "COPY":
                *what, where = rest.split()
                for each in what:
                    if (ROOT / each).is_dir():
                        shutil.copytree(ROOT / each, source / where, ignore=shutil.ignore_patterns("__pycache__"))
                    else:
                        shutil.copy(ROOT / each, source / where)
            elif name == "RUN" and rest.startswith("uv "):
                done = subprocess.run(
                    [str(UV), *rest.split()[1:]], cwd=source, env=env, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, f"{rest}: {done.stderr}"
        shutil.rmtree(source)
        yield made


def test_it_has_usher_and_what_it_needs_and_nothing_of_development(image: Image) -> None:
    (site,) = Path(image.here("/opt/usher/lib")).glob("python*/site-packages")
    there = {each.name.partition("-")[0].lower() for each in site.glob("*.dist-info")}

    assert {"usher", "aiohttp", "click", "cryptography", "msgspec", "pyyaml"} <= there
    assert not {"pytest", "mypy", "ruff", "hypothesis", "kubernetes"} & there
    assert (site / "usher" / "cli" / "main.py").is_file(), "not a link to the sources"
    assert list((site / "usher" / "cli" / "__pycache__").glob("main.*.pyc")), "byte code: it starts sooner"
    assert list((site / "usher" / "core").glob("engine.*.so")), "the engine as machine code"


def test_it_says_its_version(image: Image) -> None:
    done = image.run("version", "--client")

    assert (done.returncode, done.stdout) == (0, f"client:   {__version__}\n"), done.stderr


def test_the_manager_reads_its_settings_and_writes_nothing(image: Image) -> None:
    before = image.files()

    done = image.run("manager", "--print-config")

    assert done.returncode == 0, done.stderr
    assert load_text(done.stdout, "image") == Settings()
    assert image.files() == before


def test_a_manager_that_is_in_no_cluster_says_so(image: Image) -> None:
    done = image.run("manager")

    assert done.returncode == 1
    assert done.stderr == (
        "Error: There is no kubeconfig (/tmp/.kube/config), and this is not a pod. Set KUBECONFIG, or name a file.\n"
    )
