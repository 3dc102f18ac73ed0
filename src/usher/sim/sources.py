"""Quotas of other systems in manifests: their objects over time, through the sources that the manager uses.

Called by the manifest loader. What a source finds wrong with an object is an error where it could not have meant
anything (as in the manager, it would be left out), and a note where the rest works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from usher.api.meta import ObjectMeta
from usher.core.events import QuotaChanged, QuotaGone
from usher.core.model import Quota
from usher.quotas.elasticquota import ElasticQuotas
from usher.quotas.objects import ElasticQuota, ElasticQuotaSpec
from usher.quotas.placing import PARENT_INACTIVE, PARENT_MISSING
from usher.quotas.tree import QuotaTree
from usher.sim.objects import Manifest, collected
from usher.sim.problems import Problems

KINDS: Final = {"ElasticQuota": "scheduling.sigs.k8s.io/v1alpha1"}
"""The kinds that are read here, and their versions."""

_WAITS: Final = frozenset({PARENT_MISSING, PARENT_INACTIVE})
"""What may still come right: absence waits."""


@dataclass
class Quotas:
    """What became of the objects."""

    happenings: list[tuple[int, QuotaChanged | QuotaGone]] = field(default_factory=list)
    lives: list[tuple[Quota, int, int | None]] = field(default_factory=list)
    """Each quota as it first was, when it came, and when it went."""


Step = Callable[[], None]


def replay(manifests: Sequence[Manifest], problems: Problems) -> Quotas:
    """Every change of the tree that these objects make, in time."""
    elastic = ElasticQuotas()
    tree = QuotaTree(elastic)
    where: dict[tuple[str, str], str] = {}
    steps: dict[int, list[Step]] = {}
    for item in manifests:
        key = f"{item.namespace}/{item.name}"
        where[item.kind, key] = item.where
        arrives, leaves, put = collected(item, problems, lambda each: _step(each, elastic))
        steps.setdefault(arrives, []).append(put)
        if leaves is not None:
            steps.setdefault(leaves, []).append(partial(elastic.gone, key))
    found, said = Quotas(), set[str]()
    for at_ms in sorted(steps):
        for step in steps[at_ms]:
            step()
        events = tree.take()
        found.happenings.extend((at_ms, event) for event in events)
        _note_lives(found, events, at_ms)
        _say(tree, where, problems, said)
    return found


def _step(item: Manifest, elastic: ElasticQuotas) -> tuple[int, int | None, Step]:
    meta = ObjectMeta(
        name=item.name, namespace=item.namespace, labels=dict(item.labels), annotations=dict(item.annotations)
    )
    spec = _decoded(item, ElasticQuotaSpec)
    return item.arrives_ms(), item.leaves_ms(), lambda: elastic.changed(ElasticQuota(metadata=meta, spec=spec))


def _decoded(item: Manifest, type_: type[Any]) -> Any:
    try:
        return msgspec.convert(item.body.raw.get("spec") or {}, type=type_, strict=False)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at ")
        item.errors.append(f"spec{path.strip('`').removeprefix('$')}: {text[:1].lower()}{text[1:]}")
        return type_()


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
