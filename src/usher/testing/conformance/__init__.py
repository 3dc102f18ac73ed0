"""What every plug-in promises, as tests that its author inherits.

    from usher.testing.conformance import QueuePolicyConformance

    class TestSmallestFirst(QueuePolicyConformance):
        def make(self):
            return SmallestFirst()

`make` gives a new plug-in at each call. The tests hold for every plug-in of that kind: the promises in the docstrings
of `usher.core.plugins` and `usher.core.share`, on ordinary and on extreme input, and a run in a real engine whose
invariants are checked at every step. Needs pytest (or anything else that collects test methods) and Hypothesis.
"""

from usher.testing.conformance.order import QueuePolicyConformance, VictimPolicyConformance
from usher.testing.conformance.points import (
    FilterConformance,
    MappingConformance,
    ReserverConformance,
    ScoreConformance,
)
from usher.testing.conformance.share import SharePolicyConformance

__all__ = [
    "FilterConformance",
    "MappingConformance",
    "QueuePolicyConformance",
    "ReserverConformance",
    "ScoreConformance",
    "SharePolicyConformance",
    "VictimPolicyConformance",
]
