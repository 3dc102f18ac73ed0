"""One write on its way: send, judge the answer, and after a lost answer look before sending again.

The rule: no write is lost and none is done twice. An error whose request was certainly not carried out means sending
again. After one that may have been carried out (a broken connection, a time-out, a 5xx), a repeatable write is sent
again, while a guarded one and a creation first read the object back: it shows whether the write happened, because only
that write moves the object from its guard to what the write says. Only the writer calls this; it does the waiting.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Generic, TypeVar

import msgspec

from usher.kube import errors
from usher.kube.client import Client, PatchKind
from usher.kube.errors import KubeError, Retry
from usher.kube.wire import encode
from usher.kube.writes import Conflicted, Done, Exists, GaveUp, Outcome, Refused, Vanished, Verb, Write

T = TypeVar("T")

OWNER_CONFLICT = "FieldManagerConflict"
ABSENT: tuple[Any, ...] = (None, "", 0, False, [], {})
"""What the API server may leave out of an object, for saying nothing."""

REMOVES = (Verb.DELETE, Verb.EVICT)
"""Verbs after which the object is gone, or on its way."""

THE_SERVERS = {"resourceVersion", "uid", "creationTimestamp", "managedFields", "generation", "selfLink"}
"""Metadata that says nothing about what was asked for."""


class Cause(Enum):
    """Why a write is tried again."""

    CONFLICT = auto()
    THROTTLED = auto()
    UNKNOWN = auto()
    UNREACHABLE = auto()
    UNAUTHORIZED = auto()
    FENCE = auto()


@dataclass(frozen=True)
class Again:
    """Not decided yet: try once more, after a while; None as a cause means right away."""

    cause: Cause | None
    error: KubeError | None = None


class Delivery(Generic[T]):
    """The state of one write between its first send and its outcome."""

    def __init__(self, client: Client, write: Write[T]) -> None:
        self.write = write
        self.doubt = False
        """Whether a send may have happened without us knowing."""
        self.error: KubeError | None = None
        self._client = client
        self._body = payload(write)
        self._look = False

    @property
    def sends_next(self) -> bool:
        """Whether the next step is the write itself, and not only a look."""
        return not self._look

    async def step(self) -> Outcome[T] | Again:
        """One request, and what it means."""
        try:
            if self._look:
                return self._decide(await self._client.raw("GET", self._path()))
            return Done(await self._send())
        except KubeError as error:
            self.error = error
            return self._judge_look(error) if self._look else self._judge(error)

    async def _send(self) -> T | None:
        write, client, body = self.write, self._client, self._body
        place = (write.resource, write.name, write.namespace)
        match write.verb:
            case Verb.CREATE:
                return await client.create(write.resource, body, write.namespace)
            case Verb.PATCH:
                return await client.patch(*place, body, kind=write.patch, subresource=write.subresource)
            case Verb.APPLY:
                return await client.apply(*place, body, force=write.force, subresource=write.subresource)
            case Verb.REPLACE:
                return await client.replace(*place, body, subresource=write.subresource)
            case Verb.DELETE:
                await client.delete(*place, uid=write.uid, resource_version=write.guard, propagation=write.propagation)
                return None
            case Verb.EVICT:
                await client.evict(write.resource, write.name, write.namespace or "", uid=write.uid)
                return None

    def _judge(self, error: KubeError) -> Outcome[T] | Again:
        """What the answer to the write itself means."""
        match error:
            case errors.Undecodable():
                return Done(None)  # the server did it, and said so in words that are not of the type
            case errors.NotFound() | errors.Gone():
                return Done(None, found=True) if self.write.verb in REMOVES and self.doubt else Vanished(error)
            case errors.AlreadyExists():
                return self._look_because(None, error) if self.doubt else Exists(error)
            case errors.Conflict():
                return self._judge_conflict(error)
            case errors.Invalid() if self.write.uid and any(cause.field == "metadata.uid" for cause in error.causes):
                return Vanished(error)  # a patch that names another uid is called invalid, not a conflict
            case errors.Throttled():
                return Again(Cause.THROTTLED, error)
            case errors.Unauthorized():
                return Again(Cause.UNAUTHORIZED, error)
        if error.retry is Retry.LATER:
            return Again(Cause.UNREACHABLE, error)
        if error.retry is Retry.UNKNOWN:
            self.doubt = True
            if self.write.guarded or self.write.verb is Verb.CREATE:
                return self._look_because(Cause.UNKNOWN, error)
            return Again(Cause.UNKNOWN, error)
        return Refused(error)

    def _judge_conflict(self, error: KubeError) -> Outcome[T] | Again:
        if self.write.verb is Verb.APPLY and any(cause.reason == OWNER_CONFLICT for cause in error.causes):
            return Conflicted(error)
        if self.write.guarded and not self.doubt:
            return Conflicted(error)
        if self.write.guarded or self.write.uid:
            return self._look_because(Cause.CONFLICT if self.doubt else None, error)
        return Again(Cause.CONFLICT, error)

    def _look_because(self, cause: Cause | None, error: KubeError) -> Again:
        self._look = True
        return Again(cause, error)

    def _judge_look(self, error: KubeError) -> Outcome[T] | Again:
        """What it means that reading back failed."""
        write = self.write
        if isinstance(error, errors.NotFound):
            if write.verb is Verb.CREATE:
                self._look = False  # it did not happen
                return Again(None, error)
            return Done(None, found=True) if write.verb in REMOVES and self.doubt else Vanished(error)
        if isinstance(error, errors.Throttled):
            return Again(Cause.THROTTLED, error)
        if isinstance(error, errors.Unauthorized):
            return Again(Cause.UNAUTHORIZED, error)
        if error.retry is not Retry.NO:
            return Again(Cause.UNREACHABLE, error)
        return GaveUp(error, unsure=self.doubt)

    def _decide(self, raw: bytes) -> Outcome[T] | Again:
        """Whether the object, as it is now, shows that the write happened."""
        write, seen = self.write, msgspec.json.decode(raw)
        metadata = seen.get("metadata", {})
        self._look = False
        error = self.error
        assert error is not None, "nobody looks without a reason"
        if write.uid is not None and metadata.get("uid") != write.uid:
            return Done(None, found=True) if write.verb in REMOVES and self.doubt else Vanished(error)
        if write.verb in REMOVES and self.doubt and metadata.get("deletionTimestamp"):
            return Done(None, found=True)
        if write.verb is not Verb.CREATE and (write.guard is None or metadata.get("resourceVersion") == write.guard):
            return Again(Cause.CONFLICT if isinstance(error, errors.Conflict) else None, error)
        if self._shown_by(seen):
            return Done(self._typed(raw), found=True)
        if write.verb is Verb.CREATE:
            return Exists(error, self._typed(raw), unsure=True)
        return Conflicted(error, self._typed(raw), unsure=self.doubt)

    def _path(self) -> str:
        write = self.write
        part = None if write.subresource == "status" else write.subresource  # the whole object shows its status
        return write.resource.path(write.namespace, write.name, part)

    def _shown_by(self, seen: dict[str, Any]) -> bool:
        write = self.write
        if write.verb in REMOVES or (write.verb is Verb.PATCH and write.patch is PatchKind.JSON):
            return False
        sent = msgspec.to_builtins(_plain(write.body))
        sent["metadata"] = {key: value for key, value in (sent.get("metadata") or {}).items() if key not in THE_SERVERS}
        if write.verb is Verb.CREATE:
            sent.pop("status", None)  # a creation never sets it where there is a status of its own
        lists_merge = write.verb is Verb.APPLY or (write.verb is Verb.PATCH and write.patch is PatchKind.STRATEGIC)
        return contains(seen, sent, lists_merge=lists_merge)

    def _typed(self, raw: bytes) -> T | None:
        try:
            return self.write.resource.codec.one(raw)
        except errors.Undecodable:
            return None


def payload(write: Write[Any]) -> bytes | None:
    """The body with its guard in it."""
    if write.body is None:
        return None
    given = {"resourceVersion": write.guard, "uid": write.uid}
    given = {key: value for key, value in given.items() if value is not None}
    if not given:
        return encode(write.body)
    plain = _plain(write.body)
    if write.verb is Verb.PATCH and write.patch is PatchKind.JSON:
        # Not `test`: where that fails the server says "invalid", while a wrong version set is a conflict.
        return encode([*plain, *({"op": "replace", "path": f"/metadata/{k}", "value": v} for k, v in given.items())])
    return encode({**plain, "metadata": {**plain.get("metadata", {}), **given}})


def contains(seen: Any, sent: Any, *, lists_merge: bool = False) -> bool:
    """Whether an object has all that a body says; None in the body means absent, and so does what says nothing.

    With `lists_merge`, every item of a list must be in the object's list; otherwise lists must be equal.
    """
    if isinstance(sent, dict):
        if not isinstance(seen, dict):
            return seen in ABSENT and all(value in ABSENT for value in sent.values())
        return all(contains(seen.get(key), value, lists_merge=lists_merge) for key, value in sent.items())
    if lists_merge and isinstance(sent, list) and isinstance(seen, list):
        return all(any(contains(has, item, lists_merge=True) for has in seen) for item in sent)
    if isinstance(sent, list) and isinstance(seen, list) and len(sent) == len(seen):
        return all(contains(has, item) for has, item in zip(seen, sent, strict=True))
    return bool(seen == sent) or (sent in ABSENT and seen in ABSENT)


def _plain(body: Any) -> Any:
    """A body as dicts and lists."""
    if isinstance(body, dict | list):
        return body
    return msgspec.json.decode(body) if isinstance(body, bytes) else msgspec.to_builtins(body)
