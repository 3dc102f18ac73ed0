"""The example plug-in as its user has it: installed, found by its entry point, named by a queue."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from usher.cli.main import usher
from usher.policies.registry import plugins
from usher.testing.builders import tenant, unit
from usher.testing.harness import Harness

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path into which the example is installed, as an installer would from its pyproject.toml."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copy(EXAMPLE / "src" / "smallest_first.py", tmp_path)
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "smallest_first", raising=False)
    return tmp_path


def submitted(policy: str) -> Harness:
    """Four cpus in use, and three jobs of different sizes that wait for them."""
    play = Harness(*tenant("a", policy), cpu=4, plugins=plugins())
    play.submit(unit("a/now", cpu=4))
    for name, cpu in (("large", 4), ("medium", 3), ("small", 2)):
        play.submit(unit(f"a/{name}", cpu=cpu))
    return play


def test_a_queue_that_names_the_example_goes_by_size(site: Path) -> None:
    play = submitted("SmallestFirst")

    for key in ("a/now", "a/small", "a/medium", "a/large"):
        play.finish(key)

    assert play.admissions == ["a/now", "a/small", "a/medium", "a/large"]
    assert play.engine.queues()[0].policy == "SmallestFirst"
    assert play.engine.queues()[0].problem == ""
    assert play.engine.problems() == []


def test_without_the_example_the_queue_goes_on_and_says_what_is_missing() -> None:
    play = submitted("SmallestFirst")

    for key in ("a/now", "a/large", "a/medium"):
        play.finish(key)

    assert play.admissions == ["a/now", "a/large", "a/medium", "a/small"]
    assert play.engine.queues()[0].problem == "there is no queue policy SmallestFirst"


def test_the_example_passes_its_own_tests(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--rootdir", str(EXAMPLE), str(EXAMPLE)]
    surroundings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path)}
    done = subprocess.run(command, cwd=EXAMPLE, env=surroundings, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_the_policy_is_about_ten_lines() -> None:
    text = (EXAMPLE / "src" / "smallest_first.py").read_text()

    assert len([line for line in text.splitlines() if line.strip()]) <= 10


def test_a_simulation_goes_by_the_example_where_a_queue_names_it(site: Path) -> None:
    container = {"name": "c"}
    objects: list[dict[str, object]] = [
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "Queue",
            "metadata": {"name": "main", "namespace": "team-a"},
            "spec": {"queuePolicy": "SmallestFirst"},
        }
    ]
    for name, cpu, arrives in (("now", "4", "0s"), ("large", "4", "1s"), ("medium", "3", "1s"), ("small", "2", "1s")):
        metadata = {
            "name": name,
            "namespace": "team-a",
            "labels": {"scheduling.x-k8s.io/queue-name": "main"},
            "annotations": {"sim.usher.dev/arrives": arrives},
        }
        template = {"spec": {"containers": [container | {"resources": {"requests": {"cpu": cpu}}}]}}
        objects.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}})
    path = site / "world.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    done = CliRunner().invoke(usher, ["simulate", str(path), "--capacity", "cpu=4", "-o", "json"])

    assert done.exit_code == 0, done.stderr
    run = json.loads(done.stdout)
    admitted = {each["name"]: each["admitted_s"] for each in run["units"]}
    assert admitted == {"now": 0, "small": 60, "medium": 120, "large": 180}
    assert run["queues"][0]["policy"] == "SmallestFirst"
