"""Who may do what: the manager, and people.

Each right of the manager says what it is for, and a test runs a manager with exactly these and compares them with the
API server's audit log: whoever makes the manager ask for more adds a line here. Those for kinds of jobs follow from the
registry.

People: every reader of a namespace (role `view`) may see our kinds in it, every editor may ask for resources with a
QueueJob. Queues, QueueQuotas and AdmissionChecks decide who gets what: only `usher-admin` writes them. Nobody but the
manager and check controllers (`usher-check-controller`) needs to write a status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from usher.api.kinds import KINDS
from usher.api.names import GROUP
from usher.install.part import Part, meta
from usher.install.values import Values
from usher.jobkinds.registry import BUILT_IN

RBAC: Final = "rbac.authorization.k8s.io"
FILE: Final = "rights"
READ: Final = ("get", "list", "watch")
FOLLOW: Final = ("list", "watch")
MAKE: Final = ("create", "patch", "delete")
WRITE: Final = ("create", "update", "patch", "delete", "deletecollection")
EVICTION: Final = ("pods/eviction",)
CRDS: Final = "apiextensions.k8s.io"
SIG_SCHEDULING: Final = "scheduling.sigs.k8s.io"
ELASTIC: Final = ("elasticquotas", "elasticquotatrees")
MANAGER: Final = "usher-manager"
LEADER: Final = "usher-leader"
WEBHOOK: Final = "usher-webhook"
AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"


@dataclass(frozen=True)
class Right:
    """A rule, and what it is for."""

    why: str
    group: str
    resources: Sequence[str]
    verbs: Sequence[str]
    names: Sequence[str] = ()

    def rule(self) -> dict[str, Any]:
        found: dict[str, Any] = {"apiGroups": [self.group], "resources": list(self.resources)}
        if self.names:
            found["resourceNames"] = list(self.names)
        return {**found, "verbs": list(self.verbs)}


def cluster_rights() -> list[Right]:
    """What the manager may do everywhere."""
    found = [
        Right("what decisions rest on", "", ("namespaces", "nodes", "limitranges"), FOLLOW),
        Right("priorities that jobs and queues name", "scheduling.k8s.io", ("priorityclasses",), FOLLOW),
        Right("what a runtime adds to a pod's request", "node.k8s.io", ("runtimeclasses",), FOLLOW),
        Right(
            "pods of queued jobs are followed, and let in by removing our gate",
            "",
            ("pods",),
            (*READ, "patch"),
        ),
        Right("pods of elastic jobs are taken back, if no disruption budget is against it", "", EVICTION, ("create",)),
    ]
    for kind in BUILT_IN:
        found += [
            Right("jobs are held and released", kind.group, (kind.plural,), (*READ, "patch")),
            Right(
                "and cleared of when they began, where their controller leaves that (Kubernetes before 1.36)",
                kind.group,
                (f"{kind.plural}/status",),
                ("patch",),
            ),
            Right(
                "units are owned by their jobs; some clusters ask for this before an owner may be blocked",
                kind.group,
                (f"{kind.plural}/finalizers",),
                ("update",),
            ),
        ]
    return [
        *found,
        Right("units are made for jobs and follow them", GROUP, ("queueunits",), (*READ, "create", "patch", "delete")),
        Right("requests without a job are units, too", GROUP, ("queuejobs",), READ),
        Right("units are owned by them", GROUP, ("queuejobs/finalizers",), ("update",)),
        Right("what units are charged to", GROUP, ("queuequotas",), FOLLOW),
        Right("what units wait in; a quota has one by default", GROUP, ("queues",), (*READ, "create", "delete")),
        Right("a Queue makes a quota, and a quota a Queue", "", ("resourcequotas",), (*READ, *MAKE)),
        Right("quotas of Koordinator, where there are any", SIG_SCHEDULING, ELASTIC, FOLLOW),
        Right("and whether there are", CRDS, ("customresourcedefinitions",), FOLLOW, _named(SIG_SCHEDULING, ELASTIC)),
        Right("what was decided", GROUP, _statuses("queueunits", "queues", "queuequotas", "queuejobs"), ("patch",)),
        Right("what it tells people", "events.k8s.io", ("events",), ("create", "patch")),
        Right(
            "the fence: a policy that refuses what a leader of the past writes",
            "admissionregistration.k8s.io",
            ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
            ("create", "patch"),
            ("usher-unit-status",),
        ),
        Right(
            "the authority of the webhook is told to the API server",
            "admissionregistration.k8s.io",
            ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
            ("get", "patch"),
            ("usher",),
        ),
        Right(
            "the parameter of the fence: only who may read a kind everywhere may name it as one",
            "coordination.k8s.io",
            ("leases",),
            ("get",),
        ),
    ]


def _statuses(*plurals: str) -> tuple[str, ...]:
    return tuple(f"{plural}/status" for plural in plurals)


def _named(group: str, plurals: Sequence[str]) -> tuple[str, ...]:
    """The definitions of these kinds."""
    return tuple(f"{plural}.{group}" for plural in plurals)


def secret_rights(secret: str) -> list[Right]:
    """What the webhook needs in its own namespace."""
    return [
        Right("the certificates that replicas share are made", "", ("secrets",), ("create",)),
        Right("and renewed", "", ("secrets",), ("get", "update"), (secret,)),
    ]


def lease_rights(lease: str) -> list[Right]:
    """What a leader may do where the lease is."""
    return [
        Right("the lease of the leader is made", "coordination.k8s.io", ("leases",), ("create",)),
        Right("and held", "coordination.k8s.io", ("leases",), ("get", "watch", "update"), (lease,)),
    ]


def rights(values: Values) -> list[Part]:
    """The manager's account and its roles, and those of people."""
    account = {"kind": "ServiceAccount", "name": values.account, "namespace": values.namespace}
    everywhere = [right.rule() for right in cluster_rights()]
    leads = [right.rule() for right in lease_rights(values.lease_name)]
    serves = [right.rule() for right in secret_rights(values.webhook_secret)]
    found = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(values.account, values.namespace)},
        _role("ClusterRole", MANAGER, everywhere),
        _binding("ClusterRole", MANAGER, account),
        _role("Role", LEADER, leads, values.lease_namespace),
        _binding("Role", LEADER, account, values.lease_namespace),
        _role("Role", WEBHOOK, serves, values.namespace),
        _binding("Role", WEBHOOK, account, values.namespace),
        *people(),
    ]
    return [Part(FILE, each) for each in found]


