"""`usher version`: of this program, of the API server, and of the manager that leads there."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import click

from usher import __version__
from usher.cli.connecting import Connection, Session, connected, run
from usher.cli.printing import age, as_text, emit
from usher.cli.system import installed_settings, system_namespace
from usher.cli.units import at
from usher.install.settled import SETTINGS
from usher.kube.errors import Forbidden, KubeError, NotFound
from usher.kube.resource import untyped

LEASES: Final = untyped("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
DEPLOYMENTS: Final = untyped("apps", "v1", "deployments", "Deployment", namespaced=True)
LEASE: Final = "usher-manager"
"""Unless the settings name another."""
DEPLOYMENT: Final = "usher"
VERSION_LABEL: Final = "app.kubernetes.io/version"


@click.command()
@click.option("--client", "client_only", is_flag=True, help="Only of this program; nothing is asked.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="How to print it.")
@connected
def version(connection: Connection, client_only: bool, output: str) -> None:
    """Show the versions of usher, the server and the manager, and who leads."""
    found: dict[str, Any] = {"client": __version__}
    problem: click.ClickException | None = None
    if not client_only:
        try:
            found |= run(connection, _asked)
        except click.ClickException as error:
            problem = error
    if output == "text":
        emit(f"{f'{key}:'.ljust(9)} {_shown(value)}" for key, value in found.items())
    else:
        emit(as_text(found, output))
    if problem is not None:
        raise problem


async def _asked(session: Session) -> dict[str, Any]:
    answer = json.loads(await session.client.raw("GET", "/version"))
    return {"server": answer.get("gitVersion", ""), "manager": await _manager(session)}


async def _manager(session: Session) -> dict[str, Any]:
    """Who leads, by the lease, and which version is installed, by the deployment; as far as we may look."""
    found: dict[str, Any] = {}
    name, namespace = await _lease(session)
    try:
        lease = await session.client.get(LEASES, name, namespace)
        holder = at(lease, "spec.holderIdentity") or ""
        renewed, limit_s = at(lease, "spec.renewTime"), at(lease, "spec.leaseDurationSeconds") or 0
        found |= {"leader": holder, "epoch": at(lease, "spec.leaseTransitions") or 0}
        found |= {"renewed": renewed, "leads": bool(holder) and _age_s(renewed) <= limit_s}
    except NotFound:
        found["problem"] = "none has ever led here"
    except Forbidden:
        found["problem"] = f"you may not read leases in {namespace}"
    try:
        deployment = await session.client.get(DEPLOYMENTS, DEPLOYMENT, system_namespace())
        found["version"] = (at(deployment, "metadata.labels") or {}).get(VERSION_LABEL, "")
    except KubeError:
        pass  # it may run outside the cluster
    return found


async def _lease(session: Session) -> tuple[str, str]:
    """The name and the namespace of the lease."""
    text = await installed_settings(session)
    if "election" not in text:
        return LEASE, system_namespace()
    from usher.settings.loader import SettingsError, load_text  # takes longer to import than all the rest

    try:
        settings = load_text(text, SETTINGS)
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    return settings.election.lease_name, settings.lease_namespace


def _age_s(then: str | None) -> float:
    from usher.api.times import ms_of

    return float("inf") if not then else time.time() - ms_of(then) / 1000


def _shown(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    parts = [value["version"]] if value.get("version") else []
    if "problem" in value:
        return ", ".join([*parts, value["problem"]])
    when = age(value["renewed"], time.time_ns() // 1_000_000)
    if value["leads"]:
        parts.append(f"{value['leader']} leads (epoch {value['epoch']}, renewed {when} ago)")
    else:
        parts.append(f"nobody leads (last {value['leader'] or 'given up'}, {when} ago)")
    return ", ".join(parts)
