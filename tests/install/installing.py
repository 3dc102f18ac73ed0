"""A cluster into which tests install Usher, by the command line or by Helm, and from which it is gone afterwards."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from usher.app.process import ManagerProcess
from usher.devcluster.clusters import Cluster
from usher.devcluster.kubectl import KubectlError
from usher.kube.config import Config
from usher.settings.loader import load_text
from usher.testing.waits import eventually
from usher.webhooks.configurations import PORT

if TYPE_CHECKING:
    from living import Live

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "usher"
NAMESPACE = "usher-system"
OVER = ("--take-ownership", "--force-conflicts")
"""For Helm: an anchor that an earlier test's `usher install` has left is taken over."""


@dataclass(frozen=True)
class Done:
    """What a command has said."""

    code: int
    out: str
    err: str


async def ran(*command: str, stdin: str | None = None) -> Done:
    """Run a program to its end."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(None if stdin is None else stdin.encode())
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


class Installing:
    """One cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kubectl = cluster.kubectl
        self.audit_log = cluster.directory / "audit.json"
        self._forgotten: set[str] = set()

    async def usher(self, *arguments: str, stdin: str | None = None) -> Done:
        """The command line, as its user runs it."""
        return await ran(
            sys.executable, "-m", "usher.cli", *arguments, "--kubeconfig", str(self.cluster.kubeconfig), stdin=stdin
        )

    async def helm(self, program: str, *arguments: str) -> Done:
        """Helm, with a home of its own."""
        home = self.cluster.directory / "helm"
        places = [f"HELM_{name}_HOME={home / name.lower()}" for name in ("CONFIG", "CACHE", "DATA")]
        return await ran("env", *places, program, "--kubeconfig", str(self.cluster.kubeconfig), *arguments)

    async def installed(self, *arguments: str) -> Done:
        """`usher install`, which must succeed."""
        done = await self.usher("install", *arguments)
        assert done.code == 0, done.err
        return done

    async def account(self) -> Config:
        """How to talk to the cluster as the manager's service account."""
        from living import account  # conftest.py says where that is

        return await account(self.kubectl)

    async def at_service(self) -> tuple[str, ...]:
        """Settings by which a manager listens at the address of its Service; none where only root may do that, if the
        API server holds jobs by itself."""
        found = await self.kubectl.within(NAMESPACE).get("service", "usher-webhook")
        address = found["spec"]["clusterIP"]
        try:
            with socket.create_server((address, PORT)):
                return f"admission.address={address}", f"admission.port={PORT}"
        except OSError as error:
            if not await self.mutating_policies():
                pytest.skip(f"before Kubernetes 1.36 a manager must listen at its Service, {address}:{PORT}: {error}")
            return ()

    async def manages(self, live: Live, *there: str) -> ManagerProcess:
        """A manager with nothing but its account, which goes with the test; the doors are open when this returns."""
        from living import QUICK

        process = ManagerProcess(await self.account(), load_text("admission: {port: 0}", "test", (*QUICK, *there)))
        task = asyncio.ensure_future(process.run())
        live.processes.append((process, task))

        await self.holds(live.namespace, running=task)
        return process

    async def holds(self, namespace: str, *, running: asyncio.Future[None] | None = None, **named: Any) -> None:
        """Wait until such a job is created suspended: an API server goes by what is installed a moment after it is
        there, by one policy sooner than by another, and before Kubernetes 1.36 only once the manager answers."""
        from living import job

        asked = json.dumps(job("asked", namespace, suspend=False, **named))

        async def held() -> bool:
            if running is not None and running.done():
                running.result()
            try:
                found = await self.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=asked)
            except KubectlError:
                return False
            return bool(json.loads(found)["spec"]["suspend"])

        await eventually(held, why="jobs that name a queue are held")

    async def names(self, kind: str, *arguments: str) -> set[str]:
        """The names of all objects of a kind that match."""
        found = await self.kubectl.get(kind, "-A", *arguments)
        return {item["metadata"]["name"] for item in found["items"]}

    async def forget(self, *namespaces: str) -> None:
        """Delete namespaces, which `clean` waits for. Pods go first: for those that it finds, the namespace controller
        waits half the time that they may take to end, and looks again."""
        for name in namespaces:
            inside = self.kubectl.within(name)
            await inside("delete", "jobs.batch", "--all", "--cascade=background")
            await inside("wait", "--for=delete", "pods", "--all", "--timeout=60s")
        await self.kubectl("delete", "namespace", *namespaces, "--ignore-not-found", "--wait=false")
        self._forgotten.update(namespaces)

    async def mutating_policies(self) -> list[str]:
        """The kind, where the server has it: since Kubernetes 1.36."""
        kinds = await self.kubectl("api-resources", "--api-group=admissionregistration.k8s.io", "-o", "name")
        return [kind for kind in kinds.split() if kind.startswith("mutatingadmissionpolicies.")]

    def asked(self) -> list[dict[str, Any]]:
        """What the API server was asked so far, by its audit log."""
        return [json.loads(line) for line in self.audit_log.read_text().splitlines()]

    async def clean(self) -> None:
        """Nothing of Usher is left, nor any job."""
        await self.usher("uninstall", "--release-jobs", "--crds", "--yes")
        patiently = ("--ignore-not-found", "--timeout=5m")  # what stays is a failure
        await self.kubectl("delete", "jobs.batch", "--all", "-A", "--cascade=background", "--timeout=5m")
        await self.kubectl("delete", "namespace", NAMESPACE, *self._forgotten, *patiently)
        await self.kubectl("delete", "crd", "queues.scheduling.x-k8s.io", *patiently)


def foreign() -> dict[str, object]:
    """A kind of the same name that another system has brought."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "queues.scheduling.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "scheduling.x-k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "Queue", "plural": "queues", "singular": "queue"},
            "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
