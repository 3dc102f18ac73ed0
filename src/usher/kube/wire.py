"""JSON at the border: bytes in, typed objects out, and back.

A type may be any msgspec Struct that names only the fields it needs (the rest is skipped without being built) or
`dict[str, Any]`. Objects in a list carry neither `apiVersion` nor `kind`, so a type must not insist on them. `Resource`
holds one `Codec` for its type; the client decodes through it.
"""

from collections.abc import Sequence
from enum import Enum
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

import msgspec

from usher.kube.errors import KubeError, Undecodable, from_event

T = TypeVar("T")

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the first part of a watch-list."""


class EventType(Enum):
    """What a watch event says; errors are raised instead."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One step of a watch. A bookmark has no object, only the version that was reached."""

    type: EventType
    object: T | None
    resource_version: str
    initial_end: bool = False
    rejected: "Rejected | None" = None


class Rejected(msgspec.Struct, frozen=True):
    """An object that is not of its type: who it is, and what is wrong with it."""

    namespace: str
    name: str
    error: str


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A list, or a part of one: go on with `continue_token` until it is empty."""

    items: Sequence[T]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None
    rejected: Sequence[Rejected] = msgspec.field(default=())


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The part of every object that a client needs; `Object` and types of others' own may use it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Object(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Any object, of which only the metadata is wanted."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Any(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _ListMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct, Generic[T], frozen=True, gc=False):
    metadata: _ListMeta = _ListMeta()
    items: list[T] | None = None


class _Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    type: EventType
    object: T


class _RawEvent(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


_any = msgspec.json.Decoder(_Any)
_raw_event = msgspec.json.Decoder(_RawEvent)
_raw_list = msgspec.json.Decoder(_List[msgspec.Raw])
_encode = msgspec.json.Encoder().encode

_OBJECT_EVENTS = (b'{"type":"ADDED"', b'{"type":"MODIFIED"', b'{"type":"DELETED"')
"""How events with an object begin as the API server writes them: these are decoded in one pass."""


def encode(body: Any) -> bytes:
    """A body as JSON; bytes are taken as they are."""
    return body if isinstance(body, bytes) else _encode(body)


def version_of(object_: Any) -> str:
    """The resourceVersion of an object, whatever its type; empty if the type leaves it out."""
    if type(object_) is dict:
        version = object_.get("metadata", {}).get("resourceVersion", "")
        return version if isinstance(version, str) else ""
    metadata = getattr(object_, "metadata", None)
    version = getattr(metadata, "resource_version", "")
    return version if isinstance(version, str) else ""


class Codec(Generic[T]):
    """Decoders for one type, each made once, when it is needed: that takes longer than to decode a small list."""

    def __init__(self, type_: Any) -> None:
        self._type = type_

    @cached_property
    def object(self) -> "msgspec.json.Decoder[T]":
        return msgspec.json.Decoder(self._type)

    @cached_property
    def _list(self) -> "msgspec.json.Decoder[_List[T]]":
        return msgspec.json.Decoder(_List[self._type])  # type: ignore[name-defined]

    @cached_property
    def _event(self) -> "msgspec.json.Decoder[_Event[T]]":
        return msgspec.json.Decoder(_Event[self._type])  # type: ignore[name-defined]

    def one(self, body: bytes) -> T:
        """An object."""
        try:
            return self.object.decode(body)
        except msgspec.DecodeError as error:
            raise Undecodable(f"{_name_of(body)}: {error}") from error

    def page(self, body: bytes) -> Page[T]:
        """A list. Objects that are not of the type are left out and named in `rejected`."""
        rejected: list[Rejected] = []
        try:
            listed = self._list.decode(body)
        except msgspec.ValidationError:
            listed = self._page_one_by_one(body, rejected)
        except msgspec.DecodeError as error:
            raise Undecodable(f"a list that is not JSON: {error}") from error
        meta = listed.metadata
        return Page(listed.items or (), meta.resource_version, meta.continue_, meta.remaining_item_count, rejected)

    def event(self, line: bytes) -> WatchEvent[T]:
        """A line of a watch. Raises the error that the server put into the stream."""
        if line.startswith(_OBJECT_EVENTS):
            try:
                event = self._event.decode(line)
            except msgspec.ValidationError as error:
                return self._rejected_event(line, error)
            except msgspec.DecodeError as error:
                raise Undecodable(f"a watch event that is not JSON: {error}") from error
            return WatchEvent(event.type, event.object, version_of(event.object))
        return self._rare_event(line)

    def _rare_event(self, line: bytes) -> WatchEvent[T]:
        """Bookmarks, errors, and events written in an unusual way."""
        try:
            event = _raw_event.decode(line)
            if event.type == "ERROR":
                raise from_event(event.object)
            meta = _any.decode(event.object).metadata
            kind = EventType(event.type)
        except (msgspec.DecodeError, ValueError) as error:
            raise Undecodable(f"a watch event that cannot be read: {error}") from error
        if kind is EventType.BOOKMARK:
            end = meta.annotations.get(INITIAL_EVENTS_END) == "true"
            return WatchEvent(kind, None, meta.resource_version, end)
        try:
            return WatchEvent(kind, self.object.decode(event.object), meta.resource_version)
        except msgspec.ValidationError as error:
            return self._rejected_event(line, error)

    def _rejected_event(self, line: bytes, error: Exception) -> WatchEvent[T]:
        event = _raw_event.decode(line)
        meta = _any.decode(event.object).metadata
        rejected = Rejected(meta.namespace, meta.name, str(error))
        return WatchEvent(EventType(event.type), None, meta.resource_version, rejected=rejected)

    def _page_one_by_one(self, body: bytes, rejected: list[Rejected]) -> _List[T]:
        try:
            raw = _raw_list.decode(body)
        except msgspec.ValidationError as error:
            raise Undecodable(f"not a list: {error}") from error
        items: list[T] = []
        for each in raw.items or ():
            try:
                items.append(self.object.decode(each))
            except msgspec.ValidationError as error:
                meta = _any.decode(each).metadata
                rejected.append(Rejected(meta.namespace, meta.name, str(error)))
        return _List(raw.metadata, items)


@cache
def codec(type_: Any) -> Codec[Any]:
    """The decoders for a type."""
    return Codec(type_)


def _name_of(body: bytes) -> str:
    try:
        meta = _any.decode(body).metadata
    except msgspec.DecodeError:
        return "the answer"
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or "the answer"


__all__ = [
    "Codec", "EventType", "KubeError", "Object", "ObjectMeta", "Page", "Rejected", "WatchEvent",
    "codec", "encode", "version_of",
]  # fmt: skip
