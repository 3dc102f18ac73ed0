"""The columns of `usher get`, kind by kind, as data: a header, the cell below it, and whether only `-o wide` has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from usher.api.names import ACTIVE
from usher.cli import units as u
from usher.cli.kinds import CHECKS, JOBS, QUEUE_JOBS, QUEUES, QUOTAS, UNITS, WORKLOADS, Kind, Object
from usher.cli.printing import NONE, age, quantities, text

STOPPED: Final = {"Hold": "Held", "HoldAndDrain": "Draining"}


class Beside(Struct, frozen=True):
    """What a row may look at besides its own object."""

    now_ms: int
    positions: Mapping[str, int] = field(default_factory=dict)
    """By unit."""
    depths: Mapping[str, int] = field(default_factory=dict)
    """How far below the root a quota is shown."""


class Column(Struct, frozen=True):
    header: str
    cell: Callable[[Object, Beside], str]
    wide: bool = False


def _path(header: str, path: str, *, wide: bool = False) -> Column:
    return Column(header, lambda found, _: text(u.at(found, path)), wide)


def _amounts(header: str, path: str, *, wide: bool = False) -> Column:
    return Column(header, lambda found, _: quantities(u.at(found, path)), wide)


def _count(header: str, path: str, *, wide: bool = False) -> Column:
    return Column(header, lambda found, _: str(u.at(found, path) or 0), wide)


def state(found: Object) -> str:
    """Whether a queue, quota or check takes part, in a word."""
    held = STOPPED.get(str(u.at(found, "spec.stopPolicy") or ""))
    if held:
        return held
    active = u.condition(found, ACTIVE)
    return "Active" if active.get("status") == "True" else str(active.get("reason") or NONE)


def _position(unit: Object, beside: Beside) -> str:
    return text(beside.positions.get(u.key_of(unit)))


def _quota(unit: Object, _: Beside) -> str:
    return text(u.at(unit, "status.quota") or u.at(unit, "spec.quota"))


_NAME: Final = _path("NAME", "metadata.name")
_AGE: Final = Column("AGE", lambda found, beside: age(u.at(found, "metadata.creationTimestamp"), beside.now_ms))
_STATE: Final = Column("STATE", lambda found, _: state(found))
_MESSAGE: Final = _path("MESSAGE", "status.message", wide=True)
_REQUEST: Final = Column("REQUEST", lambda unit, _: quantities(u.request(unit)), wide=True)
_QUOTA: Final = Column("QUOTA", _quota, wide=True)
_PHASE: Final = Column("PHASE", lambda unit, _: u.phase(unit))
_QUEUE: Final = _path("QUEUE", "spec.queue")
_PRIORITY: Final = _count("PRIORITY", "spec.priority")
_EVICTIONS: Final = _count("EVICTIONS", "status.evictions", wide=True)

COLUMNS: Final[Mapping[Kind, Sequence[Column]]] = {
    QUEUES: (
        _NAME,
        _path("POLICY", "spec.queuePolicy"),
        _path("WEIGHT", "spec.weight"),
        _count("WAITING", "status.counts.waiting"),
        _count("RUNNING", "status.counts.running"),
        _amounts("ALLOCATED", "status.allocated"),
        _amounts("DESERVED", "status.deserved"),
        _STATE,
        _AGE,
        _path("PRIORITY", "spec.priority", wide=True),
        _path("QUOTA", "spec.quota", wide=True),
        _amounts("USED", "status.used", wide=True),
        _amounts("PREEMPTING", "status.preempting", wide=True),
        _path("MAX-UNITS", "spec.maxUnits", wide=True),
    ),
    UNITS: (
        _NAME,
        _QUEUE,
        _PRIORITY,
        _PHASE,
        Column("KIND", lambda unit, _: text(u.job_kind(unit))),
        _path("JOB", "spec.consumerRef.name"),
        _AGE,
        _QUOTA,
        _REQUEST,
        _EVICTIONS,
        _MESSAGE,
    ),
    JOBS: (
        Column("NAME", lambda unit, _: u.job_name(unit)),
        Column("KIND", lambda unit, _: text(u.job_kind(unit))),
        _QUEUE,
        _PRIORITY,
        _PHASE,
        Column("POSITION", _position),
        _AGE,
        _QUOTA,
        _REQUEST,
        _EVICTIONS,
        _MESSAGE,
    ),
    QUOTAS: (
        Column("NAME", lambda found, beside: "  " * beside.depths.get(found["metadata"]["name"], 0) + _name(found)),
        _path("WEIGHT", "spec.weight"),
        _amounts("MIN", "spec.min"),
        _amounts("MAX", "spec.max"),
        _amounts("DESERVED", "status.deserved"),
        _amounts("USED", "status.used"),
        _count("WAITING", "status.waiting"),
        _count("HOLDING", "status.holding"),
        _STATE,
        _AGE,
        _path("PARENT", "spec.parent", wide=True),
        Column("LENDS", lambda found, _: "no" if u.at(found, "spec.lendable") is False else "yes", wide=True),
        _amounts("DEMAND", "status.demand", wide=True),
        _amounts("PREEMPTING", "status.preempting", wide=True),
    ),
    QUEUE_JOBS: (
        _NAME,
        _QUEUE,
        _PRIORITY,
        _count("UNITS", "spec.resourceno"),
        _count("ALLOCATED", "status.allocatedno"),
        _AGE,
        _amounts("RESOURCES", "status.allocated", wide=True),
    ),
    WORKLOADS: (
        _NAME,
        _QUEUE,
        _path("STATE", "status.state"),
        _count("WANTED", "status.wanted"),
        _count("GRANTED", "status.granted"),
        _count("USED", "status.used"),
        _AGE,
    ),
    CHECKS: (_NAME, _path("CONTROLLER", "spec.controllerName"), _STATE, _AGE),
}


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])


def columns(kind: Kind, *, wide: bool = False, everywhere: bool = False) -> list[Column]:
    """The columns to show; those of all namespaces begin with the namespace."""
    chosen = [each for each in COLUMNS[kind] if wide or not each.wide]
    return [_path("NAMESPACE", "metadata.namespace"), *chosen] if everywhere and kind.resource.namespaced else chosen


def row(chosen: Sequence[Column], found: Object, beside: Beside) -> list[str]:
    return [column.cell(found, beside) for column in chosen]


def as_tree(quotas: Sequence[Object]) -> tuple[list[Object], dict[str, int]]:
    """Quotas below their parents, by name, and how deep each is; one whose parent is not there stands at the top."""
    by_name = {_name(each): each for each in quotas}
    children: dict[str, list[str]] = {}
    for name in sorted(by_name):
        parent = str(u.at(by_name[name], "spec.parent") or "")
        children.setdefault(parent if parent in by_name else "", []).append(name)
    ordered: list[Object] = []
    depths: dict[str, int] = {}
    stack = [(name, 0) for name in reversed(children.get("", []))]
    while stack:
        name, depth = stack.pop()
        depths[name] = depth
        ordered.append(by_name[name])
        stack.extend((child, depth + 1) for child in reversed(children.get(name, [])))
    lost = [each for name, each in sorted(by_name.items()) if name not in depths]  # their own ancestors
    return [*ordered, *lost], depths
