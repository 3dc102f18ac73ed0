"""The cache of an informer: objects by key and by index, and what changed from one state to the next.

The rule: every change of the cache comes out as exactly one delta, and the deltas of a key, one after another, lead
from nothing to what the cache has. That holds over a relist too: what went while nobody looked comes out as `Deleted`
with the last known object, and an object that was replaced by another of the same name as `Deleted` and `Added`. The
informer writes; everybody else reads.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from usher.kube.wire import EventType, Rejected, WatchEvent

T = TypeVar("T")

Key = tuple[str, str]
"""Namespace (empty for cluster-wide kinds) and name."""

Index = Callable[[T], Iterable[str]]
"""The values under which an object is found in an index."""


class Added(msgspec.Struct, Generic[T], frozen=True):
    """An object that was not there before."""

    key: Key
    object: T


class Changed(msgspec.Struct, Generic[T], frozen=True):
    """An object as it was and as it is."""

    key: Key
    old: T
    object: T


class Deleted(msgspec.Struct, Generic[T], frozen=True):
    """An object that is gone, as it was last seen. `missed`: it went while we were not connected."""

    key: Key
    object: T
    missed: bool = False


Delta = Added[T] | Changed[T] | Deleted[T]
Deltas = list[Delta[T]]


class Entry(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object and what tells it from others and from its own past."""

    object: T
    uid: str
    resource_version: str


class Store(Generic[T]):
    """What the informer knows. Reading is immediate; nothing of it may be changed."""

    def __init__(self, transform: Callable[[Any], T], indexers: Mapping[str, Index[T]]) -> None:
        self._transform = transform
        self._indexers = indexers
        self._entries: dict[Key, Entry[T]] = {}
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in indexers}
        self.resource_version = ""
        self.rejected: dict[Key, str] = {}
        """Objects that are not of their type, and why. If one was of its type before, that state stays."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, name: str, namespace: str = "") -> T | None:
        """An object, if it is there."""
        entry = self._entries.get((namespace, name))
        return None if entry is None else entry.object

    def list(self) -> Sequence[T]:
        """Every object."""
        return [entry.object for entry in self._entries.values()]

    def items(self) -> Iterator[tuple[Key, T]]:
        """Every key and object."""
        return ((key, entry.object) for key, entry in self._entries.items())

    def everything(self) -> Deltas[T]:
        """Every object, as a delta from nothing."""
        return [Added(key, entry.object) for key, entry in self._entries.items()]

    def versions(self) -> dict[Key, str]:
        """The resourceVersion of every object: what an independent list can be compared with."""
        return {key: entry.resource_version for key, entry in self._entries.items()}

    def by_index(self, index: str, value: str) -> Sequence[T]:
        """The objects that the index has under a value."""
        return [self._entries[key].object for key in self._indexes[index].get(value, ())]

    def entry(self, object_: Any) -> tuple[Key, Entry[T]]:
        """An object as it is kept."""
        if type(object_) is dict:
            meta = object_["metadata"]
            key = (meta.get("namespace", ""), meta["name"])
            return key, Entry(self._transform(object_), meta["uid"], meta["resourceVersion"])
        meta = object_.metadata
        return (meta.namespace, meta.name), Entry(self._transform(object_), meta.uid, meta.resource_version)

    def known(self, key: Key) -> "Entry[T] | None":
        """The entry of a key, if any."""
        return self._entries.get(key)

    def apply(self, event: WatchEvent[Any]) -> Deltas[T]:
        """Take in one event of a watch; what changed (nothing, for a bookmark)."""
        deltas: Deltas[T] = []
        if event.object is not None:
            key, entry = self.entry(event.object)
            self.rejected.pop(key, None)
            if event.type is EventType.DELETED:
                deltas = self._remove(key, entry, missed=False)
            else:
                deltas = self._put(key, entry)
        elif event.rejected is not None:
            deltas = self._reject(event.type, event.rejected)
        if event.resource_version:
            self.resource_version = event.resource_version
        return deltas

    def replace(self, listing: "Listing[T]", resource_version: str) -> Deltas[T]:
        """Become what was listed; what changed."""
        deltas: Deltas[T] = []
        for key in [key for key in self._entries if key not in listing.entries and key not in listing.rejected]:
            deltas += self._remove(key, self._entries[key], missed=True)
        for key, entry in listing.entries.items():
            if entry is not self._entries.get(key):
                deltas += self._put(key, entry)
        self.rejected = dict(listing.rejected)
        self.resource_version = resource_version
        return deltas

    def _put(self, key: Key, entry: Entry[T]) -> Deltas[T]:
        old = self._entries.get(key)
        self._entries[key] = entry
        if self._indexers:
            self._unindex(key, old)
            self._index(key, entry)
        if old is None:
            return [Added(key, entry.object)]
        if old.resource_version == entry.resource_version:
            return []
        if old.uid != entry.uid:
            return [Deleted(key, old.object, missed=True), Added(key, entry.object)]
        return [Changed(key, old.object, entry.object)]

    def _remove(self, key: Key, last: Entry[T], *, missed: bool) -> Deltas[T]:
        old = self._entries.pop(key, None)
        if old is None:
            return []
        self._unindex(key, old)
        return [Deleted(key, last.object, missed)]

    def _reject(self, kind: EventType, rejected: Rejected) -> Deltas[T]:
        key = (rejected.namespace, rejected.name)
        if kind is not EventType.DELETED:
            self.rejected[key] = rejected.error
            return []
        self.rejected.pop(key, None)
        old = self._entries.get(key)
        return [] if old is None else self._remove(key, old, missed=False)

    def _index(self, key: Key, entry: Entry[T]) -> None:
        for name, values in self._indexers.items():
            index = self._indexes[name]
            for value in values(entry.object):
                index.setdefault(value, {})[key] = None

    def _unindex(self, key: Key, entry: "Entry[T] | None") -> None:
        if entry is None:
            return
        for name, values in self._indexers.items():
            index = self._indexes[name]
            for value in values(entry.object):
                keys = index.get(value)
                if keys is not None:
                    keys.pop(key, None)
                    if not keys:
                        del index[value]


class Listing(Generic[T]):
    """A list that is being read. An object that the store has already in that version is not kept a second time."""

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self.entries: dict[Key, Entry[T]] = {}
        self.rejected: dict[Key, str] = {}

    def add(self, object_: Any) -> None:
        """An object of the list."""
        key, entry = self._store.entry(object_)
        known = self._store.known(key)
        same = known is not None and (known.uid, known.resource_version) == (entry.uid, entry.resource_version)
        self.entries[key] = known if same and known is not None else entry

    def reject(self, rejected: Rejected) -> None:
        """An object of the list that is not of its type."""
        self.rejected[rejected.namespace, rejected.name] = rejected.error

    def apply(self, event: WatchEvent[Any]) -> None:
        """The list comes as events of a watch: what changes before its end belongs to it."""
        if event.rejected is not None:
            key = (event.rejected.namespace, event.rejected.name)
            self.rejected.pop(key, None)
            if event.type is not EventType.DELETED:
                self.reject(event.rejected)
            else:
                self.entries.pop(key, None)
        elif event.object is not None:
            if event.type is EventType.DELETED:
                self.entries.pop(self._store.entry(event.object)[0], None)
            else:
                self.add(event.object)
