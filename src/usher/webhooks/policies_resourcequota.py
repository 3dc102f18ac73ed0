"""The admission policy for ResourceQuotas that Usher made for Queues: "the resource quota can not be patched".

Others may neither change what such a ResourceQuota says nor delete it. Who may change Queues in that namespace (an
administrator) may, for it follows from the Queue; so may the cluster's own controllers, who delete it with its Queue or
its namespace. Made and installed with the other policies (`usher.webhooks.policies`).
"""

from __future__ import annotations

from typing import Any, Final

from usher.api.names import GROUP
from usher.quotas.resourcequota import MADE_FOR
from usher.webhooks import cel, words
from usher.webhooks.terms import Terms

NAME: Final = "usher-resource-quotas"
MADE: Final = (
    "this ResourceQuota was made by Usher for queue {queue} and follows its quota: change the quota or the queue, or "
    "create a ResourceQuota of your own, and this one gives way"
)
API_VERSION: Final = "admissionregistration.k8s.io/v1"
Object = dict[str, Any]


def resource_quotas(terms: Terms, audit: bool) -> list[Object]:
    """The policy and its binding."""
    key = words.quoted(MADE_FOR)
    ours = f"has(oldObject.metadata.labels) && {key} in oldObject.metadata.labels"
    kept = f"has(object.metadata.labels) && {key} in object.metadata.labels"
    touches = f"request.operation == 'DELETE' || {cel.differs('spec')} || !({kept})"
    may = f"authorizer.group({words.quoted(GROUP)}).resource('queues').namespace(request.namespace)"
    conditions = {
        "made-by-usher": ours,
        "changes-or-deletes": touches,
        "not-by-usher": cel.not_usher(terms),
        "not-by-controllers": f"!{cel.by_controllers()}",
        "not-by-administrators": f"!{may}.check('update').allowed()",
    }
    queue = {"queue": f"oldObject.metadata.labels[{key}]"}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE", "DELETE"],
        "resources": ["resourcequotas"],
    }
    never = {"expression": "false", "messageExpression": words.in_cel(MADE, queue), "reason": "Forbidden"}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [rule]},
        "matchConditions": [{"name": name, "expression": expression} for name, expression in conditions.items()],
        "validations": [never],
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
