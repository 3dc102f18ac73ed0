"""What the shell offers when TAB is pressed: kinds, and the names of objects that are there.

A completion never fails and never keeps anybody waiting: without an answer in two seconds there is nothing to offer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import structs

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PATIENCE_S: Final = 2.0


def complete_kinds_and_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A kind first, then names of that kind."""
    from usher.cli.kinds import KINDS, kind_of

    said = ctx.params.get(str(param.name)) or ()
    if not said:
        return _items((kind.plural for kind in KINDS), incomplete)
    try:
        return _items(_names(ctx, kind_of(said[0])), incomplete)
    except click.UsageError:
        return []


def complete_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of queues."""
    from usher.cli.kinds import QUEUES

    return _items(_names(ctx, QUEUES), incomplete)


def complete_jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of jobs that are queued."""
    from usher.cli.kinds import JOBS

    return _items(_names(ctx, JOBS), incomplete)


def _items(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _names(ctx: click.Context, kind: Any) -> list[str]:
    """The names that the cluster has; nothing, if it does not say so soon."""
    from usher.cli.connecting import Connection, run
    from usher.cli.kinds import JOBS, UNITS
    from usher.cli.units import job_name, listed

    given = ctx.params
    connection = Connection(
        given.get("kubeconfig_file"),
        given.get("context"),
        given.get("cluster"),
        given.get("user"),
        given.get("namespace"),
        given.get("as_user"),
        given.get("as_groups") or (),
        given.get("as_uid"),
    )
    resource = UNITS.resource if kind is JOBS else kind.resource

    async def ask(session: Any) -> list[str]:
        namespace = session.namespace if resource.namespaced else None
        found = await listed(session, resource, namespace)
        return sorted({job_name(each) if kind is JOBS else each["metadata"]["name"] for each in found})

    try:
        return run(structs.replace(connection, timeout_s=PATIENCE_S), ask)
    except (click.ClickException, click.exceptions.Exit, OSError):
        return []
