"""Random worlds: quota trees, queues and units of every kind that the engine knows, small enough to collide."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from usher.core.model import (
    Check,
    Operator,
    PodSet,
    Queue,
    Quota,
    Requirement,
    Settings,
    StopPolicy,
    Unit,
)

NAMESPACES: Final = ("red", "blue", "green")
QUEUES: Final = ("alpha", "beta")
QUOTAS: Final = ("q0", "q1", "q2", "q3", "q4", "q5")
SHARES: Final = ("drf", "drf", "drf", "koordinator", "proportion", "none")
RESOURCES: Final = ("cpu", "memory")
CHECK: Final = "check"


def settings(rng: Random) -> Settings:
    return Settings(
        oversell=rng.choice([(1, 1), (1, 1), (5, 4), (1, 2)]),
        reserve_after_ms=rng.choice([0, 5_000, 60_000]),
        protected_ms=rng.choice([0, 0, 10_000]),
        start_timeout_ms=rng.choice([0, 0, 20_000]),
        recovery_timeout_ms=rng.choice([0, 10_000]),
        check_timeout_ms=rng.choice([0, 15_000]),
        backoff_base_ms=1_000,
        backoff_max_ms=20_000,
        refused_max_ms=5_000,
    )


def capacity(rng: Random) -> dict[str, int]:
    found = {"cpu": 1000 * rng.randint(2, 12)}
    if rng.random() < 0.8:
        found["memory"] = rng.randint(2, 12)
    return found


def quota(rng: Random, name: str) -> Quota:
    """A quota below one of a smaller number, or at the top: never a cycle, sometimes below a missing one."""
    number = QUOTAS.index(name)
    parent = rng.choice(["", "", *QUOTAS[:number]]) if rng.random() < 0.97 else "missing"
    high = _some(rng, 2, 10) if rng.random() < 0.4 else {}
    low = _some(rng, 0, 4) if rng.random() < 0.4 else {}
    low = {resource: min(value, high.get(resource, value)) for resource, value in low.items()}
    return Quota(
        name=name,
        parent=parent,
        min=low,
        max=high,
        weight=rng.choice([1, 1, 1, 2, 3, 0]),
        lends=rng.random() < 0.85,
        namespaces=frozenset({rng.choice(NAMESPACES)} if rng.random() < 0.2 else ()),
    )


def queue(rng: Random, namespace: str, name: str) -> Queue:
    checks = (Check(CHECK),) if rng.random() < 0.15 else ()
    if checks and rng.random() < 0.5:
        checks = (Check(CHECK, (Requirement("checked", Operator.EXISTS),)),)
    shared = namespace == "usher-system"
    return Queue(
        namespace=namespace,
        name=name,
        policy=rng.choice(["FIFO", "Priority", "Priority", "PriorityBlocking"]),
        priority=rng.choice([0, 0, 1, 5]),
        weight=rng.choice([1, 1, 2, 0]),
        quota=rng.choice(["", *QUOTAS]) if rng.random() < 0.5 else "",
        request={"cpu": 1000} if rng.random() < 0.1 else {},
        shared=shared,
        namespaces=frozenset(rng.sample(NAMESPACES, 2)) if shared and rng.random() < 0.2 else None,
        max_priority=rng.choice([None, None, None, 2]),
        max_units=rng.choice([None, None, None, None, 2]),
        stop=rng.choice([StopPolicy.NONE] * 12 + [StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN]),
        checks=checks,
        preempts=rng.random() < 0.3,
        reserve_after_ms=rng.choice([None, None, None, 0, 3_000]),
    )


def unit(rng: Random, namespace: str, name: str, now: int, seq: int) -> Unit:
    elastic = rng.random() < 0.25
    return Unit(
        namespace=namespace,
        name=name,
        pod_sets=tuple(_pod_set(rng, f"s{i}", elastic) for i in range(rng.choice([1, 1, 1, 2]))),
        queue=rng.choice(QUEUES),
        quota=rng.choice(QUOTAS) if rng.random() < 0.6 else "",
        priority=rng.choice([0, 0, 0, 1, 3, -1]),
        created_ms=now // 1000 * 1000,
        seq=seq,
        labels={"checked": "yes"} if rng.random() < 0.5 else {},
        active=rng.random() < 0.97,
        preemptible=rng.random() < 0.85,
        elastic=elastic,
        max_execution_ms=rng.choice([None, None, None, 8_000, 40_000]),
    )


def changed(rng: Random, unit: Unit, holds: bool) -> Unit:
    """What an owner may change: while quota is reserved, not the pods (but the count of an elastic set)."""
    match rng.randrange(5):
        case 0:
            return replace(unit, priority=rng.choice([0, 1, 3]))
        case 1:
            return replace(unit, active=not unit.active)
        case 2 if not holds:
            return replace(unit, queue=rng.choice(QUEUES), quota=rng.choice(["", *QUOTAS]))
        case 3 if unit.elastic:
            pod_sets = tuple(replace(each, count=max(each.min_count or 0, rng.randint(1, 5))) for each in unit.pod_sets)
            return replace(unit, pod_sets=pod_sets)
        case 4 if not holds:
            return replace(unit, pod_sets=(_pod_set(rng, "s0", unit.elastic),))
        case _:
            return replace(unit, priority=rng.choice([0, 1, 3]))


def _pod_set(rng: Random, name: str, elastic: bool) -> PodSet:
    count = rng.choice([1, 1, 2, 3, 4])
    least = None
    if elastic or rng.random() < 0.2:
        least = rng.randint(0 if rng.random() < 0.1 else 1, count)
    request = {resource: _amount(rng, resource, 1, 3) for resource in RESOURCES if rng.random() < 0.8}
    return PodSet(name, count, request or {"cpu": 1000}, least)


def _some(rng: Random, low: int, high: int) -> dict[str, int]:
    return {resource: _amount(rng, resource, low, high) for resource in RESOURCES if rng.random() < 0.7}


def _amount(rng: Random, resource: str, low: int, high: int) -> int:
    return rng.randint(low, high) * (1000 if resource == "cpu" else 1)
