"""The bare API server for tests of schemas: one connection, JSON in and out, no client library in between."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from usher.api.kinds import KINDS

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


class RefusedError(Exception):
    """The server said no; `causes` are its words, one for each field, after the field's path."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status.get("message"))
        causes = status.get("details", {}).get("causes", [])
        self.causes = [f"{cause.get('field')}: {cause.get('message')}" for cause in causes]
        self.reason = status.get("reason", "")


@dataclass
class ApiServer:
    """Objects of our kinds on a real server, in one namespace."""

    kubeconfig: Path
    namespace: str
    _connection: http.client.HTTPSConnection | None = field(default=None, repr=False)

    def path(self, body: dict[str, Any], *rest: str) -> str:
        """The path of the collection of a kind, and what is below it."""
        kind = KINDS[body["kind"]]
        inside = ["namespaces", self.namespace] if kind.namespaced else []
        return "/".join(["/apis", kind.group, kind.version, *inside, kind.plural, *rest])

    def create(self, body: dict[str, Any], **query: str) -> dict[str, Any]:
        return self.call("POST", self.path(body), body, **{"fieldValidation": "Strict"} | query)

    def dry_run(self, body: dict[str, Any]) -> dict[str, Any]:
        """What creating it would give."""
        return self.create(body, dryRun="All")

    def read(self, body: dict[str, Any]) -> dict[str, Any]:
        return self.call("GET", self.path(body, body["metadata"]["name"]))

    def delete(self, body: dict[str, Any]) -> None:
        self.call("DELETE", self.path(body, body["metadata"]["name"]))

    def patch(self, body: dict[str, Any], patch: Any, *below: str, kind: str = MERGE, **query: str) -> dict[str, Any]:
        path = self.path(body, body["metadata"]["name"], *below)
        return self.call("PATCH", path, patch, kind, **{"fieldValidation": "Strict"} | query)

    def call(
        self, verb: str, path: str, body: Any = None, kind: str = "application/json", **query: str
    ) -> dict[str, Any]:
        """One request; the decoded answer, or RefusedError."""
        connection = self._open()
        connection.request(
            verb,
            f"{path}?{urlencode(query)}",
            body=None if body is None else json.dumps(body),
            headers={"Content-Type": kind, "Accept": "application/json"},
        )
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status >= 300:
            raise RefusedError(answer)
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> http.client.HTTPSConnection:
        if self._connection is None:
            config = json.loads(self.kubeconfig.read_text())
            cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
            trust = ssl.create_default_context(cafile=cluster["certificate-authority"])
            trust.load_cert_chain(user["client-certificate"], user["client-key"])
            address = urlsplit(cluster["server"])
            self._connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=trust)
        return self._connection