def people() -> list[dict[str, Any]]:
    """Roles for tenants, administrators and controllers of checks."""
    ours = [kind.plural for kind in KINDS.values()]
    reads = [Right("", GROUP, ours, READ).rule()]
    asks = [Right("", GROUP, ("queuejobs",), WRITE).rule()]
    decides = [Right("", GROUP, ours, (*READ, *WRITE)).rule()]
    checks = [
        Right("", GROUP, ("queueunits", "admissionchecks"), READ).rule(),
        Right("", GROUP, ("queueunits/status", "admissionchecks/status"), ("get", "update", "patch")).rule(),
    ]
    return [
        _role("ClusterRole", "usher-view", reads, to=("view", "edit", "admin")),
        _role("ClusterRole", "usher-edit", asks, to=("edit", "admin")),
        _role("ClusterRole", "usher-admin", decides),
        _role("ClusterRole", "usher-check-controller", checks),
    ]


def _role(
    kind: str, name: str, rules: list[dict[str, Any]], namespace: str | None = None, to: Sequence[str] = ()
) -> dict[str, Any]:
    labels = {f"{AGGREGATE}{each}": "true" for each in to}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": meta(name, namespace, labels), "rules": rules}


def _binding(kind: str, name: str, subject: dict[str, Any], namespace: str | None = None) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": meta(name, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [subject],
    }
