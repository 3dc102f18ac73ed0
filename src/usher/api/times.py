"""Times as the API server writes them, and the engine's milliseconds.

What we write has a fraction only where it is not a whole second: clients in Go read both, and nothing is lost when the
engine starts anew.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def time_of(ms: int) -> str:
    """Milliseconds since 1970 as RFC 3339 in UTC."""
    seconds, rest = divmod(ms, 1000)
    whole = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{rest:03}Z" if rest else f"{whole}Z"


def ms_of(text: str | None) -> int:
    """RFC 3339 as milliseconds since 1970, cut off below; 0 for none. Raises ValueError if it is not a time."""
    if not text:
        return 0
    return (datetime.fromisoformat(text).astimezone(UTC) - _EPOCH) // _MILLISECOND
