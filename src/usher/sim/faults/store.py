"""What outlives a crash: the unit as the API server holds it, and its job's pods.

`Record.stored()` is all that a new engine is told of the past. Called by the fake cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from usher.core.commands import Admit, Command, Grow, Reserve
from usher.core.model import Grant, Stored, Unit
from usher.core.phases import Phase
from usher.core.written import written


@dataclass(slots=True)
class Record:
    """One unit and its job."""

    spec: Unit
    known: Unit
    """As the engine was told last; a write that rests on another one is refused, as by a resourceVersion."""
    uid: int
    runs_ms: int
    past: Stored = field(default_factory=Stored)
    """The unit's status, as the API server holds it."""
    # The job, as the cluster has it.
    pods: tuple[Grant, ...] = ()
    resumed: bool = False
    ready: bool = False
    succeeded: bool | None = None
    """None: it has not ended."""
    deleting: bool = False
    grown: int = 0
    """Counts the Grows that were carried out."""
    spell: int = 0
    """Counts starts and stops of its pods."""

    @property
    def key(self) -> str:
        return self.spec.key

    @property
    def phase(self) -> Phase:
        return self.past.phase

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What is reserved for it."""
        return self.past.grants

    @property
    def evicting(self) -> str:
        return self.past.evicting

    @property
    def generation(self) -> int:
        return self.past.generation

    def stored(self) -> Stored:
        """What a new engine learns: quota as reserved, or as the pods have it, whichever is more."""
        return replace(self.past, grants=larger(self.past.grants, self.pods))

    def takes(self, command: Admit | Reserve | Grow) -> bool:
        """Whether the API would accept this write now."""
        if self.deleting or self.succeeded is not None:
            return False
        if isinstance(command, Grow):
            return bool(self.grants) and not self.evicting and command.generation == self.generation
        return command.generation >= self.generation and not self.evicting and not self.pods

    def write(self, command: Command, now_ms: int) -> None:
        self.past = written(self.past, command, now_ms)

    def change(self, **fields: object) -> None:
        """What others than Usher write, and what the cluster finds."""
        self.past = replace(self.past, **fields)  # type: ignore[arg-type]

    def pods_gone(self) -> None:
        """Nothing of an evicted job is left."""
        self.pods, self.resumed, self.ready = (), False, False
        self.spell += 1

    def held(self) -> tuple[Grant, ...]:
        """What it really takes: pods that are there, and quota that is reserved for pods to come."""
        if self.succeeded is not None or (self.evicting and not self.pods):
            return self.pods
        return larger(self.past.grants, self.pods)


def larger(one: tuple[Grant, ...], other: tuple[Grant, ...]) -> tuple[Grant, ...]:
    """The larger count of each pod set."""
    counts: dict[str, int] = {}
    for grant in (*one, *other):
        counts[grant.pod_set] = max(counts.get(grant.pod_set, 0), grant.count)
    return tuple(Grant(name, count) for name, count in counts.items())
