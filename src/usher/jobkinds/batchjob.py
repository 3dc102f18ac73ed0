"""batch/v1 Job: held by `spec.suspend`, one pod set of `parallelism` pods, never more than it still has completions.

Partial admission lowers `parallelism` in the patch that resumes the job; the patch that suspends it brings it back.
`completions` stays what it is.

Before Kubernetes 1.36 the Job controller leaves `status.startTime` in a job that it has stopped, and the API server
lets nobody change the template of a job that has one: there it is for us to clear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from usher.jobkinds.additions import Additions, template_patch
from usher.jobkinds.base import NO_WORDS, BadJobError, Counts, Job, OwnWords, PodSetShape, Progress

MAIN: Final = "main"
CONTROLLER: Final = "kubernetes.io/job-controller"
ENDING: Final = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
"""Conditions of a Job that is over, or is as soon as its pods are gone."""


class BatchJob:
    """Answers for `batch/v1` Jobs."""

    group: Final = "batch"
    version: Final = "v1"
    kind: Final = "Job"
    plural: Final = "jobs"
    part: Final[Literal["spec"]] = "spec"
    finalizer: Final = "batch.kubernetes.io/job-tracking"

    def words(self, job: Job) -> OwnWords:
        return NO_WORDS

    def pod_sets(self, job: Job) -> tuple[PodSetShape, ...]:
        template = job.spec.get("template")
        if not isinstance(template, Mapping):
            raise BadJobError("spec.template: is missing")
        return (PodSetShape(MAIN, self._at_once(job), template),)

    def suspended(self, job: Job) -> bool:
        return bool(job.spec.get("suspend"))

    def counts(self, job: Job) -> Counts:
        return {MAIN: self._at_once(job)}

    def release(self, job: Job, grants: Counts, additions: Additions) -> dict[str, Any]:
        template = template_patch(job.spec.get("template") or {}, additions, MAIN)
        patch: dict[str, Any] = {"suspend": False, "template": template}
        granted = grants.get(MAIN, 0)
        if granted != self._at_once(job) and not (additions.gate and additions.gated):
            patch["parallelism"] = granted
        return patch

    def hold(self, job: Job, counts: Counts) -> dict[str, Any]:
        patch: dict[str, Any] = {"suspend": True}
        wanted = counts.get(MAIN)
        if wanted is not None and wanted != self._at_once(job):
            patch["parallelism"] = wanted
        return patch

    def resize(self, job: Job, counts: Counts) -> dict[str, Any]:
        return {"parallelism": counts.get(MAIN, 0)}

    def progress(self, job: Job) -> Progress:
        status = job.status
        succeeded = int(status.get("succeeded") or 0)
        alive = int(status.get("active") or 0) + int(status.get("terminating") or 0)
        usable = self._usable(job, succeeded, alive)
        suspended, began = _condition(status, "Suspended") == "True", bool(status.get("startTime"))
        ended = self._ended(status)
        return Progress(
            ready={MAIN: int(status.get("ready") or 0)},
            done={MAIN: succeeded},
            usable={MAIN: usable},
            needed={MAIN: max(usable, alive)},
            held=suspended and not began,
            started=began,
            succeeded=ended,
            message=_message(status, "Failed") if ended is False else "",
            alive=alive,
            leaves={"startTime": None} if suspended and began and self._stays(job) else {},
        )

    def pod_set_of(self, labels: Mapping[str, str]) -> str:
        return MAIN

    def _at_once(self, job: Job) -> int:
        parallelism = job.spec.get("parallelism")
        wanted = 1 if parallelism is None else int(parallelism)
        completions = job.spec.get("completions")
        return wanted if completions is None else min(wanted, int(completions))

    def _usable(self, job: Job, succeeded: int, alive: int) -> int:
        completions = job.spec.get("completions")
        at_once = self._at_once(job)
        if completions is not None:
            return max(0, min(at_once, int(completions) - succeeded))
        return min(at_once, alive) if succeeded else at_once  # a work queue starts no pod after the first success

    def _stays(self, job: Job) -> bool:
        """Whether it is suspended and neither over nor about to be: without when it began it could not end. And whether
        Kubernetes' own controller has it; what another one says is its own."""
        if not self.suspended(job) or job.spec.get("managedBy") not in (None, CONTROLLER):
            return False
        return not any(_condition(job.status, each) == "True" for each in ENDING)

    @staticmethod
    def _ended(status: Mapping[str, Any]) -> bool | None:
        if _condition(status, "Complete") == "True":
            return True
        return False if _condition(status, "Failed") == "True" else None


def _condition(status: Mapping[str, Any], name: str) -> str:
    return next((str(each.get("status")) for each in status.get("conditions") or () if each.get("type") == name), "")


def _message(status: Mapping[str, Any], name: str) -> str:
    for each in status.get("conditions") or ():
        if each.get("type") == name:
            return ": ".join(part for part in (each.get("reason"), each.get("message")) if part)
    return ""
