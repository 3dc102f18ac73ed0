"""`usher install`: put Usher into a cluster, bring it up to date, or print what that would be.

The same objects as the Helm chart's, by the same values; see docs/installing.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import yaml

from usher.cli.connecting import Connection, Session, connected, run
from usher.cli.system import system_namespace
from usher.core.durations import DurationError, parse_ms
from usher.install.applying import InstallError, Plan, has_policies
from usher.install.applying import install as apply
from usher.install.values import Values, ValuesError, read_values
from usher.install.whole import objects


@click.command()
@click.option(
    "-f",
    "--values",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of values (deploy/helm/usher/values.yaml has all of them). Repeatable; later ones win.",
)
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="One value; wins over the files.")
@click.option("--print", "print_only", is_flag=True, help="Print the objects as YAML instead of applying them.")
@click.option("--webhooks-only", is_flag=True, help="With --print: for a server without admission policies (< 1.36).")
@click.option("--adopt-crds", is_flag=True, help="Take over definitions of the same names that are not Usher's.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the replicas are available.")
@click.option("--timeout", default="5m", show_default=True, help="How long to wait for them.")
@click.option(
    "--dry-run",
    type=click.Choice(["none", "server"]),
    default="none",
    show_default=True,
    help="server: have the API server check everything, and store nothing.",
)
@connected
def install(
    connection: Connection,
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    print_only: bool,
    webhooks_only: bool,
    adopt_crds: bool,
    no_wait: bool,
    timeout: str,
    dry_run: str,
) -> None:
    """Install Usher, or bring it up to date.

    Kinds, rights, two replicas of the manager and the admission rules, by server-side apply into the namespace
    usher-system (or -n). Run it again to upgrade or to change values: nothing is lost, and nothing stops.
    """
    namespace = connection.namespace or system_namespace()
    try:
        wait_s = 0.0 if no_wait else parse_ms(timeout) / 1000
        texts = [path.read_text(encoding="utf-8") for path in files]
        if print_only:
            click.echo(_shown(read_values(texts, overrides, namespace, policies=not webhooks_only)), nl=False)
            return
        read_values(texts, overrides, namespace)  # what is wrong is said before anything is asked
        plan = Plan(adopt_crds, wait_s, dry_run == "server")
        run(connection, lambda session: _install(session, texts, overrides, namespace, plan), waits=True)
    except (ValuesError, InstallError, DurationError, OSError, UnicodeDecodeError) as error:
        raise click.ClickException(str(error)) from None


async def _install(session: Session, texts: list[str], overrides: tuple[str, ...], namespace: str, plan: Plan) -> None:
    values = read_values(texts, overrides, namespace, policies=await has_policies(session.client))
    await apply(session.client, values, plan, click.echo)
    if not plan.dry_run:
        click.echo(f"Usher {values.version} is installed in {namespace}. {_next(values)}")


def _next(values: Values) -> str:
    if values.settings.mode == "audit":
        return "It decides and reports, and holds nothing: see Events, metrics and its log."
    return "Make a Queue, and label a Job with it: docs/live.md."


def _shown(values: Values) -> str:
    return yaml.dump_all(objects(values), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """No anchors: what is the same in two places is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
