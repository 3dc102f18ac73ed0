"""The direction of dependencies, as a test: see ARCHITECTURE.md."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "usher"

PURE = {
    "__future__", "abc", "bisect", "collections", "contextlib", "dataclasses", "enum", "fractions", "functools",
    "heapq", "itertools", "json", "math", "operator", "re", "types", "typing",
}  # fmt: skip
"""The standard library that the engine may use: nothing that reads a clock, a file, a socket or chance."""

EXCEPT = {"policies/registry.py": {"importlib.metadata"}}  # plug-ins are found by their entry points
"""What single modules may use besides."""

OURS = {
    "core": set[str](),
    "policies": {"core", "policies"},
    "devcluster": {"devcluster"},
    "kube": {"kube"},
    "settings": {"core"},
    "api": {"core"},
    "quotas": {"core", "api"},
    "server": {"core", "runtime"},
}
"""Packages that may import only these of ours."""


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            yield node.module or ""


def modules(package: str) -> list[Path]:
    return sorted((SOURCE / package).rglob("*.py"))


@pytest.mark.parametrize("package", ["core", "policies"])
def test_the_engine_uses_nothing_that_could_surprise_it(package: str) -> None:
    for path in modules(package):
        name = str(path.relative_to(SOURCE))
        foreign = {each for each in imports(path) if each.split(".")[0] not in PURE | {"usher"}} - EXCEPT.get(
            name, set()
        )
        assert not foreign, f"{name} imports {foreign}"


@pytest.mark.parametrize("package", OURS)
def test_a_package_imports_only_those_of_ours_that_it_may(package: str) -> None:
    for path in modules(package):
        ours = {name.split(".")[1] for name in imports(path) if name.startswith("usher.")}
        assert ours <= OURS[package] | {package}, f"{path.relative_to(ROOT)} imports {ours}"


def test_the_layers_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_contract_notices_a_forbidden_import(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def later():\n    import time\n    from usher.kube import client\n")

    assert list(imports(bad)) == ["time", "usher.kube"]
