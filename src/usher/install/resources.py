"""The kinds of what is installed, as the client wants them."""

from __future__ import annotations

from typing import Any, Final

from usher.kube.resource import Resource, untyped

Untyped = Resource[dict[str, Any]]

_ADMISSION: Final = "admissionregistration.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"

ALL: Final[tuple[Untyped, ...]] = (
    untyped("", "v1", "namespaces", "Namespace", namespaced=False),
    untyped("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False),
    untyped("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True),
    untyped(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    untyped(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    untyped(_RBAC, "v1", "roles", "Role", namespaced=True),
    untyped(_RBAC, "v1", "rolebindings", "RoleBinding", namespaced=True),
    untyped("", "v1", "configmaps", "ConfigMap", namespaced=True),
    untyped("", "v1", "services", "Service", namespaced=True),
    untyped("apps", "v1", "deployments", "Deployment", namespaced=True),
    untyped("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True),
    untyped("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", namespaced=True),
    untyped("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False),
    untyped(_ADMISSION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", namespaced=False),
    untyped(_ADMISSION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", namespaced=False),
    untyped(_ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False),
    untyped(
        _ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
    ),
    untyped(_ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False),
    untyped(_ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False),
)
"""In the order in which they are applied."""

BY_KIND: Final = {each.kind: each for each in ALL}
CRDS: Final = BY_KIND["CustomResourceDefinition"]
DEPLOYMENTS: Final = BY_KIND["Deployment"]
DOORS: Final = tuple(each for each in ALL if each.group == _ADMISSION)
"""What decides at the door; the anchor and the fence are of these kinds, too."""


def place(body: dict[str, Any]) -> tuple[Untyped, str, str | None]:
    """Where an object is: its kind, name and namespace."""
    meta = body["metadata"]
    return BY_KIND[body["kind"]], meta["name"], meta.get("namespace")
