"""The manager in its cluster: its settings, the replicas, how they are reached, kept and given way.

The rule for the replicas: no more than they need. They run as nobody, on a root that they cannot write, without
privileges, and are reached on two ports only.
"""

from __future__ import annotations

from typing import Any, Final

from usher.install.part import NAME, Part, enabled, meta
from usher.install.settled import SETTINGS, SETTINGS_FILE
from usher.install.values import Values
from usher.webhooks.configurations import PORT

METRICS: Final = "usher-metrics"
SELECTOR: Final = {"app.kubernetes.io/name": NAME}
USER: Final = 65532
"""Nobody that any image has."""
LEAVE_S: Final = 5
"""How long a replica that is to go still answers: nodes learn a moment later that nobody is to be sent there, and a
review that meets nobody is a job refused."""
FILE: Final = "manager"


def workload(values: Values) -> list[Part]:
    """All of it."""
    return [
        Part(FILE, settings(values)),
        Part(FILE, deployment(values)),
        Part("services", metrics_service(values)),
        Part("services", webhook_service(values)),
        Part("disruption", disruption(values), enabled("podDisruptionBudget.enabled")),
        Part("network", network_policy(values), enabled("networkPolicy.enabled")),
        *(Part("flow", each, enabled("flowSchema.enabled")) for each in flow_schemas(values)),
    ]


def settings(values: Values) -> dict[str, Any]:
    """The settings file, which the replicas mount."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(SETTINGS, values.namespace),
        "data": {SETTINGS_FILE: values.config_text},
    }


def deployment(values: Values) -> dict[str, Any]:
    """The replicas: one leads, the others are warm."""
    spec = {
        "replicas": values.at("replicas"),
        "selector": {"matchLabels": SELECTOR},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {
            "metadata": {
                "labels": dict(meta(NAME)["labels"]),
                "annotations": {"usher.dev/settings-sum": values.config_sum},
            },
            "spec": _pod(values),
        },
    }
    version = {"app.kubernetes.io/version": values.version}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(NAME, values.namespace, version),
        "spec": spec,
    }


def _pod(values: Values) -> dict[str, Any]:
    return {
        "serviceAccountName": values.account,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "imagePullSecrets": values.at("image.pullSecrets"),
        "priorityClassName": values.at("priorityClassName"),
        "nodeSelector": values.at("nodeSelector"),
        "tolerations": values.at("tolerations"),
        "affinity": values.at("affinity"),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": SELECTOR},
            }
        ],
        "terminationGracePeriodSeconds": 30,
        "containers": [_container(values)],
        "volumes": [
            {"name": "settings", "configMap": {"name": SETTINGS}},
            {"name": "certificates", "secret": {"secretName": values.at("certificates.secret"), "optional": True}},
            {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        ],
    }


def _container(values: Values) -> dict[str, Any]:
    return {
        "name": "manager",
        "image": values.image,
        "imagePullPolicy": values.at("image.pullPolicy"),
        "args": ["manager", "--config", f"/etc/usher/{SETTINGS_FILE}"],
        "ports": [
            {"name": "metrics", "containerPort": values.metrics_port, "protocol": "TCP"},
            {"name": "webhook", "containerPort": values.webhook_port, "protocol": "TCP"},
        ],
        "livenessProbe": {"httpGet": {"path": "/livez", "port": "metrics"}, "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 5},
        "startupProbe": {"httpGet": {"path": "/livez", "port": "metrics"}, "periodSeconds": 2, "failureThreshold": 60},
        "lifecycle": {"preStop": {"sleep": {"seconds": LEAVE_S}}},
        "resources": values.at("resources"),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "settings", "mountPath": "/etc/usher", "readOnly": True},
            {"name": "certificates", "mountPath": "/etc/usher-certificates", "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - the only place that it may write
        ],
    }


def metrics_service(values: Values) -> dict[str, Any]:
    """Where Prometheus finds every replica."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(METRICS, values.namespace),
        "spec": {
            "clusterIP": "None",
            "selector": SELECTOR,
            "ports": [{"name": "metrics", "port": values.metrics_port, "targetPort": "metrics", "protocol": "TCP"}],
        },
    }


def webhook_service(values: Values) -> dict[str, Any]:
    """Where the API server finds a replica to ask."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(values.webhook_service, values.namespace),
        "spec": {
            "selector": SELECTOR,
            "ports": [{"name": "webhook", "port": PORT, "targetPort": "webhook", "protocol": "TCP"}],
        },
    }


def disruption(values: Values) -> dict[str, Any]:
    """One replica stays while nodes are emptied."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta(NAME, values.namespace),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": SELECTOR},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def network_policy(values: Values) -> dict[str, Any]:
    """What comes in. The API server, which asks the webhook, has no address that a policy could name."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta(NAME, values.namespace),
        "spec": {
            "podSelector": {"matchLabels": SELECTOR},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"ports": [{"port": "webhook", "protocol": "TCP"}]},
                {
                    "from": values.at("networkPolicy.metricsFrom"),
                    "ports": [{"port": "metrics", "protocol": "TCP"}],
                },
            ],
        },
    }


def flow_schemas(values: Values) -> list[dict[str, Any]]:
    """The lease as every controller's lease, the rest beside the cluster's own controllers: both levels are built in.

    Without this, requests of the manager share a level with all service accounts, and a tenant that floods the API
    server would keep everybody's jobs waiting.
    """
    lease = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": [values.lease_namespace],
        "verbs": ["get", "create", "update"],
    }
    everything = {
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
        "verbs": ["*"],
    }
    return [
        _flow(values, "usher-leader", "leader-election", 150, lease),
        _flow(values, NAME, "workload-high", 850, everything),
    ]


def _flow(values: Values, name: str, level: str, precedence: int, rule: dict[str, Any]) -> dict[str, Any]:
    account = {"kind": "ServiceAccount", "serviceAccount": {"name": values.account, "namespace": values.namespace}}
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": meta(name),
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [account], "resourceRules": [rule]}],
        },
    }
