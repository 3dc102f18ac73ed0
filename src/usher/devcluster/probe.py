"""Just enough HTTP to bring a control plane up: is it ready, and here are its nodes.

Plain `http.client` in a thread. Talking to the API server in earnest is the business of another package; this one is
called by `controlplane` only, before anybody else could.
"""

import http.client
import json
import ssl
from typing import Any

from usher.devcluster.components import LOOPBACK
from usher.devcluster.pki import Authority, Identity

TIMEOUT_SECONDS = 10.0


class Probe:
    """A connection to one loopback port that speaks TLS with the cluster's certificates."""

    def __init__(self, port: int, authority: Authority, identity: Identity) -> None:
        context = ssl.create_default_context(cafile=str(authority.certificate))
        context.load_cert_chain(identity.certificate, identity.key)
        self._connection = http.client.HTTPSConnection(LOOPBACK, port, timeout=TIMEOUT_SECONDS, context=context)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request; the status and the answer (parsed if it is JSON). Raises OSError if nobody answers properly."""
        try:
            payload = None if body is None else json.dumps(body)
            self._connection.request(method, path, payload, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise OSError(str(error)) from error
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(text) if is_json else text

    def answers(self, path: str) -> bool:
        """Whether a health endpoint says yes."""
        return self.request("GET", path)[0] == http.HTTPStatus.OK
