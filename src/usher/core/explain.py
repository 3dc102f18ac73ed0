"""Why a unit waits, to start or to grow: one structured answer, rendered to text once for everybody who shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from usher.core.amounts import format_amount
from usher.core.ledger import Blocked
from usher.core.model import ROOT
from usher.core.phases import FINISHED, HOLDING

if TYPE_CHECKING:
    from usher.core.ledger import Node
    from usher.core.state import UnitState
    from usher.core.world import World

HOLDERS_MAX = 5
"""How many of those that hold what is missing are named."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who holds what the unit lacks."""

    unit: str
    quota: str
    amount: int
    beyond_deserved: bool
    """Its quota uses more than it deserves, so this may be taken back."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a unit stands and what would help."""

    unit: str
    phase: str
    queue: str
    quota: str
    position: int | None
    waiting: int
    """Units in the same queue that wait, this one included."""
    blocked: Blocked | None
    behind: str
    """The unit at the head, if that is what holds it up."""
    holders: tuple[Holder, ...]
    remedy: str
    nominated: bool
    pods: tuple[int, int] | None = None
    """Of a unit that runs and would grow: how many pods it has, and how many it wants."""
    stopping: str = ""
    """Of a unit that was told to stop and whose pods are still there: why."""
    stopping_for: str = ""
    """And for which unit, if for one."""

    def text(self) -> str:
        """One paragraph for people."""
        if self.phase in FINISHED:
            return f"{self.unit} has ended: {self.phase}."
        if self.stopping:
            whom = f" for {self.stopping_for}" if self.stopping_for else ""
            return f"{self.unit} is {self.phase} and is being stopped{whom} ({self.stopping})."
        if self.blocked is None and not self.behind and not self.nominated:
            return f"{self.unit} is {self.phase or 'new'}."
        parts = []
        if self.position is not None:
            parts.append(f"{self.unit} is number {self.position} of {self.waiting} in queue {self.queue}.")
        elif self.pods is not None:
            parts.append(f"{self.unit} runs with {self.pods[0]} of {self.pods[1]} pods.")
        else:
            parts.append(f"{self.unit} is {self.phase}." if self.phase in HOLDING else f"{self.unit} waits.")
        if self.nominated:
            parts.append("Room is being kept for it.")
        if self.behind:
            what = "It waits" if self.pods is None else "To grow it waits"
            parts.append(f"{what} behind {self.behind}, which must start first.")
        if self.blocked is not None:
            parts.append(render(self.blocked, self.behind, grows=self.pods is not None))
        if self.holders:
            parts.append(f"Held by {self._held()}.")
        if self.remedy:
            parts.append(self.remedy)
        return " ".join(parts)

    def _held(self) -> str:
        """Those that hold what is missing, quota by quota."""
        resource = self.blocked.resource if self.blocked is not None else ""
        quotas: dict[tuple[str, bool], list[str]] = {}
        for holder in self.holders:
            named = f"{holder.unit} ({format_amount(resource, holder.amount)})"
            quotas.setdefault((holder.quota, holder.beyond_deserved), []).append(named)
        return "; ".join(
            f"{', '.join(units)} in {'no quota' if quota == ROOT else f'quota {quota}'}"
            + (", beyond what it deserves" if beyond else "")
            for (quota, beyond), units in quotas.items()
        )


def render(blocked: Blocked, who: str = "", grows: bool = False) -> str:
    """The refusal in words, with its numbers; of the unit `who` that is before it, or of itself.

    `grows`: it runs and asks for more.
    """
    if not blocked.resource and not blocked.detail:
        if blocked.check == "MaxUnits":
            return (
                f"Queue {blocked.node} runs at most {blocked.limit} {_units(blocked.limit)} at a time, "
                f"and {blocked.used} {'holds' if blocked.used == 1 else 'hold'} quota."
            )
        if blocked.check == "MaxJobs":
            return (
                f"Quota {blocked.node} lets at most {blocked.limit} {_units(blocked.limit)} start at a time, "
                f"and {blocked.used} {'holds' if blocked.used == 1 else 'hold'} it."
            )
    if not blocked.resource:
        return f"{blocked.detail[:1].upper()}{blocked.detail[1:]}."
    grows = grows and not who
    who = who or "It"
    resource = blocked.resource
    asked, used = format_amount(resource, blocked.asked), format_amount(resource, blocked.used)
    limit = format_amount(resource, blocked.limit)
    more = " more" if grows else ""
    where = "the cluster" if blocked.node == ROOT else f"quota {blocked.node}"
    match blocked.check:
        case "NeverFits":
            kept = f", {format_amount(resource, blocked.held)} kept by quotas that do not lend" if blocked.held else ""
            if grows:
                return (
                    f"With a pod more it has {asked} {resource}, and {where} has {limit} in all{kept}: it cannot grow."
                )
            return f"{who} asks for {asked} {resource}, and {where} has {limit} in all{kept}: it can never start."
        case "NotGuaranteed" if blocked.asked > blocked.limit:
            must = f"{who} may not be preempted, so all it has must fit in the min of {where}, which is {limit}"
            if grows:
                return f"{must}; with a pod more it has {asked} {resource}: it cannot grow."
            return f"{must}; it asks for {asked} {resource}: it can never start."
        case "NotGuaranteed":
            return (
                f"{who} may not be preempted, so the {asked} {resource}{more} it asks for must fit in the min of "
                f"{where}; {used} of {limit} are taken by such units."
            )
        case "Guaranteed":
            return (
                f"{who} asks for {asked} {resource}{more}; in {where} {used} of {limit} are in use, "
                "or kept by quotas that do not lend."
            )
        case _:
            held = f", {format_amount(resource, blocked.held)} kept for others" if blocked.held else ""
            return f"{who} asks for {asked} {resource}{more}; {where} has {limit}, {used} in use{held}."


