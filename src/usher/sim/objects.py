"""One manifest: its identity, labels, annotations and timing, and the errors found in it.

The readers of the kinds get a `Manifest` and read its `spec` through `Fields`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from usher.core.amounts import field_path, quoted
from usher.core.durations import DurationError, parse_ms
from usher.core.model import CheckState
from usher.sim import labels as keys
from usher.sim.documents import Document
from usher.sim.fields import Fields
from usher.sim.problems import Problems
from usher.sim.scenario import Answers

GROUP: Final = "scheduling.x-k8s.io"
API_VERSION: Final = f"{GROUP}/v1alpha1"
SYSTEM_NAMESPACE: Final = "usher-system"
DEFAULT_NAMESPACE: Final = "default"
CLUSTER_SCOPED: Final = frozenset({"QueueQuota", "AdmissionCheck", "Node", "Namespace", "PriorityClass"})

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ANSWERS: Final[Mapping[str, CheckState | None]] = {
    "Ready": CheckState.READY,
    "Retry": CheckState.RETRY,
    "Rejected": CheckState.REJECTED,
    "never": None,
}
_T = TypeVar("_T")


@dataclass
class Manifest:
    """One object of a file."""

    file: str
    kind: str
    namespace: str
    """Empty for kinds that have none."""
    name: str
    body: Fields
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    """Annotations that stand in where the object's own say nothing (those of a job's pod template)."""
    errors: list[str] = field(default_factory=list)

    @property
    def ident(self) -> str:
        """Kind and name, as errors show them."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def where(self) -> str:
        return f"{self.file}: {self.ident}"

    @property
    def spec(self) -> Fields:
        return Fields(self.body.raw.get("spec"), "spec", self.errors)

    def named(self, names: Sequence[str]) -> str:
        """The first of these keys that the labels or annotations have."""
        return self.named_at(names)[1]

    def named_at(self, names: Sequence[str]) -> tuple[str, str]:
        """As `named`, with the path of where it was found first."""
        for name in names:
            for place, values in (("labels", self.labels), ("annotations", self.annotations)):
                if values.get(name):
                    return field_path(f"metadata.{place}", name), values[name]
        return "", ""

    def named_integer(self, names: Sequence[str], low: int, high: int = 2**31 - 1) -> int | None:
        path, text = self.named_at(names)
        if not text:
            return None
        if not re.fullmatch(r"[+-]?[0-9]{1,12}", text) or not low <= int(text) <= high:
            self.errors.append(f"{path}: {quoted(text)} is not a whole number between {low} and {high}")
            return None
        return int(text)

    def named_flag(self, names: Sequence[str], default: bool) -> bool:
        return _flag(*self.named_at(names), default, self.errors)

    def arrives_ms(self) -> int:
        return self._duration(keys.ARRIVES) or 0

    def leaves_ms(self) -> int | None:
        """When it is deleted, if ever."""
        leaves = self._duration(keys.LEAVES)
        if leaves is not None and leaves <= self.arrives_ms():
            self._complain(keys.LEAVES, "it leaves before it arrives")
        return leaves

    def runs_ms(self, default: int) -> int:
        runs = self._duration(keys.RUNS_FOR)
        return default if runs is None else runs

    def ready_after_ms(self) -> int | None:
        return None if self._sim(keys.READY_AFTER) == "never" else self._duration(keys.READY_AFTER) or 0

    def fails(self) -> bool:
        return _flag(f"metadata.annotations[{keys.FAILS}]", self._sim(keys.FAILS), False, self.errors)

    def answers(self) -> Answers | None:
        """What checks say, where this object's annotations tell it."""
        text, after_ms = self._sim(keys.ANSWERS), self._duration(keys.ANSWERS_AFTER)
        if not text:
            return Answers(after_ms=after_ms) if after_ms is not None else None
        states: list[CheckState | None] = []
        for word in text.split(","):
            if word.strip() in _ANSWERS:
                states.append(_ANSWERS[word.strip()])
            else:
                self._complain(keys.ANSWERS, f"{quoted(word.strip())} is not one of {', '.join(_ANSWERS)}")
        return Answers(tuple(states) or (CheckState.READY,), after_ms or 0)

    def _sim(self, key: str) -> str:
        return self.annotations.get(key) or self.extra.get(key, "")

    def _duration(self, key: str) -> int | None:
        text = self._sim(key)
        if not text:
            return None
        try:
            return parse_ms(text)
        except DurationError as error:
            self._complain(key, str(error))
            return None

    def _complain(self, key: str, why: str) -> None:
        line = f"{field_path('metadata.annotations', key)}: {why}"
        if line not in self.errors:
            self.errors.append(line)


def manifest(document: Document, problems: Problems) -> Manifest | None:
    """The object of a document with its identity checked; None if it has none."""
    errors: list[str] = []
    body = Fields(document.body, "", errors)
    kind, api_version = body.text("kind"), body.text("apiVersion")
    metadata = body.inside("metadata")
    name = metadata.text("name")
    if not name and metadata.text("generateName"):
        name = f"{metadata.text('generateName')}{document.index}"
    namespace = "" if kind in CLUSTER_SCOPED else metadata.text("namespace") or DEFAULT_NAMESPACE
    found = Manifest(document.file, kind, namespace, name, body, errors=errors)
    if not kind:
        errors.append("kind: is missing")
    if not api_version:
        errors.append("apiVersion: is missing")
    if not name:
        errors.append("metadata.name: is missing")
    elif len(name) > 253 or not _NAME.fullmatch(name):
        errors.append(f"metadata.name: {quoted(name)} is not a name: lower-case letters, digits, '-' and '.'")
    if namespace and (len(namespace) > 63 or not _NAME.fullmatch(namespace) or "." in namespace):
        errors.append(f"metadata.namespace: {quoted(namespace)} is not the name of a namespace")
    found.labels = texts_of(metadata, "labels")
    found.annotations = texts_of(metadata, "annotations")
    for key in found.annotations:
        if key.startswith(keys.SIM_PREFIX) and key not in keys.SIM_KEYS:
            known = ", ".join(sorted(each.removeprefix(keys.SIM_PREFIX) for each in keys.SIM_KEYS))
            errors.append(f"metadata.annotations[{key}]: no such annotation; there are {known}")
    if errors:
        where = found.where if kind and name else f"{document.file}: {kind or 'object'} {name or document.index}"
        problems.extend(where, errors)
        errors.clear()
        return found if kind and api_version and name else None
    return found


def texts_of(holder: Fields, name: str) -> dict[str, str]:
    """Labels or annotations; plain numbers and booleans are taken for their text."""
    inside = holder.inside(name)
    found: dict[str, str] = {}
    for key, value in inside.raw.items():
        if isinstance(value, bool):
            found[str(key)] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            found[str(key)] = str(value)
        elif value is not None:
            inside.complain(str(key), f"{quoted(value)} is not a string")
    return found


def collected(manifest: Manifest, problems: Problems, read: Callable[[Manifest], _T]) -> _T:
    """Read an object and hand its errors, each once, to the collector."""
    result = read(manifest)
    problems.extend(manifest.where, dict.fromkeys(manifest.errors))
    manifest.errors.clear()
    return result


def _flag(path: str, text: str, default: bool, errors: list[str]) -> bool:
    if text in ("true", "false"):
        return text == "true"
    if text:
        errors.append(f"{path}: {quoted(text)} is not true or false")
    return default
