"""`usher uninstall`: say what will happen, ask, and take Usher out of the cluster; see docs/installing.md."""

from __future__ import annotations

import click

from usher.cli.connecting import Connection, Session, connected, run
from usher.cli.system import system_namespace
from usher.install.applying import InstallError
from usher.install.census import Census, take_census
from usher.install.removal import Removal, check_removable, queue_keys
from usher.install.removal import uninstall as remove


@click.command()
@click.option("--release-jobs", is_flag=True, help="Jobs that wait are released: all of them start, with no queue.")
@click.option("--leave-jobs", is_flag=True, help="Jobs that wait stay suspended, for another Usher or their owners.")
@click.option("--crds", is_flag=True, help="Remove Usher's kinds, too, with every Queue, quota and unit.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def uninstall(connection: Connection, release_jobs: bool, leave_jobs: bool, crds: bool, yes: bool) -> None:
    """Remove Usher from a cluster. Jobs that run go on; Queues, quotas and units stay unless --crds is given."""
    if release_jobs and leave_jobs:
        raise click.UsageError("--release-jobs or --leave-jobs, not both")
    try:
        run(connection, lambda session: _uninstall(session, release_jobs, leave_jobs, crds, yes), waits=True)
    except InstallError as error:
        raise click.ClickException(str(error)) from None


async def _uninstall(session: Session, release: bool, leave: bool, crds: bool, yes: bool) -> None:
    namespace = session.connection.namespace or system_namespace()
    await check_removable(session.client, namespace)
    census = await take_census(session.client, await queue_keys(session.client, namespace))
    click.echo(told(census, release, leave, crds, session.config.server, namespace))
    if census.held and not (release or leave):
        raise InstallError("Say what becomes of the waiting jobs: --release-jobs or --leave-jobs.")
    if not yes and not click.confirm("Remove Usher?"):
        raise click.Abort
    await remove(session.client, Removal(namespace, release, crds), click.echo)
    click.echo("Usher is removed.")


def told(census: Census, release: bool, leave: bool, crds: bool, server: str, namespace: str) -> str:
    """What will happen."""
    lines = [f"Usher in {namespace} of {server}:"]
    if census.held:
        fate = (
            "are released and start at once, all of them" if release
            else "stay suspended until somebody starts them" if leave
            else "stay suspended (--leave-jobs) or are released, all of them (--release-jobs)"
        )  # fmt: skip
        lines.append(f"  waiting jobs: {len(census.held)}. They {fate}.")
    if census.aside:
        lines.append(f"  jobs that somebody suspended or made inactive: {census.aside}. They stay as they are.")
    if census.running:
        lines.append(f"  running jobs: {census.running}. They go on.")
    if census.gated:
        fate = "are let in" if release else "stay where they are"
        lines.append(f"  pods of elastic jobs at Usher's gate: {len(census.gated)}. They {fate}.")
    if census.objects:
        what = ", ".join(f"{number} {kind}{'s' * (number != 1)}" for kind, number in census.objects.items())
        lines.append(f"  {what}. They {'are deleted with their kinds' if crds else 'stay'}.")
    lines.append("  The manager, its rights and its admission rules are deleted.")
    return "\n".join(lines)
