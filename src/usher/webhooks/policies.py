"""The admission policies: what one object shows, decided by the API server itself, also while Usher is down.

They are made from the settings, so that aliases of the queue label are known to them; `deploy/admission.yaml` is what
they are with nothing set. `usher install` and the chart apply them; the manager has no right to.

    usher-hold.…          a job that names a queue is created suspended; in a managed namespace, every job is
    usher-start-managed.… one that was there before its namespace was managed is held when somebody starts it
    usher-pause.…         a running job that its owner suspends is paused; unsuspending it queues it again
    usher-jobs.…          nobody starts a queued job by hand, takes it out of its queue, moves or grows it while it runs
    usher-gates           nobody opens Usher's gate on a pod
    usher-unit-statuses   nobody but Usher writes the status of a unit, the answers of checks apart
    usher-statuses        nor that of its other kinds
    usher-queuejobs       a QueueJob that has something stays in its queue
    usher-resource-quotas nobody patches a ResourceQuota that Usher made for a Queue
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from usher.api.names import GROUP, PAUSED, QUEUE_JOB, VERSION
from usher.api.queueunit import QueueUnitStatus
from usher.api.statuses import written
from usher.jobkinds.base import JobKind
from usher.runtime.marks import ADMISSION_ANNOTATION, GATE, REDUCED_ANNOTATION
from usher.settings.tree import Settings
from usher.webhooks import cel, words
from usher.webhooks.policies_resourcequota import resource_quotas
from usher.webhooks.terms import MANAGED, Terms, terms_of

API_VERSION = "admissionregistration.k8s.io/v1"
Object = dict[str, Any]


def objects(settings: Settings, *, audit: bool = False) -> list[Object]:
    """Every policy with its bindings. `audit`: they only warn and are noted in the audit log, and change nothing.

    Mutating policies need a server that has them as v1 (Kubernetes 1.36); see `configurations.objects` for others.
    """
    terms = terms_of(settings)
    made: list[Object] = []
    for kind in terms.kinds:
        made += [] if audit else [*_hold(kind, terms), *_pause(kind, terms)]
        made += _jobs(kind, terms, audit)
    made += [*_gates(terms, audit), *_statuses(terms, audit), *_queue_jobs(terms, audit)]
    return [*made, *resource_quotas(terms, audit)]


def name_of(kind: JobKind) -> str:
    """As kubectl names the resource."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


# -- jobs -------------------------------------------------------------------------------------------------------------


def _hold(kind: JobKind, terms: Terms) -> list[Object]:
    rules = [_rule(kind.group, kind.version, kind.plural, "CREATE")]
    held = "Object{spec: Object.spec{suspend: true}}"
    mark = f"metadata: Object.metadata{{labels: {{{words.quoted(MANAGED)}: 'true'}}}}"
    marked = f"Object{{{mark}, spec: Object.spec{{suspend: true}}}}"
    by_label = {"matchLabels": {MANAGED: "true"}}
    by_name = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(terms.managed_namespaces)}
        ]
    }
    owned = {"name": "not-of-a-queued-job", "expression": cel.not_owned(terms)}
    named = {"name": "names-a-queue", "expression": cel.takes_part("object", terms)}
    ordinary = {"name": "not-a-system-namespace", "expression": cel.not_exempt(terms)}
    hold, managed = f"usher-hold.{name_of(kind)}", f"usher-hold-managed.{name_of(kind)}"
    made = [
        _mutating(hold, rules, [named, owned], held),
        _binding("Mutating", hold),
        _mutating(managed, rules, [ordinary, owned], marked),
        _binding("Mutating", managed, namespaces=by_label),
    ]
    if terms.managed_namespaces:
        made.append(_binding("Mutating", managed, f"{managed}.by-name", namespaces=by_name))
    # What was there before its namespace got the label is queued when somebody starts it. (Where the settings name the
    # namespace, every job of it is queued without a mark.)
    started = f"usher-start-managed.{name_of(kind)}"
    starts = {"name": "starts-what-is-not-queued", "expression": cel.started_unqueued(terms)}
    others = {"name": "not-by-usher", "expression": cel.not_usher(terms)}
    changes = [_rule(kind.group, kind.version, kind.plural, "UPDATE")]
    return [
        *made,
        _mutating(started, changes, [ordinary, others, owned, starts], marked),
        _binding("Mutating", started, namespaces=by_label),
    ]


