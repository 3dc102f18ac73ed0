"""The fence: the API server itself refuses what a leader of the past writes.

A lease cannot stop a leader that was frozen after it looked at its deadline and thaws after another took over. So what
a leader writes carries its epoch, and a ValidatingAdmissionPolicy whose parameter is the Lease compares it with the
lease's `leaseTransitions`. Only writes that `concerns` picks are compared: other controllers may write other fields,
and objects from before there were epochs may stay as they are.

The API server learns of a new epoch by a watch, a moment after the lease was taken. So a new leader begins only after
`wait_until_fenced`: a dry-run write with its epoch is accepted, and one with the old epoch is refused. Where several
API servers share the work, give one probe for each.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from usher.kube.client import Client
from usher.kube.errors import KubeError, Retry, Unauthorized
from usher.kube.resource import Resource, untyped

POLICIES = untyped(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
BINDINGS = untyped(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
POLL_S = 0.05

Probe = Callable[[int], Awaitable[None]]
"""A dry-run write that carries this epoch; raises what the server says to it."""


@dataclass(frozen=True)
class Fence:
    """What is fenced, and by which lease. `name` is that of the policy and of its binding.

    `epoch` is the path of the epoch in a written object. `concerns` is a CEL expression over `object`, `oldObject` and
    `request`: whether a write is one that only the leader makes.
    """

    name: str
    lease_namespace: str
    lease_name: str
    resources: Sequence[Resource[Any]]
    subresource: str = "status"
    epoch: str = "object.status.epoch"
    concerns: str = "true"

    def policy(self) -> dict[str, Any]:
        """The ValidatingAdmissionPolicy."""
        parts = self.epoch.split(".")
        there = " && ".join(f"has({'.'.join(parts[:end])})" for end in range(2, len(parts) + 1))
        validation = {
            "expression": f"{there} && {self.epoch} == params.spec.leaseTransitions",
            "messageExpression": (
                f"'written in epoch ' + (({there}) ? string({self.epoch}) : '(none)') + ', while the lease "
                f"{self.lease_namespace}/{self.lease_name} is in epoch ' + string(params.spec.leaseTransitions)"
            ),
            "reason": "Forbidden",
        }
        rules = [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "operations": ["UPDATE"],
                "resources": [f"{resource.plural}/{self.subresource}" if self.subresource else resource.plural],
            }
            for resource in self.resources
        ]
        return {
            "apiVersion": POLICIES.api_version,
            "kind": POLICIES.kind,
            "metadata": {"name": self.name},
            "spec": {
                "failurePolicy": "Fail",
                "paramKind": {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
                "matchConstraints": {"resourceRules": rules, "matchPolicy": "Equivalent"},
                "matchConditions": [{"name": "concerns-the-leader", "expression": self.concerns}],
                "validations": [validation],
            },
        }

    def binding(self) -> dict[str, Any]:
        """The ValidatingAdmissionPolicyBinding; where the lease is missing, nothing that concerns it is written."""
        lease = {"name": self.lease_name, "namespace": self.lease_namespace, "parameterNotFoundAction": "Deny"}
        return {
            "apiVersion": BINDINGS.api_version,
            "kind": BINDINGS.kind,
            "metadata": {"name": self.name},
            "spec": {"policyName": self.name, "paramRef": lease, "validationActions": ["Deny"]},
        }

    async def install(self, client: Client) -> None:
        """Put both into the cluster, or bring them up to date."""
        await client.apply(POLICIES, self.name, None, self.policy(), force=True)
        await client.apply(BINDINGS, self.name, None, self.binding(), force=True)

    def refused(self, error: KubeError) -> bool:
        """Whether it was this fence that said no."""
        return f"ValidatingAdmissionPolicy '{self.name}' with binding" in error.message


def status_probe(
    client: Client,
    resource: Resource[Any],
    name: str,
    namespace: str | None,
    body: Callable[[int], dict[str, Any]],
    subresource: str | None = "status",
) -> Probe:
    """A probe that patches, dry, an object that is there; `body` makes a patch that concerns the fence."""

    async def probe(epoch: int) -> None:
        await client.patch(resource, name, namespace, body(epoch), subresource=subresource, dry_run=True)

    return probe


async def wait_until_fenced(
    fence: Fence, epoch: int, probes: Sequence[Probe], *, held: Callable[[], bool], poll_s: float = POLL_S
) -> bool:
    """Wait until every probe's server accepts this epoch and refuses the one before.

    Returns false if the term ended meanwhile. Raises what a server says to a probe for other reasons.
    """
    for probe in probes:
        while held():
            if await _accepts(fence, probe, epoch) and await _refuses(fence, probe, epoch - 1):
                break
            await asyncio.sleep(poll_s)
    return held()


async def _accepts(fence: Fence, probe: Probe, epoch: int) -> bool:
    try:
        await probe(epoch)
    except KubeError as error:
        return _passing(fence, error)
    return True


async def _refuses(fence: Fence, probe: Probe, epoch: int) -> bool:
    try:
        await probe(epoch)
    except KubeError as error:
        return fence.refused(error) or _passing(fence, error)
    return False


def _passing(fence: Fence, error: KubeError) -> bool:
    """False for what passes by itself; raises the rest."""
    if fence.refused(error) or isinstance(error, Unauthorized) or error.retry is not Retry.NO:
        return False
    raise error
