"""`usher submit`: a job from flags, or those of a file, into a queue; if wanted, waiting for what becomes of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from usher.cli.building import GPU, Place, Work, from_flags, from_text, names_a_place, queue_named
from usher.cli.completing import complete_queues
from usher.cli.connecting import NO_LIMIT_S, Connection, Seconds, Session, connected, run
from usher.cli.discovery import resource_for
from usher.cli.kinds import Object
from usher.cli.printing import dumped, emit, name_of, note
from usher.cli.units import in_managed, queues_seen
from usher.webhooks import words

DRY = {"none": "", "client": " (dry run)", "server": " (server dry run)"}


class After(Struct, frozen=True):
    """What is done once the jobs are created."""

    wait: bool
    follow: bool
    timeout_s: float | None


class Pair(click.ParamType[tuple[str, str]]):
    """KEY=VALUE."""

    name = "KEY=VALUE"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, rest = value.partition("=")
        if not key or not equals:
            self.fail(f"{value!r} is not KEY=VALUE.", param, ctx)
        return key, rest


@click.command()
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="Jobs of a file instead; -: stdin.")
@click.option("-q", "--queue", default="", help="The queue.", shell_complete=complete_queues)
@click.option("--quota", default="", help="The quota that is charged; without it, that of the queue.")
@click.option("--queuejob", default="", help="The QueueJob on whose allocation it draws, instead of a queue.")
@click.option("--priority", type=click.IntRange(-(2**31), 2**31 - 1), help="A higher one goes first.")
@click.option("--max-time", type=Seconds(), help="How long it may run, as in 2h.")
@click.option("--name", default="", help="What to call the job; without it, after its image.")
@click.option("--image", default="", help="The image to run.")
@click.option("--cpu", default="", help="What each pod asks for, as in 500m.")
@click.option("--memory", default="", help="What each pod asks for, as in 2Gi.")
@click.option("--gpu", type=click.IntRange(0), default=0, help="GPUs of each pod.")
@click.option("--gpu-resource", default=GPU, show_default=True, help="What a GPU is called.")
@click.option("--parallelism", type=click.IntRange(1), help="Pods at a time.  [default: 1]")
@click.option("--completions", type=click.IntRange(1), help="Pods that must succeed; without it, as many.")
@click.option("--env", type=Pair(), multiple=True, help="A variable of its environment. Repeatable.")
@click.option("--label", type=Pair(), multiple=True, help="A label of the job. Repeatable.")
@click.option("--annotation", type=Pair(), multiple=True, help="An annotation of the job and its pods. Repeatable.")
@click.option("--wait", is_flag=True, help="Wait until it has ended; exit code 1 if it failed.")
@click.option("--follow", is_flag=True, help="The same, and show what becomes of it, and the logs of its pods.")
@click.option("--timeout", type=Seconds(), help="How long to wait at most.")
@click.option(
    "--dry-run", type=click.Choice(list(DRY)), default="none", help="client: send nothing; server: keep nothing."
)
@click.option("-o", "--output", type=click.Choice(["name", "json", "yaml"]), help="How to print what was created.")
@connected
def submit(
    connection: Connection,
    command: tuple[str, ...],
    files: tuple[str, ...],
    queue: str,
    quota: str,
    queuejob: str,
    priority: int | None,
    max_time: float | None,
    name: str,
    image: str,
    cpu: str,
    memory: str,
    gpu: int,
    gpu_resource: str,
    parallelism: int | None,
    completions: int | None,
    env: tuple[tuple[str, str], ...],
    label: tuple[tuple[str, str], ...],
    annotation: tuple[tuple[str, str], ...],
    wait: bool,
    follow: bool,
    timeout: float | None,
    dry_run: str,
    output: str | None,
) -> None:
    """Put a job into a queue: one made from flags, or those of a file.

    \b
    usher submit --queue main --image busybox --cpu 1 -- sleep 60
    usher submit --queue main -f job.yaml --follow
    """
    limit_s = None if max_time in (None, NO_LIMIT_S) else max(1, math.ceil(max_time))
    if queuejob and (queue or quota):
        raise click.UsageError("A job that draws on a QueueJob is in no queue: leave out --queuejob, or the others.")
    place = Place(queue, quota, priority, limit_s, dict(label), dict(annotation), queuejob)
    if files:
        if name or image or command or cpu or memory or gpu or parallelism or completions or env:
            raise click.UsageError("A file says itself what its jobs run: leave out -f, or the flags that say it.")
        jobs = [job for file in files for job in from_text(_read(file), file, place)]
    else:
        if not image:
            raise click.UsageError("Say what to run: --image IMAGE, or -f FILE.")
        work = Work(image, command, name, cpu, memory, gpu, gpu_resource, parallelism or 1, completions, dict(env))
        jobs = [from_flags(work, place)]
    if (wait or follow) and dry_run != "none":
        raise click.UsageError("Nothing comes of a dry run: leave out --wait and --follow.")
    after = After(wait, follow, timeout)
    code = run(connection, lambda session: _submit(session, jobs, dry_run, output, after), waits=wait or follow)
    if code:
        raise click.exceptions.Exit(code)


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise click.ClickException(f"{file} cannot be read: {why}.") from None


async def _submit(session: Session, jobs: Sequence[Object], dry_run: str, output: str | None, after: After) -> int:
    for job in jobs:
        meta = job["metadata"]
        if meta.setdefault("namespace", session.namespace) != session.namespace and session.connection.namespace:
            raise click.ClickException(
                f"{meta.get('name')} says namespace {meta['namespace']}, and --namespace is {session.namespace}: "
                "leave one of them out."
            )
    if dry_run != "client":
        await _check_queues(session, jobs)
    created = [await _create(session, job, dry_run) for job in jobs]
    if output in ("json", "yaml"):
        emit(dumped(created, output, single=True))
    else:
        for job in created:
            emit(name_of(_with_a_name(job)) + ("" if output == "name" else f" created{DRY[dry_run]}"))
    if not (after.wait or after.follow):
        return 0
    from usher.cli.following import follow

    return await follow(session, created, show=after.follow, timeout_s=after.timeout_s)


async def _create(session: Session, job: Object, dry_run: str) -> Object:
    if dry_run == "client":
        return job
    resource = await resource_for(session.client, job["apiVersion"], job["kind"])
    return await session.client.create(
        resource, job, job["metadata"]["namespace"], dry_run=dry_run == "server", strict=True
    )


def _with_a_name(job: Object) -> Object:
    """A dry run without the server has not made up a name yet."""
    meta = job["metadata"]
    return {**job, "metadata": {**meta, "name": meta.get("name") or f"{meta['generateName']}…"}}


async def _check_queues(session: Session, jobs: Sequence[Object]) -> None:
    """A job must be for a queue; one that does not exist yet is waited for, so that is only said."""
    for namespace in dict.fromkeys(str(job["metadata"]["namespace"]) for job in jobs):
        found, everything = await queues_seen(session, namespace)
        if found is None:
            continue
        queues = sorted({each["metadata"]["name"] for each in found})
        there = f"There are: {', '.join(queues)}." if queues else f"There are none for namespace {namespace} yet."
        there += "" if everything else " Shared ones there may be, too: you may not list them."
        for job in jobs:
            if job["metadata"]["namespace"] != namespace:
                continue
            if not names_a_place(job) and not await in_managed(session, namespace):  # which gives it the only one
                raise click.UsageError(f"Name a queue with --queue. {there}")
            wanted = queue_named(job)
            if wanted and wanted not in queues and everything:
                session.told.add(words.say(words.QUEUE_MISSING, queue=wanted))
                note(f"note: there is no queue {wanted} here yet, so the job waits until there is. {there}")
