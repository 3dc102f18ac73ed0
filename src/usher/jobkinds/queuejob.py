"""QueueJob: a request for resources without a job; what it holds is `status.allocated`, in whole units.

It has no pods: an elastic set of `resourceno` units of `resourceunit`, of which one is enough to begin. It is told what
it has by its status, so that only whoever leads may say it (the status carries the epoch), and it is ready as soon as
it is told. It ends when it is deleted; with `resourceno: 0` it asks for nothing and waits aside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from usher.api import names
from usher.api.codec import as_dict, merge_patch
from usher.api.conditions import find, with_condition
from usher.api.quantities import amounts_of, quantities_of
from usher.api.queuejob import QueueJobStatus
from usher.api.times import ms_of, time_of
from usher.core.amounts import Amounts
from usher.jobkinds.additions import Additions
from usher.jobkinds.base import Allocation, BadJobError, Counts, Job, OwnWords, PodSetShape, Progress

MAIN: Final = names.DEFAULT_POD_SET


class QueueJobs:
    """Answers for QueueJobs."""

    group: Final = names.GROUP
    version: Final = names.VERSION
    kind: Final = "QueueJob"
    plural: Final = "queuejobs"
    part: Final[Literal["status"]] = "status"
    finalizer: Final = ""

    def words(self, job: Job) -> OwnWords:
        priority = job.spec.get("priority")
        return OwnWords(
            queue=str(job.spec.get("queue") or ""),
            priority=priority if isinstance(priority, int) else None,
            elastic=True,
            takes_part=True,
        )

    def pod_sets(self, job: Job) -> tuple[PodSetShape, ...]:
        unit = job.spec.get("resourceunit")
        if not isinstance(unit, Mapping) or not unit:
            raise BadJobError("spec.resourceunit: is missing")
        container = {"name": "unit", "resources": {"requests": dict(unit)}}
        count = _wanted(job)
        return (PodSetShape(MAIN, count, {"spec": {"containers": [container]}}, min_count=min(1, count)),)

    def suspended(self, job: Job) -> bool:
        return not _stored(job).allocatedno

    def counts(self, job: Job) -> Counts:
        return {MAIN: _wanted(job)}

    def release(self, job: Job, grants: Counts, additions: Additions) -> dict[str, Any]:
        return self._told(job, grants.get(MAIN, 0))

    def hold(self, job: Job, counts: Counts) -> dict[str, Any]:
        return self._told(job, 0)

    def resize(self, job: Job, counts: Counts) -> dict[str, Any]:
        return self._told(job, counts.get(MAIN, 0))

    def _told(self, job: Job, units: int) -> dict[str, Any]:
        each = amounts_of(job.spec.get("resourceunit") or {}, "spec.resourceunit")
        return self.allocate(job, Allocation(units, held=units > 0), each, 0)

    def progress(self, job: Job) -> Progress:
        has, wants = _stored(job).allocatedno, _wanted(job)
        return Progress(
            ready={MAIN: has},
            done={},
            usable={MAIN: wants},
            needed={MAIN: has},
            held=not has,
            started=has > 0,
        )

    def pod_set_of(self, labels: Mapping[str, str]) -> str:
        return MAIN

    def allocation(self, job: Job) -> Allocation:
        status = _stored(job)
        said = find(status.conditions, names.QUOTA_RESERVED)
        return Allocation(
            status.allocatedno,
            status.shrink_to,
            ms_of(status.shrink_at),
            held=said is not None and said.status == "True",
            reason=said.reason if said is not None else "",
            message=said.message if said is not None else "",
        )

    def allocate(self, job: Job, allocation: Allocation, each: Amounts, now_ms: int) -> dict[str, Any]:
        before = _stored(job)
        units, keeps = allocation.units, allocation.shrink_to
        reason = allocation.reason or ("Allocated" if allocation.held else "Waiting")
        conditions = with_condition(
            before.conditions, names.QUOTA_RESERVED, allocation.held, reason, allocation.message, now_ms=now_ms
        )
        if keeps is not None:
            text = f"It must give back {units - keeps} of its {units} units."
            conditions = with_condition(conditions, names.SHRINKING, True, "TakenBack", text, now_ms=now_ms)
        elif find(conditions, names.SHRINKING) is not None:
            conditions = with_condition(conditions, names.SHRINKING, False, "Settled", now_ms=now_ms)
        after = msgspec.structs.replace(
            before,
            allocated=quantities_of({name: amount * units for name, amount in each.items()}) if units else {},
            allocatedno=units,
            shrink_to=keeps,
            shrink_at=None if keeps is None else time_of(allocation.shrink_at_ms),
            conditions=conditions,
        )
        return merge_patch(as_dict(before), as_dict(after))


def _wanted(job: Job) -> int:
    count = job.spec.get("resourceno")
    return 1 if count is None else int(count)


def _stored(job: Job) -> QueueJobStatus:
    try:
        return msgspec.convert(dict(job.status), QueueJobStatus)
    except msgspec.ValidationError:
        return QueueJobStatus()
