"""QueueJobs for the tests of them on a real control plane."""

from __future__ import annotations

from typing import Any

from living import Live, Object

from usher.api.names import API_VERSION, QUEUE_JOB


async def queue_job(live: Live, name: str, *, queue: str = "main", namespace: str | None = None, **spec: Any) -> None:
    """A request for `resourceno` units of `resourceunit`, a core unless it says something else."""
    await live.admin.apply(
        {
            "apiVersion": API_VERSION,
            "kind": "QueueJob",
            "metadata": {"name": name, "namespace": namespace or live.namespace},
            "spec": {"queue": queue, "resourceunit": {"cpu": "1"}, **spec},
        }
    )


async def drawing_job(live: Live, name: str, on: str, **said: Any) -> None:
    """A Job that draws on a QueueJob."""
    await live.job(name, queue="", labels={QUEUE_JOB: on}, **said)


def has(status: Object) -> int:
    return int(status.get("allocatedno", 0))


async def until_allocated(live: Live, name: str, units: int, namespace: str | None = None) -> Object:
    """Wait until a QueueJob has so many units, and nothing to give back; its status."""
    return await until_status(
        live, name, f"has {units} units", lambda status: has(status) == units and "shrinkTo" not in status, namespace
    )


async def until_status(live: Live, name: str, why: str, holds: Any, namespace: str | None = None) -> Object:
    """Wait until something holds of the status of a QueueJob; the status."""
    seen: list[Object] = [{}]

    async def there() -> bool:
        seen[0] = (await live.get("queuejob", name, namespace)).get("status", {})
        return bool(holds(seen[0]))

    try:
        await live.wait(f"{name}: {why}", there)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{seen[0]}") from None
    return seen[0]
