"""What must hold in the cluster, whatever goes wrong: seen from outside the engine, with the pods that really run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from usher.core.amounts import add, subtract
from usher.core.commands import Admit, Command, Evict, Grow, Reserve
from usher.core.engine import Engine
from usher.core.model import ROOT, Grant, PodSet, Quota, Settings
from usher.core.phases import HOLDING, Phase
from usher.sim.faults.store import Record, larger

STRUCTURAL = frozenset(
    {
        "QueueMissing",
        "QueueForbidden",
        "QuotaForbidden",
        "QuotaMissing",
        "QuotaNotLeaf",
        "Inactive",
        "QueueStopped",
        "NeverFits",
        "NotGuaranteed",
        "RequestMissing",
    }
)
"""Reasons for which a unit may wait for ever in a cluster where nothing runs."""


class BrokenError(AssertionError):
    """Something that must hold does not."""


def admitted_or_evicted_once(commands: Sequence[Command]) -> None:
    """No call both lets a unit in and throws it out."""
    let_in = {command.key for command in commands if isinstance(command, Admit | Reserve | Grow)}
    thrown_out = {command.key for command in commands if isinstance(command, Evict)}
    if let_in & thrown_out:
        raise BrokenError(f"one call admits and evicts {sorted(let_in & thrown_out)}")


def within_limits(
    commands: Sequence[Command],
    records: Mapping[str, Record],
    coming: Mapping[str, tuple[Grant, ...]],
    quotas: Mapping[str, Quota],
    limits: Mapping[str, int],
) -> None:
    """Whoever is let in fits, with everything that really runs or was promised, under every limit above it."""
    for command in commands:
        if not isinstance(command, Admit | Reserve | Grow) or command.key not in records:
            continue
        record = records[command.key]
        reserved = record.phase is Phase.RESERVED and not record.evicting and record.grants == command.grants
        if isinstance(command, Admit) and reserved:
            continue  # it fitted when its quota was reserved
        quota = record.past.quota if isinstance(command, Grow) else command.quota
        asked = amounts(record, command.grants)
        if isinstance(command, Grow):
            subtract(asked, amounts(record, record.held()))
        for node in path(quota, quotas):
            used: dict[str, int] = {}
            holders: dict[str, dict[str, int]] = {}
            for other in records.values():
                promised = coming.get(other.key, ()) if other.succeeded is None else ()
                charged = command.quota if other is record and not isinstance(command, Grow) else other.past.quota
                if node in path(charged, quotas) or other is record:
                    holders[other.key] = amounts(other, larger(other.held(), promised))
                    add(used, holders[other.key])
            limit = limits if node == ROOT else quotas[node].max
            for resource, amount in asked.items():
                most = limit.get(resource, 0 if node == ROOT else None)
                if amount > 0 and most is not None and used.get(resource, 0) > most:
                    who = {key: holder[resource] for key, holder in holders.items() if holder.get(resource)}
                    what = f"{type(command).__name__} {command.key}"
                    raise BrokenError(f"{what}: {node} then has {used[resource]} of {most} {resource}: {who}")


def settled(engine: Engine, records: Mapping[str, Record]) -> None:
    """With nothing under way, the store says what the engine thinks."""
    for key, record in records.items():
        view = engine.unit(key)
        if view is None:
            raise BrokenError(f"{key}: the engine has lost it")
        ended = record.phase in (Phase.SUCCEED, Phase.FAILED)
        phase = record.phase
        if view.phase is not phase:
            raise BrokenError(f"{key}: the engine says {view.phase!r}, the store {phase!r}")
        if not ended and dict(_counts(view.grants)) != dict(_counts(record.grants)):
            raise BrokenError(f"{key}: the engine granted {view.grants}, the store has {record.grants}")
        if not ended and view.nominated != (record.past.nomination is not None):
            raise BrokenError(f"{key}: nominated {view.nominated}, the store has {record.past.nomination}")
        if record.pods and record.phase not in HOLDING:
            raise BrokenError(f"{key}: pods {record.pods} in phase {record.phase!r}")
    strangers = [unit for unit in engine.world.units if unit not in records]
    if strangers:
        raise BrokenError(f"the engine knows units that are gone: {strangers}")


def everything_ran(
    engine: Engine, records: Mapping[str, Record], quotas: Mapping[str, Quota], limits: Mapping[str, int]
) -> None:
    """Nothing runs any more: whoever still waits could never run, and says so."""
    for key, record in records.items():
        if record.succeeded is not None:
            continue
        explained, view = engine.explain(key), engine.unit(key)
        blocked = explained.blocked if explained is not None else None
        check = blocked.check if blocked is not None else ""
        alone = view is not None and fits_alone(record, view.quota, quotas, limits)
        if check not in STRUCTURAL and alone:
            said = explained.text() if explained is not None else "nothing"
            raise BrokenError(f"{key}: never ran ({record.phase!r}, {check or 'no reason'}): {said}")


def fits_alone(record: Record, quota: str, quotas: Mapping[str, Quota], limits: Mapping[str, int]) -> bool:
    """Whether the least it can start with fits in an empty cluster, beside what others keep that do not lend."""
    least = amounts(record, tuple(_least(pod_set) for pod_set in record.known.pod_sets))
    above = path(quota, quotas)
    for node in above:
        limit = limits if node == ROOT else quotas[node].max
        for resource, amount in least.items():
            most = limit.get(resource, 0 if node == ROOT else amount)
            kept = sum(
                other.min.get(resource, 0)
                for name, other in quotas.items()
                if not other.lends and name not in above and node in path(name, quotas)
            )
            if amount and amount > most - kept:
                return False
    return True


def _least(pod_set: PodSet) -> Grant:
    return Grant(pod_set.name, pod_set.count if pod_set.min_count is None else min(pod_set.count, pod_set.min_count))


def amounts(record: Record, grants: tuple[Grant, ...]) -> dict[str, int]:
    """What these pods of a unit ask for."""
    total: dict[str, int] = {}
    requests = {pod_set.name: pod_set.request for pod_set in record.known.pod_sets}
    for grant in grants:
        for resource, amount in requests.get(grant.pod_set, {}).items():
            total[resource] = total.get(resource, 0) + amount * grant.count
    return total


def path(quota: str, quotas: Mapping[str, Quota]) -> list[str]:
    """The quota and those above it; what is not in the tree is charged to the root only."""
    names: list[str] = []
    name = quota
    while name in quotas and name not in names:
        names.append(name)
        name = quotas[name].parent
    return [*names, ROOT] if not name else [ROOT]


def root_limits(capacity: Mapping[str, int], settings: Settings) -> dict[str, int]:
    above, below = settings.oversell
    return {resource: amount * above // below for resource, amount in capacity.items()}


def _counts(grants: tuple[Grant, ...]) -> list[tuple[str, int]]:
    return [(grant.pod_set, grant.count) for grant in grants if grant.count]
