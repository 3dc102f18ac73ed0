"""Doors on a real control plane: what is installed, a manager with its own account, and people who try them.

    async with doorway(live, policies=True) as way:
        await way.manager()
        await way.as_("tenant").create(JOBS, body, way.team)

Everything is taken away again at the end, so that the next test finds a cluster without doors.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import gc
import importlib
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from living import KINDS, QUICK, Live, account
from msgspec import structs

from usher.app.doors import CONFIGURATIONS
from usher.app.process import ManagerProcess
from usher.install.applying import has_policies
from usher.install.rights import rights
from usher.install.values import Values
from usher.kube import kubeconfig
from usher.kube.client import Client
from usher.kube.config import Impersonation
from usher.kube.errors import Forbidden, KubeError, NotFound
from usher.kube.lease import LEASES
from usher.kube.resource import untyped
from usher.settings.loader import load_text
from usher.testing.waits import eventually
from usher.webhooks import configurations, policies
from usher.webhooks.terms import MANAGED

sys.path.insert(0, str(Path(__file__).parents[1] / "webhooks"))
doorcases = importlib.import_module("doorcases")
"""The table lives with the rules."""

JOBS, PODS = KINDS["job"], KINDS["pod"]
NAMESPACES = untyped("", "v1", "namespaces", "Namespace", namespaced=False)
LEASE = "usher-manager"
USHER = "system:serviceaccount:usher-system:usher"
SETTINGS = (
    "admission.host=127.0.0.1",
    "admission.address=127.0.0.1",
    "admission.port=0",
    "admission.lookInterval=200ms",
    "admission.operatorNamespaces=[kube-system, operators]",
)
GROUP = "admissionregistration.k8s.io"
POLICIES = {
    kind: untyped(GROUP, "v1", plural, kind, namespaced=False)
    for kind, plural in {
        "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
        "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
        "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    }.items()
} | {each.kind: each for each in CONFIGURATIONS}  # fmt: skip
ASKED = ("usher-hold.jobs.batch", "usher-jobs.jobs.batch")
Object = dict[str, Any]


class Doorway:
    """One test's doors, namespaces and people."""

    def __init__(self, live: Live, with_policies: bool, overrides: Sequence[str] = ()) -> None:
        self.live, self.with_policies, self._overrides = live, with_policies, tuple(overrides)
        self.settings = load_text("", "test", (*QUICK, *SETTINGS, *overrides))
        self.team = live.namespace
        self.spaces = {
            "team": self.team,
            **{role: f"{role}-{self.team[-40:]}" for role in ("other", "managed", "empty")},
        }
        self._people: dict[tuple[str, tuple[str, ...]], Client] = {}
        self._held = False

    # -- people -------------------------------------------------------------------------------------------------------

    def as_(self, user: str, *groups: str, rights: bool = False) -> Client:
        """A client that acts as somebody; with `rights` he has only what roles give him, else he may do anything."""
        groups = groups or (() if rights else ("system:masters",))
        client = self._people.get((user, groups))
        if client is None:
            config = kubeconfig.load(self.live.admin.kubeconfig)
            acting = structs.replace(config.user, impersonate=Impersonation(user, groups=groups))
            client = Client(structs.replace(config, user=acting), user_agent="usher-tests", field_manager="usher-tests")
            self._people[user, groups] = client
        return client

    async def refusal(self, attempt: Any) -> str:
        """What the API server says to an attempt; empty: nothing, it was done."""
        try:
            await attempt
        except KubeError as error:
            return error.message
        return ""

    # -- what is there ------------------------------------------------------------------------------------------------

    async def namespaces(self) -> None:
        """The roles of the table, besides the test's own namespace."""
        for role in ("other", "managed", "empty"):
            labels = {MANAGED: "true"} if role in ("managed", "empty") else {}
            body = {"metadata": {"name": self.spaces[role], "labels": labels}}
            await self.live.client.create(NAMESPACES, body)

    async def install(self, *, with_webhook: bool = True) -> None:
        """Rights, policies and configurations. Last those that `effective` asks: an API server takes in policies of a
        kind in the order in which they were made, and goes by all that it has, so the others work when these do."""
        await self.live.admin.apply(*(part.object for part in rights(Values())))
        for each in sorted(self._objects(with_webhook), key=lambda body: body["metadata"]["name"] in ASKED):
            await self.live.client.apply(POLICIES[each["kind"]], each["metadata"]["name"], None, each, force=True)

    def _objects(self, with_webhook: bool = True) -> list[Object]:
        found = policies.objects(self.settings) if self.with_policies else []
        if with_webhook:
            found += configurations.objects(self.settings, policies=self.with_policies)
        return found

    async def manager(self, *overrides: str, leads: bool = True) -> ManagerProcess:
        """A manager with its own account and nothing else; one that does not lead answers reviews all the same."""
        config = await account(self.live.admin)
        if not leads:
            await self._hold("another")
        process = ManagerProcess(config, load_text("", "test", (*QUICK, *SETTINGS, *self._overrides, *overrides)))
        ready = asyncio.Event()
        task = asyncio.ensure_future(process.run(ready.set) if leads else process.run(ready=ready.set))
        self.live.processes.append((process, task))
        waiting = asyncio.ensure_future(ready.wait())
        await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if task.done():
            task.result()
        return process

    async def _hold(self, holder: str | None) -> None:
        """Somebody else has the lease for an hour; None: nobody has it."""
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600 if holder else 1, "renewTime": now}
        self._held = holder is not None
        try:
            await self.live.client.patch(LEASES, LEASE, "usher-system", {"spec": spec})
        except NotFound:
            await self.live.client.create(LEASES, {"metadata": {"name": LEASE}, "spec": spec}, "usher-system")

    async def effective(self, *, with_webhook: bool = True) -> None:
        """Wait until the API server does what was installed: it learns of it by watches. The job that it is asked about
        names a queue that is not there: one that Usher lets start meanwhile would be refused nothing."""
        probe = job_of("probe", queue="not-there")

        async def held() -> bool:
            try:
                made = await self.live.client.create(JOBS, probe, self.team, dry_run=True)
            except KubeError:  # nobody answers yet
                return False
            return bool(made["spec"].get("suspend"))

        await eventually(held, why="jobs that name a queue are held")
        await self.live.client.create(JOBS, probe, self.team)

        async def refused() -> bool:
            try:
                await self.as_("tenant").patch(JOBS, "probe", self.team, {"spec": {"suspend": False}}, dry_run=True)
            except Forbidden:
                return True
            return False

        await eventually(refused, why="jobs are not started by hand")
        await self.live.client.delete(JOBS, "probe", self.team)
        if with_webhook:
            await self.answered()

    async def answered(self) -> None:
        """Wait until the API server asks us about pods of managed namespaces."""

        async def refused() -> bool:
            try:
                await self.as_("tenant").create(PODS, pod_of("probe"), self.spaces["empty"], dry_run=True)
            except KubeError as error:
                return "has no usable Queue" in error.message
            return False

        await eventually(refused, why="pods of a managed namespace without a queue are refused")

    async def close(self) -> None:
        while self.live.processes:
            await self.live.kill()
        # Handshakes that the API server broke off leave sockets to the garbage collector (asyncio before Python 3.12):
        # let it have them now. Later it may find them while pytest parses, which some Python 3.11 do not survive.
        gc.collect()
        for each in self._objects():
            with contextlib.suppress(NotFound):
                await self.live.client.delete(POLICIES[each["kind"]], each["metadata"]["name"])
        if self._held:
            await self._hold(None)
        for role in ("other", "managed", "empty"):
            with contextlib.suppress(NotFound):
                await self.live.client.delete(NAMESPACES, self.spaces[role])
        for client in self._people.values():
            await client.close()


@contextlib.asynccontextmanager
async def doorway(live: Live, *, policies: bool, overrides: Sequence[str] = ()) -> AsyncIterator[Doorway]:
    """`overrides`: settings of what is installed and of every manager."""
    if policies and not await has_policies(live.client):
        pytest.skip("this server has no admission policies of both kinds: Kubernetes before 1.36")
    way = Doorway(live, policies, overrides)
    try:
        await way.namespaces()
        yield way
    finally:
        await way.close()


def job_of(name: str, queue: str = "main", labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """A Job that asks to run at once."""
    said = {**({"scheduling.x-k8s.io/queue-name": queue} if queue else {}), **(labels or {})}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    template = {
        "metadata": {"annotations": {"sim.usher.dev/runs-for": "1h"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": said},
        "spec": {"template": template, **spec},
    }


def pod_of(name: str, gates: Sequence[str] = ()) -> Object:
    spec: Object = {"containers": [{"name": "main", "image": "none"}]}
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
