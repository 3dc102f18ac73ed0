"""The fence around the statuses of units and QueueJobs: what only the leader writes must carry the leader's epoch."""

from __future__ import annotations

from msgspec.structs import fields

from usher.api.queuejob import QueueJobStatus
from usher.api.queueunit import QueueUnitStatus
from usher.app.resources import QUEUE_JOBS, UNITS
from usher.kube.fencing import Fence

OTHERS = frozenset({"admissionChecks", "epoch"})
"""What others may write, and what is compared itself."""


def unit_fence(lease_namespace: str, lease_name: str) -> Fence:
    """Refuses every change to such a status by a leader of the past; check controllers are not concerned."""
    both = dict.fromkeys(each.encode_name for kind in (QueueUnitStatus, QueueJobStatus) for each in fields(kind))
    owned = [name for name in both if name not in OTHERS]
    changes = [
        f"(has(object.status.{name}) != has(oldObject.status.{name}) || "
        f"(has(object.status.{name}) && object.status.{name} != oldObject.status.{name}))"
        for name in owned
    ]
    differs = f"has(object.status) && ({' || '.join(changes)})"
    concerns = f"has(object.status) != has(oldObject.status) || ({differs})"
    return Fence("usher-unit-status", lease_namespace, lease_name, (UNITS, QUEUE_JOBS), concerns=concerns)
