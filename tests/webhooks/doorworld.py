"""The world of the table as the rules know it, and the patches that the API server would apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from usher.core.model import Queue, Quota
from usher.jobkinds.registry import kinds_named
from usher.runtime.facts import Reading
from usher.webhooks.known import has_purse, may_use
from usher.webhooks.terms import Terms

TERMS = Terms(kinds=tuple(kinds_named(["jobs.batch"])), operator_namespaces=("kube-system", "operators"))


class World:
    """What the table says is there. Namespaces are called by their roles."""

    def __init__(self) -> None:
        found = [
            Queue("team", "main", max_priority=100),
            Queue("team", "second"),
            Queue("managed", "only"),
            Queue("usher-system", "open", shared=True, namespaces=frozenset({"team", "managed"})),
            Queue("usher-system", "closed", shared=True, namespaces=frozenset({"other"})),
            Queue("usher-system", "theirs", shared=True, quota="theirs"),
        ]
        self._queues = {queue.key: queue for queue in found}
        quotas = [
            Quota("ours", namespaces=frozenset({"team"})),
            Quota("below", "ours"),
            Quota("theirs", namespaces=frozenset({"other"})),
            Quota("free"),
        ]
        self._quotas = {quota.name: quota for quota in quotas}

    def managed(self, namespace: str) -> bool:
        return namespace in ("managed", "empty")

    def queue(self, namespace: str, name: str) -> Queue | None:
        return self._queues.get(f"{namespace}/{name}") or self._queues.get(f"usher-system/{name}")

    def usable(self, namespace: str) -> Sequence[Queue]:
        mine = [queue for queue in self._queues.values() if queue.namespace == namespace]
        shared = [queue for queue in self._queues.values() if queue.shared and may_use(queue, namespace)]
        return [*mine, *(queue for queue in shared if has_purse(self, queue, namespace))]

    def quotas(self) -> Mapping[str, Quota]:
        return self._quotas

    def reserved(self, quota: str) -> bool:
        return bool(self._quotas[quota].namespaces)

    def quota_of(self, namespace: str) -> str:
        return {"team": "ours", "other": "theirs"}.get(namespace, "")

    def scheduler(self, quota: str) -> str:
        return ""

    def reading(self) -> Reading:
        return Reading(queues={"managed": "only"})


def patched(found: Mapping[str, Any], ops: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An object after the `add` steps of a JSON patch; as strict as the API server."""
    result = deepcopy(dict(found))
    for op in ops:
        assert op["op"] == "add"
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in op["path"].split("/")[1:])
        here = result
        for part in way:
            here = here[part]
        here[last] = deepcopy(op["value"])
    return result


def merged(found: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """An object after a merge patch."""
    result = deepcopy(dict(found))
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = merged(result.get(key) or {}, value)
        else:
            result[key] = value
    return result
