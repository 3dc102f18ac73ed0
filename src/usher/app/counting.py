"""Counts every request to the API server, by method, resource and code, on its way through the client's transport."""

from __future__ import annotations

import ssl
import time
from typing import Final

from usher.kube.carrying import Answer, HeaderList, Stream, Transport
from usher.runtime.numbers import Numbers

WATCH: Final = "WATCH"
"""The method of a request whose answer goes on; its time is until it began."""


class Counting:
    """A transport that counts."""

    def __init__(self, inner: Transport, numbers: Numbers) -> None:
        self._inner = inner
        self._numbers = numbers

    async def request(
        self,
        method: str,
        target: str,
        headers: HeaderList,
        tls: ssl.SSLContext | None,
        body: bytes | None,
        timeout_s: float,
    ) -> Answer:
        began, code = time.perf_counter(), 0
        try:
            answer = await self._inner.request(method, target, headers, tls, body, timeout_s)
            code = answer.status
            return answer
        finally:
            self._numbers.requested(method, resource_in(target), code, time.perf_counter() - began)

    async def stream(self, target: str, headers: HeaderList, tls: ssl.SSLContext | None, timeout_s: float) -> Stream:
        began, code = time.perf_counter(), 0
        try:
            stream = await self._inner.stream(target, headers, tls, timeout_s)
            code = stream.status
            return stream
        finally:
            self._numbers.requested(WATCH, resource_in(target), code, time.perf_counter() - began)

    async def close(self) -> None:
        await self._inner.close()


def resource_in(target: str) -> str:
    """The resource that a path is about, with its subresource, as in queueunits/status; empty if it is about none."""
    parts = target.partition("?")[0].strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest:
        return ""
    return f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]
