"""What is decided about jobs. Pure: a question and what is known in, a verdict out.

`mutate` and the first half of `validate` say what the policies of `usher.webhooks.policies` say, from the object alone.
The second half needs others: whether the queue and the quota may be used, and how high its priority may be. It is asked
only when that changes, so that no later change to a queue stops an unrelated write to a job.
"""

from __future__ import annotations

import re
from typing import Final

from usher.api.names import PAUSED
from usher.core.model import Queue
from usher.jobkinds.base import JobKind
from usher.runtime.facts import priority_of
from usher.runtime.marks import ADMISSION_ANNOTATION, REDUCED_ANNOTATION
from usher.runtime.said import Said
from usher.webhooks import words
from usher.webhooks.known import Known, default_queue, has_purse, may_charge, may_use
from usher.webhooks.patches import Patch
from usher.webhooks.review import Allowed, Asked, Refused, Verdict
from usher.webhooks.said import SaidJob, job_of, owned
from usher.webhooks.terms import MANAGED, Terms

DEFAULT_SCHEDULERS: Final = ("", "default-scheduler")
LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def mutate(kind: JobKind, asked: Asked, terms: Terms, known: Known) -> Verdict:
    """What a job is given when it is created, and what becomes of its owner's own pause."""
    if asked.new is None or asked.user == terms.user:
        return Allowed()
    new = job_of(kind, asked.new, asked.namespace, terms)
    if owned(new.meta, asked.user, terms):
        return Allowed()
    patch = Patch(asked.new)
    if asked.operation == "UPDATE":
        old = job_of(kind, asked.old or {}, asked.namespace, terms)
        if _started_unqueued(kind, old, new) and _in_managed(asked, terms, known):
            _create(patch, kind, asked, new, terms, known)
        else:
            _pause(patch, old, new)
    elif new.takes_part or _in_managed(asked, terms, known):
        _create(patch, kind, asked, new, terms, known)
    return Allowed(tuple(patch.ops))


def _in_managed(asked: Asked, terms: Terms, known: Known) -> bool:
    return not terms.exempt(asked.namespace) and (asked.managed or known.managed(asked.namespace))


def _create(patch: Patch, kind: JobKind, asked: Asked, new: SaidJob, terms: Terms, known: Known) -> None:
    if _in_managed(asked, terms, known):
        patch.set(("metadata", "labels", MANAGED), "true")
    queue, quota = new.queue, new.quota
    if not queue and not quota and not new.drawn and (queue := default_queue(known, asked.namespace)):
        patch.set(("metadata", "labels", terms.queue_keys[0]), queue)
    found = known.queue(asked.namespace, queue) if queue else None
    if not quota and found is not None and found.shared and terms.quota_keys:
        # That of a tenant's own queue is its queue's business, and would be wrong after a move to another.
        quota = known.quota_of(asked.namespace)
        if LABEL_VALUE.fullmatch(quota):  # those of some sources have other names, and are found without a label
            patch.set(("metadata", "labels", terms.quota_keys[0]), quota)
    purse = quota or _purse(known, asked.namespace, found)
    if purse and (scheduler := known.scheduler(purse)):
        template = (new.job.spec.get("template") or {}).get("spec") or {}
        if (template.get("schedulerName") or "") in DEFAULT_SCHEDULERS:
            patch.set(("spec", "template", "spec", "schedulerName"), scheduler)
    patch.set(("spec", "suspend"), True)


def _purse(known: Known, namespace: str, queue: Queue | None) -> str:
    """The quota that is charged for a job that names none, as the engine finds it."""
    own = known.quota_of(namespace)
    if queue is None:
        return own
    return (own or queue.quota) if queue.shared else (queue.quota or own)


def _started_unqueued(kind: JobKind, old: SaidJob, new: SaidJob) -> bool:
    """Whether somebody starts a job that nobody queues: one that was there before its namespace was managed."""
    starts = old.suspended and not new.suspended and kind.progress(old.job).succeeded is None
    return starts and not old.takes_part and not new.takes_part


def _pause(patch: Patch, old: SaidJob, new: SaidJob) -> None:
    if not old.takes_part:
        return
    if new.suspended and not old.suspended:
        patch.set(("metadata", "annotations", PAUSED), "true")
    elif old.suspended and not new.suspended and old.meta.annotations.get(PAUSED) == "true":
        patch.set(("metadata", "annotations", PAUSED), "false")
        patch.set(("spec", "suspend"), True)


def validate(kind: JobKind, asked: Asked, terms: Terms, known: Known) -> Verdict:
    """Whether a job may be stored as it is now."""
    if asked.new is None or asked.user == terms.user:
        return Allowed()
    new = job_of(kind, asked.new, asked.namespace, terms)
    old = None if asked.old is None else job_of(kind, asked.old, asked.namespace, terms)
    if not new.takes_part and (old is None or not old.takes_part):
        return Allowed()
    if owned(new.meta, asked.user, terms):
        return Allowed()
    alone = _created(asked, new) if old is None else _changed(kind, asked, old, new, terms)
    if alone is not None or not new.takes_part:
        return alone or Allowed()
    return _among_others(kind, asked, old, new, terms, known)


