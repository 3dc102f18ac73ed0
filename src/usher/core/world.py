"""The engine's memory and its primitive steps: place a unit, charge it, let go of it, remember to look again.

`engine` decides what events mean, `contest` decides who starts; both change the world only through the methods here,
so that a unit's place, its charge and its demand never disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from heapq import heappop, heappush

from usher.core.amounts import Amounts
from usher.core.answers import checked
from usher.core.books import Books
from usher.core.commands import Command, Nominate
from usher.core.lanes import Group, QueueState
from usher.core.ledger import Blocked, Ledger, Node
from usher.core.model import Quota, Settings, StopPolicy
from usher.core.phases import FINISHED, Phase
from usher.core.plugins import Guard, Plugins, QueuePolicy
from usher.core.reclaim import Ranking
from usher.core.shares import Shares
from usher.core.state import UnitState, amounts_of, between, full_counts, least_counts


class World:
    """Everything the engine knows."""

    def __init__(self, settings: Settings, plugins: Plugins) -> None:
        self.settings = settings
        self.plugins = plugins = checked(plugins)
        self.guard = Guard(on_disabled=self._forget_answers)
        self.books = Books(plugins.reservers, self.guard)
        self.ledger = Ledger()
        self.shares = Shares(self.ledger, plugins.share, plugins.share_fallback, self.guard)
        self.units: dict[str, UnitState] = {}
        self.queues: dict[str, QueueState] = {}
        self.shared_queues: dict[str, str] = {}
        """Name of a shared queue to its key."""
        self.quotas: dict[str, Quota] = {}
        self.by_namespace: dict[str, str] = {}
        self.capacity: dict[str, int] = {}
        self.capacity_shared: dict[str, int] = {}
        self.now_ms = 0
        self.out: list[Command] = []
        self.started: set[str] = set()
        """Units that this call lets start or grow: it takes nothing from them."""
        self.fresh: dict[Group, None] = {}
        """Groups that are tried in the coming contest whatever is free: something is new about their first unit."""
        self.contest = 0
        self.nominated: dict[str, UnitState] = {}
        self.overdue: dict[str, UnitState] = {}
        """Overtaken for too long; room is kept for the first at each node."""
        self.replace: dict[str, UnitState] = {}
        """Units whose place must be found again before the next contest."""
        self.restored: list[UnitState] = []
        """Units with a past that have not been told what was under way."""
        self.stale_nominations: list[str] = []
        """Units whose stored nomination is of no use any more."""
        self.relay = False
        """Quotas or queues changed, or a plug-in was disabled: the tree is laid anew before the next contest."""
        self.claims_changed = True
        """Any claim may have become possible that was not before."""
        self.came_above: dict[Node, None] = {}
        """Nodes that use more than they deserve, and did not before."""
        self.rankings: dict[Node, Ranking] = {}
        """By parent: its branches, richest first."""
        self.claimants: dict[Group, None] = {}
        """Groups whose first unit had the right to take back but found nothing to take."""
        self.newcomers: dict[str, UnitState] = {}
        """Units that have not been tried yet."""
        self.cleared: dict[str, UnitState] = {}
        """Units whose checks agreed in this call: they start, and nobody takes them back at once."""
        self.waiting = 0
        """Units in lanes."""
        self.asking: dict[str, Node] = {}
        """Queues without units that ask for their own `request`, and the node at which they do."""
        self._timers: list[tuple[int, int, str, str, int]] = []
        self._timer_seq = 0

    # -- timers ---------------------------------------------------------------------------------------------------

    def remind(self, at_ms: int, kind: str, key: str, generation: int = 0) -> None:
        self._timer_seq += 1
        heappush(self._timers, (at_ms, self._timer_seq, kind, key, generation))

    def due(self) -> tuple[str, str, int] | None:
        """The next reminder whose time has come."""
        if self._timers and self._timers[0][0] <= self.now_ms:
            _, _, kind, key, generation = heappop(self._timers)
            return kind, key, generation
        return None

    @property
    def next_ms(self) -> int | None:
        """When to look again; what was to be looked at and is gone needs no call."""
        timers = self._timers
        while timers and timers[0][3] not in self.units:
            heappop(timers)
        return timers[0][0] if timers else None

    # -- finding a place ------------------------------------------------------------------------------------------

    def queue_of(self, namespace: str, name: str) -> QueueState | None:
        """The queue of that name in the namespace, else the shared one."""
        found = self.queues.get(f"{namespace}/{name}")
        if found is None and name in self.shared_queues:
            found = self.queues[self.shared_queues[name]]
        return found

    def names_of(self, unit: UnitState) -> tuple[str, str]:
        """The queue and the quota that the unit names, or that plug-ins choose for it."""
        spec = unit.spec
        queue, quota = spec.queue, spec.quota
        for mapping in self.plugins.mappings:
            if queue and quota:
                break
            chosen = self.guard.call(mapping.name, None, mapping.map, spec)
            if chosen is not None:
                queue, quota = queue or chosen[0], quota or chosen[1]
        return queue, quota

    def locate(self, unit: UnitState) -> tuple[QueueState | None, Node | None, Blocked | None]:
        """Its queue and purse, and what is wrong with them."""
        namespace = unit.spec.namespace
        named, quota = self.names_of(unit)
        by_namespace = self.by_namespace.get(namespace, "")
        queue = self.queue_of(namespace, named) if named else self._default_queue(namespace, quota or by_namespace)
        if queue is None:
            wanted = named or quota or by_namespace
            detail = f"queue {wanted} does not exist" if wanted else "it names no queue"
            return None, None, Blocked("QueueMissing", wanted, detail=detail)
        spec = queue.spec
        if spec.namespaces is not None and namespace not in spec.namespaces:
            return queue, None, Blocked("QueueForbidden", detail=f"namespace {namespace} may not use queue {spec.name}")
        if not quota:
            quota = (by_namespace or spec.quota) if spec.shared else (spec.quota or by_namespace)
        if not quota:
            return queue, self.stand_in(queue), None
        node = self.ledger.nodes.get(quota)
        if node is None:
            problem = self.ledger.problems.get(quota)
            detail = f"quota {quota} takes no part: {problem}" if problem else f"quota {quota} does not exist"
            return queue, None, Blocked("QuotaMissing", quota, detail=detail)
        if not open_to(node, namespace):
            detail = f"namespace {namespace} may not use quota {quota}, which belongs to others"
            return queue, None, Blocked("QuotaForbidden", quota, detail=detail)
        if node.children:
            return (
                queue,
                None,
                Blocked("QuotaNotLeaf", quota, detail=f"quota {quota} has quotas below it: name one of them"),
            )
        return queue, node, None

    def _default_queue(self, namespace: str, quota: str) -> QueueState | None:
        """The queue of units that name only a quota."""
        found = self.quotas.get(quota)
        if found is not None and found.queue:
            return self.queues.get(found.queue)
        return self.queue_of(namespace, quota)

    def stand_in(self, queue: QueueState) -> Node:
        """The node that stands for a queue whose units have no other purse."""
        name = queue.spec.key
        node = self.ledger.nodes.get(name)
        if node is None:
            node = Node(Quota(name, weight=queue.spec.weight), self.ledger.root)
            self.ledger.root.children.append(node)
            self.ledger.nodes[name] = node
            self.shares.restart(self.share_amount())
        return node

    def share_amount(self) -> dict[str, int]:
        return self._oversold(self.capacity_shared)

    def root_amount(self) -> dict[str, int]:
        return self._oversold(self.capacity)

    def _oversold(self, amounts: Amounts) -> dict[str, int]:
        above, below = self.settings.oversell
        return {resource: amount * above // below for resource, amount in amounts.items()}

    # -- placing --------------------------------------------------------------------------------------------------

    def place(self, unit: UnitState) -> None:
        """Put a unit where it belongs: into a lane, aside with a reason, or nowhere if it waits for nothing."""
        self.unplace(unit)
        if unit.phase in FINISHED:
            return
        waits = not unit.grants
        if not waits and not unit.growable:
            self.demand_held(unit)
            return
        unit.placed = True
        queue, problem = unit.queue, None
        if waits or queue is None:
            queue, leaf, problem = self.locate(unit)
            unit.queue = queue
            if waits:
                unit.leaf = leaf
        if queue is not None:
            queue.members[unit.key] = unit
            cap = queue.spec.max_priority
            unit.rank = unit.spec.priority if cap is None else min(unit.spec.priority, cap)
            unit.order = self._order(unit, queue)
        self._set_ask(unit)
        if unit.phase is Phase.NEW:
            self.newcomers[unit.key] = unit
        unit.blocked = problem or self._aside(unit)
        if unit.blocked is not None:
            self._demand(unit, unit.leaf, unit.charged)
            return
        assert unit.leaf is not None
        assert queue is not None
        self._demand(unit, unit.leaf, _sum(unit.charged, unit.ask))
        self.join(unit)

    def join(self, unit: UnitState) -> None:
        """Into its lane, to be tried in the coming contest."""
        assert unit.queue is not None
        assert unit.leaf is not None
        lane = unit.queue.lane_for(unit.leaf)
        group = lane.group_for(unit, apart=bool(self.plugins.filters))
        group.add(unit)
        self.waiting += 1
        if unit.overtaken_ms >= 0:
            self._join_overtaken(unit)
        backfills = unit.spec.max_execution_ms is not None and bool(self.nominated) and not lane.blocks
        if group.park is None or group.top() is unit or backfills:
            self.open_group(group)

    def _join_overtaken(self, unit: UnitState) -> None:
        """It takes part again, and its time may have come while it did not."""
        if 0 < self.reserve_after_ms(unit) <= self.now_ms - unit.overtaken_ms:
            self.overdue[unit.key] = unit

    def reserve_after_ms(self, unit: UnitState) -> int:
        """How long it may be overtaken before room is kept for it; 0: for ever."""
        chosen = unit.queue.spec.reserve_after_ms if unit.queue is not None else None
        return self.settings.reserve_after_ms if chosen is None else chosen

    def open_group(self, group: Group) -> None:
        """To be tried in the coming contest, whatever is free."""
        group.unpark()
        group.opened = self.contest
        self.fresh[group] = None

    def unplace(self, unit: UnitState) -> None:
        """Out of its queue; what it holds and asks for stays as it is."""
        if unit.nomination is not None:
            self.drop_nomination(unit)
        if not unit.placed:
            return
        unit.placed = False
        self.leave_lane(unit)
        if unit.queue is not None:
            unit.queue.members.pop(unit.key, None)
        self.overdue.pop(unit.key, None)
        self.newcomers.pop(unit.key, None)
        unit.ask = unit.ask_least = {}
        unit.blocked = None

    def leave_lane(self, unit: UnitState) -> None:
        group = unit.group
        if group is None:
            return
        headed = group.lane.blocks and group.top() is unit
        unit.group = None
        self.waiting -= 1
        if headed:
            self.open_group(group)
        elif group.top() is None:
            group.lane.drop(group)
        else:
            group.loosen()

    def _order(self, unit: UnitState, queue: QueueState) -> tuple[int | str, ...]:
        spec = unit.spec
        if unit.rank != spec.priority:
            spec = replace(spec, priority=unit.rank)
        policy = queue.policy
        key = self.guard.call(policy.name, None, policy.key, spec)
        if key is None:
            key = _no_key(policy)
        return (*key, spec.created_ms, spec.seq, spec.namespace, spec.name)

    def _forget_answers(self) -> None:
        """A plug-in was disabled: places, orders and keys that came from it are found again."""
        self.relay = True
        self.shares.choose()
        for unit in self.units.values():
            unit.victim_key = ()

    def _set_ask(self, unit: UnitState) -> None:
        """What it waits for: all of it, or as much as could ever fit; and the least with which it would go on."""
        spec = unit.spec
        if unit.grants:
            first = next(name for name, count in unit.missing().items() if count > 0)
            unit.ask_least = amounts_of(spec.pod_sets, {first: 1})
        elif any(pods.min_count is not None for pods in spec.pod_sets):
            unit.ask_least = amounts_of(spec.pod_sets, least_counts(spec))
        else:
            self.aim(unit, full_counts(spec))
            unit.ask_least = unit.ask  # one dict is enough: there may be a million units
            return
        self.aim(unit, full_counts(spec))
        if unit.ask == unit.ask_least:
            unit.ask_least = unit.ask
        if unit.leaf is not None and unit.ask != unit.ask_least:
            leaf, fixed = unit.leaf, not spec.preemptible
            if self.ledger.never_fits(leaf, _sum(unit.charged, unit.ask), fixed) is not None:
                self.aim_lower(unit, lambda ask: self.ledger.never_fits(leaf, _sum(unit.charged, ask), fixed) is None)

    def aim(self, unit: UnitState, counts: Mapping[str, int]) -> None:
        """Let it ask for these counts beyond what it has."""
        unit.target = counts
        whole, charged = amounts_of(unit.spec.pod_sets, counts), unit.charged
        if charged:
            whole = {name: more for name, amount in whole.items() if (more := amount - charged.get(name, 0)) > 0}
        unit.ask = whole

    def aim_lower(self, unit: UnitState, allowed: Callable[[Amounts], bool]) -> bool:
        """Let it ask for the most that is allowed, between its least and what it asks for; False: nothing is."""
        least = {grant.pod_set: grant.count for grant in unit.grants} or least_counts(unit.spec)
        most = dict(unit.target)
        least = {name: min(least.get(name, 0), count) for name, count in most.items()}
        low, high = (1 if unit.grants else 0), sum(most.values()) - sum(least.values()) - 1
        before = unit.target

        def fits(step: int) -> bool:
            self.aim(unit, between(least, most, step))
            return allowed(unit.ask)

        if low > high or not fits(low):
            self.aim(unit, before)
            return False
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        self.aim(unit, between(least, most, low))
        return True

    def _aside(self, unit: UnitState) -> Blocked | None:
        """Why a unit does not take part now, though its queue and quota are there."""
        assert unit.queue is not None
        assert unit.leaf is not None
        if not unit.spec.active or unit.inactive:
            return Blocked("Inactive", detail=unit.inactive or "it is not active")
        if unit.queue.spec.stop is not StopPolicy.NONE:
            return Blocked("QueueStopped", detail=f"queue {unit.queue.spec.name} is stopped")
        if unit.phase is Phase.TIMEOUT_BACKOFF or unit.not_before_ms > self.now_ms:
            failed = "a failed start" if not unit.grants else "it was refused more pods"
            return Blocked("Backoff", detail=f"it waits after {failed}", limit=unit.not_before_ms)
        for resource in sorted(unit.leaf.quota.requires | unit.queue.spec.requires):
            if any(each.count and not each.request.get(resource) for each in unit.spec.pod_sets):
                detail = f"quota {unit.leaf.name} lets no pod start that has no request for {resource}"
                return Blocked("RequestMissing", unit.leaf.name, detail=detail)
        least = _sum(unit.charged, unit.ask_least)
        return self.ledger.never_fits(unit.leaf, least, not unit.spec.preemptible)

    def demand_held(self, unit: UnitState) -> None:
        """It asks for nothing beyond what it holds."""
        self._demand(unit, unit.leaf, unit.charged)

    def _demand(self, unit: UnitState, leaf: Node | None, amounts: Amounts) -> None:
        before = unit.demanded
        if before is not None:
            if before[0] is leaf and before[1] == amounts:
                return
            self.shares.demand(before[0], before[1], -1)
            unit.demanded = None
        if leaf is not None and amounts:
            self.shares.demand(leaf, amounts, 1)
            unit.demanded = (leaf, amounts)

    def forget_demand(self, unit: UnitState) -> None:
        self._demand(unit, None, {})

    # -- holding --------------------------------------------------------------------------------------------------

    def take_hold(self, unit: UnitState, leaf: Node, amounts: dict[str, int]) -> None:
        """Charge what was granted to a unit that held nothing."""
        unit.charged_to = leaf.name
        leaf.units[unit.key] = unit
        if unit.queue is not None:
            unit.queue.holding += 1
        self._charge(unit, leaf, amounts)
        self.books.reserve(unit.spec, unit.charged)

    def charge_to(self, unit: UnitState, leaf: Node, amounts: dict[str, int]) -> None:
        """Make `amounts` the charge of a unit that holds something else."""
        before = unit.charged
        self._charge(unit, leaf, amounts)
        self.books.resize(unit.spec, before, amounts)

    def _charge(self, unit: UnitState, leaf: Node, amounts: dict[str, int]) -> None:
        fixed = not unit.spec.preemptible
        before, unit.charged = unit.charged, amounts
        unit.leaf = leaf
        unit.victim_key = ()
        if before:
            self.ledger.refund(leaf, before, fixed)
            count_shape(leaf, before, -1)
        self.ledger.charge(leaf, amounts, fixed)
        count_shape(leaf, amounts, 1)
        self.richer(leaf)

    def richer(self, leaf: Node) -> None:
        """What its branches use, less what leaves, may have risen."""
        for node in leaf.path[:-1]:
            ranking = self.rankings.get(node.parent) if node.parent is not None else None
            if ranking is not None:
                ranking.risen(node)

    def let_go(self, unit: UnitState) -> None:
        """Refund everything it holds."""
        if not unit.charged_to:
            return
        leaf, amounts = unit.leaf, unit.charged
        assert leaf is not None
        if unit.leaving:
            self.claims_changed = True  # somebody may have counted on this room and not get it
            self.ledger.unleave(leaf, unit.leaving)
        self.ledger.refund(leaf, amounts, not unit.spec.preemptible)
        count_shape(leaf, amounts, -1)
        leaf.units.pop(unit.key, None)
        self.books.unreserve(unit.spec, amounts)
        if unit.queue is not None:
            unit.queue.holding -= 1
            self.reopen_limited(unit.queue)
        unit.charged, unit.leaving, unit.grants, unit.charged_to = {}, {}, (), ""
        unit.leaf = None
        unit.assumed, unit.before_grow, unit.shrink_to, unit.evicting, unit.evicted_for = False, None, None, None, ""

    def reopen_limited(self, queue: QueueState) -> None:
        """A queue with a limit on its units has room for one more."""
        if queue.spec.max_units is not None:
            for lane in queue.lanes.values():
                for group in lane.groups.values():
                    self.open_group(group)

    # -- nominations ----------------------------------------------------------------------------------------------

    def drop_nomination(self, unit: UnitState, starts: bool = False) -> None:
        """Let go of the room that was kept for it; where the unit starts, its admission says so."""
        unit.nomination = None
        if not starts:
            self.out.append(Nominate(unit.key, None))
        self.nominated.pop(unit.key, None)
        if unit.leaf is None:
            return
        self.ledger.unhold(unit.leaf, unit.held)
        unit.held = {}
        self.claims_changed = self.claims_changed or not starts
        if unit.queue is not None:
            lane = unit.queue.lane_for(unit.leaf)
            if lane.blocker is unit:
                lane.blocker = None
                for group in lane.groups.values():
                    self.open_group(group)


def _no_key(policy: QueuePolicy) -> tuple[int, ...]:
    """For everybody, once a policy is disabled: as long as the keys it gave, with which it will be compared."""
    return (0,) * getattr(policy, "width", 0)


def count_shape(leaf: Node, amounts: Amounts, sign: int) -> None:
    shape = tuple(amounts.items())
    left = leaf.shapes.get(shape, 0) + sign
    if left:
        leaf.shapes[shape] = left
    else:
        del leaf.shapes[shape]


def _sum(first: Amounts, second: Amounts) -> Amounts:
    if not first:
        return second
    total = dict(first)
    for resource, amount in second.items():
        total[resource] = total.get(resource, 0) + amount
    return total


def open_to(node: Node, namespace: str) -> bool:
    """Whether units of a namespace may be charged to a node: the nearest on its path that says whose it is decides."""
    for each in node.path:
        if each.quota.closed:
            return namespace in each.quota.namespaces
    return True
