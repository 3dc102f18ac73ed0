"""How far a long run is: a bar on a terminal, else a line now and then. Short runs show nothing."""

from __future__ import annotations

import time
from typing import Final, TextIO

from usher.core.durations import format_ms

BAR_AFTER_S: Final = 1.0
BAR_EVERY_S: Final = 0.1
LINE_EVERY_S: Final = 10.0
_WIDTH: Final = 30


class ProgressBar:
    """Writes to a stream that people look at; call it as often as is handy."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar = stream.isatty()
        self._next = time.monotonic() + (BAR_AFTER_S if self._bar else LINE_EVERY_S)
        self._shown = False

    def __call__(self, name: str, moved: int, total: int, now_ms: int) -> None:
        at = time.monotonic()
        if at < self._next:
            return
        self._next = at + (BAR_EVERY_S if self._bar else LINE_EVERY_S)
        part = min(1.0, moved / max(1, total))
        if self._bar:
            filled = round(part * _WIDTH)
            text = f"\r{name} [{'█' * filled}{'·' * (_WIDTH - filled)}] {part:4.0%}  at {format_ms(now_ms)}\x1b[K"
        else:
            text = f"{name}: {part:.0%} of the events, virtual time {format_ms(now_ms)}\n"
        self._stream.write(text)
        self._stream.flush()
        self._shown = True

    def clear(self) -> None:
        """Take the bar away."""
        if self._bar and self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
