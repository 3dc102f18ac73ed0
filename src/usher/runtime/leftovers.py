"""What is charged from what is found, where the stored status alone would say too little. Pure; for the manager."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from usher.core.events import UnitChanged
from usher.core.model import Grant, PodSet, Stored, Unit
from usher.core.phases import Phase
from usher.runtime.entry import Entry, loose_pods
from usher.runtime.facts import PodFacts, UnitFacts


def past_of(entry: Entry, unit: UnitFacts) -> Stored:
    """What is stored; where pods are alive, at least what they are."""
    stored, alive = unit.stored, loose_pods(entry)
    if not stored.grants or not alive:
        return stored
    return replace(stored, grants=tuple(Grant(g.pod_set, max(g.count, alive.get(g.pod_set, 0))) for g in stored.grants))


def left_behind(namespace: str, name: str, quota: str, alive: Sequence[PodFacts]) -> UnitChanged:
    """Pods that have outlived job and unit, as a unit that must stop."""
    sets = {each.pod_set: each.request for each in alive}
    counts = {pod_set: sum(each.pod_set == pod_set for each in alive) for pod_set in sets}
    spec = Unit(namespace, name, tuple(PodSet(pod_set, counts[pod_set], sets[pod_set]) for pod_set in sets))
    grants = tuple(Grant(pod_set, count) for pod_set, count in counts.items())
    return UnitChanged(spec, Stored(Phase.RUNNING, grants, quota, "Deactivated", generation=1))
