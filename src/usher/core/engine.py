"""The engine's one door: `Engine.handle(events, now_ms) -> commands`.

Events are taken in order, then reminders whose time has come, then one pass decides who starts (`core.contest`).
Nothing is decided before every kind has been listed once (`Synced`). The engine never reads a clock, awaits or logs;
the outcome of a command comes back as an event, and until then what the command assumed is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from usher.core import events as ev
from usher.core.commands import Command, Nominate, SetPhase, WakeAt
from usher.core.contest import Contest
from usher.core.explain import Explanation, explain, reason
from usher.core.lanes import QueueState
from usher.core.lifecycle import Lifecycle
from usher.core.model import CheckState, Grant, Settings, StopPolicy
from usher.core.phases import FINISHED, Cause, Phase, after
from usher.core.plugins import Plugins, QueuePolicy
from usher.core.restore import go_on, restore
from usher.core.state import UnitState, granted_amounts
from usher.core.viewing import line_view, position, queue_views, quota_view, unit_view
from usher.core.views import QueueView, QuotaView, UnitView, WaitingView
from usher.core.world import World, count_shape

OBJECTION_MAX = 500
"""How much of what a check says is repeated."""


class Engine:
    """Decides who may start, when, and who must give back."""

    def __init__(self, settings: Settings, plugins: Plugins) -> None:
        self._world = World(settings, plugins)
        self._lifecycle = Lifecycle(self._world)
        self._synced = False
        self._requests: dict[str, dict[str, int]] = {}
        self._woken_at: int | None = None
        self._unsent: list[Command] = []
        """What was found necessary before decisions could begin."""
        self._handlers: dict[type, Callable[[Any], None]] = {
            ev.Synced: self._on_synced,
            ev.CapacityChanged: self._on_capacity_changed,
            ev.QueueChanged: self._on_queue_changed,
            ev.QueueGone: self._on_queue_gone,
            ev.QuotaChanged: self._on_quota_changed,
            ev.QuotaGone: self._on_quota_gone,
            ev.UnitChanged: self._on_unit_changed,
            ev.UnitGone: self._on_unit_gone,
            ev.UnitReady: self._on_unit_ready,
            ev.UnitUnready: self._on_unit_unready,
            ev.UnitStopped: self._on_unit_stopped,
            ev.UnitPaused: self._on_unit_paused,
            ev.UnitShrunk: self._on_unit_shrunk,
            ev.UnitFinished: self._on_unit_finished,
            ev.UnitReactivated: self._on_unit_reactivated,
            ev.CheckAnswered: self._on_check_answered,
            ev.Confirmed: self._on_confirmed,
            ev.Refused: self._on_refused,
        }

    # -- the door -------------------------------------------------------------------------------------------------

    def handle(self, events: Sequence[ev.Event], now_ms: int) -> list[Command]:
        """Take what happened, decide, and say what must be done."""
        world = self._world
        world.now_ms = max(now_ms, world.now_ms)
        world.out = self._unsent
        world.started = set()
        for event in events:
            self._handlers[type(event)](event)
        if not self._synced:
            return []
        self._unsent = []
        self._settle()
        go_on(world, self._lifecycle)
        while (due := world.due()) is not None:
            self._remind(*due)
        for unit in world.cleared.values():
            if world.units.get(unit.key) is unit:
                self._lifecycle.checks_ready(unit)
        world.cleared = {}
        self._compete()
        for unit in world.newcomers.values():
            if unit.phase is Phase.NEW and not unit.grants:
                unit.phase = after(unit.phase, Cause.NOT_ADMITTED)
                world.out.append(SetPhase(unit.key, unit.phase, Cause.NOT_ADMITTED))
        world.newcomers.clear()
        next_ms = world.next_ms
        if next_ms is not None and (next_ms != self._woken_at or next_ms <= world.now_ms):
            world.out.append(WakeAt(next_ms))
        self._woken_at = next_ms
        return world.out

    def _compete(self) -> None:
        """Decide who starts, anew if a plug-in on which that depends was disabled on the way."""
        while True:
            if self._world.relay:
                self._settle()
            Contest(self._world, self._lifecycle).run()
            if not self._world.relay:
                return

    # -- the surroundings -----------------------------------------------------------------------------------------

    def _on_synced(self, event: ev.Synced) -> None:
        if not self._synced:
            self._synced = True
            self._world.relay = True

    def _on_capacity_changed(self, event: ev.CapacityChanged) -> None:
        world = self._world
        shared = event.amounts if event.shared is None else event.shared
        if world.capacity != event.amounts or world.capacity_shared != shared:
            world.capacity, world.capacity_shared = dict(event.amounts), dict(shared)
            world.relay = True

    def _on_queue_changed(self, event: ev.QueueChanged) -> None:
        world, spec = self._world, event.queue
        queue = world.queues.get(spec.key)
        if queue is not None and queue.spec == spec:
            return
        if queue is None:
            queue = world.queues[spec.key] = QueueState(spec, self._policy(spec.policy))
        queue.spec, queue.policy = spec, self._policy(spec.policy)
        world.relay = True

    def _policy(self, name: str) -> QueuePolicy:
        policies = self._world.plugins.queue_policies
        return policies.get(name) or policies[self._world.settings.default_policy]

    def _on_queue_gone(self, event: ev.QueueGone) -> None:
        if self._world.queues.pop(event.key, None) is not None:
            self._world.relay = True

    def _on_quota_changed(self, event: ev.QuotaChanged) -> None:
        if self._world.quotas.get(event.quota.name) != event.quota:
            self._world.quotas[event.quota.name] = event.quota
            self._world.relay = True

    def _on_quota_gone(self, event: ev.QuotaGone) -> None:
        if self._world.quotas.pop(event.name, None) is not None:
            self._world.relay = True

    def _settle(self) -> None:
        """Bring every unit to its place before anything is decided; anew if that disables a plug-in."""
        world = self._world
        while world.relay or world.replace:
            if world.relay:
                world.relay = False
                self._lay_anew()
            again, world.replace = world.replace, {}
            for unit in again.values():
                self._place_again(unit)
        if self._requests:
            self._ask_for_empty_queues()

    def _place_again(self, unit: UnitState) -> None:
        """Room that is kept for it stays kept if it still asks for the same in the same place."""
        world, nomination = self._world, unit.nomination
        if nomination is None or unit.leaf is None:
            world.place(unit)
            return
        leaf, ask, overdue = unit.leaf, unit.ask, not nomination.claimed
        world.drop_nomination(unit, starts=True)
        world.place(unit)
        if unit.group is not None and unit.leaf is leaf and unit.ask == ask:
            node = world.ledger.nodes.get(nomination.node, world.ledger.root)
            self._lifecycle.nominate(unit, node, nomination.claimed, nomination.since_ms)
            return
        world.out.append(Nominate(unit.key, None))
        if overdue and unit.group is not None:
            world.overdue[unit.key] = unit

    def _lay_anew(self) -> None:
        """Quotas, queues or capacity changed: a new tree, every charge and every place on it."""
        world = self._world
        nominations = [(unit, unit.nomination) for unit in world.nominated.values()]
        overdue = list(world.overdue.values())
        world.nominated, world.claimants, world.fresh, world.rankings = {}, {}, {}, {}
        world.waiting = 0
        world.shared_queues = {queue.spec.name: key for key, queue in world.queues.items() if queue.spec.shared}
        world.by_namespace = {
            namespace: name
            for name in sorted(world.quotas, reverse=True)
            for namespace in world.quotas[name].namespaces
        }
        world.ledger.rebuild(world.quotas, world.root_amount())
        world.shares.restart(world.share_amount())
        for queue in world.queues.values():
            queue.lanes, queue.members, queue.holding = {}, {}, 0
        world.asking = {}
        self._requests = {
            key: wanted
            for key, queue in world.queues.items()
            if (wanted := {name: amount for name, amount in queue.spec.request.items() if amount > 0})
        }
        for unit in world.units.values():
            unit.group, unit.nomination, unit.held, unit.demanded = None, None, {}, None
            if unit.grants:
                self._recharge(unit)
        for unit in world.units.values():
            world.place(unit)
        for unit, nomination in nominations:
            if nomination is not None and unit.group is not None:
                node = world.ledger.nodes.get(nomination.node, world.ledger.root)
                self._lifecycle.nominate(unit, node, nomination.claimed, nomination.since_ms)
            else:
                world.out.append(Nominate(unit.key, None))
        world.overdue.update((unit.key, unit) for unit in overdue if unit.group is not None)
        world.claims_changed = True
        self._drain()

    def _recharge(self, unit: UnitState) -> None:
        """Charge what it holds to its quota as it is now, or to the root if that quota is gone."""
        world = self._world
        unit.queue, found, _ = world.locate(unit)
        if unit.queue is not None:
            unit.queue.holding += 1
        if not unit.charged_to and found is not None:
            unit.charged_to = found.name  # it ran before anybody charged it
        name = unit.charged_to
        if name not in world.ledger.nodes and name in world.queues:
            world.stand_in(world.queues[name])
        leaf = world.ledger.nodes.get(name, world.ledger.root)
        unit.leaf = leaf
        leaf.units[unit.key] = unit
        world.ledger.charge(leaf, unit.charged, not unit.spec.preemptible)
        count_shape(leaf, unit.charged, 1)
        if unit.leaving:
            world.ledger.leave(leaf, unit.leaving)

    def _ask_for_empty_queues(self) -> None:
        """A queue without units asks for what its own `request` says."""
        world = self._world
        for key, asks in self._requests.items():
            queue = world.queues[key]
            asking = world.asking.get(key)
            if queue.members or queue.holding:
                if asking is not None:
                    world.shares.demand(asking, asks, -1)
                    del world.asking[key]
            elif asking is None:
                node = world.ledger.nodes.get(queue.spec.quota) if queue.spec.quota else world.stand_in(queue)
                if node is not None:
                    world.shares.demand(node, asks, 1)
                    world.asking[key] = node

    def _drain(self) -> None:
        for unit in list(self._world.units.values()):
            if unit.grants and unit.queue is not None and unit.queue.spec.stop is StopPolicy.HOLD_AND_DRAIN:
                self._lifecycle.evict(unit, Cause.DRAINED)

    # -- units ----------------------------------------------------------------------------------------------------

    def _on_unit_changed(self, event: ev.UnitChanged) -> None:
        world, spec = self._world, event.unit
        key = spec.key
        unit = world.units.get(key)
        if unit is None:
            unit = world.units[key] = UnitState(spec)
            if event.stored is not None:
                restore(world, self._lifecycle, unit, event.stored)
            world.replace[unit.key] = unit
            return
        if unit.spec == spec:
            return
        self._settle()
        self._respecify(unit, event)
        world.replace[unit.key] = unit

    def _respecify(self, unit: UnitState, event: ev.UnitChanged) -> None:
        """Its owner changed it: what it holds follows where it can, the rest counts when it waits again."""
        world, before, spec = self._world, unit.spec, event.unit
        leaf = unit.leaf
        if unit.grants and leaf is not None and before.preemptible != spec.preemptible:
            world.ledger.refund(leaf, unit.charged, not before.preemptible)
            world.ledger.charge(leaf, unit.charged, not spec.preemptible)
        unit.spec = spec
        unit.victim_key = ()
        if not unit.grants:
            return
        if leaf is not None and granted_amounts(spec, unit.grants) != unit.charged:
            self._lifecycle.resized(unit, unit.grants)
        if not spec.active:
            self._lifecycle.evict(unit, Cause.DEACTIVATED)
        if before.max_execution_ms != spec.max_execution_ms and unit.phase is not Phase.RESERVED:
            self._lifecycle.time_execution(unit)
        wanted = {pods.name: pods.count for pods in spec.pod_sets}
        for grant in unit.shrink_to or ():
            wanted[grant.pod_set] = min(grant.count, wanted.get(grant.pod_set, 0))
        if spec.elastic and unit.evicting is None and any(g.count > wanted.get(g.pod_set, 0) for g in unit.grants):
            grants = tuple(Grant(g.pod_set, min(g.count, wanted.get(g.pod_set, 0))) for g in unit.grants)
            if grants != unit.shrink_to:
                self._lifecycle.shrink(unit, grants, Cause.PAUSED, unit.key)

    def _on_unit_gone(self, event: ev.UnitGone) -> None:
        world = self._world
        unit = world.units.pop(event.key, None)
        if unit is None:
            return
        world.replace.pop(event.key, None)
        if unit.leaf is None:
            world.nominated.pop(event.key, None)
        if unit.phase in FINISHED:
            return  # it let go of everything then
        if unit.leaf is not None or not unit.grants:
            world.unplace(unit)
            world.let_go(unit)
            world.forget_demand(unit)
        else:
            world.books.unreserve(unit.spec, unit.charged)  # it was restored, and gone before it got its place

    def _holding(self, key: str) -> UnitState | None:
        unit = self._world.units.get(key)
        return unit if unit is not None and unit.grants else None

    def _on_unit_ready(self, event: ev.UnitReady) -> None:
        unit = self._holding(event.key)
        if unit is None or unit.evicting is not None:
            return
        unit.unready_ms = -1
        if unit.phase is Phase.DEQUEUED:
            self._lifecycle.running(unit)
            if unit.spec.elastic:  # it may grow from now on
                self._world.replace[unit.key] = unit

    def _on_unit_unready(self, event: ev.UnitUnready) -> None:
        unit, world = self._holding(event.key), self._world
        if unit is None or unit.phase is not Phase.RUNNING or unit.unready_ms >= 0:
            return
        unit.unready_ms = world.now_ms
        if world.settings.recovery_timeout_ms:
            at_ms = world.now_ms + world.settings.recovery_timeout_ms
            world.remind(at_ms, "recovery", unit.key, unit.generation)

    def _on_unit_stopped(self, event: ev.UnitStopped) -> None:
        unit = self._holding(event.key)
        if unit is not None and unit.evicting is not None and event.generation == unit.generation:
            self._settle()
            self._lifecycle.stopped(unit)

    def _on_unit_paused(self, event: ev.UnitPaused) -> None:
        unit = self._holding(event.key)
        if unit is not None:
            self._settle()
            self._lifecycle.evict(unit, event.cause)

    def _on_unit_shrunk(self, event: ev.UnitShrunk) -> None:
        unit = self._holding(event.key)
        if unit is None or event.generation != unit.generation:
            return
        self._settle()
        held = unit.grants if unit.before_grow is None else unit.before_grow
        now = {grant.pod_set: grant.count for grant in held}
        grants = tuple(Grant(g.pod_set, min(g.count, now.get(g.pod_set, 0))) for g in event.grants)
        if unit.before_grow is not None:
            unit.before_grow = grants  # what it grows to stays charged until that is known to be done or not
        else:
            self._lifecycle.resized(unit, grants)

    def _on_unit_finished(self, event: ev.UnitFinished) -> None:
        unit = self._world.units.get(event.key)
        if unit is not None:
            self._settle()
            self._lifecycle.finish(unit, event.succeeded)

    def _on_unit_reactivated(self, event: ev.UnitReactivated) -> None:
        unit, world = self._world.units.get(event.key), self._world
        if unit is not None and unit.inactive:
            unit.inactive = ""
            unit.ran_ms = 0
            at_ms = unit.not_before_ms if unit.phase is Phase.TIMEOUT_BACKOFF else 0
            world.out.append(SetPhase(unit.key, unit.phase, Cause.NOT_ADMITTED, unit.retries, at_ms))
            world.replace[unit.key] = unit

    def _on_check_answered(self, event: ev.CheckAnswered) -> None:
        unit = self._holding(event.key)
        if unit is None or unit.phase is not Phase.RESERVED or unit.evicting or event.check not in unit.checks:
            return
        self._settle()
        unit.checks[event.check] = event.state
        match event.state:
            case CheckState.READY:
                self._world.cleared[unit.key] = unit
            case CheckState.RETRY:
                self._lifecycle.evict(unit, Cause.CHECK_RETRY)
            case CheckState.REJECTED:
                why = f": {event.message[:OBJECTION_MAX]}" if event.message else ""
                unit.objection = f"admission check {event.check} rejected it{why}"
                self._lifecycle.evict(unit, Cause.CHECK_REJECTED)
            case _:
                pass

    def _on_confirmed(self, event: ev.Confirmed) -> None:
        unit = self._holding(event.key)
        if unit is not None and event.generation == unit.generation and unit.assumed:
            unit.assumed = unit.spent_nomination = False
            unit.before_grow = None
            unit.refusals = 0
            if unit.spec.elastic:
                self._world.replace[unit.key] = unit

    def _on_refused(self, event: ev.Refused) -> None:
        unit = self._holding(event.key)
        if unit is None or event.generation != unit.generation or not unit.assumed or unit.evicting is not None:
            return
        self._settle()
        if unit.before_grow is not None:
            grants, unit.before_grow, unit.assumed = unit.before_grow, None, False
            self._lifecycle.clear_nomination(unit)
            unit.refusals += 1
            self._lifecycle.pause(unit)
            self._lifecycle.resized(unit, grants)
        elif unit.checks and unit.phase is Phase.DEQUEUED:
            unit.phase = Phase.RESERVED  # as it is written
            self._lifecycle.evict(unit, Cause.CHECK_RETRY)
        else:
            self._lifecycle.forget(unit)

    # -- time -----------------------------------------------------------------------------------------------------

    def _remind(self, kind: str, key: str, generation: int) -> None:
        """Something that waited for its time; it may have become pointless meanwhile."""
        world = self._world
        unit = world.units.get(key)
        if unit is None:
            return
        current = unit.generation == generation
        match kind:
            case "pause" if not unit.grants or unit.growable:
                world.place(unit)
            case "backoff" if current and unit.phase is Phase.TIMEOUT_BACKOFF:
                unit.phase = after(unit.phase, Cause.BACKOFF_OVER)
                world.out.append(SetPhase(unit.key, unit.phase, Cause.BACKOFF_OVER, unit.retries))
                world.place(unit)
            case "overtaken" if unit.overtaken_ms >= 0 and unit.group is not None and unit.nomination is None:
                world.overdue[unit.key] = unit
            case "protection":
                world.claims_changed = True
            case "check" if current and unit.phase is Phase.RESERVED:
                self._lifecycle.evict(unit, Cause.CHECK_TIMEOUT)
            case "start" if current and unit.phase is Phase.DEQUEUED:
                self._lifecycle.evict(unit, Cause.START_TIMEOUT)
            case "execution" if current and unit.phase in (Phase.DEQUEUED, Phase.RUNNING):
                if self._lifecycle.out_of_time(unit, world.now_ms - unit.admitted_ms):
                    self._lifecycle.evict(unit, Cause.MAXIMUM_EXECUTION_TIME)
            case "recovery" if current and unit.unready_ms >= 0:
                if world.now_ms - unit.unready_ms >= world.settings.recovery_timeout_ms:
                    self._lifecycle.evict(unit, Cause.RECOVERY_TIMEOUT)
            case _:
                pass

    # -- what it shows --------------------------------------------------------------------------------------------

    @property
    def world(self) -> World:
        """For invariants, explanations and tests; nobody else reads it, and nobody writes it."""
        return self._world

    def quotas(self) -> list[QuotaView]:
        self._settle()
        self._world.shares.ensure()
        return quota_view(self._world)

    def queues(self) -> list[QueueView]:
        self._settle()
        self._world.shares.ensure()
        return queue_views(self._world)

    def line(self, queue: str, most: int) -> list[WaitingView]:
        """The first units that wait in a queue, in order."""
        return line_view(self._world, queue, most)

    def queue_of(self, key: str) -> str:
        """The key of the Queue of a unit; empty while there is none."""
        found = self._world.units.get(key)
        return found.queue.spec.key if found is not None and found.queue is not None else ""

    def unit(self, key: str) -> UnitView | None:
        found = self._world.units.get(key)
        return None if found is None else unit_view(found)

    def position(self, key: str) -> int | None:
        return position(self._world, key)

    def explain(self, key: str) -> Explanation | None:
        return explain(self._world, key)

    def reason(self, key: str) -> tuple[str, str]:
        """Why a unit waits, in a word and a sentence."""
        return reason(self._world, key)

    def problems(self) -> list[str]:
        """Plug-ins that were disabled, and why."""
        return list(self._world.guard.disabled.values())
