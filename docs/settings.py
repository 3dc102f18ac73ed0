"""Writes the tables of settings into docs/settings.md, from the tree that the manager is configured by.

Run by `make fix`; a test says when the text is out of date.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from usher.settings.loader import key_of, value_of
from usher.settings.tree import Settings

PAGE = Path(__file__).with_name("settings.md")
BEGIN = "<!-- settings: written by docs/settings.py from usher.settings.tree -->"
END = "<!-- settings: end -->"


def shown(value: Any) -> str:
    """A default, as one would write it."""
    if isinstance(value, list):
        return "<br>".join(f"`{each}`" for each in value) or "`[]`"
    return f"`{value}`" if isinstance(value, str) and value else f"`{json.dumps(value)}`"


def rows(settings: Any) -> list[str]:
    """One row for each setting of a group."""
    found = []
    for each in fields(settings):
        if (value := value_of(each)) is not None:
            default = shown(value.show(getattr(settings, each.name)))
            found.append(f"| `{key_of(each.name)}` | {value.called} | {default} | {each.metadata['about']} |")
    return found


def tables() -> str:
    """A table for the settings at the top, and one for each group."""
    settings = Settings()
    head = ["| setting | value | default | meaning |", "|---|---|---|---|"]
    parts = ["\n".join([*head, *rows(settings)])]
    for each in fields(settings):
        if value_of(each) is None:
            inside = getattr(settings, each.name)
            parts.append(f"## {key_of(each.name)}\n\n{type(inside).__doc__}")
            parts.append("\n".join([*head, *rows(inside)]))
    return "\n\n".join(parts)


def renewed(page: str) -> str:
    """The page with what stands between the markers written anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
