"""What outlives a crash: the unit as the API server holds it, and its job's pods.

`Record.stored()` is all that a new engine is told of the past. Called by the fake cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from usher.core.commands import Admit, Grow, Reserve, SetPhase
from usher.core.model import CheckState, Grant, Nomination, Stored, Unit
from usher.core.phases import HOLDING, Cause, Phase

TAKEN_BACK = frozenset({Cause.RECLAIMED, Cause.PREEMPTED, Cause.DRAINED})


@dataclass(slots=True)
class Record:
    """One unit and its job."""

    spec: Unit
    known: Unit
    """As the engine was told last; a write that rests on another one is refused, as by a resourceVersion."""
    uid: int
    runs_ms: int
    phase: Phase = Phase.NEW
    grants: tuple[Grant, ...] = ()
    quota: str = ""
    evicting: str = ""
    admitted_ms: int = 0
    ran_ms: int = 0
    generation: int = 0
    evictions: int = 0
    retries: int = 0
    requeue_at_ms: int = 0
    inactive: str = ""
    nomination: Nomination | None = None
    has_run: bool = False
    checks: dict[str, CheckState] = field(default_factory=dict)
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

    def stored(self) -> Stored:
        """What a new engine learns: quota as reserved, or as the pods have it, whichever is more."""
        return Stored(
            phase=self.phase,
            grants=larger(self.grants, self.pods),
            quota=self.quota,
            evicting=self.evicting,
            admitted_ms=self.admitted_ms,
            ran_ms=self.ran_ms,
            generation=self.generation,
            evictions=self.evictions,
            retries=self.retries,
            requeue_at_ms=self.requeue_at_ms,
            inactive=self.inactive,
            nomination=self.nomination,
            has_run=self.has_run,
            checks=dict(self.checks),
        )

    def takes(self, command: Admit | Reserve | Grow) -> bool:
        """Whether the API would accept this write now."""
        if self.deleting or self.succeeded is not None:
            return False
        if isinstance(command, Grow):
            return bool(self.grants) and not self.evicting and command.generation == self.generation
        return command.generation >= self.generation and not self.evicting and not self.pods

    def write_admission(self, command: Admit | Reserve, now: int) -> None:
        """Quota is reserved; the job is resumed by a step of its own."""
        self.grants, self.quota, self.generation = command.grants, command.quota, command.generation
        self.admitted_ms, self.nomination = now, None
        if isinstance(command, Reserve):
            self.phase = Phase.RESERVED
            self.checks = dict.fromkeys(command.checks, CheckState.PENDING)
        else:
            self.phase = Phase.DEQUEUED

    def write_phase(self, command: SetPhase) -> None:
        self.phase = command.phase
        self.retries, self.requeue_at_ms = command.retries, command.requeue_at_ms
        self.inactive = command.inactive
        self.has_run |= command.phase is Phase.RUNNING
        if command.phase not in HOLDING:
            self.grants, self.quota, self.evicting, self.checks = (), "", "", {}

    def pods_gone(self, now: int) -> None:
        """Nothing of an evicted job is left."""
        if self.resumed:
            self.ran_ms += now - self.admitted_ms
        self.evictions += self.evicting in {cause.value for cause in TAKEN_BACK}
        self.pods, self.resumed, self.ready = (), False, False
        self.spell += 1

    def held(self) -> tuple[Grant, ...]:
        """What it really takes: pods that are there, and quota that is reserved for pods to come."""
        if self.succeeded is not None or (self.evicting and not self.pods):
            return self.pods
        return larger(self.grants, self.pods)


def larger(one: tuple[Grant, ...], other: tuple[Grant, ...]) -> tuple[Grant, ...]:
    """The larger count of each pod set."""
    counts: dict[str, int] = {}
    for grant in (*one, *other):
        counts[grant.pod_set] = max(counts.get(grant.pod_set, 0), grant.count)
    return tuple(Grant(name, count) for name, count in counts.items())
