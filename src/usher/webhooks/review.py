"""AdmissionReviews on the wire: bytes in, `Asked` out; a verdict in, bytes out.

Only what is needed is decoded, unknown fields are passed over. What is no review raises BadReviewError with a text for
the API server's log; what is one gets an answer, in the version in which it was asked. Used by `usher.webhooks.server`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
"""Both have the same form, as far as we use it."""
NOTHING: Final = Raw(b"null")
WARNING_MAX: Final = 256
"""The API server cuts longer warnings off."""

Op = dict[str, Any]
"""One step of a JSON patch."""


class BadReviewError(ValueError):
    """It cannot be answered; the text says why."""


class UserInfo(Struct, frozen=True, rename="camel"):
    username: str = ""
    groups: tuple[str, ...] = ()


class GroupResource(Struct, frozen=True, rename="camel"):
    group: str = ""
    version: str = ""
    resource: str = ""


class Request(Struct, frozen=True, rename="camel"):
    uid: str
    operation: str
    resource: GroupResource = GroupResource()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: Raw = NOTHING
    old_object: Raw = NOTHING


class Review(Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: Request


@dataclass(frozen=True, slots=True)
class Asked:
    """What is decided about. `new` and `old` are the objects as the API server has them; None: there is none."""

    operation: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    new: Mapping[str, Any] | None = None
    old: Mapping[str, Any] | None = None
    managed: bool = False
    """The API server says that its namespace is managed."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """It may be stored, with these changes."""

    patch: tuple[Op, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """It may not; the message says what to do."""

    message: str
    code: int = 403


Verdict = Allowed | Refused

_decoder: Final = msgspec.json.Decoder(Review)
_encoder: Final = msgspec.json.Encoder()
_objects: Final = msgspec.json.Decoder(dict[str, Any] | None)


@dataclass(frozen=True, slots=True)
class Question:
    """A review that can be answered."""

    version: str
    uid: str
    asked: Asked = field(repr=False)


def read(body: bytes, *, managed: bool = False) -> Question:
    """A review as it came; raises BadReviewError."""
    try:
        review = _decoder.decode(body)
        request = review.request
        new, old = _objects.decode(request.object), _objects.decode(request.old_object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadReviewError(f"not an AdmissionReview: {error}") from None
    if review.kind != "AdmissionReview" or review.api_version not in VERSIONS:
        what = f"{review.api_version} {review.kind}"[:200]
        raise BadReviewError(f"not an AdmissionReview of {' or '.join(VERSIONS)}, but {what}")
    asked = Asked(
        operation=request.operation,
        group=request.resource.group,
        resource=request.resource.resource,
        subresource=request.sub_resource,
        namespace=request.namespace,
        name=request.name,
        user=request.user_info.username,
        groups=request.user_info.groups,
        new=new,
        old=old,
        managed=managed,
    )
    return Question(review.api_version, request.uid, asked)


def answer(question: Question, verdict: Verdict) -> bytes:
    """The review that goes back."""
    response: dict[str, Any] = {"uid": question.uid, "allowed": isinstance(verdict, Allowed)}
    match verdict:
        case Refused(message, code):
            reason = "Forbidden" if code == 403 else "BadRequest"
            response["status"] = {"code": code, "message": message, "reason": reason, "status": "Failure"}
        case Allowed(patch, warnings):
            if patch:
                response["patchType"] = "JSONPatch"
                response["patch"] = base64.b64encode(_encoder.encode(patch)).decode()
            if warnings:
                response["warnings"] = [each[:WARNING_MAX] for each in warnings]
    return _encoder.encode({"apiVersion": question.version, "kind": "AdmissionReview", "response": response})
