"""The Dockerfile, by what it says: no registry can be reached from where the tests run, so no image is built here. What
its instructions make is in test_image.py."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from usher.install.values import Values
from usher.install.whole import objects

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """Name and argument of every instruction, in order."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in pairs]


FOUND = instructions()
LAST = FOUND[max(number for number, (name, _) in enumerate(FOUND) if name == "FROM") :]


def container() -> dict[str, object]:
    (deployment,) = [each for each in objects(Values()) if each["kind"] == "Deployment"]
    return {"pod": deployment["spec"]["template"]["spec"], **deployment["spec"]["template"]["spec"]["containers"][0]}


def test_every_instruction_is_one_that_docker_knows() -> None:
    known = {"ARG", "FROM", "ENV", "WORKDIR", "RUN", "COPY", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}

    assert {name for name, _ in FOUND} <= known


def test_it_runs_as_the_same_nobody_as_in_the_chart() -> None:
    (user,) = [rest for name, rest in LAST if name == "USER"]
    context = container()["pod"]["securityContext"]  # type: ignore[index]

    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert context["runAsUser"] > 0


def test_it_starts_a_program_that_the_package_has() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    (entry,) = [rest for name, rest in LAST if name == "ENTRYPOINT"]

    assert entry.strip('[]"') in scripts
    assert container()["args"][0] == "manager"  # type: ignore[index]


def test_the_ports_are_those_of_the_chart() -> None:
    (ports,) = [rest for name, rest in LAST if name == "EXPOSE"]

    assert ports.split() == [str(each["containerPort"]) for each in container()["ports"]]  # type: ignore[attr-defined]


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    copied = [word for name, rest in FOUND if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]]
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert set(copied) == allowed
    assert all((ROOT / each).exists() for each in copied)


@pytest.mark.parametrize("image", [rest.split()[0] for name, rest in FOUND if name == "FROM"])
def test_images_have_a_version_and_are_slim(image: str) -> None:
    assert re.fullmatch(r"python:\$\{PYTHON\}-slim", image)


def test_nothing_of_the_build_is_in_the_image() -> None:
    assert not [rest for name, rest in LAST if name == "RUN"]
    assert [rest for name, rest in LAST if name == "COPY"] == ["--from=build /opt/usher /opt/usher"]
