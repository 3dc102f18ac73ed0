"""The parts of the control plane: which programs, from which Go packages, at which versions, and where they are.

`parts/go.mod` (and `oldest/go.mod` beside it) is the only place that names versions. `find_parts()` is what everybody
calls: a set of ready binaries that `USHER_CONTROLPLANE_BIN` or `KUBEBUILDER_ASSETS` names is used as it is, otherwise
the pinned set is taken from the cache, and built there first if it is missing. The cache key covers pins, build recipe
and platform, but not the version of Go that built them: the programs are the same, and a new Go should not cost ten
minutes.
"""

import hashlib
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from usher.devcluster.errors import DevClusterError
from usher.devcluster.places import cache_dir

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
"""Program name to the Go package that it is built from, in build order."""

OLDEST = "oldest"
"""The pins of the oldest Kubernetes that Usher supports."""
OF_KUBERNETES = {name: PACKAGES[name] for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")}
"""What those pins are for; everything else is taken from the usual set."""

OVERRIDES = ("USHER_CONTROLPLANE_BIN", "KUBEBUILDER_ASSETS")
"""Environment variables that name a directory of ready binaries; the first one that is set wins."""

Say = Callable[[str], None]
"""Where progress goes: called with one line at a time."""


def say_on_stderr(line: str) -> None:
    """The default for progress: results go to stdout, everything else does not."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress of a slow build


@dataclass(frozen=True)
class Parts:
    """A directory that holds every program of the control plane."""

    directory: Path

    def path(self, name: str) -> str:
        """The absolute path of one program."""
        assert name in PACKAGES, name
        return str(self.directory / name)


def pins(of: str = "parts") -> dict[str, bytes]:
    """The files that pin the parts (or a tool), by name, as shipped in the package."""
    folder = files("usher.devcluster") / of
    return {name: (folder / name).read_bytes() for name in ("go.mod", "go.sum")}


def version_of(module: str, of: str = "parts") -> str:
    """The version that go.mod requires of a module, e.g. `v1.36.4` for `k8s.io/kubernetes`."""
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", pins(of)["go.mod"].decode(), re.MULTILINE)
    assert found, f"{module} is not pinned"
    return found[1]


def ldflags(of: str = "parts") -> str:
    """Strip the binaries, and tell them their version, which a build from the module proxy does not know."""
    kubernetes = version_of("k8s.io/kubernetes", of)
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    values = {"gitVersion": kubernetes, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    flags = [f"-X {package}.{key}={value}" for package in packages for key, value in values.items()]
    return " ".join(["-s", "-w", *flags])


def directory_of(of: str = "parts", programs: Iterable[str] = PACKAGES) -> Path:
    """Where a pinned set is, or will be once it is built."""
    return cache_dir() / "parts" / f"{version_of('k8s.io/kubernetes', of)}-{key_of(of, [ldflags(of), *programs])}"


def key_of(of: str, recipe: list[str]) -> str:
    """What a place in the cache depends on, shortened: the pins, how they are built, and for which platform."""
    key = hashlib.sha256()
    for name, content in sorted(pins(of).items()):
        key.update(f"{name} {len(content)}\n".encode() + content)
    key.update("\n".join([*recipe, sys.platform, platform.machine()]).encode())
    return key.hexdigest()[:12]


def find_parts(say: Say = say_on_stderr) -> Parts:
    """A complete set of parts; builds the pinned one (minutes, the first time) if there is no other."""
    for variable in OVERRIDES:
        if value := os.environ.get(variable):
            return _given(variable, Path(value).expanduser().absolute())
    return _pinned(say)


def _pinned(say: Say) -> Parts:
    directory = directory_of()
    if missing_in(directory):
        from usher.devcluster.build import build_parts  # only a cold start needs it

        build_parts(directory, say)
    return Parts(directory)


def find_oldest(say: Say = say_on_stderr) -> Parts:
    """A complete set with the oldest Kubernetes that is supported, for `make oldest`; builds what is missing."""
    usual, directory = _pinned(say), directory_of(OLDEST, OF_KUBERNETES)
    if missing_in(directory, OF_KUBERNETES):
        from usher.devcluster.build import Recipe, build  # only a cold start needs it

        recipe = Recipe("the oldest control plane", pins(OLDEST), OF_KUBERNETES, ldflags(OLDEST), "6 to 8 minutes")
        build(recipe, directory, say)
    for name in PACKAGES.keys() - OF_KUBERNETES.keys():
        link = directory / f".{name}-{os.getpid()}"
        link.symlink_to(usual.path(name))
        link.replace(directory / name)  # an older one may lead to what is there no more
    return Parts(directory)


def missing_in(directory: Path, programs: Iterable[str] = PACKAGES) -> list[str]:
    """The programs that a directory lacks."""
    return [name for name in programs if not os.access(directory / name, os.X_OK)]


def _given(variable: str, directory: Path) -> Parts:
    if not directory.is_dir():
        raise DevClusterError(f"{variable} names {directory}, which is not a directory.")
    if missing := missing_in(directory):
        raise DevClusterError(
            f"{variable} names {directory}, which lacks {', '.join(missing)} (or they are not executable).\n"
            f"Put them there, or unset {variable} and Usher builds its own set."
        )
    return Parts(directory)
