"""YAML in, `Settings` out: every error with its file and path, all of them at once, unknown keys with a suggestion.

The wiring calls `load_file`. What only it can know, which policies and kinds are installed, it hands in as `known`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import yaml

from usher.core.amounts import quoted
from usher.settings.strictyaml import StrictLoader, described
from usher.settings.tree import Settings
from usher.settings.values import Value, key_of

Known = Mapping[str, Collection[str]]
"""The path of a setting to the names that it may have (each of them, for a list)."""


class SettingsError(ValueError):
    """The configuration cannot be used; `errors` has one line for each reason, with file and path."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


def load_file(path: Path | None, overrides: Sequence[str] = (), known: Known | None = None) -> Settings:
    """The settings of a file (None: the defaults) and of `path=value` texts, which win; raises SettingsError."""
    if path is None:
        return load_text("", "settings", overrides, known)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"]) from None
    return load_text(text, str(path), overrides, known)


def load_text(text: str, file: str, overrides: Sequence[str] = (), known: Known | None = None) -> Settings:
    """As `load_file`, of a text; `file` is what errors call it."""
    errors: list[str] = []
    try:
        decoded = yaml.load(text, Loader=StrictLoader)  # noqa: S506  (a safe loader of ours)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError([f"{file}: {described(error)}"]) from None
    settings = _read_tree(decoded, known or {}, errors)
    errors = [f"{file}: {error}" for error in errors]
    if overrides and not errors:
        wrong: list[str] = []
        settings = _read_tree(_overridden(shown(settings), overrides, wrong), known or {}, wrong)
        errors = [f"--set: {error}" for error in wrong]
    if errors:
        raise SettingsError(errors)
    return settings


def shown(settings: Any) -> dict[str, Any]:
    """Settings as YAML would hold them, defaults included; `load_text` of it gives the same settings."""
    return {
        key_of(each.name): value.show(getattr(settings, each.name))
        if (value := value_of(each)) is not None
        else shown(getattr(settings, each.name))
        for each in fields(settings)
    }


def value_of(each: Field[Any]) -> Value[Any] | None:
    """How a field is read and shown; None: it is a group."""
    value: Value[Any] | None = each.metadata.get("value")
    return value


def _read_tree(decoded: Any, known: Known, errors: list[str]) -> Settings:
    settings: Settings = _read_group(Settings, decoded, "", known, errors)
    return settings


def _read_group(kind: Any, decoded: Any, path: str, known: Known, errors: list[str]) -> Any:
    """A group with what could be read; the rest has its default."""
    if decoded is not None and not isinstance(decoded, Mapping):
        errors.append(f"{path + ': ' if path else ''}{quoted(decoded)} is not a map of settings")
        decoded = None
    by_key = {key_of(each.name): each for each in fields(kind)}
    read: dict[str, Any] = {}
    before = len(errors)
    for key, given in (decoded or {}).items():
        place = f"{path}.{key}" if path else str(key)
        if key not in by_key:
            errors.append(f"{place}: no such setting{_suggestion(path, str(key))}")
            continue
        each = by_key[key]
        value = value_of(each)
        if value is None:
            read[each.name] = _read_group(each.default_factory, given, place, known, errors)
        elif given is not None:
            try:
                read[each.name] = value.read(given)
            except ValueError as error:
                errors.append(f"{place}: {error}")
    found = kind(**read)
    errors.extend(_unknown_names(found, path, known))
    if len(errors) == before and hasattr(found, "conflicts"):
        errors.extend(f"{path + '.' if path else ''}{key_of(name)}: {why}" for name, why in found.conflicts())
    return found


def _unknown_names(found: Any, path: str, known: Known) -> Iterator[str]:
    for each in fields(found):
        place = f"{path}.{key_of(each.name)}" if path else key_of(each.name)
        if place in known:
            chosen = getattr(found, each.name)
            for name in [chosen] if isinstance(chosen, str) else chosen:
                if name not in known[place]:
                    there = ", ".join(sorted(known[place])) or "none"
                    yield f"{place}: {quoted(name)} is not one of {there}"


def _suggestion(path: str, key: str) -> str:
    """The nearest setting of the same group, else one of nearly that name anywhere, else what there is."""
    import difflib  # who makes no mistake does not wait for it

    paths = list(_paths(Settings, ""))
    siblings = sorted({_child(each, path) for each in paths if not path or each.startswith(f"{path}.")})
    if near := difflib.get_close_matches(key, siblings, n=1):
        return f"; did you mean {near[0]}?"
    by_name = {each.rpartition(".")[2]: each for each in reversed(paths)}
    if near := difflib.get_close_matches(key, sorted(by_name), n=1, cutoff=0.8):
        return f"; did you mean {by_name[near[0]]}?"
    return f"; there are {', '.join(siblings)}"


def _child(place: str, path: str) -> str:
    return place.removeprefix(f"{path}.").partition(".")[0] if path else place.partition(".")[0]


def _paths(kind: Any, path: str) -> Iterator[str]:
    for each in fields(kind):
        place = f"{path}.{key_of(each.name)}" if path else key_of(each.name)
        if value_of(each) is None:
            yield from _paths(each.default_factory, place)
        else:
            yield place


def _overridden(decoded: dict[str, Any], overrides: Sequence[str], errors: list[str]) -> dict[str, Any]:
    """What was decoded, with `path=value` texts laid over it; a value is read as YAML."""
    for text in overrides:
        path, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not path:
            errors.append(f"{quoted(text)} is not path=value, as in server.port=0")
            continue
        *groups, key = path.split(".")
        place = decoded
        for name in groups:
            inside = place.setdefault(name, {})
            if not isinstance(inside, dict):
                errors.append(f"{path}: {name} is not a group of settings")
                break
            place = inside
        else:
            try:
                place[key] = yaml.load(value, Loader=StrictLoader)  # noqa: S506  (a safe loader of ours)
            except (yaml.YAMLError, ValueError, RecursionError) as error:
                errors.append(f"{path}: {described(error)}")
    return decoded
