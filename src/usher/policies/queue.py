"""The built-in orders inside a queue."""

from __future__ import annotations

from dataclasses import dataclass

from usher.core.model import Unit
from usher.core.plugins import Blocks


@dataclass(frozen=True, slots=True)
class Fifo:
    """Creation order, strict: the head holds up the whole queue."""

    name: str = "FIFO"
    blocks: Blocks = Blocks.QUEUE

    def key(self, unit: Unit) -> tuple[int, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Priority:
    """Priority, then creation; a unit that does not fit is passed over."""

    name: str = "Priority"
    blocks: Blocks = Blocks.NOBODY

    def key(self, unit: Unit) -> tuple[int, ...]:
        return (-unit.priority,)


@dataclass(frozen=True, slots=True)
class PriorityBlocking:
    """Priority, then creation; the head holds up its quota, units of other quotas go on."""

    name: str = "PriorityBlocking"
    blocks: Blocks = Blocks.QUOTA

    def key(self, unit: Unit) -> tuple[int, ...]:
        return (-unit.priority,)
