"""Credentials from a program: exec plug-ins of `client.authentication.k8s.io` v1 and v1beta1.

The program is told who asks in KUBERNETES_EXEC_INFO and prints an ExecCredential. What it gave is kept until it
expires or the server refuses it. One run at a time, however many requests wait for it. `Credentials` calls this.
"""

import base64
import datetime
import os
from collections.abc import Callable
from typing import Any

import msgspec

from usher.kube.config import ClusterInfo, ExecPlugin, Pem
from usher.kube.errors import ConfigError

API_GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{API_GROUP}/v1", f"{API_GROUP}/v1beta1")
RUN_S = 60.0
"""How long a plug-in may take."""
EARLY = datetime.timedelta(seconds=10)
"""How long before its expiry a credential is renewed."""


class ExecCredential(msgspec.Struct, frozen=True):
    """What a plug-in gave."""

    token: str = ""
    certificate: Pem | None = None
    key: Pem | None = None
    expires: datetime.datetime | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime.datetime | None = None


class _Printed(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


class ExecRunner:
    """One plug-in, and what it last gave."""

    def __init__(self, plugin: ExecPlugin, now: Callable[[], datetime.datetime] | None = None) -> None:
        self._plugin = plugin
        self._now = now or (lambda: datetime.datetime.now(datetime.UTC))
        self._kept: ExecCredential | None = None
        import asyncio  # takes long, and few configurations have a plug-in

        self._lock = asyncio.Lock()

    def expired(self) -> bool:
        """Whether the program must be asked again."""
        kept = self._kept
        return kept is None or (kept.expires is not None and self._now() >= kept.expires - EARLY)

    def forget(self) -> None:
        """What it gave was refused."""
        self._kept = None

    async def credential(self) -> ExecCredential:
        """What it gave, asking it if need be."""
        async with self._lock:
            if self._kept is None or self.expired():
                self._kept = await self._run()
            return self._kept

    async def _run(self) -> ExecCredential:
        import asyncio
        import shutil

        plugin = self._plugin
        program = shutil.which(plugin.command) or plugin.command
        env = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": _info(plugin)}
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *plugin.args,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise self._failure(f"{plugin.command} cannot be run: {error.strerror}") from error
        try:
            out, err = await asyncio.wait_for(process.communicate(), RUN_S)
        except BaseException as error:
            process.kill()
            await process.wait()
            if isinstance(error, TimeoutError):
                raise self._failure(f"{plugin.command} gave no credentials within {RUN_S:.0f} s") from error
            raise
        if process.returncode != 0:
            said = err.decode(errors="replace").strip()[-500:]
            raise self._failure(f"{plugin.command} ended with {process.returncode}: {said}")
        return self._read(out)

    def _read(self, out: bytes) -> ExecCredential:
        plugin = self._plugin
        try:
            printed = msgspec.json.decode(out, type=_Printed)
        except msgspec.DecodeError as error:
            raise self._failure(f"{plugin.command} printed no ExecCredential: {error}") from error
        if printed.kind != "ExecCredential" or printed.api_version != plugin.api_version:
            raise self._failure(
                f"{plugin.command} printed {printed.kind} {printed.api_version}, wanted {plugin.api_version}"
            )
        status = printed.status or _Status()
        pair = (status.client_certificate_data, status.client_key_data)
        if not status.token and not any(pair):
            raise self._failure(f"{plugin.command} gave neither a token nor a client certificate")
        if any(pair) and not all(pair):
            raise self._failure(f"{plugin.command} gave a client certificate without its key, or a key alone")
        certificate, key = (
            Pem(data=pem.encode(), field=f"{plugin.source}: status.{name}") if pem else None
            for pem, name in zip(pair, ("clientCertificateData", "clientKeyData"), strict=True)
        )
        expires = status.expiration_timestamp
        if expires is not None and expires.tzinfo is None:
            expires = expires.replace(tzinfo=datetime.UTC)
        return ExecCredential(status.token, certificate, key, expires)

    def _failure(self, text: str) -> ConfigError:
        hint = self._plugin.install_hint.strip()
        return ConfigError(f"{self._plugin.source}: {text}" + (f"\n{hint}" if hint else ""))


def _info(plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info and plugin.cluster is not None:
        spec["cluster"] = _cluster(plugin.cluster)
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


def _cluster(cluster: ClusterInfo) -> dict[str, Any]:
    authority = cluster.certificate_authority
    told = {
        "server": cluster.server,
        "certificate-authority-data": base64.b64encode(authority.read()).decode() if authority else "",
        "insecure-skip-tls-verify": cluster.insecure,
        "tls-server-name": cluster.server_name,
        "proxy-url": cluster.proxy_url,
        "config": cluster.extension,
    }
    return {key: value for key, value in told.items() if value}