def _pause(kind: JobKind, terms: Terms) -> list[Object]:
    """What its owner does to `suspend` while Usher has let it run is his own pause, and is written down."""
    name = f"usher-pause.{name_of(kind)}"
    pauses = f"({cel.suspended('object')} && !{cel.suspended('oldObject')})"
    was_paused = f"{cel.annotation('oldObject', PAUSED)} == 'true'"
    resumes = f"(!({cel.suspended('object')}) && {cel.suspended('oldObject')} && {was_paused})"
    key = words.quoted(PAUSED)

    def note(value: str) -> str:
        return f"metadata: Object.metadata{{annotations: {{{key}: '{value}'}}}}"

    conditions = [
        {"name": "queued", "expression": cel.takes_part("oldObject", terms)},
        {"name": "not-by-usher", "expression": cel.not_usher(terms)},
        {"name": "pauses-or-resumes", "expression": f"{pauses} || {resumes}"},
    ]
    change = f"{pauses} ? Object{{{note('true')}}} : Object{{{note('false')}, spec: Object.spec{{suspend: true}}}}"
    rules = [_rule(kind.group, kind.version, kind.plural, "UPDATE")]
    return [_mutating(name, rules, conditions, change), _binding("Mutating", name)]


def _jobs(kind: JobKind, terms: Terms, audit: bool) -> list[Object]:
    name = f"usher-jobs.{name_of(kind)}"
    variables = {
        "queue": cel.first_of("object", terms.queue_keys),
        "oldQueue": cel.first_of("oldObject", terms.queue_keys),
        "quota": cel.first_of("object", terms.quota_keys),
        "oldQuota": cel.first_of("oldObject", terms.quota_keys),
        "drawn": cel.first_of("object", (QUEUE_JOB,)),
        "oldDrawn": cel.first_of("oldObject", (QUEUE_JOB,)),
        "was": cel.takes_part("oldObject", terms),
        "is": cel.takes_part("object", terms),
        "held": cel.suspended("object"),
        "wasHeld": cel.suspended("oldObject"),
        "update": "request.operation == 'UPDATE'",
        "finished": cel.finished(),
        "elastic": f"{cel.first_of('oldObject', terms.elastic_keys)} == 'true'",
        "runs": "variables.update && variables.was && !variables.held && !variables.wasHeld && !variables.finished",
        "atOnce": at_once("object"),
        "wasAtOnce": cel.there("oldObject", at_once("oldObject"), "0"),
        "place": _place("queue", "quota", "drawn"),
        "oldPlace": _place("oldQueue", "oldQuota", "oldDrawn"),
    }
    both = [
        f"{cel.annotation('object', key)} == {cel.annotation('oldObject', key)}"
        for key in (ADMISSION_ANNOTATION, REDUCED_ANNOTATION)
    ]
    old = {"place": "variables.oldPlace"}
    counts = {"few": "string(variables.wasAtOnce)", "many": "string(variables.atOnce)"}
    validations = [
        _validation("variables.update || variables.held", words.in_cel(words.NOT_HELD, {"place": "variables.place"})),
        _validation(
            "!variables.update || variables.held || !variables.wasHeld || variables.finished",
            words.in_cel(words.UNSUSPENDED, {"place": "variables.was ? variables.oldPlace : variables.place"}),
        ),
        _validation(
            "!variables.update || variables.is || !variables.was || variables.finished",
            words.in_cel(words.LABEL_REMOVED, old),
        ),
        _validation(
            "!variables.runs || (variables.queue == variables.oldQueue && variables.quota == variables.oldQuota && "
            "variables.drawn == variables.oldDrawn)",
            words.in_cel(words.MOVED, old),
        ),
        _validation(
            "!variables.runs || variables.elastic || variables.atOnce <= variables.wasAtOnce",
            words.in_cel(words.GROWN, {**old, **counts}),
        ),
        _validation(f"!variables.update || ({' && '.join(both)})", words.in_cel(words.MARKS)),
    ]
    conditions = [
        {"name": "queued", "expression": cel.concerns(terms)},
        {"name": "not-by-usher", "expression": cel.not_usher(terms)},
        {"name": "not-of-a-queued-job", "expression": cel.not_owned(terms)},
    ]
    rules = [_rule(kind.group, kind.version, kind.plural, "CREATE", "UPDATE")]
    return [
        _validating(name, rules, conditions, validations, variables),
        _binding("Validating", name, audit=audit),
    ]


def at_once(which: str) -> str:
    """How many pods a job may have at a time."""
    parallelism = f"(has({which}.spec.parallelism) ? {which}.spec.parallelism : 1)"
    completions = f"has({which}.spec.completions) && {which}.spec.completions < {parallelism}"
    return f"({completions} ? {which}.spec.completions : {parallelism})"


