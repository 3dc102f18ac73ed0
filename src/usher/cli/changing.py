"""What the commands that change something have in common: the queue that is meant, a patch, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from usher.cli.connecting import Session, is_missing
from usher.cli.kinds import QUEUES, UNITS, Object
from usher.cli.printing import as_text, clean, emit, name_of
from usher.cli.system import system_namespace
from usher.cli.units import job_name, named
from usher.kube.errors import Forbidden, NotFound

SAID: Final = {"none": "", "client": " (dry run)", "server": " (server dry run)"}
Command = Callable[..., Any]


def changing(command: Command) -> Command:
    """Give a command --dry-run and -o."""
    for option in (
        click.option("-o", "--output", type=click.Choice(["name", "json", "yaml"]), help="How to print the result."),
        click.option(
            "--dry-run",
            type=click.Choice(list(SAID)),
            default="none",
            help="client: send nothing; server: keep nothing.",
        ),
    ):
        command = option(command)
    return command


async def queue_named(session: Session, name: str) -> Object:
    """A Queue of the namespace; says where it is if it is a shared one."""
    try:
        return named(await session.client.get(QUEUES.resource, name, session.namespace), QUEUES.resource)
    except NotFound as error:
        if not is_missing(error):
            raise
    text = f"There is no Queue {name} in namespace {session.namespace}."
    try:
        await session.client.get(QUEUES.resource, name, system_namespace())
    except (NotFound, Forbidden):
        raise click.ClickException(f"{text} See: usher get queues -A") from None
    raise click.ClickException(f"{text} There is a shared one: add -n {system_namespace()}.")


async def patch_queue(session: Session, queue: Object, spec: Object, dry_run: str) -> Object:
    """Change fields of a Queue's spec."""
    if dry_run == "client":
        return {**queue, "spec": {**queue.get("spec", {}), **spec}}
    meta = queue["metadata"]
    body = {"spec": spec}
    changed = await session.client.patch(
        QUEUES.resource, meta["name"], meta["namespace"], body, dry_run=dry_run == "server"
    )
    return named(changed, QUEUES.resource)


async def patch_unit(session: Session, unit: Object, spec: Object, dry_run: str = "none") -> Object:
    """Change fields of a unit's spec."""
    if dry_run == "client":
        return {**unit, "spec": {**unit["spec"], **spec}}
    meta = unit["metadata"]
    try:
        changed = await session.client.patch(
            UNITS.resource, meta["name"], meta["namespace"], {"spec": spec}, dry_run=dry_run == "server"
        )
    except Forbidden as error:
        job = unit["spec"].get("consumerRef", {}).get("name", meta["name"])
        stops = spec.get("active") is False
        what, suspend = ("that runs", "true") if stops else ("that you have suspended", "false")
        raise click.ClickException(
            f"{error.message}. Units are changed by usher-admin. What you may do with a job of your own {what}: "
            f'kubectl patch job {job} --type merge -p \'{{"spec":{{"suspend":{suspend}}}}}\''
        ) from None
    return named(changed, UNITS.resource)


def say(found: Object, output: str | None, what: str, dry_run: str) -> None:
    """Print what became of an object: the object itself, its name, or a sentence."""
    if output in ("json", "yaml"):
        emit(as_text(clean(found), output))
    elif output == "name":
        emit(name_of(found))
    else:
        emit(f"{what}{SAID[dry_run]}")


async def until(session: Session, unit: Object, holds: Callable[[Object], bool]) -> None:
    """Follow a unit until something holds of it."""
    from usher.kube.informer import Informer
    from usher.kube.store import Deleted

    meta = unit["metadata"]
    informer: Informer[Object] = Informer(
        session.client, UNITS.resource, meta["namespace"], field_selector=f"metadata.name={meta['name']}"
    )
    async with informer:
        async for batch in informer.subscribe():
            for delta in batch:
                if isinstance(delta, Deleted):
                    raise click.ClickException(f"{job_name(unit)} was deleted meanwhile.")
                if holds(delta.object):
                    return
