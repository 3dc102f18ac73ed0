"""kubectl as a typed helper: tests, benchmarks and `make run` use the real one, through here."""

import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from usher.devcluster.errors import DevClusterError


class KubectlError(DevClusterError):
    """kubectl said no; `stderr` is what it said."""

    def __init__(self, args: tuple[str, ...], stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(args)}: {stderr.strip()}")
        self.stderr = stderr


@dataclass(frozen=True)
class Kubectl:
    """kubectl for one cluster and, if set, one namespace."""

    program: str
    kubeconfig: Path
    namespace: str | None = None

    def within(self, namespace: str) -> "Kubectl":
        """The same, for another namespace."""
        return replace(self, namespace=namespace)

    async def __call__(self, *args: str, stdin: str | None = None) -> str:
        """Run kubectl; what it printed, or KubectlError."""
        # What kubectl remembers of a server belongs to this cluster: another one may have the same port tomorrow.
        options = [f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.kubeconfig.parent / '.kubectl'}"]
        if self.namespace is not None:
            options.append(f"--namespace={self.namespace}")
        process = await asyncio.create_subprocess_exec(
            self.program,
            *options,
            *args,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await process.communicate(None if stdin is None else stdin.encode())
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode != 0:
            raise KubectlError(args, err.decode())
        return out.decode()

    async def apply(self, *objects: dict[str, Any]) -> None:
        """Create or change objects."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        await self("apply", "-f", "-", stdin=json.dumps(listed))

    async def get(self, *args: str) -> Any:
        """`kubectl get … -o json`, parsed."""
        return json.loads(await self("get", *args, "-o", "json"))
