"""What must hold after every call, as a function: tests, the simulator and a debug endpoint call `violations`.

The sums are computed afresh from the units, so a charge that was lost or made twice shows here.
"""

from __future__ import annotations

from collections import defaultdict

from usher.core.engine import Engine
from usher.core.ledger import Node
from usher.core.phases import FINISHED, HOLDING
from usher.core.state import UnitState, granted_amounts
from usher.core.world import World


def violations(engine: Engine) -> list[str]:
    """Everything that is wrong; an empty list in a healthy engine."""
    world = engine.world
    found: list[str] = []
    for unit in world.units.values():
        found += _unit(unit)
    found += _sums(world)
    found += _tree(world)
    found += _lanes(world)
    return found


def _unit(unit: UnitState) -> list[str]:
    found = []
    if bool(unit.grants) != (unit.phase in HOLDING):
        found.append(f"{unit.key}: phase {unit.phase!r} with grants {unit.grants}")
    if unit.grants and unit.charged != granted_amounts(unit.spec, unit.grants):
        found.append(f"{unit.key}: charged {unit.charged} for grants {unit.grants}")
    if not unit.grants and (unit.charged or unit.leaving or unit.evicting or unit.shrink_to is not None):
        found.append(f"{unit.key}: holds nothing but is charged or leaving")
    if unit.phase in FINISHED and (unit.group is not None or unit.nomination is not None or unit.demanded is not None):
        found.append(f"{unit.key}: has ended but still waits, is nominated or demands")
    if unit.nomination is not None and unit.group is not None:
        found.append(f"{unit.key}: is nominated and in a lane")
    if unit.nomination is not None and unit.held != unit.ask:
        found.append(f"{unit.key}: is nominated for {unit.held} but asks for {unit.ask}")
    if unit.evicting is not None and unit.leaving != unit.charged:
        found.append(f"{unit.key}: is evicted but only {unit.leaving} of {unit.charged} is leaving")
    return found


def _sums(world: World) -> list[str]:
    """Every column of every node equals what its units say."""
    sums: dict[str, dict[Node, dict[str, int]]] = {
        column: defaultdict(lambda: defaultdict(int)) for column in ("used", "held", "leaving", "fixed")
    }
    for unit in world.units.values():
        if unit.leaf is None:
            continue
        columns = {"used": unit.charged, "held": unit.held, "leaving": unit.leaving}
        columns["fixed"] = {} if unit.spec.preemptible else unit.charged
        for column, amounts in columns.items():
            for node in unit.leaf.path:
                for resource, amount in amounts.items():
                    sums[column][node][resource] += amount
    found = []
    for node in [world.ledger.root, *world.ledger.nodes.values()]:
        for column, expected in sums.items():
            actual = {name: amount for name, amount in getattr(node, column).items() if amount}
            wanted = {name: amount for name, amount in expected[node].items() if amount}
            if actual != wanted:
                found.append(f"{node.name}: {column} is {actual}, its units say {wanted}")
    return found


def _tree(world: World) -> list[str]:
    """Demand equals what the units ask for; deserved stays within the amount and within `max`."""
    found = []
    asked: dict[Node, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for unit in world.units.values():
        if unit.demanded is not None:
            for resource, amount in unit.demanded[1].items():
                asked[unit.demanded[0]][resource] += amount
    for key, node in world.asking.items():
        for resource, amount in world.queues[key].spec.request.items():
            asked[node][resource] += amount
    for node in [world.ledger.root, *world.ledger.nodes.values()]:
        total: dict[str, int] = defaultdict(int)
        for amounts in node.demand.values():
            for resource, amount in amounts.items():
                total[resource] += amount
        if {k: v for k, v in total.items() if v} != {k: v for k, v in asked[node].items() if v}:
            found.append(f"{node.name}: demand is {dict(total)}, its units ask for {dict(asked[node])}")
        for resource in {name for child in node.children for name in child.deserved}:
            given = sum(child.deserved.get(resource, 0) for child in node.children)
            if given > node.amount.get(resource, 0):
                found.append(f"{node.name}: its children deserve {given} {resource} of {node.amount.get(resource, 0)}")
        if node.parent is not None:
            for resource, limit in node.quota.max.items():
                if node.deserved.get(resource, 0) > limit:
                    found.append(f"{node.name}: deserves {node.deserved[resource]} {resource}, max is {limit}")
    return found


def _lanes(world: World) -> list[str]:
    """Whoever waits and could take part is in exactly one lane, or nominated; nobody is lost."""
    found = []
    waiting = 0
    for unit in world.units.values():
        waiting += unit.group is not None
        if unit.key in world.replace or world.relay or unit.phase in FINISHED:
            continue
        waits = not unit.grants or unit.growable
        placed = unit.group is not None or unit.nomination is not None
        if waits and not placed and unit.blocked is None:
            found.append(f"{unit.key}: waits, but neither in a lane nor with a reason")
        if not waits and placed:
            found.append(f"{unit.key}: waits for nothing, but is in a lane")
    if waiting != world.waiting:
        found.append(f"{world.waiting} units are said to be in lanes, {waiting} are")
    return found
