"""What the doors depend on: names, labels and kinds, taken from the settings once.

The rule: policies and rules are made from the same `Terms`, so that both ways say the same. Used by everything here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from usher.api import names
from usher.jobkinds.base import JobKind
from usher.jobkinds.registry import kinds_named
from usher.settings.tree import Settings

MANAGED: Final = names.MANAGED
DIRECT_CONTROLLER: Final = "system:kube-controller-manager"
"""Who makes pods where controllers have no accounts of their own."""
ACCOUNT: Final = "system:serviceaccount:"
"""How the names of service accounts begin; their namespace follows."""
CONTROLLERS: Final = f"{ACCOUNT}kube-system:"
"""How the names of the cluster's own controllers begin."""
NODES: Final = "system:nodes"
MIRROR: Final = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True)
class Terms:
    """One cluster's terms."""

    queue_keys: tuple[str, ...] = names.QUEUE_KEYS
    quota_keys: tuple[str, ...] = names.QUOTA_KEYS
    elastic_keys: tuple[str, ...] = names.ELASTIC_KEYS
    system_namespace: str = names.SYSTEM_NAMESPACE
    account: str = "usher"
    managed_namespaces: tuple[str, ...] = ()
    operator_namespaces: tuple[str, ...] = ("kube-system",)
    """Whose service accounts are believed to make jobs for queued ones."""
    kinds: tuple[JobKind, ...] = ()

    @property
    def user(self) -> str:
        """The manager, as the API server knows it."""
        return f"{ACCOUNT}{self.system_namespace}:{self.account}"

    def exempt(self, namespace: str) -> bool:
        """Whether a namespace is never managed: Kubernetes' own, and Usher's."""
        return namespace.startswith("kube-") or namespace == self.system_namespace


def terms_of(settings: Settings) -> Terms:
    """The terms of a configuration."""
    return Terms(
        queue_keys=settings.labels.queue,
        quota_keys=settings.labels.quota,
        elastic_keys=settings.labels.elastic,
        system_namespace=settings.system_namespace,
        account=settings.admission.account,
        managed_namespaces=settings.managed_namespaces,
        operator_namespaces=settings.admission.operator_namespaces,
        kinds=tuple(kinds_named(settings.jobs.kinds)),
    )