def _created(asked: Asked, new: SaidJob) -> Refused | None:
    return None if new.suspended else Refused(words.say(words.NOT_HELD, place=new.place(asked.namespace)))


def _changed(kind: JobKind, asked: Asked, old: SaidJob, new: SaidJob, terms: Terms) -> Refused | None:
    """What the policy `usher-jobs` refuses, in its order."""
    finished = kind.progress(old.job).succeeded is not None
    place = old.place(asked.namespace)
    if old.suspended and not new.suspended and not finished:
        return Refused(words.say(words.UNSUSPENDED, place=place if old.takes_part else new.place(asked.namespace)))
    if old.takes_part and not new.takes_part and not finished:
        return Refused(words.say(words.LABEL_REMOVED, place=place))
    if old.takes_part and not old.suspended and not new.suspended and not finished:
        if (old.queue, old.quota, old.drawn) != (new.queue, new.quota, new.drawn):
            return Refused(words.say(words.MOVED, place=place))
        few, many = sum(kind.counts(old.job).values()), sum(kind.counts(new.job).values())
        if many > few and old.meta.first(terms.elastic_keys) != "true":
            return Refused(words.say(words.GROWN, place=place, few=few, many=many))
    for key in (ADMISSION_ANNOTATION, REDUCED_ANNOTATION):
        if old.meta.annotations.get(key, "") != new.meta.annotations.get(key, ""):
            return Refused(words.MARKS)
    return None


def _among_others(
    kind: JobKind, asked: Asked, old: SaidJob | None, new: SaidJob, terms: Terms, known: Known
) -> Verdict:
    namespace, warnings = asked.namespace, list[str]()
    newly = old is None or not old.takes_part
    queue = known.queue(namespace, new.queue) if new.queue else None
    if newly or (old is not None and old.queue != new.queue):
        if queue is not None and not may_use(queue, namespace):
            return Refused(forbidden_queue(known, namespace, new.queue))
        if queue is not None and not new.quota and not has_purse(known, queue, namespace):
            return Refused(forbidden_purse(known, namespace, queue))
        if queue is None:
            warnings.append(_missing_queue(known, namespace, new, terms))
    if new.quota and (newly or (old is not None and old.quota != new.quota)):
        if not may_charge(known, namespace, new.quota):
            return Refused(words.say(words.QUOTA_FORBIDDEN, namespace=namespace, quota=new.quota))
        if new.quota not in known.quotas():
            warnings.append(words.say(words.QUOTA_MISSING, quota=new.quota))
    if queue is not None and queue.max_priority is not None:
        priority = _priority(kind, new, known)
        before = None if old is None or old.queue != new.queue else _priority(kind, old, known)
        if priority > queue.max_priority and priority != before:
            text = words.say(words.PRIORITY, priority=priority, most=queue.max_priority, queue=queue.name)
            return Refused(text)
    return Allowed(warnings=tuple(each for each in warnings if each))


def _missing_queue(known: Known, namespace: str, new: SaidJob, terms: Terms) -> str:
    if new.queue:
        return words.say(words.QUEUE_MISSING, queue=new.queue)
    if new.quota or new.drawn or default_queue(known, namespace):
        return ""
    usable = ", ".join(each.name for each in known.usable(namespace))
    if not usable:
        return words.say(words.NO_QUEUE_YET, namespace=namespace)
    return words.say(words.SEVERAL_QUEUES, namespace=namespace, usable=usable, key=terms.queue_keys[0])


def forbidden_queue(known: Known, namespace: str, queue: str) -> str:
    """What is said about a queue that the namespace may not use."""
    return words.say(words.QUEUE_FORBIDDEN, namespace=namespace, queue=queue, usable=_usable(known, namespace))


def forbidden_purse(known: Known, namespace: str, queue: Queue) -> str:
    """What is said about a queue whose quota the namespace may not use."""
    usable = _usable(known, namespace)
    return words.say(words.PURSE_FORBIDDEN, namespace=namespace, queue=queue.name, quota=queue.quota, usable=usable)


def _usable(known: Known, namespace: str) -> str:
    return ", ".join(each.name for each in known.usable(namespace)) or "its own queues (there is none yet)"


def _priority(kind: JobKind, said: SaidJob, known: Known) -> int:
    """The priority that the job's unit would have."""
    pod_sets = [{"template": shape.template} for shape in kind.pod_sets(said.job)[:1]]
    return priority_of(Said(said.job), pod_sets, known.reading())[0]
