"""`usher move`: a job to another queue.

A job that waits is moved by its label, a QueueJob by its spec; its unit follows. One that holds quota cannot change its
queue: it is refused, with what to do, or with `--evict` stopped first and started again in the other queue.
"""

from __future__ import annotations

from typing import Final

import click

from usher.api.names import QUEUE_KEYS, QUEUE_NAME
from usher.cli.changing import SAID, patch_unit, until
from usher.cli.completing import complete_jobs, complete_queues
from usher.cli.connecting import Connection, Seconds, Session, connected, run
from usher.cli.discovery import resource_for
from usher.cli.kinds import JOBS, QUEUE_JOBS, UNITS, Kind, Object, one_named
from usher.cli.printing import emit, note
from usher.cli.units import FINISHED, at, find_unit, holds_quota, job_name, phase, queues_seen
from usher.kube.errors import Forbidden
from usher.webhooks import words

POLL_S: Final = 0.2
TIMEOUT: Final = "5m"


@click.command()
@click.argument("job", nargs=-1, required=True, metavar="JOB", shell_complete=complete_jobs)
@click.option("--to", "queue", required=True, metavar="QUEUE", help="Where to.", shell_complete=complete_queues)
@click.option("--evict", is_flag=True, help="If it holds quota, stop it; it waits again in the other queue.")
@click.option("--timeout", type=Seconds(), default=TIMEOUT, show_default=True, help="How long its pods may take to go.")
@click.option(
    "--dry-run", type=click.Choice(list(SAID)), default="none", help="client: send nothing; server: keep nothing."
)
@connected
def move(connection: Connection, job: tuple[str, ...], queue: str, evict: bool, timeout: float, dry_run: str) -> None:
    """Move a job to another queue."""
    kind, name = one_named(job, (JOBS, QUEUE_JOBS, UNITS), default=JOBS)
    if evict and dry_run == "server":
        raise click.UsageError(
            "Moving with --evict takes several steps, which the server cannot try: use --dry-run=client."
        )
    run(connection, lambda session: _move(session, kind, name, queue, evict, timeout, dry_run), waits=evict)


async def _move(
    session: Session, kind: Kind, name: str, queue: str, evict: bool, timeout_s: float, dry_run: str
) -> None:
    unit = await find_unit(session, name, kind)
    job = job_name(unit)
    before = str(at(unit, "spec.queue") or "")
    if phase(unit) in FINISHED:
        raise click.ClickException(f"{job} has ended ({phase(unit)}): submit it anew to the other queue.")
    if before == queue:
        emit(f"job {job} is in queue {queue} already")
        return
    queues, everything = await queues_seen(session, session.namespace)
    known = sorted({each["metadata"]["name"] for each in queues or ()})
    if everything and queue not in known:
        raise click.ClickException(f"There is no queue {queue} here. There are: {', '.join(known) or 'none'}.")
    if holds_quota(unit) and not evict:
        raise click.ClickException(
            f"{job} is {phase(unit)} and holds quota: it can be moved only when it is stopped. Add --evict to stop it "
            f"(it waits again, in queue {queue}), or wait until it has ended."
        )
    if dry_run != "client":
        if holds_quota(unit):
            await _stopped_and_moved(session, unit, queue, timeout_s)
        else:
            await _label(session, unit, queue, dry_run == "server")
    emit(f"job {job} moved: {before or 'no queue'} → {queue}{SAID[dry_run]}")


async def _stopped_and_moved(session: Session, unit: Object, queue: str, timeout_s: float) -> None:
    """Stop it, wait until it holds nothing, move it, and let it wait again."""
    import asyncio

    await patch_unit(session, unit, {"active": False})
    try:
        async with asyncio.timeout(timeout_s):
            await until(session, unit, lambda found: not holds_quota(found))
            await _label_when_free(session, unit, queue)
            await until(session, unit, lambda found: at(found, "spec.queue") == queue)
        await patch_unit(session, unit, {"active": at(unit, "spec.active") is not False})
    except TimeoutError:
        raise click.ClickException(
            f"The pods of {job_name(unit)} have not gone in time. It stays stopped: try again, "
            f"or let it go on where it was with: usher resume job {job_name(unit)}"
        ) from None
    except BaseException:
        note(f"note: {job_name(unit)} was stopped. Let it go on with: usher resume job {job_name(unit)}")
        raise


async def _label_when_free(session: Session, unit: Object, queue: str) -> None:
    """A QueueJob says a moment later than its unit that it has nothing any more, and may not be moved before that."""
    import asyncio

    while True:
        try:
            return await _label(session, unit, queue, False)
        except Forbidden as error:
            if words.ALLOCATED not in error.message:
                raise
        await asyncio.sleep(POLL_S)


async def _label(session: Session, unit: Object, queue: str, dry_run: bool) -> None:
    """Name the other queue where the job names its queue: a QueueJob in its spec, others by label or annotation."""
    reference = unit["spec"]["consumerRef"]
    resource = await resource_for(session.client, reference["apiVersion"], reference["kind"])
    namespace = unit["metadata"]["namespace"]
    if reference["kind"] == QUEUE_JOBS.resource.kind:
        body = {"metadata": {"uid": reference["uid"]}, "spec": {"queue": queue}}
        await session.client.patch(resource, reference["name"], namespace, body, dry_run=dry_run)
        return
    job = await session.client.get(resource, reference["name"], namespace)
    place, key = "labels", QUEUE_NAME
    for each in QUEUE_KEYS:
        found = next((where for where in ("labels", "annotations") if each in (at(job, f"metadata.{where}") or {})), "")
        if found:
            place, key = found, each
            break
    body = {"metadata": {place: {key: queue}, "uid": reference["uid"]}}
    await session.client.patch(resource, reference["name"], namespace, body, dry_run=dry_run)
