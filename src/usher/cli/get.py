"""`usher get`: queues, units, quotas and jobs as a table, as JSON or YAML, or as they change."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click
from msgspec import Struct

from usher.cli.columns import Beside, Column, as_tree, columns, row
from usher.cli.completing import complete_kinds_and_names
from usher.cli.connecting import Connection, Session, connected, is_missing, run
from usher.cli.kinds import JOBS, QUOTAS, UNITS, Kind, Object, kind_and_names
from usher.cli.printing import as_text, clean, dumped, emit, name_of, note, table, widths_of
from usher.cli.units import at, job_name, listed, named, positions, queues_beside
from usher.kube.errors import KubeError, NotFound
from usher.kube.resource import Resource


class Query(Struct, frozen=True):
    """What is asked for."""

    kind: Kind
    names: tuple[str, ...]
    output: str
    everywhere: bool
    selector: str | None
    fields: str | None
    headed: bool

    @property
    def resource(self) -> Resource[Object]:
        """What is listed; jobs are found by their units."""
        return UNITS.resource if self.kind is JOBS else self.kind.resource

    def namespace(self, session: Session) -> str | None:
        return session.namespace if self.resource.namespaced and not self.everywhere else None

    def columns(self) -> list[Column]:
        return columns(self.kind, wide=self.output == "wide", everywhere=self.everywhere)


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="KIND [NAME...]", shell_complete=complete_kinds_and_names)
@click.option(
    "-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), default=None, help="How to print it."
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@click.option("-l", "--selector", help="Only those with these labels, as in app=web,tier!=test.")
@click.option("--field-selector", help="Only those with these fields, as in spec.queue=main.")
@click.option("-w", "--watch", is_flag=True, help="Go on with what changes, until Ctrl-C.")
@click.option("--no-headers", is_flag=True, help="Without the line of headers.")
@connected
def get(
    connection: Connection,
    what: tuple[str, ...],
    output: str | None,
    all_namespaces: bool,
    selector: str | None,
    field_selector: str | None,
    watch: bool,
    no_headers: bool,
) -> None:
    """Show queues, units, quotas or jobs.

    KIND is one of queues (q), units (qu), quotas (qq), jobs, queuejobs (qj), dynamicworkloads (dw), checks (ac).
    """
    kind, names = kind_and_names(what)
    if names and all_namespaces and kind.resource.namespaced:
        raise click.UsageError("A name belongs to one namespace: leave out --all-namespaces, or the name.")
    if names and (selector or field_selector):
        raise click.UsageError("Give names or a selector, not both.")
    query = Query(kind, tuple(names), output or "", all_namespaces, selector, field_selector, not no_headers)
    run(connection, lambda session: _watch(session, query) if watch else _show(session, query), waits=watch)


async def _show(session: Session, query: Query) -> None:
    found, missing = await _found(session, query)
    if not found and not query.names and query.output in ("", "wide", "name"):
        where = "" if query.namespace(session) is None else f" in namespace {session.namespace}"
        note(f"No jobs are queued{where}." if query.kind is JOBS else f"There are no {query.kind.plural}{where}.")
    elif query.output in ("json", "yaml"):
        objects = await _jobs(session, query, found) if query.kind is JOBS else found
        if objects or not query.names:
            emit(dumped(objects, query.output, single=bool(query.names)))
    elif query.output == "name" and found:
        emit(_name(each, query) for each in found)
    elif found:
        chosen = query.columns()
        beside, ordered = await _beside(session, query, found)
        rows = [row(chosen, each, beside) for each in ordered]
        emit(table([column.header for column in chosen], rows, headed=query.headed))
    if missing:
        raise click.ClickException("\n".join(missing))


async def _found(session: Session, query: Query) -> tuple[list[Object], list[str]]:
    """The objects, and a text for each name that has none."""
    resource, namespace = query.resource, query.namespace(session)
    if query.names and query.kind is not JOBS:
        there: list[Object] = []
        missing: list[str] = []
        for name in query.names:
            try:
                there.append(await session.client.get(resource, name, namespace))
            except NotFound as error:
                if not is_missing(error):
                    raise
                missing.append(_missing(query, session, name))
        return there, missing
    found = await listed(session, resource, namespace, label_selector=query.selector, field_selector=query.fields)
    if not query.names:
        return found, []
    chosen = [each for name in query.names for each in found if job_name(each) == name]
    known = {job_name(each) for each in chosen}
    return chosen, [_missing(query, session, name) for name in query.names if name not in known]


def _missing(query: Query, session: Session, name: str) -> str:
    where = f" in namespace {session.namespace}" if query.resource.namespaced else ""
    return (
        f"No job {name} is queued{where}."
        if query.kind is JOBS
        else f"There is no {query.kind.resource.kind} {name}{where}."
    )


async def _beside(session: Session, query: Query, found: list[Object]) -> tuple[Beside, list[Object]]:
    """What the rows look at besides their objects, and the order of the rows."""
    now_ms = time.time_ns() // 1_000_000
    if query.kind is JOBS:
        return Beside(now_ms, positions(await queues_beside(session, query.namespace(session)))), found
    if query.kind is QUOTAS and not query.names:
        ordered, depths = as_tree(found)
        return Beside(now_ms, depths=depths), ordered
    return Beside(now_ms), found


def _name(found: Object, query: Query) -> str:
    if query.kind is not JOBS:
        return name_of(found)
    reference = at(found, "spec.consumerRef") or {}
    return name_of({**reference, "metadata": {"name": job_name(found)}})


async def _jobs(session: Session, query: Query, units: Sequence[Object]) -> list[Object]:
    """The jobs themselves, in the order of their units."""
    from usher.cli.discovery import resource_for

    references = [at(unit, "spec.consumerRef") or {} for unit in units]
    jobs: dict[str, Object] = {}
    for api_version, kind in sorted({(str(each["apiVersion"]), str(each["kind"])) for each in references if each}):
        resource = await resource_for(session.client, api_version, kind)
        found = await listed(session, resource, query.namespace(session))
        jobs |= {each["metadata"]["uid"]: each for each in found}
    return [jobs[each["uid"]] for each in references if each.get("uid") in jobs]


async def _watch(session: Session, query: Query) -> None:
    """Print what there is, and then each change, in the columns of the first."""
    from usher.kube.informer import Informer
    from usher.kube.store import Deleted

    namespace = query.namespace(session)
    await session.client.list(query.resource, namespace, limit=1)  # what cannot be listed is said at once
    informer: Informer[Object] = Informer(
        session.client,
        query.resource,
        namespace,
        label_selector=query.selector,
        field_selector=query.fields,
        on_problem=_problem,
    )
    widths: list[int] = []
    chosen = query.columns()
    headers = [column.header for column in chosen]
    async with informer:
        async for batch in informer.subscribe():
            deltas = [delta for delta in batch if _wanted(query, delta.object)]
            if query.output in ("json", "yaml", "name"):
                there = [delta.object for delta in deltas if not isinstance(delta, Deleted)]
                _print_objects([named(each, query.resource) for each in there], query)
                continue
            positions_ = positions(await queues_beside(session, namespace)) if query.kind is JOBS else {}
            beside = Beside(time.time_ns() // 1_000_000, positions_)
            rows = [row(chosen, delta.object, beside) for delta in deltas]
            if rows:
                emit(table(headers, rows, headed=query.headed and not widths, widths=widths))
                widths = widths or widths_of(headers, rows)


def _wanted(query: Query, found: Object) -> bool:
    name = job_name(found) if query.kind is JOBS else found["metadata"]["name"]
    return not query.names or name in query.names


def _print_objects(found: Sequence[Object], query: Query) -> None:
    for each in found:
        if query.output == "name":
            emit(_name(each, query))
        else:
            emit(("---\n" if query.output == "yaml" else "") + as_text(clean(each), query.output))


def _problem(error: KubeError) -> None:
    note(f"note: {error.message}; trying again")
