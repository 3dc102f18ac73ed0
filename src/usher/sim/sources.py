"""Quotas of other systems in manifests: their objects over time, through the sources that the manager uses.

Called by the manifest loader. What a source finds wrong with an object is an error where it could not have meant
anything (as in the manager, it would be left out), and a note where the rest works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from usher.api.meta import ObjectMeta
from usher.core.events import QuotaChanged, QuotaGone
from usher.core.model import Queue, Quota
from usher.quotas.objects import (
    ElasticQuota,
    ElasticQuotaSpec,
    ElasticQuotaTree,
    ElasticQuotaTreeSpec,
    ResourceQuota,
    ResourceQuotaSpec,
)
from usher.quotas.placing import PARENT_INACTIVE, PARENT_MISSING
from usher.quotas.tree import QuotaTree
from usher.runtime.foreign import API_VERSIONS, Foreign
from usher.sim.objects import SYSTEM_NAMESPACE, Manifest, collected
from usher.sim.problems import Problems

KINDS: Final = API_VERSIONS
"""The kinds that are read here, and their versions."""

_TYPES: Final[dict[str, tuple[type[Any], type[Any]]]] = {
    "ElasticQuota": (ElasticQuota, ElasticQuotaSpec),
    "ElasticQuotaTree": (ElasticQuotaTree, ElasticQuotaTreeSpec),
    "ResourceQuota": (ResourceQuota, ResourceQuotaSpec),
}
_WAITS: Final = frozenset({PARENT_MISSING, PARENT_INACTIVE})
"""What may still come right: absence waits."""

Versions = Sequence[tuple[Queue, int, int | None]]
Step = Callable[[], None]


@dataclass
class Quotas:
    """What became of the objects."""

    happenings: list[tuple[int, QuotaChanged | QuotaGone]] = field(default_factory=list)
    lives: list[tuple[Quota, int, int | None]] = field(default_factory=list)
    """Each quota as it first was, when it came, and when it went."""
    queues: list[tuple[Queue, int, int | None]] = field(default_factory=list)
    """What the manager would make: Queues of lone ResourceQuotas."""


@dataclass(frozen=True)
class Around:
    """What else the sources must know."""

    queues: Versions
    namespaces: Mapping[str, Mapping[str, str]]
    taken: frozenset[str]
    """Namespaces that our own quotas name."""


def replay(manifests: Sequence[Manifest], around: Around, problems: Problems) -> Quotas:
    """Every change of the tree that these objects make, in time."""
    found, foreign = Quotas(), Foreign(SYSTEM_NAMESPACE)
    tree = QuotaTree(*foreign.sources, taken=around.taken)
    for name, labels in around.namespaces.items():
        tree.namespace_changed(name, labels)
    where: dict[tuple[str, str], str] = {}
    steps: dict[int, list[Step]] = {}
    for item in manifests:
        where[item.kind, f"{item.namespace}/{item.name}"] = item.where
        arrives, leaves, thing = collected(item, problems, _read)
        steps.setdefault(arrives, []).append(partial(foreign.see, item.kind, thing, False))
        if leaves is not None:
            steps.setdefault(leaves, []).append(partial(foreign.see, item.kind, thing, True))
        if item.kind == "ResourceQuota":
            _pair(item, arrives, leaves, around, foreign, found)
    for queue, arrives, leaves in (*around.queues, *found.queues):
        weight = None if queue.quota or queue.shared else queue.weight
        put = foreign.resource.queue_changed
        steps.setdefault(arrives, []).append(partial(put, queue.namespace, queue.name, weight))
        if leaves is not None:
            steps.setdefault(leaves, []).append(partial(put, queue.namespace, queue.name, None))
    said = set[str]()
    for at_ms in sorted(steps):
        for step in steps[at_ms]:
            step()
        events = tree.take()
        found.happenings.extend((at_ms, event) for event in events)
        _note_lives(found, events, at_ms)
        _say(tree, where, problems, said)
    return found


def _read(item: Manifest) -> tuple[int, int | None, Any]:
    kind, spec = _TYPES[item.kind]
    meta = ObjectMeta(
        name=item.name, namespace=item.namespace, labels=dict(item.labels), annotations=dict(item.annotations)
    )
    return item.arrives_ms(), item.leaves_ms(), kind(metadata=meta, spec=_decoded(item, spec))


def _decoded(item: Manifest, type_: type[Any]) -> Any:
    try:
        return msgspec.convert(item.body.raw.get("spec") or {}, type=type_, strict=False)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at ")
        item.errors.append(f"spec{path.strip('`').removeprefix('$')}: {text[:1].lower()}{text[1:]}")
        return type_()


def _pair(item: Manifest, arrives: int, leaves: int | None, around: Around, foreign: Foreign, found: Quotas) -> None:
    """In a managed namespace, a lone ResourceQuota gets a Queue."""
    queues = (queue for queue, _, _ in (*around.queues, *found.queues))
    if foreign.resource.managed(item.namespace) and all(queue.namespace != item.namespace for queue in queues):
        found.queues.append((Queue(item.namespace, item.name), arrives, leaves))


def _note_lives(found: Quotas, events: Sequence[QuotaChanged | QuotaGone], at_ms: int) -> None:
    for event in events:
        match event:
            case QuotaChanged(quota):
                if all(each.name != quota.name or gone is not None for each, _, gone in found.lives):
                    found.lives.append((quota, at_ms, None))
            case QuotaGone(name):
                found.lives = [
                    (each, came, at_ms if each.name == name and gone is None else gone)
                    for each, came, gone in found.lives
                ]


def _say(tree: QuotaTree, where: dict[tuple[str, str], str], problems: Problems, said: set[str]) -> None:
    for ref, each in tree.problems().items():
        for problem in each:
            line = f"{where.get(ref, ref[0])}: {problem.message}"
            if line not in said:
                said.add(line)
                mild = problem.takes_part or problem.reason in _WAITS
                (problems.notes if mild else problems.errors).append(line)
