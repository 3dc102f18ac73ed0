"""How one setting is read and shown: a `Value` per kind of value, and `setting`, which ties it to a field of the tree.

A reader gets what YAML decoded and raises ValueError with a text for people; the loader adds the path. A shower gives
what YAML would hold, so that reading what is shown gives the same setting back.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Generic, TypeVar

from usher.core.amounts import quoted
from usher.core.durations import exact_text, parse_ms

T = TypeVar("T")

OVERSELL_MAX: Final = 1000
_LABEL_PREFIX: Final = re.compile(r"(?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/")
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LEASE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """One kind of value."""

    called: str
    """What the documentation calls it."""
    read: Callable[[Any], T]
    show: Callable[[T], Any] = lambda value: value


def setting(default: T, about: str, value: Value[T]) -> T:
    """A field of the tree: its default, what it means, and how it is read."""
    return field(default=default, metadata={"about": about, "value": value})


def group(kind: type[T], about: str) -> T:
    """A field that holds a group of settings."""
    return field(default_factory=kind, metadata={"about": about})


def key_of(field_name: str) -> str:
    """The name of a field in YAML: camelCase, without the unit."""
    first, *rest = field_name.removesuffix("_ms").split("_")
    return first + "".join(word.capitalize() for word in rest)


def duration(low_ms: int = 0) -> Value[int]:
    """In milliseconds; a number without a unit is refused, because nobody can tell which one was meant."""

    def read(value: Any) -> int:
        ms = parse_ms(value, plain=False)
        if ms < low_ms:
            raise ValueError(f"{quoted(value)} is shorter than {exact_text(low_ms)}")
        return ms

    return Value("duration", read, exact_text)


def integer(low: int, high: int) -> Value[int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{quoted(value)} is not a whole number")
        if not low <= value <= high:
            raise ValueError(f"{value} is not between {low} and {high}")
        return value

    return Value("number", read)


def choice(*choices: str) -> Value[str]:
    def read(value: Any) -> str:
        if value is False and "off" in choices:
            return "off"  # which YAML takes for a flag
        if value not in choices:
            raise ValueError(f"{quoted(value)} is not one of {', '.join(choices)}")
        return str(value)

    return Value(" or ".join(f"`{each}`" for each in choices), read)


def matching(called: str, pattern: re.Pattern[str], what: str, *, empty: bool = False) -> Value[str]:
    """Text of a certain form; `empty`: or none."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{quoted(value)} is not a string")
        if not (empty and not value) and not pattern.fullmatch(value):
            raise ValueError(f"{quoted(value)} is not {what}")
        return value

    return Value(called, read)


def several(one: Value[str], *, least: int = 0) -> Value[tuple[str, ...]]:
    """A list without repetitions; its items keep their order."""

    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValueError(f"{quoted(value)} is not a list")
        found: list[str] = []
        for item in value:
            text = one.read(item)
            if text in found:
                raise ValueError(f"{text} is there twice")
            found.append(text)
        if len(found) < least:
            raise ValueError("at least one is needed")
        return tuple(found)

    return Value(f"list of {one.called}", read, list)


def _read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{quoted(value)} is not true or false")
    return value


def _read_rate(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{quoted(value)} is not a number, as in 1.2 or 6/5")
    try:
        rate = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{quoted(value)} is not a number, as in 1.2 or 6/5") from None
    if not 0 < rate <= OVERSELL_MAX:
        raise ValueError(f"{quoted(value)} is not above 0 and at most {OVERSELL_MAX}")
    return rate


def _read_address(value: Any) -> str:
    try:
        return value if value == "localhost" else str(ipaddress.ip_address(str(value)))
    except ValueError:
        raise ValueError(f"{quoted(value)} is not an IP address: write 127.0.0.1, 0.0.0.0 or ::") from None


def _read_label_key(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    prefix = _LABEL_PREFIX.match(text)
    if not _LABEL_NAME.fullmatch(text, prefix.end() if prefix else 0):
        raise ValueError(f"{quoted(value)} is not the key of a label, as in example.com/queue")
    return text


FLAG: Final = Value("true or false", _read_flag)
RATE: Final = Value("number", _read_rate, str)
ADDRESS: Final = Value("IP address", _read_address)
LABEL_KEY: Final = Value("label keys", _read_label_key)
NAMESPACE: Final = matching("name of a namespace", _NAMESPACE, "the name of a namespace")
NAMESPACES: Final = several(Value("namespaces", NAMESPACE.read))
OPTIONAL_NAMESPACE: Final = matching("name of a namespace", _NAMESPACE, "the name of a namespace", empty=True)
LEASE_NAME: Final = matching("name", _LEASE, "a name: lower-case letters, digits, '-' and '.'")
NAME: Final = matching("name", re.compile(r"\S+"), "a name")
NAMES: Final = several(Value("names", NAME.read))
IDENTITY: Final = matching("text", re.compile(r"\S{1,128}"), "at most 128 characters without spaces", empty=True)
PATH: Final = matching("path", re.compile(r"\S+"), "a path", empty=True)
