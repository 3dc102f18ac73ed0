"""Reading decoded objects field by field; every bad value becomes one error with its path, and a default goes on.

A `Fields` stands for one mapping of an object. It remembers what was asked for, so that `refuse_others` can name the
fields that nobody reads: a typing mistake there would otherwise be silent.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from usher.core.amounts import field_path, parse_amounts, quoted
from usher.core.durations import DurationError, parse_ms
from usher.core.model import Operator, Requirement

INT32: Final = (-(2**31), 2**31 - 1)


class Fields:
    """One mapping of a decoded object, at a path; null is the same as absent."""

    def __init__(self, value: object, path: str, errors: list[str]) -> None:
        self.path = path
        self.errors = errors
        self.raw: Mapping[str, Any] = {}
        self._asked: set[str] = set()
        if isinstance(value, Mapping):
            self.raw = value
        elif value is not None:
            errors.append(f"{path}: {quoted(value)} is not an object")

    def at(self, name: str) -> str:
        """The path of a field of this mapping."""
        return field_path(self.path, name) if self.path else name

    def complain(self, name: str, why: str) -> None:
        """Add an error about a field."""
        self.errors.append(f"{self.at(name)}: {why}")

    def get(self, name: str) -> Any:
        """The decoded value, unchecked; None if absent."""
        self._asked.add(name)
        return self.raw.get(name)

    def has(self, name: str) -> bool:
        return self.raw.get(name) is not None

    def text(self, name: str, default: str = "") -> str:
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            self.complain(name, f"{quoted(value)} is not a string")
            return default
        return value

    def integer(self, name: str, default: int = 0, low: int = INT32[0], high: int = INT32[1]) -> int:
        value = self.optional_integer(name, low, high)
        return default if value is None else value

    def optional_integer(self, name: str, low: int = INT32[0], high: int = INT32[1]) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.complain(name, f"{quoted(value)} is not a whole number")
            return None
        if not low <= value <= high:
            self.complain(name, f"{value} is not between {low} and {high}" if low else f"{value} is negative")
            return None
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.complain(name, f"{quoted(value)} is not true or false")
            return default
        return value

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        value = self.text(name, default)
        if value in choices:
            return value
        self.complain(name, f"{quoted(value)} is not one of {', '.join(choices)}")
        return default

    def amounts(self, name: str) -> dict[str, int]:
        return parse_amounts(self.get(name), self.at(name), self.errors)

    def duration(self, name: str) -> int | None:
        """In milliseconds, or None if absent."""
        value = self.get(name)
        if value is None:
            return None
        try:
            return parse_ms(value)
        except DurationError as error:
            self.complain(name, str(error))
            return None

    def inside(self, name: str) -> Fields:
        """The mapping in this field; empty if absent."""
        return Fields(self.get(name), self.at(name), self.errors)

    def items(self, name: str) -> list[Fields]:
        """The mappings of the list in this field."""
        return [Fields(item, f"{self.at(name)}[{i}]", self.errors) for i, item in enumerate(self.list_of(name))]

    def texts(self, name: str) -> list[str]:
        found = []
        for i, item in enumerate(self.list_of(name)):
            if isinstance(item, str):
                found.append(item)
            else:
                self.errors.append(f"{self.at(name)}[{i}]: {quoted(item)} is not a string")
        return found

    def list_of(self, name: str) -> list[Any]:
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.complain(name, f"{quoted(value)} is not a list")
            return []
        return value

    def selector(self, name: str) -> tuple[Requirement, ...] | None:
        """A label selector as requirements; None if absent, () if it selects everything."""
        if not self.has(name):
            self._asked.add(name)
            return None
        selector = self.inside(name)
        labels = selector.inside("matchLabels")
        found = [Requirement(key, Operator.IN, frozenset({labels.text(key)})) for key in labels.raw]
        for line in selector.items("matchExpressions"):
            operator = Operator(line.choice("operator", [each.value for each in Operator], Operator.EXISTS))
            values = frozenset(line.texts("values"))
            if not line.text("key"):
                line.complain("key", "is missing")
            if (operator in (Operator.IN, Operator.NOT_IN)) != bool(values):
                line.complain("values", f"{operator} needs {'at least one' if not values else 'none'}")
            line.refuse_others()
            found.append(Requirement(line.text("key"), operator, values))
        selector.refuse_others()
        return tuple(found)

    def refuse_others(self) -> None:
        """An error for each field that was never asked for."""
        for name in self.raw:
            if name not in self._asked:
                near = difflib.get_close_matches(str(name), sorted(self._asked), n=1)
                self.complain(str(name), f"no such field{f'; did you mean {near[0]}?' if near else ''}")
