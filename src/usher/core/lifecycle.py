"""The steps of a unit's life, each of which changes the world and says so by a command.

`engine` calls them because of events, `contest` because of decisions. Every change of phase goes through the table.
"""

from __future__ import annotations

from collections.abc import Mapping

from usher.core.commands import Admit, Evict, Grow, Nominate, Reserve, SetPhase, Shrink
from usher.core.ledger import Node
from usher.core.model import CheckState, Grant, Nomination
from usher.core.phases import BACKOFF_CAUSES, FINISHED, Cause, Phase, after
from usher.core.state import UnitState, as_grants, granted_amounts
from usher.core.world import World

TAKEN_BACK = frozenset({Cause.RECLAIMED, Cause.PREEMPTED, Cause.DRAINED})
"""The causes that count as an eviction of the unit by others."""
SET_ASIDE = {
    Cause.CHECK_REJECTED: "an admission check rejected it",
    Cause.MAXIMUM_EXECUTION_TIME: "its maximum execution time is over",
    Cause.PAUSED: "its owner suspended the job",
}
"""The causes after which a unit takes part again only when its owner says so."""


class Lifecycle:
    """Moves units through their phases."""

    def __init__(self, world: World) -> None:
        self._world = world

    # -- in -------------------------------------------------------------------------------------------------------

    def admit(self, unit: UnitState, protected_ms: int) -> None:
        """Charge what it asks for and let it start (or ask its checks); a unit that runs already grows."""
        world, leaf, queue = self._world, unit.leaf, unit.queue
        assert leaf is not None
        assert queue is not None
        grows = bool(unit.grants)
        before, counts, asked = unit.grants, unit.target, dict(unit.ask)
        unit.spent_nomination = unit.nomination is not None
        if unit.nomination is not None:
            world.drop_nomination(unit, starts=True)
        world.unplace(unit)
        unit.grants = as_grants(unit.spec, counts)
        unit.assumed = True
        world.started.add(unit.key)
        unit.overtaken_ms = -1
        if grows:
            unit.before_grow = before
            world.charge_to(unit, leaf, granted_amounts(unit.spec, unit.grants))
            world.out.append(Grow(unit.key, unit.generation, unit.grants))
            world.place(unit)
            return
        unit.generation += 1
        unit.before_phase = unit.phase
        unit.admitted_ms = world.now_ms
        unit.protected_ms = world.now_ms + max(world.settings.protected_ms, protected_ms)
        unit.unready_ms = -1
        world.take_hold(unit, leaf, asked)
        labels = unit.spec.labels
        unit.checks = {each.name: CheckState.PENDING for each in queue.spec.checks if each.applies_to(labels)}
        if unit.checks:
            unit.phase = after(unit.phase, Cause.QUOTA_RESERVED)
            kept_ms, checks = self._protection(unit), tuple(unit.checks)
            world.out.append(Reserve(unit.key, unit.generation, leaf.name, unit.grants, checks, kept_ms))
            self._remind(world.settings.check_timeout_ms, "check", unit)
        else:
            unit.phase = after(unit.phase, Cause.ADMITTED)
            self._start(unit)
        world.demand_held(unit)

    def checks_ready(self, unit: UnitState) -> None:
        """Let a reserved unit start, if every check agrees."""
        if unit.phase is not Phase.RESERVED or unit.evicting or set(unit.checks.values()) - {CheckState.READY}:
            return
        unit.phase = after(unit.phase, Cause.CHECKS_READY)
        unit.generation += 1  # so that a late word about the reservation is not taken for one about the start
        unit.admitted_ms = self._world.now_ms
        unit.assumed = True
        self._start(unit)

    def _start(self, unit: UnitState) -> None:
        world = self._world
        world.started.add(unit.key)
        kept_ms = self._protection(unit)
        world.out.append(Admit(unit.key, unit.generation, unit.charged_to, unit.grants, kept_ms))
        self._remind(world.settings.start_timeout_ms, "start", unit)
        self.time_execution(unit)

    def _protection(self, unit: UnitState) -> int:
        return unit.protected_ms if unit.protected_ms > self._world.now_ms else 0

    def time_execution(self, unit: UnitState) -> None:
        """Look again when its execution time is over."""
        if unit.spec.max_execution_ms is not None:
            left_ms = max(0, unit.spec.max_execution_ms - unit.ran_ms)
            self._world.remind(unit.admitted_ms + left_ms, "execution", unit.key, unit.generation)

    def out_of_time(self, unit: UnitState, running_ms: int = 0) -> bool:
        most_ms = unit.spec.max_execution_ms
        return most_ms is not None and unit.ran_ms + running_ms >= most_ms

    def _remind(self, delay_ms: int, kind: str, unit: UnitState) -> None:
        if delay_ms > 0:
            self._world.remind(self._world.now_ms + delay_ms, kind, unit.key, unit.generation)

    def running(self, unit: UnitState) -> None:
        unit.phase = after(unit.phase, Cause.PODS_READY)
        unit.has_run = unit.claims = True
        unit.retries = unit.refusals = 0
        self._world.out.append(SetPhase(unit.key, unit.phase, Cause.PODS_READY))

    def forget(self, unit: UnitState) -> None:
        """The admission was refused: as if it had never been, after a pause that grows."""
        world = self._world
        self.clear_nomination(unit)
        world.let_go(unit)
        unit.phase = unit.before_phase
        unit.checks = {}
        unit.generation += 1
        unit.refusals += 1
        self.pause(unit)
        world.place(unit)

    def clear_nomination(self, unit: UnitState) -> None:
        """What it started on was not carried out, so its nomination is still stored."""
        if unit.spent_nomination:
            unit.spent_nomination = False
            self._world.out.append(Nominate(unit.key, None))

    def pause(self, unit: UnitState) -> None:
        world = self._world
        delay_ms = world.settings.refused_base_ms << min(unit.refusals - 1, 32)
        unit.not_before_ms = world.now_ms + min(delay_ms, world.settings.refused_max_ms)
        world.remind(unit.not_before_ms, "pause", unit.key)

    # -- out ------------------------------------------------------------------------------------------------------

    def evict(self, unit: UnitState, cause: Cause, by: str = "") -> None:
        """Tell it to stop; it stays charged until its pods are gone."""
        if unit.evicting is not None or not unit.grants:
            return
        world = self._world
        unit.evicting, unit.evicted_for = cause, by
        self._leave(unit, unit.charged)
        world.out.append(Evict(unit.key, unit.generation, cause, by))
        world.place(unit)

    def shrink(self, unit: UnitState, grants: tuple[Grant, ...], cause: Cause, by: str) -> None:
        """Tell an elastic unit to give back pods; they stay charged until they are gone."""
        unit.shrink_to = grants
        rest = granted_amounts(unit.spec, grants)
        self._leave(unit, {name: amount - rest.get(name, 0) for name, amount in unit.charged.items()})
        self._world.out.append(Shrink(unit.key, unit.generation, grants, cause, by))
        self._world.place(unit)

    def _leave(self, unit: UnitState, amounts: Mapping[str, int]) -> None:
        ledger, leaf = self._world.ledger, unit.leaf
        assert leaf is not None
        if unit.leaving:
            ledger.unleave(leaf, unit.leaving)
        unit.leaving = {name: amount for name, amount in amounts.items() if amount > 0}
        ledger.leave(leaf, unit.leaving)
        self._world.richer(leaf)

    def resized(self, unit: UnitState, grants: tuple[Grant, ...]) -> None:
        """It holds only this much now."""
        world, leaf = self._world, unit.leaf
        assert leaf is not None
        if unit.leaving:
            world.claims_changed = True
            world.ledger.unleave(leaf, unit.leaving)
            unit.leaving = {}
        if unit.shrink_to is not None:
            least = {grant.pod_set: grant.count for grant in unit.shrink_to}
            if all(grant.count <= least.get(grant.pod_set, 0) for grant in grants):
                unit.shrink_to = None
        unit.before_grow = None
        unit.grants = grants
        world.charge_to(unit, leaf, granted_amounts(unit.spec, grants))
        if unit.evicting is not None:
            self._leave(unit, unit.charged)
        elif unit.shrink_to is not None:
            rest = granted_amounts(unit.spec, unit.shrink_to)
            self._leave(unit, {name: amount - rest.get(name, 0) for name, amount in unit.charged.items()})
        world.place(unit)

    def stopped(self, unit: UnitState) -> None:
        """Its pods are gone: the quota is free, and the unit waits again, in back-off or in its queue."""
        world, cause = self._world, unit.evicting
        assert cause is not None
        self.clear_nomination(unit)
        if unit.phase is not Phase.RESERVED:
            unit.ran_ms += world.now_ms - unit.admitted_ms
        world.let_go(unit)
        unit.checks = {}
        unit.generation += 1
        unit.evictions += cause in TAKEN_BACK
        unit.phase = after(unit.phase, cause)
        unit.inactive = SET_ASIDE.get(cause, unit.inactive)
        if cause is Cause.CHECK_REJECTED and unit.objection:
            unit.inactive, unit.objection = unit.objection, ""
        if self.out_of_time(unit):
            unit.inactive = SET_ASIDE[Cause.MAXIMUM_EXECUTION_TIME]
        at_ms = 0
        if cause in BACKOFF_CAUSES:
            unit.claims = False
            unit.retries += 1
            settings = world.settings
            delay_ms = min(settings.backoff_base_ms << min(unit.retries - 1, 32), settings.backoff_max_ms)
            at_ms = unit.not_before_ms = world.now_ms + delay_ms
            world.remind(at_ms, "backoff", unit.key, unit.generation)
        world.out.append(SetPhase(unit.key, unit.phase, cause, unit.retries, at_ms, unit.inactive))
        world.place(unit)

    def finish(self, unit: UnitState, succeeded: bool) -> None:
        if unit.phase in FINISHED:
            return
        world = self._world
        cause = Cause.SUCCEEDED if succeeded else Cause.FAILED
        world.unplace(unit)
        world.let_go(unit)
        world.forget_demand(unit)
        unit.phase = after(unit.phase, cause)
        world.out.append(SetPhase(unit.key, unit.phase, cause))

    # -- room that is kept ----------------------------------------------------------------------------------------

    def nominate(self, unit: UnitState, node: Node, claimed: bool, since_ms: int | None = None) -> None:
        """Keep room for a unit that does not fit yet."""
        world = self._world
        assert unit.leaf is not None
        assert unit.queue is not None
        world.leave_lane(unit)
        world.overdue.pop(unit.key, None)
        unit.nomination = Nomination(claimed, world.now_ms if since_ms is None else since_ms, node.name)
        unit.held = dict(unit.ask)
        world.ledger.hold(unit.leaf, unit.held)
        world.nominated[unit.key] = unit
        lane = unit.queue.lane_for(unit.leaf)
        if lane.blocks:
            lane.blocker = unit
        if since_ms is None:
            world.out.append(Nominate(unit.key, unit.nomination))

    def lapse(self, unit: UnitState) -> None:
        """The room will not come: it waits in its lane again."""
        self._world.place(unit)
