"""What the server asks of the rest: named checks, a registry of metrics and, where wanted, two questions for debugging.

The wiring makes an `Asked`. Everything is called in the thread of the event loop and must be quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.metrics_core import Metric

from usher.core.explain import Explanation

Check = Callable[[], str]
"""Why it fails; empty: it is well. One that raises fails with what it raised."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The questions, each with who answers it."""

    live: Mapping[str, Check] = field(default_factory=dict)
    """Whether the process should go on; one that fails has it restarted."""
    ready: Mapping[str, Check] = field(default_factory=dict)
    """Whether it can do its work, as leader or as warm standby."""
    metrics: Callable[[], Iterable[Metric]] = tuple
    """As `usher.server.metrics.gatherer` makes it."""
    explain: Callable[[str], Explanation | None] | None = None
    """Why the unit namespace/name waits; None: `/debug` does not answer that."""
    violations: Callable[[], Sequence[str]] | None = None
    """Broken invariants of the engine."""
