"""QueueJobs beside their units: what one may use now, and how much of its grant it still holds.

The unit's stored status decides, as for every job (see `usher.runtime.entry`); here `status.allocated` follows it. What
must be given back is announced first, by `shrinkTo` and `shrinkAt`, and falls when that time has come. What its owner
gives up himself, by lowering `resourceno`, changing `resourceunit` or deleting it, goes at once. Quota is given back
when the allocation has fallen and nothing draws on it any more (`usher.runtime.drawing`). Pure; called by `entry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from usher.api import names
from usher.api.conditions import find
from usher.core import events as ev
from usher.core.amounts import Amounts
from usher.core.model import Grant
from usher.core.phases import Cause
from usher.jobkinds.base import Allocation
from usher.runtime.facts import JobFacts, UnitFacts

if TYPE_CHECKING:
    from usher.runtime.entry import Entry


def one_unit(unit: UnitFacts) -> Amounts:
    """What was charged for each unit."""
    return unit.unit.pod_sets[0].request if unit.unit.pod_sets else {}


def wanted_units(unit: UnitFacts | None, job: JobFacts) -> int:
    """How much of what it has its owner still wants; nothing if he wants something else."""
    if unit is None or job.deleting or job.asks != one_unit(unit):
        return 0
    return sum(job.counts.values())


def units_for(amounts: Amounts, each: Amounts) -> int | None:
    """How many units cover this; None: none do."""
    most = 0
    for name, amount in amounts.items():
        if amount > 0:
            if not each.get(name):
                return None
            most = max(most, -(-amount // each[name]))
    return most


def allocation(entry: Entry, may: int) -> Allocation | None:
    """What its status should say; `may`: what it may have by its unit. None: it stays as it is."""
    unit, job = entry.unit, entry.job
    if job is None or job.allocation is None:
        return None
    before, wants = job.allocation, wanted_units(unit, job)
    given = _given(entry, before, min(may, wants), wants)
    if given.units:
        return structs.replace(given, held=True, reason="Allocated", message="")
    said = find(unit.status.conditions, names.QUOTA_RESERVED) if unit is not None else None
    if said is None:
        return None if given.units == before.units else structs.replace(given, held=False, reason="Waiting", message="")
    waits = said.status != "True"
    evicting = unit.stored.evicting if unit is not None else ""
    reason, message = (said.reason, said.message) if waits else (evicting or before.reason, "")
    return structs.replace(given, held=False, reason=reason or "Waiting", message=message)


def _given(entry: Entry, before: Allocation, may: int, wants: int) -> Allocation:
    now = min(before.units, wants)  # what its owner does not want any more goes at once
    if now <= may:
        return Allocation(may)
    if not entry.notice_ms:
        return Allocation(may)
    told = before.shrink_to
    if told is None or may < told or not before.shrink_at_ms:
        return Allocation(now, may, entry.looked_ms + entry.notice_ms)
    if before.shrink_at_ms <= entry.looked_ms:
        return Allocation(may)
    return Allocation(now, may, before.shrink_at_ms)


def holds(entry: Entry, may: int) -> tuple[Grant, ...]:
    """What it holds of its grant: what it may have, has, or what still draws on it, whichever is most."""
    unit, job = entry.unit, entry.job
    assert unit is not None
    has = job.allocation.units if job is not None and job.allocation is not None else 0
    drawn = units_for(entry.drawn, one_unit(unit))
    return tuple(
        Grant(grant.pod_set, grant.count if drawn is None else min(grant.count, max(may, has, drawn)))
        for grant in unit.stored.grants
    )


def observe(entry: Entry, unit: UnitFacts, job: JobFacts) -> list[ev.Event]:
    """What the engine must know of one that may run: it is ready as soon as it is told what it has."""
    if not sum(job.counts.values()):
        return [ev.UnitPaused(entry.key)]
    if job.asks != one_unit(unit):
        return [ev.UnitPaused(entry.key, Cause.CHANGED)]
    return [] if job.suspended else [ev.UnitReady(entry.key)]


def announced(entry: Entry) -> int | None:
    """When it must be looked at again, because a notice ends then."""
    job = entry.job
    at_ms = job.allocation.shrink_at_ms if job is not None and job.allocation is not None else 0
    return at_ms if at_ms > entry.looked_ms else None
