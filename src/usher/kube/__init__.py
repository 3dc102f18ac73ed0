"""The client for the Kubernetes API: the only package that talks to the API server. It knows nothing of queues."""

from usher.kube.client import Client, PatchKind, Propagation
from usher.kube.config import Config
from usher.kube.errors import KubeError, Retry
from usher.kube.kubeconfig import load
from usher.kube.resource import Resource, untyped
from usher.kube.wire import EventType, Object, ObjectMeta, Page, WatchEvent

__all__ = [
    "Client",
    "Config",
    "EventType",
    "KubeError",
    "Object",
    "ObjectMeta",
    "Page",
    "PatchKind",
    "Propagation",
    "Resource",
    "Retry",
    "WatchEvent",
    "load",
    "untyped",
]
