"""etcd under a control plane of the test's own: it forgets on demand, and takes objects in bulk."""

import asyncio
import base64
import json
import ssl
from collections.abc import Iterable
from typing import Any

from aiohttp import ClientSession, TCPConnector

from usher.devcluster import ControlPlane

IN_FLIGHT = 64


class Etcd:
    """The data store of a control plane, through its HTTP gateway."""

    def __init__(self, plane: ControlPlane) -> None:
        tls = ssl.create_default_context(cafile=plane.layout.authority.certificate)
        tls.load_cert_chain(plane.layout.server.certificate, plane.layout.server.key)
        self._session = ClientSession(
            f"https://127.0.0.1:{plane.layout.ports.etcd}/v3/", connector=TCPConnector(limit=IN_FLIGHT, ssl=tls)
        )

    async def __aenter__(self) -> "Etcd":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def compact(self) -> None:
        """Forget every past version."""
        status = await self._call("maintenance/status", {})
        await self._call("kv/compaction", {"revision": int(status["header"]["revision"]), "physical": True})

    async def put(self, objects: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Store objects under their paths as the API server would: one version each, but without its work."""
        left = iter(objects)

        async def put_some() -> None:
            for path, each in left:
                value = base64.b64encode(json.dumps(each).encode()).decode()
                await self._call("kv/put", {"key": base64.b64encode(path.encode()).decode(), "value": value})

        await asyncio.gather(*(put_some() for _ in range(IN_FLIGHT)))

    async def _call(self, path: str, body: dict[str, Any]) -> Any:
        async with self._session.post(path, json=body, raise_for_status=True) as answer:
            return await answer.json()
