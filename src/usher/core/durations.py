"""Durations as people write them: Go's `1h30m`, `90s`, `500ms`, and plain seconds. Inside there are milliseconds only.

Called for annotations, fields and options; who reads an object adds the field's path to the error.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from usher.core.amounts import quoted

DURATION_MAX_MS: Final = 100 * 365 * 24 * 3_600_000
"""A hundred years: nobody means more, and sums of a few stay far from 64 bits."""

_UNITS_MS: Final = {
    "ns": Fraction(1, 10**6),
    "us": Fraction(1, 1000),
    "µs": Fraction(1, 1000),
    "ms": Fraction(1),
    "s": Fraction(1000),
    "m": Fraction(60_000),
    "h": Fraction(3_600_000),
    "d": Fraction(86_400_000),
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h|d)")
_SECONDS: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")


class DurationError(ValueError):
    """A text that is not a duration; the message says what one looks like."""


def parse_ms(value: object, *, plain: bool = True) -> int:
    """The duration in milliseconds, rounded up; raises DurationError, also if it is negative.

    `plain`: a number without a unit is seconds; otherwise only zero may stand alone.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DurationError(_not_one(value, plain))
    text = value.strip() if isinstance(value, str) else format(value, "f" if isinstance(value, float) else "d")
    if text.startswith("-"):
        raise DurationError(f"{quoted(value)} is negative")
    if _SECONDS.fullmatch(text):
        exact = Fraction(text) * 1000
        if exact and not plain:
            raise DurationError(f"{quoted(value)} has no unit: write {text}s, {text}m or {text}h")
    else:
        exact, end = Fraction(0), 0
        while part := _PART.match(text, end):
            exact += Fraction(part[1]) * _UNITS_MS[part[2]]
            end = part.end()
        if not text or end != len(text):
            raise DurationError(_not_one(value, plain))
    if exact > DURATION_MAX_MS:
        raise DurationError(f"{quoted(value)} is longer than a hundred years")
    return -(-exact.numerator // exact.denominator)


def format_ms(ms: int) -> str:
    """For people: `0s`, `250ms`, `1m30s`, `2h5m`, `3d4h`; at most two units, the rest cut off above an hour."""
    if ms < 1000:
        return f"{ms}ms" if ms else "0s"
    seconds, rest = divmod(ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h" if hours else f"{days}d"
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    if minutes:
        return f"{minutes}m{seconds}s" if seconds else f"{minutes}m"
    return f"{seconds}.{rest // 100}s" if rest >= 100 else f"{seconds}s"


def exact_text(ms: int) -> str:
    """As in Go, nothing lost: `0s`, `1m30s`, `1.5s` is `1s500ms`; `parse_ms` reads it back."""
    text = ""
    for unit in ("d", "h", "m", "s", "ms"):
        count, ms = divmod(ms, int(_UNITS_MS[unit]))
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _not_one(value: object, plain: bool) -> str:
    return f"{quoted(value)} is not a duration: write 90s, 1h30m{', 500ms or plain seconds' if plain else ' or 500ms'}"
