"""What an object in a review says, in the words of the terms: the Python side of `usher.webhooks.cel`.

Reviews come from the API server, whose objects are of their types; what is not gives `BadObjectError`, never a crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from usher.api.names import QUEUE_JOB
from usher.jobkinds.base import Job, JobKind
from usher.webhooks.terms import ACCOUNT, CONTROLLERS, DIRECT_CONTROLLER, MANAGED, Terms

Object = Mapping[str, Any]


class BadObjectError(ValueError):
    """Something in the object is not of its type."""


def mapping(value: object) -> Mapping[str, Any]:
    """A part of an object that should be a map; nothing is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadObjectError(f"{str(value)[:100]!r} is not an object")
    return value


def strings(value: object) -> dict[str, str]:
    """Labels or annotations."""
    found = mapping(value)
    for key, each in found.items():
        if not isinstance(each, str):
            raise BadObjectError(f"{key[:100]}: {str(each)[:100]!r} is not a string")
    return dict(found)


@dataclass(frozen=True, slots=True)
class Meta:
    """The metadata of an object, as far as the doors look at it."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owners: Sequence[Mapping[str, Any]]
    name: str
    uid: str

    def first(self, keys: Sequence[str]) -> str:
        """What the first of the keys says, in a label or else an annotation."""
        return next((found for key in keys if (found := self.labels.get(key) or self.annotations.get(key))), "")


def meta_of(found: Object) -> Meta:
    metadata = mapping(found.get("metadata"))
    owners = metadata.get("ownerReferences") or ()
    if not isinstance(owners, Sequence) or isinstance(owners, str):
        raise BadObjectError("metadata.ownerReferences is not a list")
    return Meta(
        labels=strings(metadata.get("labels")),
        annotations=strings(metadata.get("annotations")),
        owners=[mapping(each) for each in owners],
        name=str(metadata.get("name") or ""),
        uid=str(metadata.get("uid") or ""),
    )


@dataclass(frozen=True, slots=True)
class SaidJob:
    """One state of a job."""

    meta: Meta
    job: Job
    queue: str
    quota: str
    drawn: str
    """The QueueJob on whose allocation it draws."""
    takes_part: bool
    suspended: bool

    def place(self, namespace: str) -> str:
        """Where it is queued, in words."""
        if self.queue:
            return f"queue {self.queue}"
        if self.quota:
            return f"quota {self.quota}"
        return f"QueueJob {self.drawn}" if self.drawn else f"the managed namespace {namespace}"


def job_of(kind: JobKind, found: Object, namespace: str, terms: Terms) -> SaidJob:
    """A job of a review."""
    meta = meta_of(found)
    queue, quota = meta.first(terms.queue_keys), meta.first(terms.quota_keys)
    job = Job(
        namespace=namespace,
        name=meta.name,
        uid=meta.uid,
        spec=mapping(found.get("spec")),
        status=mapping(found.get("status")),
        labels=meta.labels,
        annotations=meta.annotations,
    )
    marked = meta.labels.get(MANAGED) == "true" or namespace in terms.managed_namespaces
    drawn = meta.first((QUEUE_JOB,))
    takes_part = bool(queue or quota or drawn or marked)
    return SaidJob(meta, job, queue, quota, drawn, takes_part, kind.suspended(job))


def owned(meta: Meta, user: str, terms: Terms) -> bool:
    """Whether an operator makes it for a job that is queued itself; not everybody who claims an owner is believed."""
    accounts = tuple(f"{ACCOUNT}{each}:" for each in terms.operator_namespaces)
    if user != DIRECT_CONTROLLER and not user.startswith(accounts):
        return False
    kinds = {f"{kind.group}/{kind.kind}" for kind in terms.kinds}
    return any(
        owner.get("controller") is True
        and f"{str(owner.get('apiVersion') or '').rpartition('/')[0]}/{owner.get('kind')}" in kinds
        for owner in meta.owners
    )


def by_controllers(user: str) -> bool:
    """Whether one of the cluster's own controllers asks."""
    return user == DIRECT_CONTROLLER or user.startswith(CONTROLLERS)
