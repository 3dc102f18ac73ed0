"""Short builders for what the engine is told: `unit("a/j1", cpu=2)`, `queue("a/main")`, `quota("a", min=…)`.

Amounts are given as Kubernetes reads them: `cpu=2` is two cores, `memory="4Gi"` is bytes. Used by tests of Usher and of
plug-ins for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from usher.core.amounts import amount
from usher.core.model import Check, PodSet, Queue, Quota, StopPolicy, Unit

Given = Mapping[str, str | int]


def amounts(**given: str | int) -> dict[str, int]:
    """Resources by name; `amounts(cpu=2)` is 2000 millicores."""
    return {resource: amount(resource, text) for resource, text in given.items()}


def unit(
    key: str,
    *,
    count: int = 1,
    least: int | None = None,
    queue: str = "",
    quota: str = "",
    priority: int = 0,
    created_s: int = 0,
    seq: int = 0,
    labels: Mapping[str, str] | None = None,
    active: bool = True,
    fixed: bool = False,
    elastic: bool = False,
    max_s: int | None = None,
    pods: tuple[PodSet, ...] | None = None,
    **request: str | int,
) -> Unit:
    """A unit with one pod set of `count` pods that ask for `request` each, unless `pods` says otherwise."""
    namespace, name = key.split("/")
    return Unit(
        namespace=namespace,
        name=name,
        pod_sets=pods or (PodSet("main", count, amounts(**request), least),),
        queue=queue,
        quota=quota,
        priority=priority,
        created_ms=created_s * 1000,
        seq=seq,
        labels=labels or {},
        active=active,
        preemptible=not fixed,
        elastic=elastic,
        max_execution_ms=None if max_s is None else max_s * 1000,
    )


def pods(name: str, count: int, least: int | None = None, **request: str | int) -> PodSet:
    return PodSet(name, count, amounts(**request), least)


def queue(
    key: str,
    policy: str = "Priority",
    *,
    priority: int = 0,
    weight: int = 1,
    quota: str = "",
    shared: bool = False,
    namespaces: Iterable[str] | None = None,
    max_priority: int | None = None,
    max_units: int | None = None,
    stop: StopPolicy = StopPolicy.NONE,
    checks: Iterable[str | Check] = (),
    preempts: bool = False,
    reserve_after_s: int | None = None,
    **request: str | int,
) -> Queue:
    """A queue; further keywords are what it asks for while it has no unit."""
    namespace, name = key.split("/")
    return Queue(
        namespace=namespace,
        name=name,
        policy=policy,
        priority=priority,
        weight=weight,
        quota=quota,
        request=amounts(**request),
        shared=shared,
        namespaces=None if namespaces is None else frozenset(namespaces),
        max_priority=max_priority,
        max_units=max_units,
        stop=stop,
        checks=tuple(Check(check) if isinstance(check, str) else check for check in checks),
        preempts=preempts,
        reserve_after_ms=None if reserve_after_s is None else reserve_after_s * 1000,
    )


def quota(
    name: str,
    parent: str = "",
    *,
    min: Given | None = None,  # noqa: A002 (the field's name)
    max: Given | None = None,  # noqa: A002
    weight: int = 1,
    lends: bool = True,
    namespaces: Iterable[str] = (),
) -> Quota:
    return Quota(
        name=name,
        parent=parent,
        min=amounts(**(min or {})),
        max=amounts(**(max or {})),
        weight=weight,
        lends=lends,
        namespaces=frozenset(namespaces),
    )


def tenant(
    name: str,
    policy: str = "Priority",
    *,
    parent: str = "",
    min: Given | None = None,  # noqa: A002
    max: Given | None = None,  # noqa: A002
    weight: int = 1,
    lends: bool = True,
    preempts: bool = False,
) -> tuple[Queue, Quota]:
    """A namespace with a queue and a quota, all of one name: `unit("a/j1")` waits in it and is charged to it."""
    return (
        queue(f"{name}/{name}", policy, quota=name, preempts=preempts),
        quota(name, parent, min=min, max=max, weight=weight, lends=lends, namespaces=(name,)),
    )
