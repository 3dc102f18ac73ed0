"""The client: get, list, watch, create, patch, apply, replace, delete, one request each.

    async with Client(config, user_agent="me/1.0", field_manager="me") as client:
        pod = await client.get(PODS, "a-pod", "default")

The rule: the client sends a request once. A 401 is tried again with renewed credentials, once, because nothing was
done; every other error goes to the caller, with a hint. The writer and the informers build on this.
"""

from collections.abc import AsyncIterator, Callable
from enum import Enum
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlencode

from usher.kube.carrying import Answer, HeaderList, Stream, Transport, warnings_in
from usher.kube.config import Config
from usher.kube.credentials import Credentials, Identity
from usher.kube.errors import from_answer
from usher.kube.resource import Resource
from usher.kube.watching import Watch
from usher.kube.wire import Page, encode

T = TypeVar("T")

TIMEOUT_S = 30.0
PAGE = 500
JSON = "application/json"
BULK = {"Accept": JSON, "Accept-Encoding": "identity"}
"""No compression: the server's gzip costs both sides more than the bytes do, next to each other."""


class PatchKind(Enum):
    """How the body of a patch is meant: its content type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Propagation(Enum):
    """What happens to what an object owns when it is deleted."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class Client:
    """One API server, as one user. Use it inside a running loop, as a context manager."""

    def __init__(
        self,
        config: Config,
        *,
        user_agent: str,
        field_manager: str,
        timeout_s: float = TIMEOUT_S,
        transport: Transport | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        """`on_warning` is called with what the server says besides its answers."""
        self.config = config
        self._on_warning = on_warning
        self.field_manager = field_manager
        self._credentials = Credentials(config)
        self._transport = transport or _usual(config)
        self._timeout_s = timeout_s
        self._base: tuple[tuple[str, str], ...] = (*BULK.items(), ("User-Agent", user_agent))
        self._manager = urlencode({"fieldManager": field_manager})
        self._identity: Identity | None = None
        self._headers: dict[str | None, HeaderList] = {}

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; watches that are open end."""
        await self._transport.close()

    async def get(
        self, resource: Resource[T], name: str, namespace: str | None = None, *, subresource: str | None = None
    ) -> T:
        """Read an object."""
        answer = await self._send("GET", resource.path(namespace, name, subresource))
        return resource.codec.one(answer.body)

    async def list(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        continue_token: str | None = None,
        resource_version: str | None = None,
        resource_version_match: str | None = None,
    ) -> Page[T]:
        """Read all objects or, with `limit`, a page of them; without a namespace, those of all namespaces."""
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=limit,
            **{"continue": continue_token},
            resourceVersion=resource_version,
            resourceVersionMatch=resource_version_match,
        )
        answer = await self._send("GET", _with(resource.path(namespace), query))
        return resource.codec.page(answer.body)

    async def pages(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = PAGE,
    ) -> AsyncIterator[Page[T]]:
        """Read all objects page by page, all as of one moment. Raises Gone if the server did not wait for us."""
        token: str | None = None
        while True:
            page = await self.list(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=token,
            )
            yield page
            token = page.continue_token
            if not token:
                return

    def watch(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        resource_version: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        allow_bookmarks: bool = True,
        send_initial_events: bool = False,
        timeout_s: int | None = None,
    ) -> Watch[T]:
        """Follow objects from a version on. Iterate over it; it ends when the server ends it, after `timeout_s`.

        With `send_initial_events`, all objects come first, then a bookmark with `initial_end`.
        """
        query = _query(
            watch="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            allowWatchBookmarks="true" if allow_bookmarks else None,
            sendInitialEvents="true" if send_initial_events else None,
            resourceVersionMatch="NotOlderThan" if send_initial_events else None,
            timeoutSeconds=timeout_s,
        )
        target = _with(resource.path(namespace), query)
        return Watch(resource.codec, lambda: self._stream(target))

    async def create(
        self,
        resource: Resource[T],
        body: Any,
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
        strict: bool = False,
    ) -> T:
        """Create an object (or, with name and subresource, do what creating that means: evict, get a token).

        `strict`: a field that its kind does not have is an error; else the server leaves it out.
        """
        if resource.namespaced and namespace is None:
            raise ValueError(f"{resource.kind} is in a namespace: say which")
        target = self._changing(resource.path(namespace, name, subresource), dry_run=dry_run)
        target += "&fieldValidation=Strict" if strict else ""
        answer = await self._send("POST", target, encode(body), JSON)
        return resource.codec.one(answer.body)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        namespace: str | None,
        body: Any,
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Change part of an object."""
        target = self._changing(resource.path(namespace, name, subresource), dry_run=dry_run)
        answer = await self._send("PATCH", target, encode(body), kind.value)
        return resource.codec.one(answer.body)

    async def apply(
        self,
        resource: Resource[T],
        name: str,
        namespace: str | None,
        body: Any,
        *,
        force: bool = False,
        subresource: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Server-side apply: the fields in `body`, which has apiVersion and kind, become the field manager's."""
        path = resource.path(namespace, name, subresource)
        target = self._changing(path, dry_run=dry_run, field_manager=field_manager, force=force)
        answer = await self._send("PATCH", target, encode(body), PatchKind.APPLY.value)
        return resource.codec.one(answer.body)

    async def replace(
        self,
        resource: Resource[T],
        name: str,
        namespace: str | None,
        body: Any,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Replace an object as a whole; what `body` leaves out is gone, so never send back a type that drops fields."""
        target = self._changing(resource.path(namespace, name, subresource), dry_run=dry_run)
        answer = await self._send("PUT", target, encode(body), JSON)
        return resource.codec.one(answer.body)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str | None = None,
        *,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete an object; only that very one, with `uid`, or that version of it."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "propagationPolicy": propagation.value if propagation else None,
            "gracePeriodSeconds": grace_seconds,
            "preconditions": {key: value for key, value in preconditions.items() if value is not None} or None,
            "dryRun": ["All"] if dry_run else None,
        }
        body = encode(
            {"apiVersion": "v1", "kind": "DeleteOptions", **{k: v for k, v in options.items() if v is not None}}
        )
        await self._send("DELETE", resource.path(namespace, name), body, JSON)

    async def evict(
        self, resource: Resource[Any], name: str, namespace: str, *, uid: str | None = None, dry_run: bool = False
    ) -> None:
        """Delete a pod, if no disruption budget stands against it; raises `Disrupts` where one does."""
        body: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        if uid is not None:
            body["deleteOptions"] = {"preconditions": {"uid": uid}}
        target = self._changing(resource.path(namespace, name, "eviction"), dry_run=dry_run)
        await self._send("POST", target, encode(body), JSON)

    async def raw(
        self, method: str, path: str, *, body: Any = None, content_type: str = JSON, accept: str | None = None
    ) -> bytes:
        """Any request, e.g. for discovery (`/version`, `/apis`); `path` may have a query and is sent as it is."""
        extra = (("Accept", accept),) if accept else ()
        sent = None if body is None else encode(body)
        return (await self._send(method, path, sent, content_type if sent is not None else None, extra)).body

    async def stream(self, path: str) -> Stream:
        """Any GET whose answer goes on, e.g. the log of a pod; `path` is sent as it is. Close it."""
        return await self._stream(path)

    def _changing(self, path: str, *, dry_run: bool, field_manager: str | None = None, force: bool = False) -> str:
        manager = self._manager if field_manager is None else urlencode({"fieldManager": field_manager})
        return f"{path}?{manager}{'&force=true' if force else ''}{'&dryRun=All' if dry_run else ''}"

    async def _send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        content_type: str | None = None,
        extra: HeaderList = (),
    ) -> Answer:
        identity = await self._credentials.current()
        headers = self._headers_for(identity, content_type)
        if extra:
            headers = _replaced(headers, extra)
        answer = await self._transport.request(method, target, headers, identity.tls, body, self._timeout_s)
        if self._on_warning is not None:
            for each in warnings_in(answer.headers):
                self._on_warning(each)
        if answer.status < 300:
            return answer
        if answer.status == 401 and await self._credentials.refused(identity):
            identity = await self._credentials.current()
            headers = _replaced(self._headers_for(identity, content_type), extra)
            answer = await self._transport.request(method, target, headers, identity.tls, body, self._timeout_s)
            if answer.status < 300:
                return answer
        raise from_answer(answer.status, answer.body, answer.headers.get("Retry-After"))

    async def _stream(self, target: str) -> Stream:
        identity = await self._credentials.current()
        stream = await self._open(target, identity)
        if stream.status == 401 and await self._credentials.refused(identity):
            stream.close()
            stream = await self._open(target, await self._credentials.current())
        if stream.status >= 300:
            try:
                body = b"".join([chunk async for chunk in _chunks(stream)])
            finally:
                stream.close()
            raise from_answer(stream.status, body, stream.headers.get("Retry-After"))
        return stream

    async def _open(self, target: str, identity: Identity) -> Stream:
        return await self._transport.stream(target, self._headers_for(identity, None), identity.tls, self._timeout_s)

    def _headers_for(self, identity: Identity, content_type: str | None) -> HeaderList:
        """Headers are the same for every request of a kind, until the identity changes."""
        if identity is not self._identity:
            self._identity = identity
            self._headers = {}
        headers = self._headers.get(content_type)
        if headers is None:
            kind = (("Content-Type", content_type),) if content_type else ()
            headers = self._headers[content_type] = (*self._base, *kind, *identity.headers)
        return headers


def _usual(config: Config) -> Transport:
    """aiohttp takes longer to import than a command may take to start: who brings a transport does not pay for it."""
    from usher.kube.transport import AiohttpTransport

    return AiohttpTransport(config.server, server_name=config.server_name, proxy_url=config.proxy_url)


async def _chunks(stream: Stream) -> AsyncIterator[bytes]:
    while chunk := await stream.read():
        yield chunk


def _replaced(headers: HeaderList, extra: HeaderList) -> HeaderList:
    names = {name for name, _ in extra}
    return (*(pair for pair in headers if pair[0] not in names), *extra)


def _query(**given: str | int | None) -> str:
    return urlencode({key: value for key, value in given.items() if value is not None})


def _with(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path
