"""What the rules may ask about the rest of the cluster: all of it from memory. `usher.app.doors` answers.

Caches may be a moment behind. So what is not there is waited for, never refused, and what slips through because a
cache was late is decided again by the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from usher.core.model import ROOT, Queue, Quota
from usher.runtime.facts import Reading


class Known(Protocol):
    """What the manager has in memory."""

    def managed(self, namespace: str) -> bool:
        """Whether every job of the namespace is queued."""

    def queue(self, namespace: str, name: str) -> Queue | None:
        """The queue that a job of the namespace means by this name: its own first, else a shared one."""

    def usable(self, namespace: str) -> Sequence[Queue]:
        """The queues that the namespace may use, its own first, by name."""

    def quotas(self) -> Mapping[str, Quota]:
        """Every quota by name, also those that have no place in the tree."""

    def reserved(self, quota: str) -> bool:
        """Whether a quota says whose it is: its own namespaces, also if that is nobody at present."""

    def quota_of(self, namespace: str) -> str:
        """The quota that is charged for a namespace where nothing names another; empty: none."""

    def scheduler(self, quota: str) -> str:
        """The scheduler that keeps the books of a quota as well, and must place its pods; empty: none."""

    def reading(self) -> Reading:
        """How jobs are read."""


def may_use(queue: Queue, namespace: str) -> bool:
    """Whether a queue is open to a namespace, as the engine sees it."""
    return queue.namespaces is None or namespace in queue.namespaces


def may_charge(known: Known, namespace: str, quota: str) -> bool:
    """Whether jobs of a namespace may name a quota.

    A quota that says whose it is belongs to those namespaces, and so does what hangs below it and says nothing. What
    nobody claims is open; what does not exist is waited for.
    """
    quotas, seen = known.quotas(), set[str]()
    while quota in quotas and quota not in seen:
        seen.add(quota)
        if known.reserved(quota):
            return namespace in quotas[quota].namespaces
        quota = quotas[quota].parent
    return quota in seen or not quota or quota == ROOT or quota not in quotas


def has_purse(known: Known, queue: Queue, namespace: str) -> bool:
    """Whether jobs of a namespace that name no quota have one to be charged in this queue: its own, or the queue's."""
    if not queue.quota or not queue.shared or known.quota_of(namespace):
        return True
    return may_charge(known, namespace, queue.quota)


def default_queue(known: Known, namespace: str) -> str:
    """The name of the queue of a job that names neither queue nor quota; empty: it cannot be told."""
    return known.reading().queues.get(namespace, "")
