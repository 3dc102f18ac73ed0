"""What can go wrong between us and the API server, as a small tree.

Every error says what the caller may do about it: `retry` is the hint, `retry_after_s` the server's wish. The rule: an
error whose request may have been carried out never claims that it was not. The client raises these; the writer and the
informers decide by them; nobody above sees HTTP.
"""

# ruff: noqa: N818 - the names are the API's own reasons (NotFound, Conflict, …)

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec


class Retry(Enum):
    """What may be done after an error."""

    NO = "no"
    """The same request will be refused again: change it, or leave it."""
    AFRESH = "afresh"
    """It was refused for being out of date: read, compute anew, send that."""
    LATER = "later"
    """It was certainly not carried out: the same request may be sent again after a while."""
    UNKNOWN = "unknown"
    """It may have been carried out: look first, or send it again only if twice is as good as once."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One of the reasons for a refusal, usually a field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class KubeError(Exception):
    """Whatever went wrong. `status` is 0 when there was no answer."""

    retry = Retry.NO

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after_s = retry_after_s


class ConfigError(KubeError):
    """A kubeconfig file, a credential or an option that cannot be used; the message names file and field."""


class Undecodable(KubeError):
    """An answer that is not what its type says."""


class BadRequest(KubeError):
    """The server does not understand the request (400, 405, 406, 415)."""


class Unauthorized(KubeError):
    """The server does not know who we are (401), even with renewed credentials."""


class Forbidden(KubeError):
    """We may not do this, or an admission rule does not want it (403)."""


class NotFound(KubeError):
    """There is no such object or kind (404)."""


class AlreadyExists(KubeError):
    """An object of that name is there (409)."""


class Conflict(KubeError):
    """The object has changed since it was read, or another owner has the field (409)."""

    retry = Retry.AFRESH


class Gone(KubeError):
    """The server no longer has that version, or that page (410): list again."""

    retry = Retry.AFRESH


class Invalid(KubeError):
    """The object breaks a rule (422) or is too large (413); `causes` name the fields."""


class Throttled(KubeError):
    """Too many requests (429); nothing was done."""

    retry = Retry.LATER


class Disrupts(KubeError):
    """A pod may not be evicted now: a PodDisruptionBudget stands against it (429, too)."""


class ServerError(KubeError):
    """The server failed (5xx). What it had done by then is not known."""

    retry = Retry.UNKNOWN


class Unavailable(ServerError):
    """The server cannot serve now (503)."""


class Timeout(KubeError):
    """No answer in time: the server's own time limit (504) or ours. The request may yet be carried out."""

    retry = Retry.UNKNOWN


class ConnectionLost(KubeError):
    """The connection could not be made (`sent` is false), or broke before the answer was complete."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        self.retry = Retry.UNKNOWN if sent else Retry.LATER


class _Details(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The API's own description of a refusal."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


BY_STATUS: Mapping[int, type[KubeError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: BadRequest,
    406: BadRequest,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: BadRequest,
    422: Invalid,
    429: Throttled,
    503: Unavailable,
    504: Timeout,
}
BY_REASON: Mapping[str, type[KubeError]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Gone,
    "ServerTimeout": Timeout,
    "Timeout": Timeout,
}
"""Reasons that say more than the status beside them."""

DISRUPTION_BUDGET = "DisruptionBudget"
"""The cause by which a 429 is no want of patience."""

_status = msgspec.json.Decoder(_Status)
TEXT_MAX = 500


def from_answer(status: int, body: bytes, retry_after: str | None = None) -> KubeError:
    """The error that an answer means, whether or not its body is the API's own Status."""
    try:
        said = _status.decode(body)
    except msgspec.DecodeError:
        text = body[:TEXT_MAX].decode(errors="replace").strip()
        said = _Status(message=text or f"the server answered {status} without saying why")
    details = said.details or _Details()
    status = status or said.code
    kind = BY_REASON.get(said.reason) or BY_STATUS.get(status) or (ServerError if status >= 500 else BadRequest)
    if kind is Throttled and any(cause.reason == DISRUPTION_BUDGET for cause in details.causes or ()):
        kind = Disrupts
    return kind(
        said.message or said.reason or f"the server answered {status}",
        status=status,
        reason=said.reason,
        causes=details.causes or (),
        retry_after_s=_seconds(retry_after) or details.retry_after_seconds or None,
    )


def from_event(status: Any) -> KubeError:
    """The error inside a watch stream: its object is a Status."""
    return from_answer(0, bytes(status))


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; the other form, a date, is not used by API servers."""
    return float(header) if header and header.isdecimal() else None
