"""What pods use that do not belong to Usher: by node, to be taken off what nodes offer, and by namespace.

A pod is outside if no job of a queued kind controls it, or if that job takes no part. Of the latter, whether it does is
asked each time, for a job may be queued later. Pods count while they are not over; for nodes, once they are on one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from usher.core.amounts import Amounts, AmountsError, add
from usher.core.podrequest import effective_request
from usher.runtime.facts import PodFacts
from usher.runtime.objects import PodObject

INTERVAL_MS: Final = 5_000
"""How often it is looked at: each change means that the engine lays its tree anew."""


class OutsidePod(msgspec.Struct, frozen=True):
    """A pod that nothing queued controls."""

    key: str
    uid: str
    node: str
    alive: bool
    request: Amounts


def read_outside(found: PodObject) -> OutsidePod:
    """What matters of such a pod; a request that cannot be read is none."""
    meta = found.metadata
    spec: dict[str, Any] = msgspec.json.decode(found.spec)
    try:
        request = effective_request(spec, "spec")
    except AmountsError:
        request = {}
    alive = found.status.phase not in ("Succeeded", "Failed")
    return OutsidePod(f"{meta.namespace}/{meta.name}", meta.uid, str(spec.get("nodeName") or ""), alive, request)


class Used(msgspec.Struct):
    """Sums over the pods outside."""

    by_node: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    by_namespace: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)

    def total(self) -> dict[str, int]:
        """Of those on nodes."""
        found: dict[str, int] = {}
        for amounts in self.by_node.values():
            add(found, amounts)
        return found


class Outside:
    """All pods that may be outside."""

    def __init__(self) -> None:
        self._pods: dict[str, OutsidePod | PodFacts] = {}
        self._due_ms = 0

    def see(self, pod: OutsidePod | PodFacts, gone: bool) -> None:
        """A pod; one that was let in by us is never outside."""
        ours = isinstance(pod, PodFacts) and bool(pod.unit)
        if gone or ours or not pod.alive:
            self._pods.pop(pod.uid, None)
        else:
            self._pods[pod.uid] = pod

    def take(self, now_ms: int, queued: Callable[[str], bool]) -> Used | None:
        """What they use; None: it was asked not long ago. `queued`: whether the job of that uid takes part."""
        if now_ms < self._due_ms:
            return None
        self._due_ms = now_ms + INTERVAL_MS
        used = Used()
        for pod in self._pods.values():
            if isinstance(pod, PodFacts) and queued(pod.owner):
                continue
            add(used.by_namespace.setdefault(pod.key.partition("/")[0], {}), pod.request)
            if pod.node:
                add(used.by_node.setdefault(pod.node, {}), pod.request)
        return used
