"""An object to be installed, and when; small builders that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from usher.install.values import Values

Object = dict[str, Any]

NAME: Final = "usher"
PART_OF: Final = "app.kubernetes.io/part-of"
LABELS: Final = {"app.kubernetes.io/name": NAME, PART_OF: NAME}
KEEP: Final = {"helm.sh/resource-policy": "keep"}
"""What has this stays when the chart goes."""
OLDEST: Final = (1, 34)
"""The oldest Kubernetes that takes our definitions: before it, rules about quantities count as too expensive, because a
`maxLength` beside `x-kubernetes-int-or-string` is not seen. `make oldest` runs tests on it."""


@dataclass(frozen=True)
class When:
    """A condition, for Python and for a template of the chart."""

    holds: Callable[[Values], bool]
    template: str


@dataclass(frozen=True)
class Part:
    """An object, the file of the chart that it is in, and the condition under which it is installed."""

    file: str
    object: Object
    when: When | None = None


def enabled(path: str) -> When:
    """A value that is true or false."""
    return When(lambda values: bool(values.at(path)), f".Values.{path}")


def meta(name: str, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Object:
    """Metadata with our labels, and others."""
    found: Object = {"name": name}
    if namespace is not None:
        found["namespace"] = namespace
    found["labels"] = {**LABELS, **(labels or {})}
    return found
