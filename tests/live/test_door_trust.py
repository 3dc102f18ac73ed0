"""Certificates of the doors on a real control plane: renewed under load, agreed on by replicas, or given by others."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from doorway import JOBS, PODS, Doorway, doorway, job_of, pod_of
from living import Live

from usher.app.doors import CONFIGURATIONS, SECRETS
from usher.app.process import ManagerProcess
from usher.kube.errors import KubeError
from usher.testing.waits import eventually
from usher.webhooks import certificates
from usher.webhooks.certificates import Due, Lifetimes

SECRET = "usher-webhook-tls"
LOAD = 4
"""How many ask at the same time."""


async def opened(way: Doorway, *overrides: str) -> ManagerProcess:
    await way.live.queue()
    await way.install()
    await way.live.admin("delete", "secret", SECRET, "-n", "usher-system", "--ignore-not-found")
    return await way.manager(*overrides, leads=False)


def serial(process: ManagerProcess) -> int:
    served = process.doors.served
    assert served is not None
    return x509.load_pem_x509_certificate(served.certificate).serial_number


def authority(process: ManagerProcess) -> bytes:
    served = process.doors.served
    assert served is not None
    return served.authorities.split(b"-----END")[0]


class Asking:
    """Asks again and again, each time through the webhook, and notes what went wrong.

    The API server keeps its connections while it trusts the same authority, so somebody else shakes hands besides, as
    a second API server would: each time anew, and trusting what the configuration says at that moment.
    """

    def __init__(self, way: Doorway) -> None:
        self._way = way
        self.asked = 0
        self.failed: list[str] = []
        self.met = set[int]()
        """The certificates that were seen."""
        self._tasks = [asyncio.ensure_future(self._ask(i)) for i in range(LOAD)]
        self._tasks.append(asyncio.ensure_future(self._meet()))

    async def _ask(self, number: int) -> None:
        tenant = self._way.as_("tenant")
        while True:
            try:
                if number % 2:
                    made = await tenant.create(JOBS, job_of(f"load-{number}"), self._way.team, dry_run=True)
                    if not made["spec"].get("suspend"):
                        self.failed.append("a job was not held")
                else:
                    await tenant.create(PODS, pod_of("load"), self._way.spaces["managed"], dry_run=True)
            except KubeError as error:
                self.failed.append(error.message)
            self.asked += 1

    async def _meet(self) -> None:
        while True:
            found = await self._way.live.client.get(CONFIGURATIONS[1], "usher")
            try:
                self.met.add(await asyncio.to_thread(_shake_hands, found["webhooks"][0]["clientConfig"]))
            except OSError as error:
                self.failed.append(f"no handshake: {error}")

    async def more(self) -> None:
        """Wait until as many again were asked as there are askers, twice."""
        goal = self.asked + 2 * LOAD

        async def there() -> bool:
            return self.asked >= goal

        await eventually(there)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _shake_hands(config: dict[str, Any]) -> int:
    """Connect as the API server would; the serial number of the certificate that was shown, and believed."""
    url = urlsplit(config["url"])
    trust = ssl.create_default_context(cadata=base64.b64decode(config["caBundle"]).decode())
    assert url.hostname is not None
    with (
        socket.create_connection((url.hostname, url.port), timeout=10) as raw,
        trust.wrap_socket(raw, server_hostname=url.hostname) as secure,
    ):
        shown = secure.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown).serial_number


@pytest.mark.parametrize("what", ["certificate", "authority"])
async def test_renewal_under_load_fails_no_request(live: Live, what: str) -> None:
    """Without policies, so that every question must be answered; thrice renewed, and new handshakes all the time."""
    if what == "certificate":
        lives = ("certificateLifetime=60s", "renewBefore=58s", "authorityLifetime=1h")
    else:
        lives = ("certificateLifetime=60s", "renewBefore=56s", "authorityLifetime=60s")
    async with doorway(live, policies=False) as way:
        await live.queue("only", namespace=way.spaces["managed"])
        process = await opened(
            way, *(f"admission.{each}" for each in lives), "admission.trustDelay=2s", "admission.lookInterval=200ms"
        )
        await way.effective()
        asking = Asking(way)
        seen = {serial(process) if what == "certificate" else authority(process)}

        async def renewed() -> bool:
            seen.add(serial(process) if what == "certificate" else authority(process))
            return len(seen) >= 4

        await live.wait("it was renewed three times", renewed)

        async def met() -> bool:
            return serial(process) in asking.met or bool(asking.failed)

        await live.wait("somebody has met the last one", met)
        await asking.more()
        await asking.stop()
        assert asking.failed == []
        assert len(asking.met) >= 4


async def test_replicas_agree_on_one_authority_and_the_api_server_knows_it(live: Live) -> None:
    async with doorway(live, policies=False) as way:
        await live.queue("only", namespace=way.spaces["managed"])
        await live.queue()
        await way.install()
        await live.admin("delete", "secret", SECRET, "-n", "usher-system", "--ignore-not-found")
        first, second = await asyncio.gather(way.manager(leads=False), way.manager(leads=False))
        await way.effective()

        async def agreed() -> bool:
            return first.doors.served is not None and first.doors.served == second.doors.served

        await live.wait("both serve the same", agreed)
        secret = await live.client.get(SECRETS, SECRET, "usher-system")
        assert certificates.from_secret(secret["data"]) == first.doors.served
        for resource in CONFIGURATIONS:
            body = await live.client.get(resource, "usher")
            assert {each["clientConfig"]["caBundle"] for each in body["webhooks"]} == {secret["data"]["ca.crt"]}
        await live.kill(first)
        await way.effective()


async def test_a_configuration_that_somebody_applied_again_is_put_right(live: Live) -> None:
    async with doorway(live, policies=False) as way:
        await opened(way)
        await way.answered()
        for resource in CONFIGURATIONS:
            steps = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
            await live.client.raw(
                "PATCH", resource.path(None, "usher"), body=steps, content_type="application/json-patch+json"
            )

        async def right() -> bool:
            found = [await live.client.get(resource, "usher") for resource in CONFIGURATIONS]
            return all(each["clientConfig"].get("caBundle") for body in found for each in body["webhooks"])

        await live.wait("the authority is there again", right)


async def test_certificates_of_others_are_used_as_they_are_renewed(live: Live, tmp_path: Path) -> None:
    now, hosts = dt.datetime.now(dt.UTC), ("127.0.0.1",)
    lives = Lifetimes(dt.timedelta(hours=1), dt.timedelta(hours=2), dt.timedelta(minutes=1))
    bundle = certificates.renewed(None, Due.AUTHORITY, hosts, lives, now)

    def write(found: certificates.Bundle) -> None:
        for name, data in (("ca.crt", found.authorities), ("tls.key", found.key), ("tls.crt", found.certificate)):
            (tmp_path / name).write_bytes(data)

    write(bundle)
    async with doorway(live, policies=False) as way:
        process = await opened(way, f"admission.certificateDir={tmp_path}")
        await way.answered()
        before: Any = serial(process)
        write(certificates.renewed(bundle, Due.CERTIFICATE, hosts, lives, now))

        async def changed() -> bool:
            return serial(process) != before

        await live.wait("the new certificate is served", changed)
        await way.answered()
        body = await live.client.get(CONFIGURATIONS[0], "usher")
        assert base64.b64decode(body["webhooks"][0]["clientConfig"]["caBundle"]) == bundle.authorities
        assert "NotFound" in await _secret(live)


async def _secret(live: Live) -> str:
    return (
        await live.admin("get", "secret", SECRET, "-n", "usher-system", "--ignore-not-found", "-o", "name")
        or "NotFound"
    )
