"""How patient an informer is: when it tries again, and when silence means a dead connection.

Chance and the clock are handed in, so a test decides both.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True)
class Pacing:
    """Times in seconds."""

    first_s: float = 0.8
    """Before the first new try."""
    most_s: float = 30.0
    """The longest wait; each is twice the one before, up to this, shortened by up to half by chance."""
    good_s: float = 10.0
    """A connection that lasted this long was a good one: the next wait is the first again."""
    watch_s: int = 300
    """How long a watch may last; up to twice that, by chance, so that not all end at once."""
    silence_s: float = 150.0
    """Bookmarks come every minute. When nothing came for this long, the connection is dead."""
    start_silence_s: float = 30.0
    """The same while the first objects are awaited."""
    hurry_s: int = 3
    """How long a watch lasts that is made to get a bookmark: the server sends one 2 s before the end."""
    clock: Callable[[], float] = time.monotonic
    random: Random = field(default_factory=Random, repr=False)

    def watch_timeout_s(self) -> int:
        """How long the next watch may last."""
        return self.random.randint(self.watch_s, 2 * self.watch_s)


class Backoff:
    """How long to wait after one more failure."""

    def __init__(self, pacing: Pacing) -> None:
        self._pacing = pacing
        self._next_s = pacing.first_s

    def reset(self) -> None:
        """It went well."""
        self._next_s = self._pacing.first_s

    def next_s(self, at_least: float | None = None) -> float:
        """The wait after a failure; the server may have asked for a longer one."""
        wait = self._next_s * self._pacing.random.uniform(0.5, 1.0)
        self._next_s = min(self._next_s * 2, self._pacing.most_s)
        return max(wait, at_least or 0.0)
