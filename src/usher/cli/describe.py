"""`usher describe`: one queue, unit, quota or job in full, with what was said about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import click

from usher.cli.columns import state
from usher.cli.completing import complete_kinds_and_names
from usher.cli.connecting import Connection, Session, connected, run
from usher.cli.kinds import JOBS, KINDS, QUEUES, QUOTAS, UNITS, Kind, Object, one_named
from usher.cli.printing import NONE, age, emit, plain, quantities, table, text
from usher.cli.units import (
    at,
    condition,
    find_unit,
    job_kind,
    job_name,
    key_of,
    listed,
    named,
    phase,
    positions,
    queues_beside,
    request,
)
from usher.kube.errors import Forbidden
from usher.kube.resource import untyped

EVENTS: Final = untyped("", "v1", "events", "Event", namespaced=True)
EVENTS_MAX: Final = 20
LINE_MAX: Final = 10
"""How many of those that wait are listed."""

Field = tuple[str, str]


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="KIND NAME", shell_complete=complete_kinds_and_names)
@connected
def describe(connection: Connection, what: tuple[str, ...]) -> None:
    """Show one queue, unit, quota or job in full: what it says, how it stands, and its Events."""
    kind, name = one_named(what, KINDS)
    run(connection, lambda session: _describe(session, kind, name))


async def _describe(session: Session, kind: Kind, name: str) -> None:
    if kind in (JOBS, UNITS):
        found = await find_unit(session, name)
    else:
        resource = kind.resource
        found = named(
            await session.client.get(resource, name, session.namespace if resource.namespaced else None), resource
        )
    now_ms = time.time_ns() // 1_000_000
    queues = await queues_beside(session, session.namespace) if kind in (JOBS, UNITS) else None
    events = await _events(session, found)
    sections = [_fields(_BY_KIND.get(kind, _any)(found, positions(queues)))]
    if kind is QUEUES:
        sections.append(_line(found))
    sections += [_conditions(found, now_ms), _told(events, now_ms)]
    emit("\n\n".join("\n".join(lines) for lines in sections if lines))


# -- what each kind says ----------------------------------------------------------------------------------------------


def _queue(found: Object, _: Mapping[str, int]) -> list[Field]:
    counts = at(found, "status.counts") or {}
    checks = ", ".join(each["name"] for each in at(found, "spec.admissionChecks") or ())
    return [
        ("Name", found["metadata"]["name"]),
        ("Namespace", found["metadata"]["namespace"]),
        ("State", state(found)),
        ("Policy", text(at(found, "spec.queuePolicy"))),
        ("Weight", text(at(found, "spec.weight"))),
        ("Priority", text(at(found, "spec.priority"))),
        ("Quota", text(at(found, "spec.quota"))),
        ("Checks", text(checks)),
        ("Most units", text(at(found, "spec.maxUnits"))),
        ("Waiting", str(counts.get("waiting", 0))),
        ("Reserved", str(counts.get("reserved", 0))),
        ("Starting", str(counts.get("dequeued", 0))),
        ("Running", str(counts.get("running", 0))),
        *_amounts(found, "deserved", "allocated", "used", "preempting"),
    ]


def _quota(found: Object, _: Mapping[str, int]) -> list[Field]:
    return [
        ("Name", found["metadata"]["name"]),
        ("State", state(found)),
        ("Parent", text(at(found, "spec.parent") or "the cluster")),
        ("Weight", text(at(found, "spec.weight"))),
        ("Lends", "no" if at(found, "spec.lendable") is False else "yes"),
        ("Namespaces", text(", ".join(at(found, "spec.namespaces") or ()))),
        ("Min", quantities(at(found, "spec.min"))),
        ("Max", quantities(at(found, "spec.max"))),
        *_amounts(found, "deserved", "used", "demand", "preempting"),
        ("Waiting", str(at(found, "status.waiting") or 0)),
        ("Holding", str(at(found, "status.holding") or 0)),
    ]


def _unit(found: Object, places: Mapping[str, int]) -> list[Field]:
    meta, spec = found["metadata"], found["spec"]
    granted = ", ".join(
        f"{each['name']} {each.get('replicas', 0)}, {each.get('running', 0)} running"
        for each in at(found, "status.admissions") or ()
    )
    checks = ", ".join(f"{each['name']} {each['state']}" for each in at(found, "status.admissionChecks") or ())
    pods = "; ".join(f"{each.get('name', 'main')} {each.get('count', 0)}" for each in spec.get("podSets") or ())
    return [
        ("Job", f"{job_kind(found)} {job_name(found)}".strip()),
        ("Unit", meta["name"]),
        ("Namespace", meta["namespace"]),
        ("Queue", text(spec.get("queue"))),
        ("Position", text(places.get(key_of(found)))),
        ("Quota", text(at(found, "status.quota") or spec.get("quota"))),
        ("Priority", str(spec.get("priority") or 0)),
        ("Phase", phase(found)),
        ("Asks for", quantities(request(found))),
        ("Pods", text(pods)),
        ("Granted", text(granted)),
        ("Checks", text(checks)),
        ("Active", "no" if spec.get("active") is False else "yes"),
        ("Preemptible", "no" if spec.get("preemptible") is False else "yes"),
        ("Evictions", str(at(found, "status.evictions") or 0)),
        ("Says", text(at(found, "status.message"))),
    ]


def _any(found: Object, _: Mapping[str, int]) -> list[Field]:
    fields: list[Field] = [("Name", found["metadata"]["name"])]
    if found["metadata"].get("namespace"):
        fields.append(("Namespace", found["metadata"]["namespace"]))
    for part in ("spec", "status"):
        for key, value in (found.get(part) or {}).items():
            if key != "conditions":
                fields.append((f"{part}.{key}", _value(value)))
    return fields


_BY_KIND: Final[Mapping[Kind, Callable[[Object, Mapping[str, int]], list[Field]]]] = {
    QUEUES: _queue,
    QUOTAS: _quota,
    UNITS: _unit,
    JOBS: _unit,
}


def _amounts(found: Object, *names: str) -> list[Field]:
    return [(name.capitalize(), quantities(at(found, f"status.{name}"))) for name in names]


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_value(each)}" for key, each in value.items()) or NONE
    if isinstance(value, list):
        return ", ".join(_value(each) for each in value) or NONE
    return text(value)


# -- sections ---------------------------------------------------------------------------------------------------------


def _fields(fields: Sequence[Field]) -> list[str]:
    wide = max(len(name) for name, _ in fields) + 1
    return [f"{f'{name}:'.ljust(wide)}  {plain(value)}".rstrip() for name, value in fields]


def _line(queue: Object) -> list[str]:
    """The first of those that wait."""
    items = at(queue, "status.queueItemDetails.active") or ()
    if not items:
        return []
    rows = [
        (
            str(each.get("position", 0)),
            text(each.get("namespace")),
            text(each.get("name")),
            str(each.get("priority", 0)),
        )
        for each in items[:LINE_MAX]
    ]
    total = int(at(queue, "status.counts.waiting") or 0)
    more = [f"  … and {total - len(rows):,} more"] if total > len(rows) else []
    return ["Waiting:", *_indented(table(("POSITION", "NAMESPACE", "UNIT", "PRIORITY"), rows)), *more]


def _conditions(found: Object, now_ms: int) -> list[str]:
    kinds = [each["type"] for each in at(found, "status.conditions") or ()]
    if not kinds:
        return []
    rows = [
        (
            kind,
            str(each.get("status")),
            text(each.get("reason")),
            age(each.get("lastTransitionTime"), now_ms),
            text(each.get("message")),
        )
        for kind, each in ((kind, condition(found, kind)) for kind in kinds)
    ]
    return ["Conditions:", *_indented(table(("TYPE", "STATUS", "REASON", "AGE", "MESSAGE"), rows))]


async def _events(session: Session, found: Object) -> list[Object]:
    """What was said about it and about its job, newest last, as far as we may read it."""
    uids = {found["metadata"]["uid"], at(found, "spec.consumerRef.uid")} - {None}
    namespace = found["metadata"].get("namespace")
    events: list[Object] = []
    for uid in sorted(uids):
        try:
            events += await listed(session, EVENTS, namespace, field_selector=f"involvedObject.uid={uid}")
        except Forbidden:
            continue
    return sorted(events, key=_when)[-EVENTS_MAX:]


def _when(event: Object) -> str:
    times = (at(event, "series.lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((each for each in times if each), at(event, "metadata.creationTimestamp") or "")


def _told(events: Iterable[Object], now_ms: int) -> list[str]:
    rows = [
        (text(each.get("type")), text(each.get("reason")), age(_when(each), now_ms), text(each.get("message")))
        for each in events
    ]
    return ["Events:", *_indented(table(("TYPE", "REASON", "AGE", "MESSAGE"), rows))] if rows else []


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]
