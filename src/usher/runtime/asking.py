"""What jobs ask for, as amounts: where QueueJobs and the jobs that draw on them are compared. Used by the readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from usher.api import names
from usher.core.amounts import Amounts, AmountsError, add
from usher.core.podrequest import effective_request
from usher.jobkinds.base import BadJobError, Job, JobKind, PodlessKind
from usher.runtime.marks import without_ours
from usher.runtime.said import Said
from usher.runtime.templates import completed

if TYPE_CHECKING:
    from usher.runtime.facts import Reading


def asks(kind: JobKind, job: Job, reading: Reading) -> Amounts:
    """Of a job without pods: one unit; of one that draws on such a job: all its pods. Nothing for all others, and for
    what cannot be read."""
    podless = kind.part == "status"
    if not podless and not Said(job).first((names.QUEUE_JOB,)):
        return {}
    total: dict[str, int] = {}
    try:
        for shape in kind.pod_sets(job):
            request = effective_request(whole_template(kind, shape.template, job, reading).get("spec"))
            add(total, {name: amount * (1 if podless else shape.count) for name, amount in request.items()})
    except (BadJobError, AmountsError):
        return {}
    return total


def whole_template(kind: JobKind, template: Mapping[str, Any], job: Job, reading: Reading) -> Mapping[str, Any]:
    """A template as its owner wrote it, with what the cluster adds when it makes a pod of it."""
    if kind.part == "status":
        return template  # nobody makes pods of it
    return completed(without_ours(template), reading.defaults.get(job.namespace), reading.overheads)


def allocated(kind: JobKind, job: Job) -> dict[str, Any]:
    """What a job without pods says of itself by its status, as fields of `JobFacts`."""
    if not isinstance(kind, PodlessKind):
        return {}
    return {"suspended": kind.suspended(job), "allocation": kind.allocation(job)}
