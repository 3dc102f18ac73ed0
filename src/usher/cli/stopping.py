"""`usher stop` and `usher resume`: hold a queue, drain it, or set one job aside; and let them go on.

A queue is stopped by its `spec.stopPolicy`, a job by `spec.active` of its unit.
"""

from __future__ import annotations

from typing import Final

import click

from usher.api.names import QUOTA_RESERVED
from usher.cli.changing import changing, patch_queue, patch_unit, queue_named, say, until
from usher.cli.completing import complete_kinds_and_names
from usher.cli.connecting import Connection, Session, connected, run
from usher.cli.kinds import JOBS, QUEUE_JOBS, QUEUES, UNITS, Kind, Object, one_named
from usher.cli.units import FINISHED, at, condition, find_unit, job_name, phase

STOPPABLE: Final = (QUEUES, JOBS, QUEUE_JOBS, UNITS)


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="KIND NAME", shell_complete=complete_kinds_and_names)
@click.option("--drain", is_flag=True, help="Of a queue: stop what runs, too; it waits again.")
@changing
@connected
def stop(connection: Connection, what: tuple[str, ...], drain: bool, dry_run: str, output: str | None) -> None:
    """Stop a queue (nothing more starts) or a job (it gives back what it holds and takes no part).

    \b
    usher stop queue main
    usher stop job train-1
    """
    kind, name = one_named(what, STOPPABLE)
    if drain and kind is not QUEUES:
        raise click.UsageError("--drain is for queues: a job that is stopped gives back what it holds anyway.")
    policy = "HoldAndDrain" if drain else "Hold"
    run(connection, lambda session: _change(session, kind, name, policy, dry_run, output))


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="KIND NAME", shell_complete=complete_kinds_and_names)
@changing
@connected
def resume(connection: Connection, what: tuple[str, ...], dry_run: str, output: str | None) -> None:
    """Let a queue or a job that was stopped go on."""
    kind, name = one_named(what, STOPPABLE)
    run(connection, lambda session: _change(session, kind, name, "None", dry_run, output), waits=kind is not QUEUES)


async def _change(session: Session, kind: Kind, name: str, policy: str, dry_run: str, output: str | None) -> None:
    if kind is QUEUES:
        queue = await queue_named(session, name)
        changed = await patch_queue(session, queue, {"stopPolicy": policy}, dry_run)
        say(changed, output, _queue_words(name, policy, queue), dry_run)
        return
    unit = await find_unit(session, name, kind)
    if phase(unit) in FINISHED:
        raise click.ClickException(f"{job_name(unit)} has ended ({phase(unit)}): there is nothing to stop or resume.")
    active = policy == "None"
    if active and at(unit, "status.inactive") and dry_run == "none":
        await _taken_back(session, unit)
    changed = await patch_unit(session, unit, {"active": active}, dry_run)
    say(changed, output, _job_words(unit, active), dry_run)


async def _taken_back(session: Session, unit: Object) -> None:
    """One that the manager has set aside takes part again when somebody has made it inactive and active himself."""
    import asyncio

    await patch_unit(session, unit, {"active": False})
    try:
        async with asyncio.timeout(session.connection.timeout_s):
            await until(session, unit, lambda found: not at(found, "status.inactive"))
    except TimeoutError:
        raise click.ClickException(
            f"No manager has taken note of it in time: {job_name(unit)} is stopped. Does one run? See: usher version"
        ) from None


def _queue_words(name: str, policy: str, before: Object) -> str:
    if (at(before, "spec.stopPolicy") or "None") == policy:
        return f"queue {name} {'runs' if policy == 'None' else 'is stopped'} already"
    match policy:
        case "None":
            return f"queue {name} resumed"
        case "Hold":
            return f"queue {name} stopped: nothing more starts; what runs goes on (--drain stops that, too)"
        case _:
            return f"queue {name} stopped: nothing more starts, and what runs is stopped and waits again"


def _job_words(before: Object, active: bool) -> str:
    name = job_name(before)
    if (at(before, "spec.active") is not False) == active and not at(before, "status.inactive"):
        return f"job {name} {'takes part' if active else 'is stopped'} already"
    if active:
        return f"job {name} resumed: it waits for its turn again"
    holds = condition(before, QUOTA_RESERVED).get("status") == "True"
    return f"job {name} stopped: it {'gives back what it holds' if holds else 'keeps its place'} and takes no part"
