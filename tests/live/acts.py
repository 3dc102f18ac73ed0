"""What the tests of jobs do and look at, beside what `living` has."""

from __future__ import annotations

from typing import Any

from living import KINDS, Live

from usher.kube.errors import NotFound

GROUP = "scheduling.x-k8s.io"
Object = dict[str, Any]


def condition(unit: Object, kind: str) -> Object:
    return next((each for each in unit["status"].get("conditions", ()) if each["type"] == kind), {})


def granted(unit: Object) -> int:
    return sum(each["replicas"] for each in unit["status"].get("admissions", ()))


def with_pod(body: Object, **fields: Any) -> Object:
    """A job whose pods also say this."""
    body["spec"]["template"]["spec"].update(fields)
    return body


async def suspended(live: Live, name: str) -> bool:
    return bool((await live.get("job", name))["spec"].get("suspend"))


async def suspend(live: Live, name: str, held: bool) -> None:
    await live.patch("job", name, {"spec": {"suspend": held}})


async def activate(live: Live, job: str, active: bool) -> None:
    unit = await live.unit(job)
    assert unit is not None
    await live.patch("unit", unit["metadata"]["name"], {"spec": {"active": active}})


async def loose_pods(live: Live, job: str) -> list[Object]:
    """Pods of a job that are not over and stand at no gate."""
    return [
        pod
        for pod in await live.pods(job)
        if pod["status"].get("phase") not in ("Succeeded", "Failed") and not pod["spec"].get("schedulingGates")
    ]


async def until_unit(live: Live, job: str, why: str, holds: Any, timeout_s: float = 60) -> Object:
    """Wait until something holds of the unit of a job; the unit."""
    seen: list[Object | None] = [None]

    async def there() -> bool:
        seen[0] = await live.unit(job)
        return seen[0] is not None and "status" in seen[0] and bool(holds(seen[0]))

    try:
        await live.wait(f"{job}: {why}", there, timeout_s)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{(seen[0] or {}).get('status')}") from None
    assert seen[0] is not None
    return seen[0]


async def until_gone(live: Live, kind: str, name: str) -> None:
    async def gone() -> bool:
        try:
            await live.get(kind, name)
        except NotFound:
            return True
        return False

    await live.wait(f"{kind} {name} is gone", gone)


async def until_stopped(live: Live, queue: str = "main") -> None:
    """Wait until the manager knows that a Queue is stopped."""

    async def known() -> bool:
        found = await live.client.get(KINDS["queue"], queue, live.namespace)
        return "status" in found and condition(found, "Active").get("reason") == "Stopped"

    await live.wait(f"{queue} is stopped", known)


async def until_no_unit(live: Live, job: str) -> None:
    async def gone() -> bool:
        return await live.unit(job) is None

    await live.wait(f"{job} has no unit", gone)
