"""Units as the API server has them, for commands: which job one is for, what it asks for, where it stands in its queue.

Pure functions of decoded objects, and the finding of the unit that a person means by the name of a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click

from usher.api.names import MANAGED, QUEUE_JOB, QUEUE_NAME, QUOTA_RESERVED
from usher.cli.connecting import Session
from usher.cli.kinds import JOBS, QUEUE_JOBS, QUEUES, UNITS, Kind, Object
from usher.cli.system import system_namespace
from usher.core.amounts import AmountsError, add, format_amounts, parse_amounts
from usher.core.podrequest import effective_request
from usher.kube.errors import Forbidden, NotFound
from usher.kube.resource import Resource, untyped

FINISHED: Final = ("Succeed", "Failed")
NEW: Final = "New"
PAGE: Final = 500
NAMESPACES: Final = untyped("", "v1", "namespaces", "Namespace", namespaced=False)


def at(found: Mapping[str, Any], path: str) -> Any:
    """What is at a path of fields, or None."""
    value: Any = found
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def key_of(found: Object) -> str:
    meta = found["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


def job_name(unit: Object) -> str:
    """The job that it was made for; itself, if for none."""
    return str(at(unit, "spec.consumerRef.name") or unit["metadata"]["name"])


def job_kind(unit: Object) -> str:
    return str(at(unit, "spec.consumerRef.kind") or "")


def phase(unit: Object) -> str:
    return str(at(unit, "status.phase") or NEW)


def condition(found: Object, kind: str) -> Object:
    """The condition of this type; empty if there is none."""
    return next((each for each in at(found, "status.conditions") or () if each.get("type") == kind), {})


def holds_quota(unit: Object) -> bool:
    return condition(unit, QUOTA_RESERVED).get("status") == "True"


def request(unit: Object) -> dict[str, str]:
    """What the whole job asks for."""
    total: dict[str, int] = {}
    try:
        for pods in at(unit, "spec.podSets") or ():
            add(total, effective_request(at(pods, "template.spec")), int(pods.get("count") or 0))
        if not total:
            total = parse_amounts(at(unit, "spec.request") or at(unit, "spec.resource"), "spec.request")
    except AmountsError:
        return {}
    return format_amounts({name: amount for name, amount in total.items() if amount})


def positions(queues: Iterable[Object] | None) -> dict[str, int]:
    """Places in line by unit, as namespace/name; units that a shared queue does not name are left out."""
    found: dict[str, int] = {}
    for queue in queues or ():
        for item in at(queue, "status.queueItemDetails.active") or ():
            if item.get("name"):
                found[f"{item.get('namespace', '')}/{item['name']}"] = int(item.get("position") or 0)
    return found


async def listed(
    session: Session, resource: Resource[Object], namespace: str | None, **selectors: str | None
) -> list[Object]:
    """All objects of a kind, page by page, with the kind that lists leave out."""
    found: list[Object] = []
    async for page in session.client.pages(resource, namespace, limit=PAGE, **selectors):
        found += page.items
    return [named(each, resource) for each in found]


def named(found: Object, resource: Resource[Object]) -> Object:
    """The object with its own kind, which items of a list do not carry."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **found}


async def queues_beside(session: Session, namespace: str | None) -> list[Object] | None:
    """The Queues that units of a namespace may be in: its own and the shared ones; None if we may see neither."""
    return (await queues_seen(session, namespace))[0]


async def queues_seen(session: Session, namespace: str | None) -> tuple[list[Object] | None, bool]:
    """The same, and whether these are all: tenants often may not look where the shared ones are."""
    shared = system_namespace()
    places = [namespace] if namespace in (None, shared) else [namespace, shared]
    found: list[Object] | None = None
    everything = True
    for place in places:
        try:
            found = [*(found or ()), *await listed(session, QUEUES.resource, place)]
        except Forbidden:
            everything = False
    return found, everything


async def find_unit(session: Session, name: str, kind: Kind = JOBS) -> Object:
    """The unit of a job, or the unit of that name; of several, the one that is not over, else the newest. A QueueJob is
    a job, too: `kind` is for whoever wants no other."""
    units = await listed(session, UNITS.resource, session.namespace)
    found = [each for each in units if name in (job_name(each), each["metadata"]["name"])]
    if kind is QUEUE_JOBS:
        found = [each for each in found if job_kind(each) == kind.resource.kind]
        if not found:
            raise click.ClickException(f"There is no QueueJob {name} in the queues of namespace {session.namespace}.")
    if not found:
        raise click.ClickException(await _why_none(session, name, units))
    return max(found, key=lambda each: (phase(each) not in FINISHED, each["metadata"].get("creationTimestamp") or ""))


async def _why_none(session: Session, name: str, units: Sequence[Object]) -> str:
    """What to do about a job that has no unit."""
    try:
        job = await session.client.get(JOBS.resource, name, session.namespace)
    except NotFound:
        known = ", ".join(sorted({job_name(each) for each in units})[:10])
        there = f"Queued there are: {known}." if known else "Nothing is queued there."
        return f"There is no job {name} in namespace {session.namespace}. {there} Another namespace is chosen by -n."
    except Forbidden:
        return f"Nothing of the name {name} is queued in namespace {session.namespace}."
    said = {**(at(job, "metadata.annotations") or {}), **(at(job, "metadata.labels") or {})}
    if any(condition(job, kind).get("status") == "True" for kind in ("Complete", "Failed")):
        return f"Job {name} has ended, and nothing is kept of it in the queue."
    if drawn := said.get(QUEUE_JOB):
        return f"Job {name} draws on QueueJob {drawn} and is in no queue itself. See: usher describe queuejob {drawn}"
    if said.get(MANAGED) == "true" or any(key.endswith("/queue-name") for key in said):
        return f"Job {name} names a queue but has no unit yet. Does a manager run? See: usher version"
    label = f"kubectl label job {name} {QUEUE_NAME}=QUEUE"
    if not await in_managed(session, session.namespace):
        return f"Job {name} is not queued: it names no queue. Name one with: {label}"
    before = f"Job {name} is not queued: it was there before its namespace was managed"
    if at(job, "spec.suspend"):
        start = f'kubectl patch job {name} -p \'{{"spec":{{"suspend":false}}}}\''
        return f"{before}, and somebody else holds it. It is queued as soon as it is unsuspended: {start}"
    return f"{before}, and it goes on. To have it stopped until its turn comes, name a queue: {label}"


async def in_managed(session: Session, namespace: str) -> bool:
    """Whether every job that is created in a namespace is queued, as far as we may see it."""
    try:
        found = await session.client.get(NAMESPACES, namespace)
    except (NotFound, Forbidden):
        return False
    return (at(found, "metadata.labels") or {}).get(MANAGED) == "true"
