"""Objects that the tests are made from: one good object of each kind, and the manifests of the seeds' types."""

from __future__ import annotations

import copy
import secrets
from typing import Any

from usher.api.names import API_VERSION

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "train"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.com/train", "resources": {"requests": {"cpu": "1"}}}],
    },
}

SPECS: dict[str, dict[str, Any]] = {
    "Queue": {
        "queuePolicy": "FIFO",
        "priority": 5,
        "request": {"cpu": "2"},
        "admissionChecks": [
            {
                "name": "budget",
                "labelSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["red"]}]},
            }
        ],
        "namespaceSelector": {"matchLabels": {"team": "red"}},
        "reserveAfter": "10m",
    },
    "QueueUnit": {
        "consumerRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "train"},
        "queue": "training",
        "podSets": [
            {"name": "driver", "template": TEMPLATE},
            {"name": "workers", "count": 4, "minCount": 2, "elastic": True, "template": TEMPLATE},
        ],
        "request": {"cpu": 5, "memory": "10Gi"},
        "maximumExecutionTimeSeconds": 3600,
        "sequence": 7,
    },
    "QueueJob": {"priority": 1, "resourceunit": {"cpu": 1, "memory": "1Gi"}, "resourceno": 4, "queue": "q01"},
    "DynamicWorkload": {
        "consumerRef": {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "ray"},
        "podSets": [{"name": "head"}, {"name": "small", "minCount": 0, "maxCount": 8, "request": {"cpu": 1}}],
    },
    "QueueQuota": {
        "parent": "company",
        "min": {"cpu": 4, "memory": "8Gi"},
        "max": {"cpu": "8", "example.com/gpu": 2},
        "namespaces": ["team-red"],
        "namespaceSelector": {"matchLabels": {"team": "red"}},
    },
    "AdmissionCheck": {
        "controllerName": "example.com/budget",
        "parameters": {"apiGroup": "example.com", "kind": "Budget", "name": "year"},
    },
}


def made(kind: str, **spec: Any) -> dict[str, Any]:
    """A good object of a kind under a name of its own, with these fields of its spec instead."""
    body = copy.deepcopy(SPECS[kind]) | spec
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": unique(kind.lower())}, "spec": body}


def unique(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(4)}"


def reserved(phase: str = "Dequeued") -> dict[str, Any]:
    """A status with quota reserved."""
    condition = {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "QuotaReserved",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"status": {"phase": phase, "conditions": [condition]}}
