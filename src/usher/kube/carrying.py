"""What the client asks of whatever carries its requests: the shape of a transport, and of its answers.

Two transports have this shape: `transport` with aiohttp, for a manager, and `plain` without, for a command that must
start quickly. The client sends a request once, so a transport must, too.
"""

import re
import ssl
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

HeaderList = Sequence[tuple[str, str]]


class Answer(msgspec.Struct, frozen=True):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


_WARNING = re.compile(r'\b299 \S+ "((?:[^"\\]|\\.)*)"')


def warnings_in(headers: Mapping[str, str]) -> list[str]:
    """What the server, or who decides at its doors, says besides its answer."""
    found = headers.get("Warning")
    return [re.sub(r"\\(.)", r"\1", each) for each in _WARNING.findall(found)] if found else []


class Stream(Protocol):
    """An answer that goes on. Raises ConnectionLost if it breaks."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """The next bytes, as soon as there are any; empty at the end."""

    def close(self) -> None:
        """End it, and its connection."""


class Transport(Protocol):
    """What carries requests."""

    async def request(
        self,
        method: str,
        target: str,
        headers: HeaderList,
        tls: ssl.SSLContext | None,
        body: bytes | None,
        timeout_s: float,
    ) -> Answer:
        """Send one request and read its answer. Raises ConnectionLost or Timeout."""

    async def stream(self, target: str, headers: HeaderList, tls: ssl.SSLContext | None, timeout_s: float) -> Stream:
        """GET an answer that goes on; `timeout_s` is for its beginning."""

    async def close(self) -> None:
        """Close every connection."""
