"""The kinds that the manager reads and writes, as the client wants them."""

from __future__ import annotations

from typing import Any, Final

from usher.api.names import GROUP, VERSION
from usher.api.queue import Queue
from usher.api.queuequota import QueueQuota
from usher.api.queueunit import QueueUnit
from usher.jobkinds.base import JobKind
from usher.kube.resource import Resource, untyped
from usher.quotas.objects import ResourceQuota
from usher.runtime.objects import JobObject, NamespaceObject, NodeObject, PodObject, PriorityClassObject
from usher.runtime.templates import LimitRangeObject, RuntimeClassObject

QUEUES: Final = Resource(GROUP, VERSION, "queues", "Queue", True, Queue)
UNITS: Final = Resource(GROUP, VERSION, "queueunits", "QueueUnit", True, QueueUnit)
QUEUE_JOBS: Final = Resource(GROUP, VERSION, "queuejobs", "QueueJob", True, JobObject)
QUOTAS: Final = Resource(GROUP, VERSION, "queuequotas", "QueueQuota", False, QueueQuota)
PODS: Final = Resource("", "v1", "pods", "Pod", True, PodObject)
PODS_UNTYPED: Final = untyped("", "v1", "pods", "Pod", namespaced=True)
NODES: Final = Resource("", "v1", "nodes", "Node", False, NodeObject)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", False, NamespaceObject)
CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, PriorityClassObject)
LIMITS: Final = Resource("", "v1", "limitranges", "LimitRange", True, LimitRangeObject)
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota", True, ResourceQuota)
RUNTIMES: Final = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, RuntimeClassObject)


def resource_of(kind: JobKind) -> Resource[JobObject]:
    """Where the jobs of a kind are."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind, True, JobObject)


Untyped = dict[str, Any]
