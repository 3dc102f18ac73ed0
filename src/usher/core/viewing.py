"""Makes the views of `core.views` from the engine's memory."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

from usher.core.amounts import add
from usher.core.lanes import QueueState
from usher.core.ledger import Node
from usher.core.phases import FINISHED, Phase
from usher.core.state import UnitState
from usher.core.views import QueueView, QuotaView, UnitView, WaitingView
from usher.core.world import World


def quota_view(world: World) -> list[QuotaView]:
    """The tree, root first, children by name below their parents, then the quotas that take no part."""
    views: list[QuotaView] = []
    waiting, holding = _counts(world)
    stack = [world.ledger.root]
    while stack:
        node = stack.pop()
        views.append(_node_view(world, node, waiting.get(node, 0), holding.get(node, 0)))
        stack.extend(sorted(node.children, key=lambda child: child.name, reverse=True))
    for name, problem in sorted(world.ledger.problems.items()):
        quota = world.quotas[name]
        views.append(
            QuotaView(name, quota.parent, quota.weight, quota.lends, quota.min, quota.max, {}, {}, {}, {}, problem)
        )
    return views


def _counts(world: World) -> tuple[dict[Node, int], dict[Node, int]]:
    """By node: units that wait and units that hold quota, there or below."""
    waiting: dict[Node, int] = {}
    for queue in world.queues.values():
        for unit in queue.members.values():
            if unit.leaf is not None and not unit.grants:
                waiting[unit.leaf] = waiting.get(unit.leaf, 0) + 1
    holding = {node: len(node.units) for node in [world.ledger.root, *world.ledger.nodes.values()] if node.units}
    return _with_ancestors(waiting), _with_ancestors(holding)


def _with_ancestors(counts: dict[Node, int]) -> dict[Node, int]:
    total: dict[Node, int] = {}
    for node, count in counts.items():
        above: Node | None = node
        while above is not None:
            total[above] = total.get(above, 0) + count
            above = above.parent
    return total


def _node_view(world: World, node: Node, waiting: int, holding: int) -> QuotaView:
    quota = node.quota
    root = node.parent is None
    demand: dict[str, int] = {}
    sharers = [node.sharer] if node.sharer is not None else [child.sharer for child in node.children]
    for sharer in sharers:
        for amounts in sharer.demand.values() if sharer is not None else ():
            add(demand, amounts)
    return QuotaView(
        name=node.name,
        parent="" if node.parent is None else node.parent.name,
        weight=quota.weight,
        lends=quota.lends,
        min=quota.min,
        max=node.limit,
        deserved=dict(world.share_amount() if root else node.deserved),
        used={name: amount for name, amount in node.used.items() if amount},
        preempting=dict(node.held),
        demand=demand,
        waiting=waiting,
        holding=holding,
        wants={key: dict(amounts) for key, amounts in node.demand.items()},
    )


def queue_views(world: World) -> list[QueueView]:
    """All queues by key, from one look at what is charged."""
    holding: dict[QueueState, list[tuple[Node, UnitState]]] = {}
    for node in [world.ledger.root, *world.ledger.nodes.values()]:
        for unit in node.units.values():
            if unit.queue is not None:
                holding.setdefault(unit.queue, []).append((node, unit))
    return [_queue_view(world, key, holding.get(world.queues[key], ())) for key in sorted(world.queues)]


def _queue_view(world: World, key: str, holding: Sequence[tuple[Node, UnitState]]) -> QueueView:
    queue = world.queues[key]
    used: dict[str, int] = {}
    preempting: dict[str, int] = {}
    phases: dict[Phase, int] = {}
    nodes: dict[Node, None] = {lane.leaf: None for lane in queue.lanes.values() if lane.leaf is not None}
    for node, unit in holding:
        add(used, unit.charged)
        nodes[node] = None
        phases[unit.phase] = phases.get(unit.phase, 0) + 1
    for unit in queue.members.values():
        if unit.leaf is not None:
            nodes[unit.leaf] = None
        add(preempting, unit.held)
    if key in world.asking:
        nodes[world.asking[key]] = None
    deserved: dict[str, int] = {}
    for node in nodes:
        if node.parent is not None:
            add(deserved, node.deserved)
    policies = world.plugins.queue_policies
    problem = "" if queue.spec.policy in policies else f"there is no queue policy {queue.spec.policy}"
    problem = world.guard.disabled.get(queue.policy.name, problem)
    waiting = sum(not unit.grants for unit in queue.members.values())
    return QueueView(key, queue.policy.name, waiting, queue.holding, deserved, used, preempting, problem, phases)


def unit_view(unit: UnitState) -> UnitView:
    ended = unit.phase in FINISHED
    return UnitView(
        key=unit.key,
        queue=unit.queue.spec.key if unit.queue is not None else "",
        quota=unit.charged_to or (unit.leaf.name if unit.leaf is not None and not ended else ""),
        phase=unit.phase,
        priority=unit.rank,
        grants=unit.grants,
        charged=dict(unit.charged),
        evictions=unit.evictions,
        evicting=unit.evicting.value if unit.evicting is not None else "",
        nominated=unit.nomination is not None,
    )


def waiting_line(world: World, key: str) -> list[UnitState]:
    """The units that wait in a queue, first to last."""
    queue = world.queues[key]
    return sorted((unit for unit in queue.members.values() if not unit.grants), key=lambda unit: unit.order)


def line_view(world: World, key: str, most: int) -> list[WaitingView]:
    """The first units that wait in a queue."""
    queue = world.queues.get(key)
    if queue is None or not most:
        return []
    waiting = (unit for unit in queue.members.values() if not unit.grants)
    first = nsmallest(most, waiting, key=lambda unit: unit.order)
    return [WaitingView(unit.spec.namespace, unit.spec.name, unit.rank) for unit in first]


def position(world: World, key: str) -> int | None:
    """Its place in its queue, from 1; None if it does not wait in one."""
    unit = world.units.get(key)
    if unit is None or unit.queue is None or unit.grants or key not in unit.queue.members:
        return None
    return 1 + sum(other.order < unit.order for other in unit.queue.members.values() if not other.grants)
