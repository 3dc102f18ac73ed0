"""The queue of managed jobs that name none: given to a job when there is one queue that it can only mean.

The doors do it when a job is created (`usher.webhooks`); a job that came when there was no queue yet, or nobody to ask,
is named by the manager later. Once a job has a name it keeps it, whatever queues come and go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from usher.api import names
from usher.api.meta import ObjectMeta
from usher.core.model import Queue

if TYPE_CHECKING:
    from usher.runtime.facts import Reading


def default_queues(
    named: Collection[str], namespaces: Mapping[str, Mapping[str, str]], queues: Iterable[Queue]
) -> dict[str, str]:
    """By managed namespace: its only queue, else the only shared one that it may use; else it is not there."""
    own: dict[str, list[str]] = {}
    shared: list[Queue] = []
    for queue in queues:
        if queue.shared:
            shared.append(queue)
        elif queue.namespaces is None or queue.namespace in queue.namespaces:
            own.setdefault(queue.namespace, []).append(queue.name)
    found: dict[str, str] = {}
    for namespace, labels in namespaces.items():
        if namespace in named or labels.get(names.MANAGED) == "true":
            usable = own.get(namespace) or [queue.name for queue in shared if _meant_for(queue, namespace)]
            if len(usable) == 1:
                found[namespace] = usable[0]
    return found


def _meant_for(queue: Queue, namespace: str) -> bool:
    """Whether a shared queue can be what a namespace means: one that is open to all and has a quota of its own is the
    queue of that quota, not everybody's."""
    return not queue.quota if queue.namespaces is None else namespace in queue.namespaces


def lacking(meta: ObjectMeta, reading: Reading) -> str:
    """The queue that a job must be given; empty: it names one, or a quota, or it cannot be told."""
    queue = reading.queues.get(meta.namespace, "")
    if not queue or not (meta.namespace in reading.managed or meta.labels.get(names.MANAGED) == "true"):
        return ""
    keys = (*reading.keys.queue, *reading.keys.quota, names.QUEUE_JOB)
    return "" if any(meta.labels.get(key) or meta.annotations.get(key) for key in keys) else queue
