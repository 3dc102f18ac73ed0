"""What people are told at the doors: each text says what was refused and what to do. One wording for both ways.

A text may have gaps, as in `{queue}`: `say` fills them in Python, `in_cel` makes the CEL expression that does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_GAP: Final = re.compile(r"\{(\w+)\}")

NOT_HELD: Final = (
    "this job belongs to {place} and must be created suspended: something set spec.suspend to false after Usher set it "
    "to true; leave spec.suspend out, Usher starts the job when its turn comes"
)
UNSUSPENDED: Final = (
    "this job waits in {place} and cannot be started by hand: Usher starts it when its turn comes; `usher explain` "
    "says what it waits for"
)
LABEL_REMOVED: Final = (
    "this job belongs to {place} and cannot leave it: delete the job and create it again without the label, or name "
    "another queue instead of removing the name"
)
MOVED: Final = (
    "this job runs in {place} and cannot change its queue or quota meanwhile: suspend it first (spec.suspend: true), "
    "change the label, then unsuspend it; it is queued again"
)
GROWN: Final = (
    "this job runs in {place} and was granted {few} pods at a time, {many} are too many: suspend it first and change "
    'it then, or create it with the label scheduling.x-k8s.io/elastic: "true"'
)
MARKS: Final = (
    "the annotations scheduling.x-k8s.io/admission and scheduling.x-k8s.io/reduced are Usher's own: leave them as they "
    "are"
)
GATE: Final = (
    "the scheduling gate scheduling.x-k8s.io/granted is opened by Usher when the pod's quota is granted: leave it in "
    "place, or delete the pod"
)
STATUS: Final = (
    "the status of a {kind} is written by Usher alone: change its spec instead (controllers of admission checks write "
    "status.admissionChecks of a QueueUnit)"
)
ALLOCATED: Final = (
    "this QueueJob has resources allocated and cannot change its queue meanwhile: set resourceno to 0 first and wait "
    "until status.allocatedno is 0"
)
RESOURCE_QUOTA: Final = (
    "this ResourceQuota was made by Usher for queue {queue} and follows its quota: change the quota or the queue, or "
    "create a ResourceQuota of your own, and this one gives way"
)
QUEUE_FORBIDDEN: Final = (
    "namespace {namespace} may not use queue {queue}: name one of {usable}, or ask an administrator to let the "
    "namespaceSelector of queue {queue} select it"
)
PURSE_FORBIDDEN: Final = (
    "queue {queue} charges quota {quota}, which belongs to other namespaces than {namespace}: name one of {usable}, or "
    "a quota of your own besides"
)
QUOTA_FORBIDDEN: Final = (
    "namespace {namespace} may not use quota {quota}, which belongs to other namespaces: leave the label out, or ask "
    "an administrator to add the namespace to the quota"
)
PRIORITY: Final = (
    "priority {priority} is above {most}, the highest of queue {queue}: ask for at most {most}, or use another queue"
)
CYCLE: Final = "with parent {parent} this quota would be its own ancestor ({circle}): choose another parent"
NO_QUEUE: Final = (
    "namespace {namespace} is managed by Usher and has no usable Queue: ask an administrator to create a Queue in it "
    "(or to let a shared one select it), or to remove the label scheduling.x-k8s.io/managed from the namespace"
)
NO_QUEUE_BY_NAME: Final = (
    "namespace {namespace} is managed by Usher and has no usable Queue: ask an administrator to create a Queue in it "
    "(or to let a shared one select it), or to take the namespace out of managedNamespaces in Usher's settings"
)
QUEUE_MISSING: Final = "queue {queue} does not exist yet: the job waits until it does"
QUOTA_MISSING: Final = "quota {quota} does not exist yet: the job waits until it does"
SEVERAL_QUEUES: Final = (
    "namespace {namespace} may use several queues ({usable}) and this job names none: it waits until its label {key} "
    "names one"
)
NO_QUEUE_YET: Final = "namespace {namespace} has no usable Queue yet: the job waits until it has one"


def say(text: str, **gaps: object) -> str:
    """The text with its gaps filled."""
    return text.format_map({name: str(value) for name, value in gaps.items()})


def in_cel(text: str, gaps: Mapping[str, str] | None = None) -> str:
    """A CEL expression for the text; `gaps` gives a CEL expression of a string for each gap."""
    parts = _GAP.split(text)
    shown = [quoted(part) if i % 2 == 0 else f"({(gaps or {})[part]})" for i, part in enumerate(parts) if part]
    return " + ".join(shown)


def quoted(text: str) -> str:
    """A string of CEL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
