"""A Lease (`coordination.k8s.io/v1`) as the election sees it: who holds it, for how long, in which epoch.

The epoch is `leaseTransitions`, and here every acquisition raises it, also one by a holder of the same name: two
processes never share an epoch. Times in a Lease are for people; nobody decides by them, because clocks differ. What
decides is how long a record stayed as it is, by the observer's own clock: `Observation`.
"""

import datetime
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from usher.kube.moments import micro_time
from usher.kube.resource import untyped

LEASES = untyped("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)

Lease = dict[str, Any]


def boot_clock() -> float:
    """Seconds that also pass while the machine is suspended, where the system can say that."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True)
class LeaseTimes:
    """How long a lease lasts for others, how long for its holder, and how often things are tried.

    The holder stops `duration_s - deadline_s` before anybody may take over: what it had sent by then has arrived, or
    is refused by the fence.
    """

    duration_s: float = 15.0
    deadline_s: float = 10.0
    renew_s: float = 2.0
    retry_s: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_s <= self.renew_s < self.deadline_s < self.duration_s:
            raise ValueError("of a lease's times, retry ≤ renew < deadline < duration must hold")


def holder_of(lease: Lease | None) -> str:
    """Who holds it; empty when nobody does."""
    return (lease or {}).get("spec", {}).get("holderIdentity") or ""


def epoch_of(lease: Lease | None) -> int:
    """The epoch of whoever got it last; 0 before anybody did."""
    return (lease or {}).get("spec", {}).get("leaseTransitions") or 0


def duration_of(lease: Lease) -> float:
    """For how long its holder was promised it."""
    return lease.get("spec", {}).get("leaseDurationSeconds") or 0


def taken(lease: Lease | None, name: str, holder: str, epoch: int, times: LeaseTimes, now: datetime.datetime) -> Lease:
    """The lease as its new holder wants it; what others put into it stays."""
    lease = lease or {"metadata": {"name": name}}
    spec = {
        **lease.get("spec", {}),
        "holderIdentity": holder,
        "leaseTransitions": epoch,
        "leaseDurationSeconds": math.ceil(times.duration_s),
        "acquireTime": micro_time(now),
        "renewTime": micro_time(now),
    }
    return {**lease, "spec": spec}


def renewed(lease: Lease, now: datetime.datetime) -> Lease:
    """The lease, once more."""
    return {**lease, "spec": {**lease["spec"], "renewTime": micro_time(now)}}


def released(lease: Lease, now: datetime.datetime) -> Lease:
    """The lease without a holder; its epoch stays, so that the next one is higher."""
    spec = {key: value for key, value in lease["spec"].items() if key != "holderIdentity"}
    return {**lease, "spec": {**spec, "renewTime": micro_time(now)}}


class Observation:
    """What a candidate saw last, and since when: a lease is free when it did not change for its whole duration."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: tuple[Any, ...] | None = None
        self._since = 0.0

    def free_in_s(self, lease: Lease, at_least_s: float) -> float:
        """How long until it may be taken, if nobody renews it; 0 or less: now."""
        seen = (lease["metadata"].get("uid"), lease["metadata"].get("resourceVersion"))
        if seen != self._seen:
            self._seen, self._since = seen, self._clock()
        if not holder_of(lease):
            return 0.0
        return self._since + max(duration_of(lease), at_least_s) - self._clock()
