"""Putting Usher into a cluster, or bringing it up to date: server-side apply, in order, with waits where order matters.

Refused before anything is written: a server that is too old, definitions of our names that are not ours (unless
adopted) or are being deleted, what Helm has installed, and doors at which a manager outside answers. What an earlier
`usher install` made and this one has no more is deleted at the end.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from usher.install.part import KEEP, NAME, OLDEST, PART_OF, Object
from usher.install.resources import ALL, CRDS, DEPLOYMENTS, DOORS, place
from usher.install.values import Values
from usher.install.whole import objects
from usher.kube.client import Client
from usher.kube.errors import KubeError, NotFound, Retry
from usher.kube.resource import Resource

FIELD_MANAGER: Final = "usher-install"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
POLL_S: Final = 0.2
ESTABLISH_S: Final = 60.0
Say = Callable[[str], None]


class InstallError(Exception):
    """Usher cannot be installed like this; the message says what to do."""


@dataclass(frozen=True)
class Plan:
    """How it is applied."""

    adopt: bool = False
    """Take over definitions that are not ours."""
    wait_s: float = 300.0
    """How long replicas may take to be there; 0: do not wait for them."""
    dry_run: bool = False


async def has_policies(client: Client) -> bool:
    """Whether the server serves admission policies of both kinds."""
    try:
        await client.list(next(each for each in ALL if each.kind == "MutatingAdmissionPolicy"), limit=1)
    except NotFound:
        return False
    return True


async def install(client: Client, values: Values, plan: Plan, say: Say) -> None:
    """Apply everything; raises InstallError or KubeError. What is there already is brought up to date."""
    wanted = objects(values)
    await _refuse_old(client)
    await _refuse_foreign(client, wanted, plan.adopt or values.at("crds.adopt"))
    await _refuse_helm(client, values)
    await _refuse_outside(client, wanted)
    first = [each for each in wanted if each["kind"] not in _kinds(DOORS) or _kept(each)]
    doors = [each for each in wanted if each not in first]
    for body in first:
        await _apply(client, body, plan, say)
    if not plan.dry_run:
        for name in [each["metadata"]["name"] for each in first if each["kind"] == CRDS.kind]:
            await _until(partial(_established, client, name), ESTABLISH_S, f"{name} is not served yet")
    if plan.wait_s and not plan.dry_run:
        say(f"waiting for the replicas of {values.namespace}/{NAME}")
        text = f"they are not available: see kubectl -n {values.namespace} get pods -l app.kubernetes.io/name={NAME}"
        await _until(partial(_available, client, values.namespace), plan.wait_s, text)
    for body in doors:
        await _apply(client, body, plan, say)
    await _prune(client, wanted, plan, say)


async def installed(client: Client) -> list[tuple[Resource[Any], Object]]:
    """What `usher install` has made in this cluster."""
    found: list[tuple[Resource[Any], Object]] = []
    for resource in ALL:
        try:
            page = await client.list(resource, label_selector=f"{PART_OF}={NAME},{MANAGED_BY}={NAME}")
        except NotFound:
            continue  # a kind that this server does not have
        found += [(resource, item) for item in page.items]
    return found


async def _apply(client: Client, body: Object, plan: Plan, say: Say) -> None:
    resource, name, namespace = place(body)
    meta = body["metadata"]
    if resource.kind != "Namespace":  # of which more than Usher may depend
        meta = {**meta, "labels": {**meta.get("labels", {}), MANAGED_BY: NAME}}
    try:
        await client.apply(
            resource, name, namespace, {**body, "metadata": meta}, force=True, field_manager=FIELD_MANAGER,
            dry_run=plan.dry_run,
        )  # fmt: skip
    except NotFound:
        if not plan.dry_run or namespace is None:  # a dry run has made no namespace
            raise
    say(f"{resource.kind} {name}{' (dry run)' if plan.dry_run else ''}")


async def _prune(client: Client, wanted: list[Object], plan: Plan, say: Say) -> None:
    keys = {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in wanted}
    for resource, item in await installed(client):
        meta = item["metadata"]
        if (resource.kind, meta.get("namespace"), meta["name"]) not in keys and not _kept(item):
            await client.delete(resource, meta["name"], meta.get("namespace"), uid=meta["uid"], dry_run=plan.dry_run)
            say(f"{resource.kind} {meta['name']} deleted: it is not wanted any more")


async def _refuse_old(client: Client) -> None:
    said = json.loads(await client.raw("GET", "/version"))
    if version_of(said) < OLDEST:
        raise InstallError(
            f"This is Kubernetes {said.get('gitVersion')}, and Usher needs {OLDEST[0]}.{OLDEST[1]} or later: upgrade "
            "the cluster first."
        )


def version_of(said: Mapping[str, Any]) -> tuple[int, int]:
    """Major and minor version, of what a server says of itself; providers add to it (`32+`)."""
    found = re.match(r"(\d+)\D*\.(\d+)", f"{said.get('major')}.{said.get('minor')}")
    return (int(found[1]), int(found[2])) if found else (0, 0)


async def _refuse_foreign(client: Client, wanted: list[Object], adopt: bool) -> None:
    foreign, going = [], []
    for name in [body["metadata"]["name"] for body in wanted if body["kind"] == CRDS.kind]:
        try:
            found = (await client.get(CRDS, name))["metadata"]
        except NotFound:
            continue
        if found.get("deletionTimestamp"):
            going.append(name)
        elif found.get("labels", {}).get(PART_OF) != NAME and not adopt:
            foreign.append(name)
    if going:
        raise InstallError(
            f"{', '.join(going)}: these definitions are being deleted, with their objects. Try again when they are "
            "gone; if they stay, some of their objects have finalizers."
        )
    if foreign:
        raise InstallError(
            f"{', '.join(foreign)}: this cluster has definitions of these names that are not Usher's. Uninstall what "
            "brought them, or let Usher take them over with --adopt-crds: their objects stay, and must fit its schema."
        )


async def _refuse_helm(client: Client, values: Values) -> None:
    try:
        found = await client.get(DEPLOYMENTS, NAME, values.namespace)
    except NotFound:
        return
    if found["metadata"].get("labels", {}).get(MANAGED_BY) == "Helm":
        raise InstallError(f"Usher in {values.namespace} is a release of Helm: upgrade it with helm upgrade.")


async def _refuse_outside(client: Client, wanted: list[Object]) -> None:
    """A manager outside of the cluster has written its address where a Service would stand, and both cannot."""
    for body in wanted:
        if not any(each["clientConfig"].get("service") for each in body.get("webhooks") or ()):
            continue
        resource, name, _ = place(body)
        try:
            found = await client.get(resource, name)
        except NotFound:
            continue
        if any(each["clientConfig"].get("url") for each in found.get("webhooks") or ()):
            raise InstallError(
                "A manager outside of the cluster answers at the doors here (admission.host). Stop it, and run: "
                f"kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration {name}"
            )


async def _established(client: Client, name: str) -> bool:
    found = await client.get(CRDS, name)
    conditions = found.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


async def _available(client: Client, namespace: str) -> bool:
    found = await client.get(DEPLOYMENTS, NAME, namespace)
    status, wanted = found.get("status", {}), found["spec"]["replicas"]
    current = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
    return bool(current and min(status.get(f"{which}Replicas", 0) for which in ("updated", "available")) >= wanted)


async def _until(check: Callable[[], Awaitable[bool]], within_s: float, otherwise: str) -> None:
    deadline = time.monotonic() + within_s
    while True:
        try:
            if await check():
                return
        except KubeError as error:
            if error.retry is Retry.NO:
                raise
        if time.monotonic() > deadline:
            raise InstallError(f"after {within_s:.0f} s {otherwise}")
        await asyncio.sleep(POLL_S)


def _kinds(resources: tuple[Resource[Any], ...]) -> set[str]:
    return {each.kind for each in resources}


def _kept(body: Object) -> bool:
    return KEEP.items() <= (body["metadata"].get("annotations") or {}).items()
