"""Docs that are made from code are what the code says now."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from usher.core.phases import TRANSITIONS, Cause, Phase

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "examples").rglob("*.md"))


def test_the_phases_in_the_docs_are_those_of_the_engine() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "phases.py"))
    page = (ROOT / "docs" / "engine.md").read_text()

    assert script["renewed"](page) == page, "run `make fix` (or python docs/phases.py)"


def test_the_table_and_the_diagram_have_every_transition() -> None:
    page = (ROOT / "docs" / "engine.md").read_text()
    table = re.findall(r"^\| (.+) \| `(\w+)` \| (\w+) \|", page, re.MULTILINE)
    arrows = re.findall(r"^    (\S+) --> (\w+): (.+)$", page, re.MULTILINE)

    drawn = {(Phase("" if a == "[*]" else a), Cause(c)): Phase(b) for a, b, text in arrows for c in text.split(", ")}
    assert drawn == TRANSITIONS
    assert {(Cause(cause), Phase(to)) for _, cause, to in table} == {(c, to) for (_, c), to in TRANSITIONS.items()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())

    assert not [link for link in links if not (page.parent / link).exists()]
