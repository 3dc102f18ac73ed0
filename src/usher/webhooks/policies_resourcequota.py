"""The lock of ResourceQuotas that Usher made for Queues: "the resource quota can not be patched".

Others may neither change what such a ResourceQuota says nor delete it. Who may change Queues in that namespace (an
administrator) may, for it follows from the Queue; so may the cluster's own controllers, who delete it with its Queue or
its namespace. `resource_quotas` is the policy, made and installed with the others (`usher.webhooks.policies`). Where
Usher is asked instead, `conditions` are when, for only the API server knows who may do what, and `usher.webhooks.rules`
refuses.
"""

from __future__ import annotations

from typing import Any, Final

from usher.api.names import GROUP
from usher.quotas.resourcequota import MADE_FOR
from usher.webhooks import cel, words
from usher.webhooks.terms import Terms

NAME: Final = "usher-resource-quotas"
OPERATIONS: Final = ("UPDATE", "DELETE")
API_VERSION: Final = "admissionregistration.k8s.io/v1"
Object = dict[str, Any]


def conditions(terms: Terms) -> list[Object]:
    """When somebody touches one who may not."""
    key = words.quoted(MADE_FOR)
    ours = f"has(oldObject.metadata.labels) && {key} in oldObject.metadata.labels"
    kept = f"has(object.metadata.labels) && {key} in object.metadata.labels"
    touches = f"request.operation == 'DELETE' || {cel.differs('spec')} || !({kept})"
    may = f"authorizer.group({words.quoted(GROUP)}).resource('queues').namespace(request.namespace)"
    found = {
        "made-by-usher": ours,
        "changes-or-deletes": touches,
        "not-by-usher": cel.not_usher(terms),
        "not-by-controllers": f"!{cel.by_controllers()}",
        "not-by-administrators": f"!{may}.check('update').allowed()",
    }
    return [{"name": name, "expression": expression} for name, expression in found.items()]


def resource_quotas(terms: Terms, audit: bool) -> list[Object]:
    """The policy and its binding."""
    queue = {"queue": f"oldObject.metadata.labels[{words.quoted(MADE_FOR)}]"}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": list(OPERATIONS),
        "resources": ["resourcequotas"],
    }
    said = words.in_cel(words.RESOURCE_QUOTA, queue)
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [rule]},
        "matchConditions": conditions(terms),
        "validations": [{"expression": "false", "messageExpression": said, "reason": "Forbidden"}],
    }
    binding = {"policyName": NAME, "validationActions": ["Warn", "Audit"] if audit else ["Deny"]}
    return [
        {
            "apiVersion": API_VERSION,
            "kind": f"ValidatingAdmissionPolicy{part}",
            "metadata": {"name": NAME},
            "spec": body,
        }
        for part, body in (("", spec), ("Binding", binding))
    ]
