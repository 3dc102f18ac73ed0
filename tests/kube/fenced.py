"""What the tests of the fence share with the candidates they start: a kind with an epoch in its status, and a fence."""

from typing import Any

import msgspec

from usher.kube import ObjectMeta, Resource, untyped
from usher.kube.fencing import Fence
from usher.kube.lease import LeaseTimes

GROUP = "tests.usher.dev"
TIMES = LeaseTimes(duration_s=3.0, deadline_s=2.0, renew_s=0.3, retry_s=0.1)
"""Short, but with room for a busy machine."""

CRDS = untyped("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Written by the leader, but for `note`."""

    epoch: int = 0
    phase: str = ""
    note: str = ""


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a leader writes to."""

    metadata: ObjectMeta
    status: Status = Status()


def things(plural: str) -> Resource[Thing]:
    return Resource(GROUP, "v1", plural, plural.title(), True, Thing)


def definition(plural: str) -> dict[str, Any]:
    status = {
        "type": "object",
        "properties": {"epoch": {"type": "integer"}, "phase": {"type": "string"}, "note": {"type": "string"}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}},
    }
    names = {"plural": plural, "singular": plural[:-1], "kind": plural.title()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def fence_for(plural: str, namespace: str) -> Fence:
    """Only a change of the phase concerns the leader."""
    return Fence(
        name=f"fence-{plural}",
        lease_namespace=namespace,
        lease_name="leader",
        resources=(things(plural),),
        concerns="object.?status.?phase != oldObject.?status.?phase",
    )
