"""Credentials while they are in use: headers and TLS for the next request, renewed when they change or expire.

The rule: what a file or a program gave is asked for again when it may have changed (every 60 s for files, at expiry
for programs) and after a 401, and nobody waits for a file otherwise. `Client` asks before every request; the TLS
context is the same object until the certificates change, so connections are kept.
"""

import base64
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from usher.kube.config import Config, Impersonation, Pem
from usher.kube.errors import ConfigError
from usher.kube.exec import ExecCredential, ExecRunner

REREAD_S = 60.0
"""How old what was read from a file may get."""

Headers = tuple[tuple[str, str], ...]


class Identity(Struct, frozen=True):
    """Who we are in one request."""

    headers: Headers
    tls: ssl.SSLContext | None


class Credentials:
    """The credentials of one configuration."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._exec = ExecRunner(config.user.exec) if config.user.exec else None
        self._identity: Identity | None = None
        self._until = 0.0
        self._pems: tuple[bytes, ...] | None = None

    async def current(self) -> Identity:
        """The identity to use now."""
        if self._identity is None or self._clock() >= self._until or (self._exec and self._exec.expired()):
            return await self._renew()
        return self._identity

    async def refused(self, used: Identity) -> bool:
        """After a 401 with `used`: get new credentials. False if they are the same, so that asking again is futile."""
        if self._identity is not None and self._identity != used:
            return True  # somebody else renewed them meanwhile
        if self._exec:
            self._exec.forget()
        self._until = 0.0
        return await self._renew() != used

    async def _renew(self) -> Identity:
        given = await self._exec.credential() if self._exec else ExecCredential()
        identity = Identity((*self._authorization(given), *_impersonation(self._config.user.impersonate)), None)
        identity = Identity(identity.headers, self._tls(given))
        self._identity = identity
        self._until = self._clock() + REREAD_S
        return identity

    def _authorization(self, given: ExecCredential) -> Headers:
        user = self._config.user
        token = given.token
        if not token and user.token_file:
            token = self._token_of_file(user.token_file)
        if token := token or user.token:
            return (("Authorization", f"Bearer {token}"),)
        if user.username:
            pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
            return (("Authorization", f"Basic {pair}"),)
        return ()

    def _token_of_file(self, path: Path) -> str:
        try:
            token = path.read_text().strip()
        except OSError as error:
            if self._identity is not None:  # it is being replaced: what we have is good for a while
                return _bearer_of(self._identity)
            raise ConfigError(f"{self._config.source}: tokenFile {path} cannot be read: {error.strerror}") from error
        if not token:
            raise ConfigError(f"{self._config.source}: tokenFile {path} is empty")
        return token

    def _tls(self, given: ExecCredential) -> ssl.SSLContext | None:
        config = self._config
        if not config.server.startswith("https:"):
            return None
        certificate = given.certificate or config.user.certificate
        key = given.key or config.user.key
        authority = config.certificate_authority
        pems = tuple(pem.read() if pem else b"" for pem in (authority, certificate, key))
        if self._identity is not None and pems == self._pems:
            return self._identity.tls
        context = _trust(authority.field if authority else "", pems[0], insecure=config.insecure)
        if certificate and key:
            _present(context, certificate, key, pems[1], pems[2])
        self._pems = pems
        return context


def _bearer_of(identity: Identity) -> str:
    return dict(identity.headers)["Authorization"].removeprefix("Bearer ")


def _impersonation(as_: Impersonation | None) -> Headers:
    if as_ is None:
        return ()
    extra = (("Impersonate-Extra-" + key, value) for key, values in as_.extra for value in values)
    uid = (("Impersonate-Uid", as_.uid),) if as_.uid else ()
    return (("Impersonate-User", as_.user), *uid, *(("Impersonate-Group", group) for group in as_.groups), *extra)


def _trust(field: str, authority: bytes, *, insecure: bool) -> ssl.SSLContext:
    """Trust that authority, or the system's if there is none, or everybody."""
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{field}: not a PEM certificate: {error}") from error
    # Python 3.13 began to insist on extensions that many clusters' authorities lack; Kubernetes never asks for them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _present(context: ssl.SSLContext, certificate: Pem, key: Pem, certificate_pem: bytes, key_pem: bytes) -> None:
    try:
        load_pair(context, certificate_pem, key_pem)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{certificate.field} and {key.field}: not a PEM certificate and its unencrypted key: {error}"
        ) from error


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Let a context present a certificate; raises ssl.SSLError and changes nothing if the key does not fit.

    OpenSSL takes keys from files only. They never reach a disk where the system can help it; without a password the
    terminal would be asked for one.
    """
    content = certificate + b"\n" + key
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("usher-tls")
        try:
            with os.fdopen(os.dup(handle), "wb") as file:
                file.write(content)
            context.load_cert_chain(f"/proc/self/fd/{handle}", password="")
        finally:
            os.close(handle)
        return
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="usher-") as file:
        file.write(content)
        file.flush()
        context.load_cert_chain(file.name, password="")
