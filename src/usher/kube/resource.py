"""A kind of object: where the API server has it, and the type that its objects become here.

    PODS = Resource("", "v1", "pods", "Pod", namespaced=True, type=Pod)

Paths are made here and nowhere else. Names that would leave their place in a path are refused.
"""

import builtins
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

from usher.kube.wire import Codec, codec

T = TypeVar("T")
U = TypeVar("U")


class BadNameError(ValueError):
    """What cannot be the name of any object."""


@dataclass(frozen=True)
class Resource(Generic[T]):
    """A kind of the API. `type` is what its objects are decoded into: a msgspec Struct, or `dict[str, Any]`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[T]
    codec: Codec[T] = field(init=False, repr=False, compare=False)
    _root: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codec", codec(cast(Any, self.type)))
        object.__setattr__(
            self, "_root", f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        )

    @property
    def api_version(self) -> str:
        """As an object says it: `v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of an object or, without a name, of all of them (in all namespaces, without one)."""
        path = self._root
        if self.namespaced:
            if namespace is not None:
                path = f"{path}/namespaces/{_segment(namespace)}"
            elif name is not None:
                raise ValueError(f"{self.kind} {name} is in a namespace: say which")
        elif namespace is not None:
            raise ValueError(f"{self.kind} is not in a namespace, but {namespace} was given")
        path = f"{path}/{self.plural}"
        if name is not None:
            path = f"{path}/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path

    def typed(self, type_: builtins.type[U]) -> "Resource[U]":
        """The same kind, decoded into another type."""
        return Resource(self.group, self.version, self.plural, self.kind, self.namespaced, type_)


def untyped(group: str, version: str, plural: str, kind: str, *, namespaced: bool) -> Resource[dict[str, Any]]:
    """A kind whose objects stay dicts."""
    return Resource(group, version, plural, kind, namespaced, dict[str, Any])


def _segment(name: str) -> str:
    """A name as a part of a path; the API itself allows none of the names refused here."""
    if not name or name in (".", "..") or "/" in name or "%" in name:
        raise BadNameError(f"{name!r} cannot be the name of an object")
    return quote(name, safe=":@!$&'()*+,;=~")
