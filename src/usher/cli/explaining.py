"""An explanation from what is stored: the status of a unit and of its Queue, as the engine's own kind of answer.

The words are those that the manager wrote, so they say the same; the numbers behind them and those who hold what is
missing are not stored. `usher explain` uses it for people who may not read everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from usher.api.names import EVICTED, QUOTA_RESERVED
from usher.cli.kinds import Object
from usher.cli.system import system_namespace
from usher.cli.units import at, condition, holds_quota, key_of, positions
from usher.core.explain import Explanation
from usher.core.ledger import Blocked


def from_status(unit: Object, queues: Sequence[Object]) -> Explanation:
    """How a unit stands, by what was written of it."""
    queue = _queue_of(unit, queues)
    evicted = condition(unit, EVICTED)
    held = holds_quota(unit)
    waiting = at(queue, "status.counts.waiting") if queue is not None else None
    return Explanation(
        unit=key_of(unit),
        phase=str(at(unit, "status.phase") or ""),
        queue=key_of(queue) if queue is not None else str(at(unit, "spec.queue") or ""),
        quota=str(at(unit, "status.quota") or at(unit, "spec.quota") or ""),
        position=None if held else positions(queues).get(key_of(unit)),
        waiting=int(waiting or 0),
        blocked=_blocked(unit),
        behind="",
        holders=(),
        remedy="",
        nominated=bool(at(unit, "status.nomination")),
        stopping=str(evicted.get("reason") or "") if held and evicted.get("status") == "True" else "",
    )


def _queue_of(unit: Object, queues: Sequence[Object]) -> Object | None:
    """The Queue of that name in its own namespace, else the shared one."""
    by_key = {key_of(each): each for each in queues}
    name = at(unit, "spec.queue")
    return by_key.get(f"{unit['metadata'].get('namespace')}/{name}") or by_key.get(f"{system_namespace()}/{name}")


def _blocked(unit: Object) -> Blocked | None:
    reserved = condition(unit, QUOTA_RESERVED)
    sentence = str(reserved.get("message") or "")
    if reserved.get("status") != "False" or not sentence:
        return None
    return Blocked(str(reserved.get("reason") or ""), detail=sentence.rstrip("."))
