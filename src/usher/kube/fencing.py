"""The fence: the API server itself refuses what a leader of the past writes.

A lease cannot stop a leader that was frozen after it looked at its deadline and thaws after another took over. So what
a leader writes carries its epoch, and a ValidatingAdmissionPolicy whose parameter is the Lease compares it with the
lease's `leaseTransitions`. Only writes that `concerns` picks are compared: other controllers may write other fields,
and objects from before there were epochs may stay as they are.

The API server learns of a new epoch by a watch, a moment after the lease was taken. So a new leader begins only after
`wait_until_fenced`: a dry-run write with its epoch is accepted, and one with the old epoch is refused. Where several
API servers share the work, give one probe for each.

A trap (kubernetes/kubernetes#130887, seen here on 1.36): when for a moment no binding names a built-in kind such as
Lease as its parameter, the API server stops following that kind, until it restarts: a fence that is deleted and made
again sees no lease, or an old one, and refuses everything. So change a fence in place, and have an `anchor`, which
follows leases too and is never deleted. `wait_until_fenced` says so when it meets this.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from usher.kube.client import Client
from usher.kube.errors import AlreadyExists, KubeError, Retry, Unauthorized
from usher.kube.lease import LEASES
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
WITHIN_S = 60.0
PARAMETER = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}

Probe = Callable[[int], Awaitable[None]]
"""A dry-run write that carries this epoch; raises what the server says to it."""


class FenceStuck(Exception):  # noqa: N818 - a state of the fence
    """The server goes on refusing the epoch of the lease, or accepting another: nobody can lead."""


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
        conditions = [{"name": "concerns-the-leader", "expression": self.concerns}]
        return _policy(self.name, rules, {"matchConditions": conditions, "validations": [validation]})

    def binding(self) -> dict[str, Any]:
        """The ValidatingAdmissionPolicyBinding. Where the lease is missing, every write to the subresource is refused:
        the server looks for the parameter before it asks whether the write concerns anybody."""
        lease = {"name": self.lease_name, "namespace": self.lease_namespace, "parameterNotFoundAction": "Deny"}
        return _binding(self.name, lease, "Deny")

    async def install(self, client: Client) -> None:
        """Put both into the cluster, or bring them up to date; and a lease that nobody holds yet, if there is none."""
        lease = {"metadata": {"name": self.lease_name}, "spec": {"leaseTransitions": 0}}
        with contextlib.suppress(AlreadyExists):
            await client.create(LEASES, lease, self.lease_namespace)
        await client.apply(POLICIES, self.name, None, self.policy(), force=True)
        await client.apply(BINDINGS, self.name, None, self.binding(), force=True)

    def refused(self, error: KubeError) -> bool:
        """Whether it was this fence that said no."""
        return f"ValidatingAdmissionPolicy '{self.name}' with binding" in error.message


def anchor(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy and its binding that concern nothing and keep the API server following leases (see the module)."""
    nothing = {"apiGroups": ["nothing.invalid"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["none"]}
    every = {"selector": {}, "parameterNotFoundAction": "Allow"}
    policy = _policy(name, [nothing], {"validations": [{"expression": "true"}]})
    return policy, _binding(name, every, "Audit")


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
    fence: Fence,
    epoch: int,
    probes: Sequence[Probe],
    *,
    held: Callable[[], bool],
    within_s: float = WITHIN_S,
    poll_s: float = POLL_S,
) -> bool:
    """Wait until every probe's server accepts this epoch and refuses the one before.

    Returns false if the term ended meanwhile. Raises what a server says to a probe for other reasons, and FenceStuck
    if a server has not learnt of the epoch in time.
    """
    try:
        async with asyncio.timeout(within_s):
            for probe in probes:
                while held():
                    if await _accepts(fence, probe, epoch) and await _refuses(fence, probe, epoch - 1):
                        break
                    await asyncio.sleep(poll_s)  # nobody tells when an API server has heard of something
    except TimeoutError:
        raise FenceStuck(
            f"The policy {fence.name} does not let epoch {epoch} of the lease {fence.lease_namespace}/"
            f"{fence.lease_name} in, and only that. If it was deleted and made again, the API server may have stopped "
            "following leases (kubernetes/kubernetes#130887): restart the API server."
        ) from None
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


def _policy(name: str, rules: list[dict[str, Any]], rest: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "failurePolicy": "Fail",
        "paramKind": PARAMETER,
        "matchConstraints": {"resourceRules": rules, "matchPolicy": "Equivalent"},
        **rest,
    }
    return {"apiVersion": POLICIES.api_version, "kind": POLICIES.kind, "metadata": {"name": name}, "spec": spec}


def _binding(name: str, parameter: dict[str, Any], action: str) -> dict[str, Any]:
    spec = {"policyName": name, "paramRef": parameter, "validationActions": [action]}
    return {"apiVersion": BINDINGS.api_version, "kind": BINDINGS.kind, "metadata": {"name": name}, "spec": spec}
