"""Tenants of a trace: for each one a namespace, a Queue and a quota of weight 1, all of the same name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from usher.core.events import Event, QueueChanged, QuotaChanged
from usher.core.model import Queue, Quota

EVERYBODY: Final = "everybody"
"""The tenant of a trace that is not split."""

BY: Final = ("user", "group", "queue", "qos", "none")
"""What a tenant may be."""


def tenant_name(by: str, value: str) -> str:
    """`user-12`, `qos-burstable`: a name that Kubernetes would take."""
    cleaned = re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-") or "unknown"
    return f"{by}-{cleaned}"[:63].rstrip("-")


def happenings(tenants: Iterable[str]) -> list[tuple[int, Event]]:
    """Quota and queue of each tenant, all there from the start."""
    names = sorted(set(tenants))
    quotas: list[tuple[int, Event]] = [(0, QuotaChanged(Quota(name, namespaces=frozenset({name})))) for name in names]
    return quotas + [(0, QueueChanged(Queue(name, name, quota=name))) for name in names]
