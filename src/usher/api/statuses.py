"""Who writes what in the statuses of our kinds, as CEL: the fence and the admission policies ask the same question."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import fields

OTHERS = frozenset({"admissionChecks"})
"""What others than the manager may write in the status of a unit."""


def written(*statuses: type[Struct], besides: Collection[str] = OTHERS) -> str:
    """Whether a write changes anything in a status of one of these types, a few fields apart."""
    names = dict.fromkeys(each.encode_name for status in statuses for each in fields(status))
    owned = [name for name in names if name not in besides]
    there = " || ".join(f"has(object.status.{name})" for name in owned)
    changed = " || ".join(
        f"(has(object.status.{name}) != has(oldObject.status.{name}) || "
        f"(has(object.status.{name}) && object.status.{name} != oldObject.status.{name}))"
        for name in owned
    )
    return f"has(object.status) ? (has(oldObject.status) ? ({changed}) : ({there})) : has(oldObject.status)"
