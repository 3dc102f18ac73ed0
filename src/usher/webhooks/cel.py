"""Expressions of CEL that the policies and match conditions are put together from, made from the terms.

An object is written `object` or `oldObject`; `old` may be null, so `there` guards it. Whatever is said here is said in
Python by `usher.webhooks.said`, and one table of cases holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence

from usher.api.names import QUEUE_JOB
from usher.webhooks.terms import ACCOUNT, CONTROLLERS, DIRECT_CONTROLLER, MANAGED, MIRROR, NODES, Terms
from usher.webhooks.words import quoted

USER = "request.userInfo.username"


def strings(values: Sequence[str]) -> str:
    """A list of strings."""
    return f"[{', '.join(quoted(each) for each in values)}]"


def there(which: str, then: str, otherwise: str = "false") -> str:
    """`then` for an object that may be null."""
    return then if which == "object" else f"({which} != null ? ({then}) : {otherwise})"


def has_any(which: str, keys: Sequence[str]) -> str:
    """Whether labels or annotations have one of the keys, with something in it."""
    parts = [
        f"(has({which}.metadata.{where}) && {strings(keys)}.exists(k, k in {which}.metadata.{where} && "
        f"{which}.metadata.{where}[k] != ''))"
        for where in ("labels", "annotations")
    ]
    return f"({' || '.join(parts)})"


def first_of(which: str, keys: Sequence[str]) -> str:
    """What the first of the keys says, in a label or else an annotation; empty: nothing."""
    labels, notes = (
        f"(has({which}.metadata.{where}) && k in {which}.metadata.{where} ? {which}.metadata.{where}[k] : '')"
        for where in ("labels", "annotations")
    )
    found = f"{strings(keys)}.map(k, {labels} != '' ? {labels} : {notes}).filter(v, v != '')"
    return there(which, f"size({found}) > 0 ? {found}[0] : ''", "''")


def marked(which: str) -> str:
    """Whether it carries the mark of a managed namespace."""
    labels = f"{which}.metadata.labels"
    return f"(has({labels}) && {quoted(MANAGED)} in {labels} && {labels}[{quoted(MANAGED)}] == 'true')"


def takes_part(which: str, terms: Terms) -> str:
    """Whether a job is held: it names a queue, a quota or a QueueJob, or was created in a managed namespace."""
    named = f"{has_any(which, (*terms.queue_keys, *terms.quota_keys, QUEUE_JOB))} || {marked(which)}"
    if terms.managed_namespaces:
        named += f" || request.namespace in {strings(terms.managed_namespaces)}"
    return there(which, named)


def concerns(terms: Terms) -> str:
    """Whether the new or the old job is queued."""
    return f"{takes_part('object', terms)} || {takes_part('oldObject', terms)}"


def not_usher(terms: Terms) -> str:
    return f"{USER} != {quoted(terms.user)}"


def not_owned(terms: Terms) -> str:
    """Not what an operator makes for a job that is queued itself. Everybody can claim an owner: only the cluster's own
    controllers and accounts of the operators' namespaces are believed."""
    kinds = strings([f"{kind.group}/{kind.kind}" for kind in terms.kinds])
    group = "(r.apiVersion.contains('/') ? r.apiVersion.split('/')[0] : '')"
    owned = (
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(r, has(r.controller) && "
        f"r.controller && ({group} + '/' + r.kind) in {kinds})"
    )
    account = f"{USER}.startsWith({quoted(ACCOUNT)} + n + ':')"
    believed = f"({USER} == {quoted(DIRECT_CONTROLLER)} || {strings(terms.operator_namespaces)}.exists(n, {account}))"
    return f"!({believed} && {owned})"


def is_new_in(*paths: str) -> str:
    """Whether it is created, or one of these is not what it was. The garbage collector changes owners and finalizers:
    what is deleted goes, whoever answers."""
    return f"oldObject == null || {' || '.join(differs(path) for path in paths)}"


def not_exempt(terms: Terms) -> str:
    """Not in Kubernetes' own namespaces, nor in Usher's."""
    return f"!request.namespace.startsWith('kube-') && request.namespace != {quoted(terms.system_namespace)}"


def by_controllers() -> str:
    """Whether one of the cluster's own controllers asks."""
    return f"({USER} == {quoted(DIRECT_CONTROLLER)} || {USER}.startsWith({quoted(CONTROLLERS)}))"


def ordinary_pod(unit_annotation: str) -> str:
    """Not a mirror pod, not a DaemonSet's, and not of a job that Usher has let in: each by who makes it, because
    annotations and owners can be claimed by everybody."""
    mirror = (
        f"(request.userInfo.groups.exists(g, g == {quoted(NODES)}) && has(object.metadata.annotations) && "
        f"{quoted(MIRROR)} in object.metadata.annotations)"
    )
    daemon = (
        "(has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(r, has(r.controller) && "
        "r.controller && r.kind == 'DaemonSet'))"
    )
    admitted = f"(has(object.metadata.annotations) && {quoted(unit_annotation)} in object.metadata.annotations)"
    return f"!{mirror} && !({by_controllers()} && ({daemon} || {admitted}))"


def finished() -> str:
    """Whether the job had ended."""
    return (
        "oldObject != null && has(oldObject.status) && has(oldObject.status.conditions) && "
        "oldObject.status.conditions.exists(c, c.type in ['Complete', 'Failed'] && c.status == 'True')"
    )


def started_unqueued(terms: Terms) -> str:
    """Whether somebody starts a job that nobody queues: one that was there before its namespace was managed."""
    starts = f"{suspended('oldObject')} && !({suspended('object')})"
    return f"{starts} && !({concerns(terms)}) && !({finished()})"


def suspended(which: str) -> str:
    return there(which, f"has({which}.spec.suspend) && {which}.spec.suspend")


def annotation(which: str, key: str) -> str:
    """What an annotation says; empty: nothing."""
    notes = f"{which}.metadata.annotations"
    said = f"(has({notes}) && {quoted(key)} in {notes} ? {notes}[{quoted(key)}] : '')"
    return there(which, said, "''")


def differs(path: str) -> str:
    """Whether a field that may be missing is not what it was."""
    new, old = f"object.{path}", f"oldObject.{path}"
    return f"(has({new}) != has({old}) || (has({new}) && {new} != {old}))"
