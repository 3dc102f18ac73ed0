"""Taking Usher out of a cluster, so that nothing is lost and nobody is surprised.

The order is the point: the manager stops first (else it would hold again what is released), then the doors go (else
they would refuse the release), then jobs are released if that was chosen, then the rest goes. Queues, quotas and units
stay with their kinds unless those are to go as well. The namespace stays, and so does the anchor: see
`usher.kube.fencing` for why an API server that has lost it may have to be restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from usher.install.applying import MANAGED_BY, InstallError, Say, installed
from usher.install.census import PODS, UNITS, Held, as_job, take_census
from usher.install.part import KEEP, NAME, PART_OF
from usher.install.resources import CRDS, DEPLOYMENTS, DOORS
from usher.install.settled import SETTINGS, installed_text
from usher.install.whole import ANCHOR
from usher.jobkinds.additions import Additions
from usher.kube.client import Client, PatchKind, Propagation
from usher.kube.errors import Conflict, Forbidden, Invalid, NotFound
from usher.kube.lease import LEASES, duration_of, holder_of
from usher.kube.resource import Resource, untyped
from usher.runtime.marks import GATE
from usher.settings.loader import SettingsError, load_text
from usher.settings.tree import Settings

FENCE: Final = "usher-unit-status"
"""Made by the manager, so neither `usher install` nor Helm knows it."""
SECRETS: Final = untyped("", "v1", "secrets", "Secret", namespaced=True)
STOP_S: Final = 120.0
LET_S: Final = 30.0
POLL_S: Final = 0.2


@dataclass(frozen=True)
class Removal:
    """What was chosen."""

    namespace: str
    release: bool
    kinds: bool = False
    """The kinds go, with every object of them."""


async def check_removable(client: Client, namespace: str) -> None:
    """Raises InstallError where Helm must do it."""
    try:
        found = await client.get(DEPLOYMENTS, NAME, namespace)
    except NotFound:
        return
    if found["metadata"].get("labels", {}).get(MANAGED_BY) == "Helm":
        raise InstallError(
            f"Usher in {namespace} is a release of Helm: run helm uninstall first. It leaves waiting jobs suspended; "
            "`usher uninstall` after it releases them and removes what Helm does not know."
        )


async def installed_settings(client: Client, namespace: str) -> Settings:
    """The settings of the Usher that is installed; the usual ones, where they cannot be read."""
    usual = (f"systemNamespace={namespace}",)
    text = await installed_text(client, namespace)
    try:
        return load_text(text, SETTINGS, () if text else usual)
    except SettingsError:
        return load_text("", SETTINGS, usual)


async def queue_keys(client: Client, namespace: str) -> tuple[str, ...]:
    """The labels by which jobs name their queue or quota, by the settings of the Usher that is installed."""
    labels = (await installed_settings(client, namespace)).labels
    return (*labels.queue, *labels.quota)


async def uninstall(client: Client, removal: Removal, say: Say) -> None:
    """Remove everything but what is to stay. Who waits is looked up when the manager has stopped: until then it may
    start or hold others than before."""
    settings = await installed_settings(client, removal.namespace)
    keys = (*settings.labels.queue, *settings.labels.quota)
    await _stop(client, removal.namespace, settings, say)
    for resource in DOORS:
        for name in await _ours(client, resource):
            await _delete(client, resource, name, None, say)
    if removal.release:
        census = await take_census(client, keys)
        for held in census.held:
            await _release(client, held, say)
        for pod in census.gated:
            await _open(client, pod, say)
    for resource, item in reversed(await installed(client)):
        meta = item["metadata"]
        if KEEP.items() <= (meta.get("annotations") or {}).items() or resource.kind == "Namespace":
            continue
        await _delete(client, resource, meta["name"], meta.get("namespace"), say)
    await _delete(client, LEASES, settings.election.lease_name, settings.lease_namespace, say)
    await _delete(client, SECRETS, settings.admission.secret, removal.namespace, say)
    if removal.kinds:
        await _remove_kinds(client, say)


async def _remove_kinds(client: Client, say: Say) -> None:
    """The kinds and all their objects are gone when this returns; what was installed sooner would go with them."""

    async def left() -> list[str]:
        page = await client.list(CRDS, label_selector=f"{PART_OF}={NAME}")
        return [str(item["metadata"]["name"]) for item in page.items]

    for name in await left():
        await _delete(client, CRDS, name, None, say)

    async def gone() -> bool:
        return not await left()

    text = "some kinds are still being deleted: there are many objects of them, or some that have finalizers"
    await _until(gone, f"{text} (kubectl get usher -A)")


async def _stop(client: Client, namespace: str, settings: Settings, say: Say) -> None:
    """No manager writes any more when this returns."""
    await _delete(client, DEPLOYMENTS, NAME, namespace, say)
    label = f"app.kubernetes.io/name={NAME}"

    async def gone() -> bool:
        return not (await client.list(PODS, namespace, label_selector=label)).items

    await _until(gone, f"its pods in {namespace} are still there. Nothing else was removed")
    seen: list[Any] = []

    async def free() -> bool:
        try:
            lease = await client.get(LEASES, settings.election.lease_name, settings.lease_namespace)
        except NotFound:
            return True
        seen.append(lease["spec"].get("renewTime"))
        if holder_of(lease) and seen[-1] != seen[0]:
            raise InstallError(
                f"A manager that is no pod in {namespace} leads ({holder_of(lease)}): stop it first. Only the "
                "Deployment was removed."
            )
        return not holder_of(lease) or time.monotonic() > began + duration_of(lease)

    began = time.monotonic()
    await _until(free, "the lease of the manager is still held. Nothing else was removed")


async def _ours(client: Client, resource: Resource[Any]) -> list[str]:
    """The names of what decides at the door, the fence included and the anchor not."""
    try:
        page = await client.list(resource)
    except NotFound:
        return []
    found = []
    for item in page.items:
        meta = item["metadata"]
        ours = meta.get("labels", {}).get(PART_OF) == NAME or meta["name"] == FENCE
        if ours and meta["name"] != ANCHOR:
            found.append(meta["name"])
    return found


async def _release(client: Client, held: Held, say: Say) -> None:
    """Let a job run as its owner wrote it; its unit goes, so that a later Usher finds a job that just runs."""
    kind, meta = held.kind, held.job["metadata"]
    resource = untyped(kind.group, kind.version, kind.plural, kind.kind, namespaced=True)
    job = as_job(held.job)
    patch = kind.release(job, kind.counts(job), Additions({}, GATE, False))
    patch.pop("template", None)
    try:
        if leaves := dict(kind.progress(job).leaves):  # with which some servers (1.34.0) let it start and never end
            with contextlib.suppress(Invalid):  # its owner has let it start meanwhile
                await client.patch(resource, meta["name"], meta["namespace"], {"status": leaves}, subresource="status")
        await _once_let(lambda: client.patch(resource, meta["name"], meta["namespace"], {"spec": patch}))
    except NotFound:
        return
    say(f"{held.name} released")
    if held.unit is not None:
        unit = held.unit["metadata"]
        await _delete(client, UNITS, unit["name"], unit["namespace"], lambda _: None)


async def _open(client: Client, pod: dict[str, Any], say: Say) -> None:
    meta = pod["metadata"]
    gates = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != GATE]
    body = [
        {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
        {"op": "replace", "path": "/spec/schedulingGates", "value": gates},
    ]
    try:
        await _once_let(lambda: client.patch(PODS, meta["name"], meta["namespace"], body, kind=PatchKind.JSON))
    except (NotFound, Conflict):
        return
    say(f"pod {meta['namespace']}/{meta['name']} let in")


async def _once_let(write: Callable[[], Awaitable[Any]]) -> None:
    """Write as soon as it is let: an API server goes by a policy for a moment after that was deleted."""
    deadline = time.monotonic() + LET_S
    while True:
        try:
            await write()
            return
        except Forbidden as error:
            if "denied" not in error.message or time.monotonic() > deadline:
                raise
            await asyncio.sleep(POLL_S)


async def _delete(client: Client, resource: Resource[Any], name: str, namespace: str | None, say: Say) -> None:
    try:
        await client.delete(resource, name, namespace, propagation=Propagation.BACKGROUND)
    except NotFound:
        return
    say(f"{resource.kind} {name} deleted")


async def _until(check: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    deadline = time.monotonic() + STOP_S
    while not await check():
        if time.monotonic() > deadline:
            raise InstallError(f"After {STOP_S:.0f} s {otherwise}.")
        await asyncio.sleep(POLL_S)
