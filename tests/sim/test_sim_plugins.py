"""Plug-ins in a simulation: queues name them, what becomes of them is said, and a broken one is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from worlds import job, node, queue, report, simulate, units, write

POLICY = """
from usher.core.plugins import Blocks


class LastFirst:
    name = "LastFirst"
    blocks = Blocks.NOBODY

    def key(self, unit):
        if unit.name.startswith("odd"):
            raise KeyError(unit.name)
        return (-unit.seq,)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, with LastFirst among them."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "last_first.py").write_text(POLICY)
    install(folder, "last-first", "last_first:LastFirst")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "last_first", raising=False)
    return folder


def install(folder: Path, name: str, value: str) -> None:
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[usher.plugins]\n{name} = {value}\n")


@pytest.mark.usefixtures("site")
def test_a_queue_may_name_the_policy_of_an_installed_plug_in(tmp_path: Path) -> None:
    jobs = [job(name, cpu="2", at="1s") for name in ("one", "two", "three")]
    path = write(tmp_path, node(cpu="2"), queue(queuePolicy="LastFirst"), job("now", cpu="2"), *jobs)

    run = report(path)

    assert {name: each["admitted_s"] for name, each in units(run).items()} == {
        "now": 0,
        "three": 60,
        "two": 120,
        "one": 180,
    }
    assert run["queues"][0]["policy"] == "LastFirst"
    assert run["summary"]["problems"] == []


@pytest.mark.usefixtures("site")
def test_the_default_policy_may_be_that_of_an_installed_plug_in(tmp_path: Path) -> None:
    path = write(tmp_path, node(cpu="2"), queue(), job("now"))

    assert simulate(path, "--set", "defaultPolicy=LastFirst").exit_code == 0
    assert "LastFirst" in simulate(path, "--set", "defaultPolicy=Other").stderr


def test_a_policy_that_is_not_installed_is_refused_with_the_list_of_those_that_are(tmp_path: Path) -> None:
    done = simulate(write(tmp_path, node(cpu="2"), queue(queuePolicy="LastFirst"), job("now")))

    assert done.exit_code == 2
    assert 'queuePolicy: "LastFirst" is not one of FIFO, Priority, PriorityBlocking, Block' in done.stderr


@pytest.mark.usefixtures("site")
def test_a_plug_in_that_is_disabled_on_the_way_is_noted(tmp_path: Path) -> None:
    why = "plug-in LastFirst is disabled: it raised KeyError: 'odd'"
    path = write(tmp_path, node(cpu="2"), queue(queuePolicy="LastFirst"), job("now"), job("odd", at="1s"))

    run = report(path)
    done = simulate(path, "-o", "json")
    compared = simulate(path, "--share", "drf,none", "-o", "json")
    page = simulate(path, "-o", "html")

    assert run["summary"]["problems"] == [why]
    assert run["queues"][0]["message"] == why
    assert f"note: {why}\n" in done.stderr
    assert f"note: none: {why}\n" in compared.stderr
    assert [each["summary"]["problems"] for each in json.loads(compared.stdout)["runs"]] == [[why], [why]]
    assert "plug-in LastFirst is disabled" in page.stdout


def test_a_plug_in_that_cannot_be_loaded_is_named_by_its_entry_point(site: Path, tmp_path: Path) -> None:
    install(site, "gone", "no_such_module:Policy")

    done = simulate(write(tmp_path, node(cpu="2"), queue(), job("now")))

    assert done.exit_code == 2
    assert done.stderr == (
        "Error: plug-in gone (no_such_module:Policy) cannot be loaded: "
        "ModuleNotFoundError: No module named 'no_such_module'\n"
    )
