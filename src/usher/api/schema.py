"""Structs to structural schemas: what types, bounds, rules and the texts below fields say to the API server.

A schema here is plain dicts in the order in which they are written to a file. Everything is written out where it is
used, because CRDs know no references. Called by `usher.api.crd`, and by the docs.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Raw

from usher.api.meta import ObjectMeta
from usher.api.shapes import Api, validations

Schema = dict[str, Any]

_SCALARS = {str: "string", int: "integer", bool: "boolean"}
_ORDER = ("description", "type", "format", "default", "enum")


def struct_schema(struct: type[Api]) -> Schema:
    """The schema of a struct: an object with its fields."""
    hints, docs = get_type_hints(struct, include_extras=True), field_docs(struct)
    properties: dict[str, Schema] = {}
    required = []
    for field in msgspec.structs.fields(struct):
        schema = type_schema(hints[field.name])
        default = _default(field)
        if default is not None:
            schema.setdefault("default", default)
        if field.name in docs:
            schema["description"] = docs[field.name]
        if field.default is NODEFAULT and field.default_factory is NODEFAULT:
            required.append(field.encode_name)
        properties[field.encode_name] = _ordered(schema)
    found: Schema = {"description": doc_of(struct), "type": "object", "properties": properties, **struct.SHAPE}
    if required:
        found["required"] = required
    if struct.RULES:
        found["x-kubernetes-validations"] = validations(*struct.RULES)
    return found


def type_schema(hint: Any) -> Schema:
    """The schema of the type of a field; None beside another type only says that it may be absent."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _marked(type_schema(args[0]), hint.__metadata__)
    if origin in (Union, UnionType):
        others = [each for each in args if each is not NoneType]
        if set(others) == {str, int}:
            return {"anyOf": [{"type": "integer"}, {"type": "string"}]}
        assert len(others) == 1, f"a field cannot be one of {others}"
        return type_schema(others[0])
    if origin is tuple:
        return {"type": "array", "items": _ordered(type_schema(args[0]))}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return (
            {"type": "object"} if args[1] is Any else {"type": "object", "additionalProperties": type_schema(args[1])}
        )
    if hint is Raw or hint is ObjectMeta:
        return {"type": "object"}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": [each.value for each in hint]}
    if isinstance(hint, type) and issubclass(hint, Api):
        return struct_schema(hint)
    return {"type": _SCALARS[hint]}


@cache
def field_docs(struct: type[Api]) -> Mapping[str, str]:
    """The text below each field of a struct, as one line."""
    body = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = _text(below)
            if text:
                found[field.target.id] = text
    return found


def doc_of(struct: type[Api]) -> str:
    """What a struct is for, as one line."""
    return " ".join((struct.__doc__ or "").split())


def _text(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


def _marked(schema: Schema, marks: tuple[Any, ...]) -> Schema:
    for mark in marks:
        if isinstance(mark, Meta) and mark.extra_json_schema:
            rules = [
                *schema.get("x-kubernetes-validations", []),
                *mark.extra_json_schema.get("x-kubernetes-validations", []),
            ]
            schema |= mark.extra_json_schema
            if rules:
                schema["x-kubernetes-validations"] = rules
    return schema


def _default(field: Any) -> Any:
    """What the server fills in: a default that says something, and an empty spec so that its own are filled in."""
    default = field.default
    if isinstance(default, Enum):
        return default.value or None
    if isinstance(default, Api):
        return None if isinstance(default, ObjectMeta) else {}
    return default if isinstance(default, str | int) and default else None


def _ordered(schema: Schema) -> Schema:
    return {key: schema[key] for key in _ORDER if key in schema} | schema
