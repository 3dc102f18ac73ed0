"""JSON to our structs and back.

Decoding ignores fields it does not know, so an object that was decoded must never be written back whole: write patches
of our own fields. Called by whoever reads or writes an object of ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from usher.api.podset import PodSet
from usher.api.shapes import Api

T = TypeVar("T", bound=Api)

DecodeError = msgspec.DecodeError
"""Raised by `decode`; the message names the field as a JSON path."""


def decode(kind: type[T], body: bytes | str | Mapping[str, Any]) -> T:
    """An object of this type from JSON, or from JSON that was decoded before."""
    return msgspec.json.decode(json.dumps(body) if isinstance(body, Mapping) else body, type=kind)


def encode(value: Api) -> bytes:
    """The JSON of a struct, defaults left out."""
    return msgspec.json.encode(value)


def as_dict(value: Api) -> dict[str, Any]:
    """The same as plain dicts and lists, for patches."""
    shown: dict[str, Any] = msgspec.json.decode(encode(value))
    return shown


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What turns one object into the other as a JSON merge patch (RFC 7386); empty if they are equal.

    A list that differs is written whole.
    """
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            inside = merge_patch(old, value)
            if inside:
                patch[key] = inside
        elif key not in before or old != value:
            patch[key] = value
    return patch


def template(body: Mapping[str, Any]) -> Raw:
    """A pod template as a pod set keeps it."""
    return Raw(msgspec.json.encode(body))


def template_of(pods: PodSet) -> dict[str, Any]:
    """The pod template of a pod set."""
    shown: dict[str, Any] = msgspec.json.decode(pods.template)
    return shown
