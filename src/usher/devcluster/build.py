"""Building programs from the Go module proxy, once, into the cache: the parts of the control plane, and tools of tests.

Safe when two builds start at once (a file lock; the second waits and finds the work done) and resumable: each program
is built beside its place and renamed there, so what is present is whole, and a build that was stopped goes on with the
next one. `find_parts` and `find_tool` call this when something is missing; `python -m usher.devcluster` ahead of time.
"""

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from usher.devcluster.errors import DevClusterError
from usher.devcluster.logs import tail
from usher.devcluster.parts import PACKAGES, Say, ldflags, missing_in, pins
from usher.devcluster.toolchain import Go, find_go

HEARTBEAT_SECONDS = 15.0


@dataclass(frozen=True)
class Recipe:
    """What is built: programs by name with their packages, the files that pin them, and how long it takes."""

    what: str
    pins: Mapping[str, bytes]
    packages: Mapping[str, str]
    ldflags: str
    takes: str


def build_parts(directory: Path, say: Say) -> None:
    """Leave every program of `PACKAGES` in `directory`; raises if one cannot be built."""
    build(Recipe("the control plane", pins(), PACKAGES, ldflags(), "7 to 10 minutes"), directory, say)


def build(recipe: Recipe, directory: Path, say: Say) -> None:
    """Leave every program of a recipe in `directory`; raises if one cannot be built."""
    directory.mkdir(parents=True, exist_ok=True)
    with _only_one(directory / ".lock", recipe.what, say):
        missing = missing_in(directory, recipe.packages)
        if not missing:
            return
        go = find_go(say)
        source = directory / "source"
        source.mkdir(exist_ok=True)
        for name, content in recipe.pins.items():
            (source / name).write_bytes(content)
        say(
            f"Building {recipe.what} with Go {go.version}: {', '.join(missing)}.\n"
            f"Done once per version, {recipe.takes} on 2 idle cores; kept in {directory}"
        )
        started = time.monotonic()
        for name in missing:
            _build(go, recipe, name, directory, say)
        go.forget_caches()
        say(f"{recipe.what.capitalize()} is built ({_since(started)}).")


def _build(go: Go, recipe: Recipe, name: str, directory: Path, say: Say) -> None:
    log = directory / "build.log"
    output = directory / f".{name}-{os.getpid()}"
    packages = recipe.packages
    label = f"[{list(packages).index(name) + 1}/{len(packages)}] {name}"
    arguments = ["build", "-mod=readonly", "-trimpath", "-ldflags", recipe.ldflags, "-o", str(output), packages[name]]
    # The flags and workspace of whoever calls must not change what is built; their proxy settings must hold.
    settings = {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-buildvcs=false",
        "GO111MODULE": "on",
    }
    env = {**os.environ, **settings, **go.env}
    started = time.monotonic()
    say(f"{label} ...")
    with log.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603
            [go.program, *arguments],
            cwd=directory / "source",
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
        try:
            while True:
                try:
                    code = process.wait(HEARTBEAT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    say(f"{label} ... {_since(started)}{_doing(log)}")
            if code != 0:
                raise DevClusterError(f"{name} could not be built:\n{tail(log)}\nThe whole log: {log}")
            output.replace(directory / name)
        finally:
            process.terminate()
            process.wait()
            output.unlink(missing_ok=True)
    say(f"{label} built ({_since(started)})")


@contextmanager
def _only_one(lock: Path, what: str, say: Say) -> Iterator[None]:
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another build of {what} is under way; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _doing(log: Path) -> str:
    modules = log.read_text(errors="replace").count("go: downloading ")
    return f" ({modules} modules downloaded)" if modules else ""


def _since(started: float) -> str:
    seconds = int(time.monotonic() - started)
    return f"{seconds // 60} min {seconds % 60:02} s" if seconds >= 60 else f"{seconds} s"
