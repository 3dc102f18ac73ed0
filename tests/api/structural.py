"""A small checker of structural schemas, for what they say without CEL, and a generator of objects from our types.

The checker names every field that a schema would refuse or drop. The generator makes any object that the types can
hold within the bounds that the schema states, so that the two can be set against each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st
from msgspec import NODEFAULT, Meta, Raw

from usher.api.codec import template
from usher.api.meta import ObjectMeta
from usher.api.shapes import Api

TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
TEMPLATES: list[dict[str, Any]] = [
    {},
    {"spec": {"containers": [], "x": {"y": [1]}}},
    {"metadata": {"labels": {}}, "spec": {"overhead": {"cpu": 1}}},
]


def problems(schema: Mapping[str, Any], value: Any, path: str = "") -> Iterator[str]:
    """Everything that the schema has against a value."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{path}: {value!r} is neither a number nor a text"
    elif not isinstance(value, TYPES[schema["type"]]) or (schema["type"] == "integer" and isinstance(value, bool)):
        yield f"{path}: {value!r} is not of type {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, str):
        yield from _text(schema, value, path)
    elif isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: {value} is out of bounds"
    elif isinstance(value, list):
        yield from _list(schema, value, path)
    elif isinstance(value, dict):
        yield from _object(schema, value, path)


def _text(schema: Mapping[str, Any], value: str, path: str) -> Iterator[str]:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: {value!r} is too short or too long"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"


def _list(schema: Mapping[str, Any], value: list[Any], path: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{path}: {len(value)} items are too few or too many"
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys:
        fields = schema["items"]["properties"]
        found = [tuple(each.get(key, fields[key].get("default")) for key in keys) for each in value]
        if len(set(found)) != len(found):
            yield f"{path}: {found} has an entry twice"
    for number, each in enumerate(value):
        yield from problems(schema["items"], each, f"{path}[{number}]")


def _object(schema: Mapping[str, Any], value: dict[str, Any], path: str) -> Iterator[str]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    if len(value) > schema.get("maxProperties", len(value)):
        yield f"{path}: {len(value)} fields are too many"
    yield from (f"{path}.{name}: is required" for name in schema.get("required", ()) if name not in value)
    for name, inside in value.items():
        if name in properties:
            yield from problems(properties[name], inside, f"{path}.{name}")
        elif others is not None:
            yield from problems(others, inside, f"{path}.{name}")
        elif not schema.get("x-kubernetes-preserve-unknown-fields") and path != ".metadata":
            yield f"{path}.{name}: is not known and would be dropped"


@cache
def structs(struct: type[Api]) -> st.SearchStrategy[Any]:
    """Any value of a struct that its bounds allow; rules in CEL are the caller's to keep."""
    hints = get_type_hints(struct, include_extras=True)
    given: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(struct):
        if field.name in ("api_version", "kind") and field.default_factory is not NODEFAULT:
            continue
        values = _values(hints[field.name], {})
        if field.default is not NODEFAULT and field.name != "metadata":
            values = st.just(field.default) | values
        given[field.name] = values
    return st.fixed_dictionaries(given).map(lambda values: struct(**values))


def _values(hint: Any, bounds: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        for mark in hint.__metadata__:
            bounds = {**bounds, **(mark.extra_json_schema or {})} if isinstance(mark, Meta) else bounds
        return _values(args[0], bounds)
    if origin in (Union, UnionType) and NoneType in args:
        return st.none() | _values(next(each for each in args if each is not NoneType), bounds)
    if bounds.get("x-kubernetes-int-or-string"):
        return st.integers(0, 100) | st.sampled_from(["0", "500m", "1.5", "2Gi", "1e3", ".5", "+3"])
    if hint is Raw:
        return st.sampled_from(TEMPLATES).map(template)
    if hint is ObjectMeta:
        return st.just(ObjectMeta(name="a"))
    if origin is tuple:
        return _lists(_values(args[0], {}), bounds)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inside = st.booleans() if args[1] is Any else _values(args[1], {})
        return st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu"]), inside, max_size=3)
    if isinstance(hint, type) and issubclass(hint, Api):
        return structs(hint)
    return _scalars(hint, bounds)


def _lists(inside: st.SearchStrategy[Any], bounds: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    least, most = bounds.get("minItems", 0), min(2, bounds["maxItems"])
    if bounds["x-kubernetes-list-type"] == "atomic":
        return st.lists(inside, min_size=least, max_size=most).map(tuple)
    key = next(iter(bounds.get("x-kubernetes-list-map-keys", ())), "")
    return st.lists(inside, min_size=least, max_size=most, unique_by=lambda each: getattr(each, key, each)).map(tuple)


def _scalars(hint: Any, bounds: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    if hint is bool:
        return st.booleans()
    if hint is int:
        return st.integers(bounds.get("minimum", -(2**63)), bounds.get("maximum", 2**63 - 1))
    if "enum" in bounds:
        return st.sampled_from(bounds["enum"])
    if bounds.get("format") == "date-time":
        return st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.007Z", "2026-01-01T00:00:00.000001+02:00"])
    rules = str(bounds.get("x-kubernetes-validations", ""))
    if "ms)?$" in rules:
        return st.sampled_from(["0s", "1h30m", "500ms", "1.5d"])
    if rules or "pattern" in bounds:
        return st.sampled_from(["a", "b"])
    return st.sampled_from(["x", "ä ✓", "A/b.c-d_e"] if bounds.get("minLength") else ["", "x", "ä ✓", "A/b.c-d_e"])
