"""Files and folders of YAML or JSON as one list of decoded objects, each with where it came from.

Folders are read recursively, in the order of their names; `kind: List` (and `QueueList` and the like) is opened. A file
that cannot be read or parsed is one error; the others are read all the same. Called by the manifest loader.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from usher.core.amounts import quoted
from usher.settings.strictyaml import StrictLoader, described
from usher.sim.problems import Problems

SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
STDIN: Final = "-"


@dataclass(frozen=True, slots=True)
class Document:
    """One decoded object of a file; `index` counts them from 1."""

    file: str
    index: int
    body: dict[str, Any]


def read(paths: Sequence[str], problems: Problems) -> list[Document]:
    """Every object in these files and folders, in order; `-` is standard input."""
    documents: list[Document] = []
    seen: set[Path] = set()
    for path in paths:
        for file in _files(path, problems):
            name = str(file)
            place = file.resolve()
            if place in seen:
                problems.notes.append(f"{name}: named twice, read once")
                continue
            seen.add(place)
            documents.extend(_objects(name, problems))
    return documents


def _files(path: str, problems: Problems) -> list[Path]:
    if path == STDIN:
        return [Path(STDIN)]
    place = Path(path)
    if place.is_dir():
        found = sorted(file for file in place.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not found:
            problems.errors.append(f"{path}: the folder has no *.yaml, *.yml or *.json file")
        return found
    if not place.exists():
        problems.errors.append(f"{path}: no such file or folder")
        return []
    return [place]


def _objects(file: str, problems: Problems) -> Iterator[Document]:
    index = 0
    for decoded in _decoded(file, problems):
        for body in _opened(decoded):
            index += 1
            if isinstance(body, dict):
                yield Document(file, index, body)
            elif body is not None:
                problems.errors.append(f"{file}: document {index}: {quoted(body)} is not an object")


def _decoded(file: str, problems: Problems) -> list[Any]:
    try:
        text = sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
        if file.endswith(".json"):
            return [json.loads(text)]
        return list(yaml.load_all(text, Loader=StrictLoader))
    except (OSError, UnicodeDecodeError) as error:
        problems.errors.append(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}")
    except json.JSONDecodeError as error:
        problems.errors.append(f"{file}: line {error.lineno}: is not JSON: {error.msg}")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.errors.append(f"{file}: {described(error)}")
    return []


def _opened(body: Any) -> Iterator[Any]:
    if isinstance(body, dict) and str(body.get("kind", "")).endswith("List") and isinstance(body.get("items"), list):
        for item in body["items"]:
            yield from _opened(item)
    else:
        yield body
