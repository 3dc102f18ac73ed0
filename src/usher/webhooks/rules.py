"""What is decided at the doors, by the kind that is asked about: `mutate` and `validate`. Pure, and never an API call.

Every question gets a verdict: what nobody here knows is let through (the API server asks only what concerns Usher), and
an object that is not of its type is refused with a text. Called by `usher.webhooks.server`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from usher.api.names import GROUP
from usher.api.statuses import OTHERS
from usher.jobkinds.base import BadJobError, JobKind
from usher.quotas.placing import cycle
from usher.quotas.resourcequota import MADE_FOR
from usher.runtime.marks import GATE, UNIT_ANNOTATION
from usher.webhooks import rules_jobs, words
from usher.webhooks.known import Known, has_purse, may_charge, may_use
from usher.webhooks.review import Allowed, Asked, Refused, Verdict
from usher.webhooks.said import BadObjectError, by_controllers, mapping, meta_of
from usher.webhooks.terms import MIRROR, NODES, Terms

KINDS = {"queueunits": "QueueUnit", "queues": "Queue", "queuequotas": "QueueQuota", "queuejobs": "QueueJob"}
BAD = (BadObjectError, BadJobError, TypeError, ValueError, AttributeError, KeyError, OverflowError)
"""What reading an object can raise that is not of its type."""


class Rules:
    """The rules of one cluster."""

    def __init__(self, terms: Terms, known: Known) -> None:
        self._terms, self._known = terms, known
        self._kinds: dict[tuple[str, str], JobKind] = {(kind.group, kind.plural): kind for kind in terms.kinds}

    def mutate(self, asked: Asked) -> Verdict:
        """What is changed before it is stored."""
        kind = self._kinds.get((asked.group, asked.resource))
        if kind is None or asked.subresource:
            return Allowed()
        try:
            return rules_jobs.mutate(kind, asked, self._terms, self._known)
        except BAD as error:
            return _unreadable(error)

    def validate(self, asked: Asked) -> Verdict:
        """Whether it may be stored."""
        try:
            return self._validate(asked)
        except BAD as error:
            return _unreadable(error)

    def _validate(self, asked: Asked) -> Verdict:
        if asked.user == self._terms.user:
            return Allowed()
        if (asked.group, asked.resource, asked.subresource) == ("", "resourcequotas", ""):
            return _resource_quota(asked)
        if asked.new is None:
            return Allowed()
        if asked.group == GROUP and asked.subresource == "status":
            return _status(asked, asked.new)
        if asked.subresource:
            return Allowed()
        kind = self._kinds.get((asked.group, asked.resource))
        if kind is not None:
            return rules_jobs.validate(kind, asked, self._terms, self._known)
        match asked.group, asked.resource:
            case "", "pods":
                return self._pod(asked, asked.new)
            case "scheduling.x-k8s.io", "queuequotas":
                return self._quota(asked, asked.new)
            case "scheduling.x-k8s.io", "queueunits" | "queuejobs":
                return self._place(asked, asked.new)
            case _:
                return Allowed()

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _pod(self, asked: Asked, new: Mapping[str, Any]) -> Verdict:
        if asked.operation == "UPDATE":
            return Refused(words.GATE) if _gated(mapping(asked.old)) and not _gated(new) else Allowed()
        namespace, meta = asked.namespace, meta_of(new)
        if self._terms.exempt(namespace) or not (asked.managed or self._known.managed(namespace)):
            return Allowed()
        if MIRROR in meta.annotations and NODES in asked.groups:
            return Allowed()
        daemon = any(owner.get("controller") is True and owner.get("kind") == "DaemonSet" for owner in meta.owners)
        if by_controllers(asked.user) and (daemon or UNIT_ANNOTATION in meta.annotations):
            return Allowed()
        if self._known.usable(namespace):
            return Allowed()
        by_name = namespace in self._terms.managed_namespaces
        return Refused(words.say(words.NO_QUEUE_BY_NAME if by_name else words.NO_QUEUE, namespace=namespace))

    # -- our kinds ----------------------------------------------------------------------------------------------------

    def _quota(self, asked: Asked, new: Mapping[str, Any]) -> Verdict:
        name, parent = meta_of(new).name or asked.name, str(mapping(new.get("spec")).get("parent") or "")
        before = str(mapping(mapping(asked.old).get("spec")).get("parent") or "") if asked.old is not None else None
        if parent == before:
            return Allowed()
        parents = {each: quota.parent for each, quota in self._known.quotas().items() if quota.parent}
        parents[name] = parent
        circle = _circle(name, parents)
        if circle:
            return Refused(words.say(words.CYCLE, parent=parent, circle=" → ".join(circle)))
        return Allowed()

    def _place(self, asked: Asked, new: Mapping[str, Any]) -> Verdict:
        """The queue, quota and priority of a QueueUnit or QueueJob."""
        spec, namespace = mapping(new.get("spec")), asked.namespace
        before = mapping(mapping(asked.old).get("spec")) if asked.old is not None else {}
        name, quota = str(spec.get("queue") or ""), str(spec.get("quota") or "")
        if asked.resource == "queuejobs" and name != str(before.get("queue") or "") and _allocated(asked.old):
            return Refused(words.ALLOCATED)
        queue = self._known.queue(namespace, name) if name else None
        if queue is not None and name != before.get("queue") and not may_use(queue, namespace):
            return Refused(rules_jobs.forbidden_queue(self._known, namespace, name))
        moves = queue is not None and name != before.get("queue")
        if queue is not None and moves and not quota and not has_purse(self._known, queue, namespace):
            return Refused(rules_jobs.forbidden_purse(self._known, namespace, queue))
        if quota and quota != before.get("quota") and not may_charge(self._known, namespace, quota):
            return Refused(words.say(words.QUOTA_FORBIDDEN, namespace=namespace, quota=quota))
        priority, most = spec.get("priority"), None if queue is None else queue.max_priority
        known = priority == before.get("priority") and name == before.get("queue")
        if isinstance(priority, int) and most is not None and priority > most and not known:
            return Refused(words.say(words.PRIORITY, priority=priority, most=most, queue=name))
        return Allowed()


def _circle(name: str, parents: Mapping[str, str]) -> list[str]:
    """The way from a quota back to itself, if there is one."""
    trail, above = [name], parents.get(name, "")
    while above in parents and above not in trail:
        trail.append(above)
        above = parents[above]
    if above != name:
        return []
    return cycle({each: parents[each] for each in trail})


def _allocated(old: Mapping[str, Any] | None) -> bool:
    count = mapping(mapping(old).get("status")).get("allocatedno")
    return isinstance(count, int) and count > 0


def _status(asked: Asked, new: Mapping[str, Any]) -> Verdict:
    """A status is Usher's, what check controllers say apart."""
    if asked.resource not in KINDS:
        return Allowed()
    if asked.resource == "queueunits":
        now, before = (
            {key: value for key, value in mapping(mapping(each).get("status")).items() if key not in OTHERS}
            for each in (new, asked.old)
        )
        if now == before:
            return Allowed()
    return Refused(words.say(words.STATUS, kind=KINDS[asked.resource]))


def _resource_quota(asked: Asked) -> Verdict:
    """One that Usher made follows its Queue. The API server asks only about those who may not change Queues."""
    old = mapping(asked.old)
    queue = meta_of(old).labels.get(MADE_FOR)
    if queue is None or by_controllers(asked.user):
        return Allowed()
    if asked.new is not None and MADE_FOR in meta_of(asked.new).labels and old.get("spec") == asked.new.get("spec"):
        return Allowed()
    return Refused(words.say(words.RESOURCE_QUOTA, queue=queue))


def _gated(pod: Mapping[str, Any]) -> bool:
    gates = mapping(pod.get("spec")).get("schedulingGates") or ()
    return any(mapping(gate).get("name") == GATE for gate in gates)


def _unreadable(error: Exception) -> Refused:
    return Refused(f"the object in the review cannot be read: {type(error).__name__}: {str(error)[:300]}", 400)
