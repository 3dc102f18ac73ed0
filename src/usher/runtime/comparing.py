"""When two readings say the same: of a job seen again, and of a unit beside its job. For `usher.runtime.facts`."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from usher.runtime.objects import JobObject

encoder: Final = msgspec.json.Encoder(order="deterministic")


def says_the_same(before: JobObject, after: JobObject) -> bool:
    """Whether everything but its status is the same: the generation counts changes of the spec."""
    old, new = before.metadata, after.metadata
    return (
        old.uid == new.uid
        and 0 < old.generation == new.generation
        and old.labels == new.labels
        and old.annotations == new.annotations
        and old.owner_references == new.owner_references
    )


def digest_of(spec: Mapping[str, Any], labels: Mapping[str, str]) -> bytes:
    """Of what a unit says; that of what its job says is the same if and only if they agree."""
    said = [
        spec.get("queue") or "",
        spec.get("quota") or "",
        spec.get("priority") or 0,
        spec.get("priorityClassName") or "",
        spec.get("preemptible") is not False,
        spec.get("maximumExecutionTimeSeconds"),
        [
            (each["name"], each["count"], each.get("minCount"), bool(each.get("elastic")), each.get("template") or {})
            for each in spec.get("podSets") or ()
        ],
        labels,
    ]
    return blake2b(encoder.encode(said), digest_size=16).digest()
