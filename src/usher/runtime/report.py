"""What the statuses of Queues and QueueQuotas should say: pure functions of the engine's views and the stored objects.

The rule: a status says what is so now, and two statuses that say the same are equal, so that nothing is written that
did not change. `usher.runtime.reporter` asks and writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from msgspec import structs

from usher.api import names
from usher.api.codec import as_dict, merge_patch
from usher.api.conditions import with_condition
from usher.api.quantities import quantities_of
from usher.api.queue import QueueItemDetail, QueueStatus, UnitCounts
from usher.api.queuequota import QueueQuota, QueueQuotaStatus
from usher.api.shapes import Api
from usher.core.model import StopPolicy
from usher.core.phases import Phase
from usher.core.views import QueueView, QuotaView, WaitingView
from usher.quotas.source import ACCEPTED, Problem, Verdict, verdict
from usher.runtime.surroundings import KnownQueue

ITEMS_KEY: Final = "active"
"""The key of `queueItemDetails` under which those that wait are listed."""
MESSAGE_MAX: Final = 32_768
STOPPED: Final = "Stopped"
INVALID: Final = "Invalid"
POLICY_MISSING: Final = "PolicyMissing"
QUOTA_MISSING: Final = "QuotaMissing"

Amounts = Mapping[str, int]
S = TypeVar("S", bound=Api)


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """What is shown, and how often."""

    interval_ms: int = 1_000
    """The status of one Queue or QueueQuota is written at most this often."""
    writes_max: int = 50
    """How many of them are written in one interval, all together; those that waited longest go first."""
    items_max: int = 1_000
    items_per_interval: int = 100
    """A longer list is refreshed that much more seldom: one of a thousand every ten intervals."""
    names_of_others: bool = False
    """Whether the list of a shared Queue names the units of every namespace."""
    unit_interval_ms: int = 30_000
    """A unit's status is brought up to date at most this often, where nothing else writes it; notes for a restart that
    no write took along wait as long."""


def queue_verdict(
    known: KnownQueue, view: QueueView | None, quotas: Mapping[str, str], behind: Sequence[Problem] = ()
) -> Verdict:
    """What the condition Active of a Queue says.

    `quotas`: the nodes of the tree, and what is wrong with each; `behind`: what is wrong with the objects of other
    systems that its quota comes from.
    """
    spec = known.object.spec
    problems = [Problem(INVALID, each, takes_part=not known.closed) for each in known.problems]
    if spec.stop_policy is not StopPolicy.NONE:
        drained = ", and what runs is evicted" if spec.stop_policy is StopPolicy.HOLD_AND_DRAIN else ""
        problems.append(Problem(STOPPED, f"stopPolicy is {spec.stop_policy.value}: nothing starts{drained}"))
    if spec.quota and spec.quota != "root" and quotas.get(spec.quota, "missing"):
        why = "does not exist" if spec.quota not in quotas else f"takes no part: {quotas[spec.quota]}"
        problems.append(Problem(QUOTA_MISSING, f"its quota {spec.quota} {why}; units that name no other wait"))
    problems.extend(structs.replace(each, takes_part=True) for each in behind)
    if view is not None and view.problem:
        problems.append(Problem(POLICY_MISSING, f"{view.problem}; {view.policy} is used", takes_part=True))
    return verdict(problems)


def queue_items(line: Sequence[WaitingView], hidden: bool) -> tuple[QueueItemDetail, ...]:
    """The line for people; hidden: without saying whose units they are."""
    return tuple(
        QueueItemDetail(
            name="" if hidden else each.name,
            namespace="" if hidden else each.namespace,
            priority=each.priority,
            position=position,
        )
        for position, each in enumerate(line, start=1)
    )


def queue_status(
    known: KnownQueue,
    view: QueueView,
    items: tuple[QueueItemDetail, ...] | None,
    used: Amounts,
    active: Verdict,
    now_ms: int,
) -> QueueStatus:
    """The status of a Queue; without `items`, the list stays as it is."""
    before = known.object.status or QueueStatus()
    generation = known.object.metadata.generation
    phases = view.phases
    return QueueStatus(
        queue_item_details=before.queue_item_details if items is None else {ITEMS_KEY: items} if items else {},
        counts=UnitCounts(
            waiting=view.waiting,
            reserved=phases.get(Phase.RESERVED, 0),
            dequeued=phases.get(Phase.DEQUEUED, 0),
            running=phases.get(Phase.RUNNING, 0),
        ),
        deserved=_shown(view.deserved),
        allocated=_shown(view.used),
        used=_shown(used),
        preempting=_shown(view.preempting),
        observed_generation=generation,
        conditions=_active(before.conditions, active, generation, now_ms),
    )


def quota_status(
    found: QueueQuota, view: QuotaView | None, problems: Sequence[Problem], now_ms: int
) -> QueueQuotaStatus:
    """The status of a QueueQuota; without a view, it stands for no node."""
    before = found.status or QueueQuotaStatus()
    generation = found.metadata.generation
    conditions = _active(before.conditions, verdict(problems), generation, now_ms)
    if view is None:
        return QueueQuotaStatus(observed_generation=generation, conditions=conditions)
    return QueueQuotaStatus(
        deserved=_shown(view.deserved),
        used=_shown(view.used),
        demand=_shown(view.demand),
        preempting=_shown(view.preempting),
        waiting=view.waiting,
        holding=view.holding,
        observed_generation=generation,
        conditions=conditions,
    )


def patch_between(before: S | None, after: S) -> dict[str, Any]:
    """The merge patch of an object whose status this is; empty if nothing changed."""
    if before == after:
        return {}
    inside = merge_patch({} if before is None else as_dict(before), as_dict(after))
    return {"status": inside} if inside else {}


def _active(conditions: tuple[Any, ...], active: Verdict, generation: int, now_ms: int) -> tuple[Any, ...]:
    reason = active.reason or ACCEPTED
    message = active.message[:MESSAGE_MAX]
    return with_condition(
        conditions, names.ACTIVE, active.active, reason, message, now_ms=now_ms, generation=generation
    )


def _shown(amounts: Amounts) -> dict[str, str | int]:
    return quantities_of({name: amount for name, amount in amounts.items() if amount})
