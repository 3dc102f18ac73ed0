"""The doors of a running manager: reviews are answered, certificates renewed, and the API server told whom to trust.

Every replica answers, leader or not. The doors open when webhook configurations of ours are there (`usher install` or
the chart makes them, the manager has no right to), so a manager without them listens for nothing. Certificates are
shared through a Secret: whoever sees first that they run out renews them, and of two who do, one is told so by the
API server and takes what the other made. A certificate of a new authority is used only once the configurations have
named that authority for a while; until then the old certificate serves, which both trust.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from usher.app.doors_known import Memory
from usher.kube.client import Client, PatchKind
from usher.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from usher.kube.resource import untyped
from usher.kube.store import Delta
from usher.runtime.facts import Reading
from usher.runtime.numbers import Numbers
from usher.settings.tree import Settings
from usher.webhooks import certificates
from usher.webhooks.certificates import Bundle, Due, Lifetimes
from usher.webhooks.configurations import NAME
from usher.webhooks.review import Allowed, Asked, Verdict
from usher.webhooks.rules import KINDS, Rules
from usher.webhooks.server import ReviewServer
from usher.webhooks.terms import terms_of

log = logging.getLogger("usher.doors")

GROUP: Final = "admissionregistration.k8s.io"
CONFIGURATIONS: Final = (
    untyped(GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False),
    untyped(GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False),
)
SECRETS: Final = untyped("", "v1", "secrets", "Secret", namespaced=True)
ATTEMPTS: Final = 5
"""How often a Secret that others write at the same time is looked at."""


class Doors:
    """`async with doors.open(client)` keeps them open; `hear` is fed with every change of the caches."""

    def __init__(
        self,
        settings: Settings,
        base: Reading,
        alive: Callable[[], bool] = lambda: True,
        numbers: Numbers | None = None,
    ) -> None:
        """`alive`: false from the moment at which nothing may be written any more."""
        self._settings, self._alive = settings, alive
        terms = terms_of(settings)
        self._memory = Memory(settings, terms, base)
        self._context = certificates.context()
        admission = settings.admission
        self._numbers = numbers or Numbers()
        self._counted = frozenset(KINDS) | {"pods", "resourcequotas"} | {kind.plural for kind in terms.kinds}
        rules = Rules(terms, self._memory)
        self.server = ReviewServer(rules, self._context, admission.address, admission.port, self._count)
        namespace, service = settings.system_namespace, admission.service
        names = [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", f"{service}.{namespace}"]
        self._hosts = [*names, admission.host] if admission.host else names
        self._lifetimes = Lifetimes(
            dt.timedelta(milliseconds=admission.certificate_lifetime_ms),
            dt.timedelta(milliseconds=admission.authority_lifetime_ms),
            dt.timedelta(milliseconds=admission.renew_before_ms),
        )
        self.served: Bundle | None = None
        """What new connections see."""
        self._told: dict[bytes, float] = {}
        """Since when the configurations name these authorities."""
        self._wanted = False
        """Configurations of ours are there."""
        self._complaint = ""

    def hear(self, deltas: Sequence[Delta[Any]]) -> None:
        self._memory.hear(deltas)

    def _count(self, path: str, asked: Asked, verdict: Verdict, seconds: float) -> None:
        """Whoever reaches the port may ask about anything: what is not asked by our configurations is one number."""
        resource = asked.resource if asked.resource in self._counted else "other"
        answer = "allowed" if isinstance(verdict, Allowed) else "refused"
        self._numbers.reviewed(path.removeprefix("/"), resource, answer, seconds)

    def problem(self) -> str:
        """Why nobody should be sent here; empty: they may."""
        return "reviews are asked for and not answered yet" if self._wanted and not self.server.listening else ""

    @contextlib.asynccontextmanager
    async def open(self, client: Client) -> Any:
        """From the first look on; raises CannotListenError."""
        if self._settings.admission.mode == "off":
            yield self
            return
        await self._look(client)
        task = asyncio.ensure_future(self._go_on(client))
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.server.stop()

    async def _go_on(self, client: Client) -> None:
        while True:
            await asyncio.sleep(self._settings.admission.look_interval_ms / 1000)
            try:
                await self._look(client)
            except Exception:
                log.exception("looking after the doors failed; it is tried again")

    async def _look(self, client: Client) -> None:
        """See that everything is as it should be; what the API server refuses is said, and tried again."""
        try:
            await self._see_to_it(client)
            self._complaint = ""
        except (KubeError, OSError, ssl.SSLError) as error:
            if self._wanted and not self.server.listening and not isinstance(error, KubeError):
                raise
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("the doors: %s", error)

    async def _see_to_it(self, client: Client) -> None:
        found = [
            (resource, body) for resource in CONFIGURATIONS if (body := await self._configuration(client, resource))
        ]
        self._wanted = bool(found)
        if not found and not self.server.listening:
            return
        bundle = await self._bundle(client)
        if self.served is None:
            self._serve(bundle)
        if not self.server.listening:
            await self.server.start()
            log.info("answering reviews on port %d", self.server.port)
        if all([await self._tell(client, resource, body, bundle) for resource, body in found]):
            self._told.setdefault(bundle.authorities, time.monotonic())
        else:
            self._told.pop(bundle.authorities, None)
        self._change_to(bundle)

    async def _configuration(self, client: Client, resource: Any) -> dict[str, Any] | None:
        try:
            return await client.get(resource, NAME)
        except NotFound:
            return None

    # -- certificates -------------------------------------------------------------------------------------------------

    async def _bundle(self, client: Client) -> Bundle:
        """The certificates to use now, renewed if need be."""
        folder = self._settings.admission.certificate_dir
        if folder:
            return await asyncio.to_thread(certificates.from_folder, Path(folder))
        namespace, name = self._settings.system_namespace, self._settings.admission.secret
        for _ in range(ATTEMPTS):
            secret: dict[str, Any] | None
            try:
                secret = await client.get(SECRETS, name, namespace)
            except NotFound:
                secret = None
            known = None if secret is None else certificates.from_secret(secret.get("data") or {})
            now = dt.datetime.now(dt.UTC)
            what = certificates.due(known, self._hosts, self._lifetimes, now)
            if known is not None and (what is Due.NOTHING or not self._alive()):
                return known
            made = certificates.renewed(known, what, self._hosts, self._lifetimes, now)
            with contextlib.suppress(Conflict, AlreadyExists, NotFound):
                await self._store(client, secret, made)
                log.info("the %s of the doors is new", "authority" if what is Due.AUTHORITY else "certificate")
                return made
        raise TimeoutError(f"the Secret {namespace}/{name} keeps changing")

    async def _store(self, client: Client, secret: dict[str, Any] | None, bundle: Bundle) -> None:
        namespace, name = self._settings.system_namespace, self._settings.admission.secret
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "data": certificates.secret_data(bundle)}
        if secret is None:
            kind = "kubernetes.io/tls"  # as others expect them; ca.key is ours
            await client.create(SECRETS, {**body, "type": kind, "metadata": {"name": name}}, namespace)
        else:
            await client.replace(SECRETS, name, namespace, {**secret, **body})

    def _serve(self, bundle: Bundle) -> None:
        certificates.load(self._context, bundle)
        self.served = bundle

    def _change_to(self, bundle: Bundle) -> None:
        """Serve a new certificate as soon as it is trusted, or when the old one is of no use any more."""
        served, now_s = self.served, time.monotonic()
        if served is None or bundle == served:
            return
        delay_s = self._settings.admission.trust_delay_ms / 1000
        told_s = self._told.get(bundle.authorities)
        trusted = served.trusts(bundle) or not bundle.authorities or (told_s is not None and now_s >= told_s + delay_s)
        if trusted or certificates.expires(served) <= dt.datetime.now(dt.UTC):
            self._serve(bundle)
            log.info("a new certificate is served")

    # -- trust --------------------------------------------------------------------------------------------------------

    async def _tell(self, client: Client, resource: Any, body: dict[str, Any], bundle: Bundle) -> bool:
        """Let a configuration name our authority and, outside of a cluster, where we are; whether it did already."""
        authority = base64.b64encode(bundle.authorities).decode()
        steps = [
            {"op": "add", "path": f"/webhooks/{i}/clientConfig", "value": wanted}
            for i, entry in enumerate(body.get("webhooks") or ())
            if (wanted := self._client_config(entry.get("clientConfig") or {}, authority)) != entry.get("clientConfig")
        ]
        if steps and self._alive():
            version = {"op": "test", "path": "/metadata/resourceVersion", "value": body["metadata"]["resourceVersion"]}
            with contextlib.suppress(Conflict, Invalid, NotFound):  # somebody else was first: the next look shows it
                await client.patch(resource, NAME, None, [version, *steps], kind=PatchKind.JSON)
        return not steps

    def _client_config(self, current: dict[str, Any], authority: str) -> dict[str, Any]:
        wanted = dict(current)
        if authority:
            wanted["caBundle"] = authority
        host = self._settings.admission.host
        if host:
            path = (current.get("service") or {}).get("path") or urlsplit(current.get("url") or "").path
            shown = f"[{host}]" if ":" in host else host
            wanted.pop("service", None)
            wanted["url"] = f"https://{shown}:{self.server.port}{path}"
        return wanted
