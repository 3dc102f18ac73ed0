"""What happened in a run, in columns of machine integers: 200,000 jobs are some tens of megabytes, not gigabytes.

The driver (`cluster.Simulation`) writes; summaries and reports read. Times are milliseconds, −1 means never. A unit is
its index in the scenario's works.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from usher.core.amounts import Amounts
from usher.core.model import Grant, PodSet
from usher.core.phases import Cause
from usher.sim.scenario import Work

NEVER: Final = -1
ARRIVED, RESERVED, ADMITTED, GREW, SHRANK, EVICTED, FINISHED, FAILED, LEFT, HAPPENED = range(10)
"""What a line of the log says; of HAPPENED the index is the scenario's happening, of all others the unit."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the log."""

    at_ms: int
    what: int
    index: int
    cause: Cause | None = None
    by: str = ""
    """For whom it was taken, if it was."""


class Tenant:
    """What the units that were charged to one quota got in all."""

    __slots__ = ("evictions", "finished", "ran_ms", "units", "used", "waited_ms", "waits")

    def __init__(self) -> None:
        self.units = 0
        self.finished = 0
        self.evictions = 0
        self.ran_ms = 0
        self.waited_ms = 0
        self.used: dict[str, int] = defaultdict(int)
        """Amount × milliseconds, by resource."""
        self.waits: array[int] = array("q")


class Records:
    """The books of one run."""

    def __init__(self, works: Sequence[Work]) -> None:
        count = len(works)
        self.works = works
        self.admitted = array("q", [NEVER]) * count
        self.finished = array("q", [NEVER]) * count
        self.left = array("q", [NEVER]) * count
        self.waiting_since = array("q", [NEVER]) * count
        self.running_since = array("q", [NEVER]) * count
        self.waited = array("q", [0]) * count
        self.ran = array("q", [0]) * count
        self.evictions = array("i", [0]) * count
        self.quota: list[str] = [""] * count
        """The one that was charged last."""
        self.spells_unit, self.spells_from, self.spells_to = array("i"), array("q"), array("q")
        """Every time that a unit ran: who, since when, until when."""
        self.used: dict[str, dict[str, int]] = {}
        """By quota, amount × milliseconds of each resource."""
        self.decisions = 0
        self.shrinks = 0
        self._log_at, self._log_what, self._log_index = array("q"), array("b"), array("i")
        self._log_why: dict[int, tuple[Cause, str]] = {}
        self._holds: dict[int, tuple[int, tuple[Grant, ...]]] = {}

    def arrive(self, index: int, now: int) -> None:
        self.waiting_since[index] = now
        self.log(ARRIVED, index, now)

    def admit(self, index: int, now: int, quota: str, grants: tuple[Grant, ...]) -> None:
        self.waited[index] += now - self.waiting_since[index]
        self.waiting_since[index] = NEVER
        self.admitted[index] = self.running_since[index] = now
        self.quota[index] = quota
        self._holds[index] = (now, grants)
        self.log(ADMITTED, index, now)

    def resize(self, index: int, now: int, grants: tuple[Grant, ...]) -> None:
        """A running unit has other pods from now on."""
        self._account(index, now)
        self._holds[index] = (now, grants)

    def stop(self, index: int, now: int) -> None:
        """An admitted unit has no pods any more."""
        since = self.running_since[index]
        if since == NEVER:
            return
        self._account(index, now)
        del self._holds[index]
        self.ran[index] += now - since
        self.running_since[index] = NEVER
        self.spells_unit.append(index)
        self.spells_from.append(since)
        self.spells_to.append(now)

    def wait_again(self, index: int, now: int) -> None:
        if self.waiting_since[index] == NEVER:
            self.waiting_since[index] = now

    def end(self, index: int, now: int, what: int) -> None:
        """It finished, failed or was deleted."""
        self.stop(index, now)
        if self.waiting_since[index] != NEVER:
            self.waited[index] += now - self.waiting_since[index]
            self.waiting_since[index] = NEVER
        (self.left if what == LEFT else self.finished)[index] = now
        self.log(what, index, now)

    def log(self, what: int, index: int, now: int, cause: Cause | None = None, by: str = "") -> None:
        if cause is not None:
            self._log_why[len(self._log_at)] = (cause, by)
        self._log_at.append(now)
        self._log_what.append(what)
        self._log_index.append(index)

    def close(self, now: int) -> None:
        """The run is over: what still runs or waits is counted up to here, and goes on doing so."""
        for index in sorted(self._holds):
            self._account(index, now)
            since = self.running_since[index]
            self._holds[index] = (now, self._holds[index][1])
            self.ran[index] += now - since
            self.spells_unit.append(index)
            self.spells_from.append(since)
            self.spells_to.append(now)
        for index, since in enumerate(self.waiting_since):
            if since != NEVER:
                self.waited[index] += now - since

    def charge(self, quota: str, amounts: Amounts, ms: int) -> None:
        """A quota was charged with this for so long, for no unit."""
        used = self.used.setdefault(quota, defaultdict(int))
        for resource, amount in amounts.items():
            used[resource] += amount * ms

    def lines(self) -> Iterator[Line]:
        """The log in order."""
        for number in range(len(self._log_at)):
            cause, by = self._log_why.get(number, (None, ""))
            yield Line(self._log_at[number], self._log_what[number], self._log_index[number], cause, by)

    @property
    def lines_count(self) -> int:
        return len(self._log_at)

    def tenants(self) -> dict[str, Tenant]:
        """Per quota that was ever charged or is waited for, by name."""
        found: dict[str, Tenant] = defaultdict(Tenant)
        for index, work in enumerate(self.works):
            if self.waiting_since[index] == NEVER and self.left[index] == self.finished[index] == self.admitted[index]:
                continue  # it has not come yet
            tenant = found[self.quota[index] or work.unit.quota or work.unit.queue]
            tenant.units += 1
            tenant.finished += self.finished[index] != NEVER
            tenant.evictions += self.evictions[index]
            tenant.ran_ms += self.ran[index]
            tenant.waited_ms += self.waited[index]
            tenant.waits.append(self.waited[index])
        for quota, used in self.used.items():
            for resource, amount_ms in used.items():
                found[quota].used[resource] += amount_ms
        return {name: found[name] for name in sorted(found)}

    def _account(self, index: int, now: int) -> None:
        since, grants = self._holds[index]
        if now == since:
            return
        used = self.used.get(self.quota[index])
        if used is None:
            used = self.used[self.quota[index]] = defaultdict(int)
        pod_sets = self.works[index].unit.pod_sets
        for grant in grants:
            for resource, amount in _set_named(pod_sets, grant.pod_set).request.items():
                used[resource] += amount * grant.count * (now - since)


def _set_named(pod_sets: tuple[PodSet, ...], name: str) -> PodSet:
    first = pod_sets[0]
    return first if first.name == name else next(pod_set for pod_set in pod_sets if pod_set.name == name)
