"""The order between lanes.

First the heads that stay within their quota's deserved, then those that would borrow; inside each class the priority
of shared queues, then scores, then the lowest weighted dominant share compared below the common ancestor, then age.
"""

from __future__ import annotations

from usher.core.lanes import Lane
from usher.core.ledger import Node
from usher.core.parking import Rank
from usher.core.state import UnitState
from usher.core.world import World


class LaneOrder:
    """Computes the place of a lane's first unit."""

    def __init__(self, world: World) -> None:
        self._world = world

    def key(self, lane: Lane, unit: UnitState, least: bool = False) -> Rank:
        """The order between lanes; smaller goes first. `least`: as if the oldest lane of its quota were of any age."""
        world, queue, leaf = self._world, lane.queue.spec, unit.leaf
        assert leaf is not None
        age = unit.order[-4:]
        if least:
            turn: Rank = ((), age)
        elif queue.shared:
            turn = (age, 0, age)
        else:
            turn = (age if len(leaf.lanes) == 1 else self._oldest(lane, leaf, age), -queue.priority, age)
        score = 0
        for plugin in world.plugins.scores:
            score += world.guard.call(plugin.name, 0, plugin.score, unit.spec)
        shares = world.shares
        if not shares.policy.entitles:
            return (0, -queue.priority if queue.shared else 0, -score, (), *turn)
        if leaf.parent is world.ledger.root:
            rank: tuple[int, ...] = (leaf.share if leaf.share >= 0 else shares.share(leaf),)
        else:
            rank = tuple(shares.share(node) for node in leaf.path[-2::-1])
        return (borrows(unit), -queue.priority if queue.shared else 0, -score, rank, *turn)

    def _oldest(self, lane: Lane, leaf: Node, age: tuple[int | str, ...]) -> tuple[int | str, ...]:
        """The age that counts among others.

        The queues of one tenant on one quota have one turn among the others, that of their oldest head; whose it is
        their priorities decide. So a tenant cannot raise itself above others by the priority of its queue.
        """
        for other in leaf.lanes:
            found = None if other.queue.spec.shared or other is lane else other.first(self._world.contest)
            if found is not None and found[1].leaf is leaf:
                age = min(age, found[1].order[-4:])
        return age


def borrows(unit: UnitState) -> int:
    """1 if with all it asks for its quota would use more than it deserves, else 0."""
    leaf = unit.leaf
    assert leaf is not None
    used, held, deserved = leaf.used, leaf.held, leaf.deserved
    for resource, amount in unit.ask.items():
        if held:
            amount += held.get(resource, 0)
        if used.get(resource, 0) + amount > deserved.get(resource, 0):
            return 1
    return 0


def entitled_to_some(unit: UnitState) -> bool:
    """With the least it asks for, and once what leaves has gone, its quota would stay within what it deserves."""
    leaf = unit.leaf
    assert leaf is not None
    used, held, leaving, deserved = leaf.used, leaf.held, leaf.leaving, leaf.deserved
    return all(
        used.get(name, 0) + held.get(name, 0) - leaving.get(name, 0) + amount <= deserved.get(name, 0)
        for name, amount in unit.ask_least.items()
    )
