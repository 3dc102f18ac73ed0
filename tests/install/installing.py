"""A cluster into which tests install Usher, by the command line or by Helm, and from which it is gone afterwards."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from usher.devcluster.clusters import Cluster
from usher.kube.config import Config

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

    async def names(self, kind: str, *arguments: str) -> set[str]:
        """The names of all objects of a kind that match."""
        found = await self.kubectl.get(kind, "-A", *arguments)
        return {item["metadata"]["name"] for item in found["items"]}

    def asked(self) -> list[dict[str, Any]]:
        """What the API server was asked so far, by its audit log."""
        return [json.loads(line) for line in self.audit_log.read_text().splitlines()]

    async def clean(self) -> None:
        """Nothing of Usher is left, nor any job."""
        await self.usher("uninstall", "--release-jobs", "--crds", "--yes")
        await self.kubectl("delete", "jobs.batch", "--all", "-A", "--cascade=background")
        await self.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
        await self.kubectl("delete", "crd", "queues.scheduling.x-k8s.io", "--ignore-not-found")


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