def _place(queue: str, quota: str, drawn: str) -> str:
    return (
        f"variables.{queue} != '' ? 'queue ' + variables.{queue} : "
        f"variables.{quota} != '' ? 'quota ' + variables.{quota} : "
        f"variables.{drawn} != '' ? 'QueueJob ' + variables.{drawn} : 'the managed namespace ' + request.namespace"
    )


# -- pods and our kinds -----------------------------------------------------------------------------------------------


def _gates(terms: Terms, audit: bool) -> list[Object]:
    name = "usher-gates"

    def gated(which: str) -> str:
        return f"(has({which}.spec.schedulingGates) && {which}.spec.schedulingGates.exists(g, g.name == '{GATE}'))"

    conditions = [
        {"name": "opens-our-gate", "expression": f"{gated('oldObject')} && !{gated('object')}"},
        {"name": "not-by-usher", "expression": cel.not_usher(terms)},
    ]
    rules = [_rule("", "v1", "pods", "UPDATE")]
    never = [_validation("false", words.in_cel(words.GATE))]
    return [_validating(name, rules, conditions, never), _binding("Validating", name, audit=audit)]


def _statuses(terms: Terms, audit: bool) -> list[Object]:
    by_others = {"name": "not-by-usher", "expression": cel.not_usher(terms)}
    units, rest = "usher-unit-statuses", "usher-statuses"
    said = _validation("false", words.in_cel(words.STATUS, {"kind": "request.kind.kind"}))
    touched = {"name": "more-than-checks", "expression": written(QueueUnitStatus)}
    kinds = [_rule(GROUP, VERSION, f"{plural}/status", "UPDATE") for plural in ("queues", "queuequotas", "queuejobs")]
    return [
        _validating(units, [_rule(GROUP, VERSION, "queueunits/status", "UPDATE")], [by_others, touched], [said]),
        _binding("Validating", units, audit=audit),
        _validating(rest, kinds, [by_others], [said]),
        _binding("Validating", rest, audit=audit),
    ]


def _queue_jobs(terms: Terms, audit: bool) -> list[Object]:
    name = "usher-queuejobs"
    holds = "has(oldObject.status) && has(oldObject.status.allocatedno) && oldObject.status.allocatedno > 0"
    conditions = [
        {"name": "has-something", "expression": holds},
        {"name": "not-by-usher", "expression": cel.not_usher(terms)},
    ]
    stays = [_validation(f"!{cel.differs('spec.queue')}", words.in_cel(words.ALLOCATED))]
    rules = [_rule(GROUP, VERSION, "queuejobs", "UPDATE")]
    return [_validating(name, rules, conditions, stays), _binding("Validating", name, audit=audit)]


# -- shapes -----------------------------------------------------------------------------------------------------------


def _rule(group: str, version: str, plural: str, *operations: str) -> Object:
    return {"apiGroups": [group], "apiVersions": [version], "operations": list(operations), "resources": [plural]}


def _validation(expression: str, message: str) -> Object:
    return {"expression": expression, "messageExpression": message, "reason": "Forbidden"}


def _spec(rules: Sequence[Object], conditions: Sequence[Object]) -> Object:
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": list(rules)},
        "matchConditions": list(conditions),
    }


def _mutating(name: str, rules: Sequence[Object], conditions: Sequence[Object], change: str) -> Object:
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": change}}
    spec = {**_spec(rules, conditions), "reinvocationPolicy": "IfNeeded", "mutations": [mutation]}
    return {"apiVersion": API_VERSION, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def _validating(
    name: str,
    rules: Sequence[Object],
    conditions: Sequence[Object],
    validations: Sequence[Object],
    variables: dict[str, str] | None = None,
) -> Object:
    spec = _spec(rules, conditions)
    if variables:
        spec["variables"] = [{"name": key, "expression": expression} for key, expression in variables.items()]
    spec["validations"] = list(validations)
    return {"apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def _binding(
    which: str, policy: str, name: str = "", *, namespaces: Object | None = None, audit: bool = False
) -> Object:
    spec: Object = {"policyName": policy}
    if which == "Validating":
        spec["validationActions"] = ["Warn", "Audit"] if audit else ["Deny"]
    if namespaces is not None:
        spec["matchResources"] = {"matchPolicy": "Equivalent", "namespaceSelector": namespaces}
    return {
        "apiVersion": API_VERSION,
        "kind": f"{which}AdmissionPolicyBinding",
        "metadata": {"name": name or policy},
        "spec": spec,
    }
