"""Manifests as somebody has them who wrote for the types of the proposals that Usher is built on.

`GO` are objects as a client in Go writes them: fields without omitempty are there with their zero value, or null.
"""

from __future__ import annotations

from typing import Any

from usher.api.names import API_VERSION

TEMPLATE: dict[str, Any] = {
    "metadata": {"creationTimestamp": None, "labels": {"role": "worker"}},
    "spec": {
        "containers": [
            {
                "name": "tensorflow",
                "image": "example.com/tf:1",
                "command": ["python", "train.py"],
                "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
            }
        ],
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    },
}

MANIFESTS: dict[str, dict[str, Any]] = {
    "a Queue that is only a name": {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": "plain"}},
    "a Queue with every field": {
        "apiVersion": API_VERSION,
        "kind": "Queue",
        "metadata": {"name": "full"},
        "spec": {
            "queuePolicy": "FIFO",
            "priority": 1000,
            "priorityClassName": "high",
            "admissionChecks": [
                {"name": "all"},
                {
                    "name": "some",
                    "labelSelector": {
                        "matchLabels": {"team": "red"},
                        "matchExpressions": [{"key": "size", "operator": "NotIn", "values": ["s", "m"]}],
                    },
                },
            ],
        },
    },
    "a QueueUnit with every field": {
        "apiVersion": API_VERSION,
        "kind": "QueueUnit",
        "metadata": {"name": "full", "labels": {"quota.scheduling.koordinator.sh/name": "red"}},
        "spec": {
            "consumerRef": {
                "apiVersion": "kubeflow.org/v1",
                "kind": "TFJob",
                "namespace": "default",
                "name": "job1",
                "uid": "0c5e8e0a-9f5c-4b8e-8d34-2f53ef0e2b54",
            },
            "priority": 4,
            "queue": "full",
            "podSets": [
                {"name": "ps", "count": 3, "template": TEMPLATE},
                {"name": "worker", "count": 2, "minCount": 1, "template": TEMPLATE},
            ],
            "priorityClassName": "high",
            "resource": {"cpu": "1500m", "memory": "3Gi"},
            "request": {"cpu": "1500m", "memory": "3Gi", "nvidia.com/gpu": "3"},
        },
    },
    "a QueueUnit with the deprecated resource only": {
        "apiVersion": API_VERSION,
        "kind": "QueueUnit",
        "metadata": {"name": "old"},
        "spec": {
            "consumerRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "job2"},
            "resource": {"cpu": 1},
        },
    },
    "a QueueJob": {
        "apiVersion": API_VERSION,
        "kind": "QueueJob",
        "metadata": {"name": "qj-01"},
        "spec": {
            "priority": 10,
            "resourceunit": {"cpu": "1", "memory": "1Gi"},
            "resourceno": 4,
            "queue": "q01",
        },
    },
}

STATUSES: dict[str, tuple[str, dict[str, Any]]] = {
    # whose status it is: the manifest above, and the status
    "of a Queue": (
        "a Queue with every field",
        {
            "queueItemDetails": {
                "active": [
                    {"name": "job1", "namespace": "default", "priority": 4, "position": 1},
                    {"name": "job2", "namespace": "default", "priority": -3, "position": 2},
                ]
            }
        },
    ),
    "of a QueueUnit": (
        "a QueueUnit with every field",
        {
            "phase": "TimeoutBackoff",
            "attempts": 3,
            "message": "pods did not run in time",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "admissionChecks": [
                {
                    "name": "provision",
                    "state": "Ready",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "message": "nodes are there",
                    "podSetUpdates": [
                        {
                            "name": "worker",
                            "labels": {"a": "b"},
                            "annotations": {"c": "d"},
                            "nodeSelector": {"pool": "new"},
                            "tolerations": [{"key": "new", "operator": "Exists", "effect": "NoSchedule"}],
                        }
                    ],
                }
            ],
            "admissions": [
                {
                    "name": "worker",
                    "replicas": 2,
                    "running": 1,
                    "resources": {"cpu": "500m", "memory": "1Gi"},
                    "reclaimState": {"replicas": 1},
                }
            ],
            "lastAllocateTime": "2026-01-01T00:00:00Z",
            "podState": {"running": 1, "pending": 1},
        },
    ),
    "of a QueueJob": ("a QueueJob", {"allocated": {"cpu": "3", "memory": "3Gi"}}),
}

GO: dict[str, dict[str, Any]] = {
    "a Queue as Go writes it": {
        "apiVersion": API_VERSION,
        "kind": "Queue",
        "metadata": {"name": "go", "creationTimestamp": None},
        "spec": {"queuePolicy": "Priority"},
        "status": {},
    },
    "a QueueUnit as Go writes it": {
        "apiVersion": API_VERSION,
        "kind": "QueueUnit",
        "metadata": {"name": "go", "creationTimestamp": None},
        "spec": {
            "consumerRef": {"kind": "Job", "name": "job3", "apiVersion": "batch/v1"},
            "priority": None,
            "queue": "",
            "podSets": [{"name": "main", "template": TEMPLATE, "count": 1, "minCount": None}],
            "priorityClassName": "",
            "resource": None,
            "request": None,
        },
        "status": {
            "phase": "",
            "attempts": 0,
            "message": "",
            "lastUpdateTime": None,
            "admissionChecks": None,
            "admissions": None,
            "lastAllocateTime": None,
            "podState": {"running": 0, "pending": 0},
        },
    },
    "a QueueJob as Go writes it": {
        "apiVersion": API_VERSION,
        "kind": "QueueJob",
        "metadata": {"name": "go", "creationTimestamp": None},
        "spec": {"priority": 0, "resourceunit": {"cpu": "1"}, "resourceno": 0, "queue": ""},
        "status": {"allocated": None},
    },
}
