"""JSON patches, put together step by step: what an object lacks on the way to a field is made first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from usher.webhooks.review import Op


class Patch:
    """Changes to one object. Setting what is there already changes nothing."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found: dict[str, Any] = {"": found}
        self._made: set[tuple[str, ...]] = set()
        self.ops: list[Op] = []

    def set(self, path: tuple[str, ...], value: Any) -> None:
        """Let the field at `path` have this value."""
        here: Any = self._found[""]
        for depth, part in enumerate(path[:-1], 1):
            here = here.get(part) if isinstance(here, Mapping) else None
            if here is None and path[:depth] not in self._made:
                self._made.add(path[:depth])
                self.ops.append({"op": "add", "path": pointer(path[:depth]), "value": {}})
        there = here.get(path[-1]) if isinstance(here, Mapping) else None
        if there != value:
            self.ops.append({"op": "add", "path": pointer(path), "value": value})


def pointer(path: tuple[str, ...]) -> str:
    """A path as JSON patches write it."""
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)
