"""The fence around the statuses of units and QueueJobs: what only the leader writes must carry the leader's epoch."""

from __future__ import annotations

from usher.api.queuejob import QueueJobStatus
from usher.api.queueunit import QueueUnitStatus
from usher.api.statuses import OTHERS, written
from usher.app.resources import QUEUE_JOBS, UNITS
from usher.kube.fencing import Fence


def unit_fence(lease_namespace: str, lease_name: str) -> Fence:
    """Refuses every change to such a status by a leader of the past; check controllers are not concerned."""
    concerns = written(QueueUnitStatus, QueueJobStatus, besides=OTHERS | {"epoch"})
    return Fence("usher-unit-status", lease_namespace, lease_name, (UNITS, QUEUE_JOBS), concerns=concerns)