def _units(count: int) -> str:
    return "unit" if count == 1 else "units"


def explain(world: World, key: str) -> Explanation | None:
    from usher.core.viewing import position, waiting_line  # who only shows an answer does without the world

    unit = world.units.get(key)
    if unit is None:
        return None
    blocked, behind = _obstacle(world, unit)
    holders = _holders(world, unit, blocked)
    queue = unit.queue
    return Explanation(
        unit=key,
        phase=unit.phase.value,
        queue=queue.spec.key if queue is not None else unit.spec.queue,
        quota=unit.leaf.name if unit.leaf is not None else unit.spec.quota,
        position=position(world, key),
        waiting=len(waiting_line(world, queue.spec.key)) if queue is not None and queue.spec.key in world.queues else 0,
        blocked=blocked,
        behind=behind,
        holders=holders,
        remedy=_remedy(unit, blocked, behind, holders),
        nominated=unit.nomination is not None,
        pods=_pods(unit),
        stopping=unit.evicting.value if unit.evicting is not None else "",
        stopping_for=unit.evicted_for,
    )


def reason(world: World, key: str) -> tuple[str, str]:
    """Why a unit waits, in a word and a sentence: what an explanation says first, without the work for the rest."""
    unit = world.units.get(key)
    blocked, behind = _obstacle(world, unit) if unit is not None else (None, "")
    if behind:
        return "Behind", f"It waits behind {behind}, which must start first."
    return (blocked.check, render(blocked)) if blocked is not None else ("Waiting", "")


def _pods(unit: UnitState) -> tuple[int, int] | None:
    if not unit.growable:
        return None
    return sum(grant.count for grant in unit.grants), sum(pods.count for pods in unit.spec.pod_sets)


def _obstacle(world: World, unit: UnitState) -> tuple[Blocked | None, str]:
    """What stops it itself, with the numbers of this moment, or the unit before it whose fate it shares."""
    group = unit.group
    if unit.grants and unit.blocked is None and unit.leaf is not None and unit.leaf.parent is None:
        detail = f"quota {unit.charged_to} does not exist: what it holds is charged to the cluster"
        return Blocked("QuotaMissing", unit.charged_to, detail=detail), ""
    if group is None:
        return (_stopped(world, unit) if unit.nomination is not None else unit.blocked), ""
    lane = group.lane
    if lane.blocker is not None:
        return _stopped(world, lane.blocker), lane.blocker.key
    first = group.top()
    if lane.blocks and first is not None and first is not unit:
        return _stopped(world, first), first.key
    return _stopped(world, unit) or (first.blocked if first is not None else None), ""


def _stopped(world: World, unit: UnitState) -> Blocked | None:
    """What stops it now; where amounts do not, what stopped it last."""
    if unit.leaf is None or (unit.blocked is not None and not unit.blocked.resource):
        return unit.blocked
    aside, ask = ((unit,), unit.ask) if unit.nomination is not None else ((), unit.ask_least)
    with world.ledger.without_holds(aside):
        return world.ledger.blocked(unit.leaf, ask, not unit.spec.preemptible) or unit.blocked


def _holders(world: World, unit: UnitState, blocked: Blocked | None) -> tuple[Holder, ...]:
    if blocked is None or not blocked.resource or blocked.check in ("NeverFits", "NotGuaranteed"):
        return ()
    resource = blocked.resource
    found: list[tuple[int, str, UnitState, Node]] = []
    stack = [world.ledger.nodes.get(blocked.node, world.ledger.root)]
    while stack:
        node = stack.pop()
        stack.extend(node.children)
        for key, other in node.units.items():
            amount = other.charged.get(resource, 0)
            if amount and other is not unit:
                found.append((-amount, key, other, node))
    found.sort(key=lambda entry: entry[:2])
    return tuple(
        Holder(key, node.name, -negative, node.used.get(resource, 0) > node.deserved.get(resource, 0))
        for negative, key, _, node in found[:HOLDERS_MAX]
    )


def _remedy(unit: UnitState, blocked: Blocked | None, behind: str, holders: tuple[Holder, ...]) -> str:
    if blocked is None or behind or (unit.grants and blocked.check == "QuotaMissing"):
        return ""
    does, do = ("grows", "grow") if unit.growable else ("starts", "start")
    missing = format_amount(blocked.resource, max(blocked.used + blocked.held + blocked.asked - blocked.limit, 0))
    match blocked.check:
        case "QueueMissing" if not blocked.node:
            return f"It {does} when it names a queue that exists."
        case "QueueMissing":
            return f"It {does} when the queue is created."
        case "QueueForbidden":
            return "Name another queue, or have the queue opened to this namespace."
        case "QuotaForbidden":
            return "Name another quota, or have this namespace added to it."
        case "QuotaMissing":
            return f"It {does} when the quota is created and has a place in the tree."
        case "NotGuaranteed" if blocked.asked <= blocked.limit:
            return f"To {do} it needs {missing} more {blocked.resource} free in that min."
        case "NeverFits" | "NotGuaranteed":
            return "Ask for less, or have the limit raised."
        case "Inactive":
            return "It takes part again when its owner activates it."
        case "MaxUnits" | "MaxJobs":
            return "It starts when one of them ends."
        case "RequestMissing":
            return "Give every pod such a request."
        case "QueueStopped":
            return f"It {'grows' if unit.growable else 'goes on'} when the queue is resumed."
        case "Max" | "Capacity" | "Held" | "Guaranteed" if holders:
            return f"To {do} it needs {missing} more {blocked.resource} free there."
        case _:
            return ""
