"""An admission check: a job that needs licenses starts when there are enough of them.

A unit whose queue names a check of this controller is first `Reserved`: its quota is held while we decide. We say
`Ready`, `Retry` (give the quota back, try again later) or `Rejected` in the unit's `status.admissionChecks`, by
server-side apply, so that only our own entry is ours.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from usher.kube import kubeconfig
from usher.kube.client import Client
from usher.kube.informer import Informer
from usher.kube.resource import untyped

CONTROLLER = "example.com/licenses"
LABEL = "example.com/licenses"
API = ("scheduling.x-k8s.io", "v1alpha1")
CHECKS = untyped(*API, "admissionchecks", "AdmissionCheck", namespaced=False)
UNITS = untyped(*API, "queueunits", "QueueUnit", namespaced=True)
Unit = Mapping[str, Any]


def needs(unit: Unit) -> int:
    """How many licenses a unit needs: a label of its job."""
    text = unit["metadata"].get("labels", {}).get(LABEL, "0")
    return int(text) if text.isdigit() else 0


def decide(unit: Unit, others: Iterable[Unit], total: int) -> tuple[str, str]:
    """The state of our check on a unit that is Reserved, and why."""
    need = needs(unit)
    if need > total:
        return "Rejected", f"it needs {need} licenses, and there are {total}"
    taken = sum(needs(other) for other in others if other.get("status", {}).get("phase") in ("Dequeued", "Running"))
    if taken + need > total:
        return "Retry", f"{taken} of {total} licenses are taken, and it needs {need}"
    return "Ready", f"{need} licenses"


async def answer(client: Client, unit: Unit, check: str, state: str, message: str) -> None:
    meta, now = unit["metadata"], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    entry = {"name": check, "state": state, "message": message, "lastTransitionTime": now}
    body = {"apiVersion": "/".join(API), "kind": "QueueUnit", "status": {"admissionChecks": [entry]}}
    await client.apply(UNITS, meta["name"], meta["namespace"], body, subresource="status", force=True)


async def run(client: Client, total: int) -> None:
    """Answer, one unit after the other, until cancelled."""
    checks: Informer[Unit] = Informer(client, CHECKS)
    units: Informer[Unit] = Informer(client, UNITS)
    async with checks, units:
        await asyncio.gather(checks.synced.wait(), units.synced.wait())
        async for _ in units.subscribe():
            ours = {each["metadata"]["name"] for each in checks.store.list() if _is_ours(each)}
            for unit in sorted(units.store.list(), key=lambda each: each["spec"].get("sequence", 0)):
                for said in unit.get("status", {}).get("admissionChecks", ()):
                    if said["name"] in ours and said["state"] == "Pending" and unit["status"]["phase"] == "Reserved":
                        state, message = decide(unit, units.store.list(), total)
                        await answer(client, unit, said["name"], state, message)


def _is_ours(check: Mapping[str, Any]) -> bool:
    return bool(check["spec"]["controllerName"] == CONTROLLER)


async def main(config: Path | None, total: int) -> None:
    async with Client(kubeconfig.load(config), user_agent="licenses", field_manager="licenses") as client:
        await run(client, total)


if __name__ == "__main__":
    asyncio.run(main(None, int(sys.argv[1])))
