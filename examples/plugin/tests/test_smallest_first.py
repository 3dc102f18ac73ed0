"""SmallestFirst keeps what a queue policy promises, and does what it is for."""

from smallest_first import SmallestFirst

from usher.testing.builders import unit
from usher.testing.conformance import QueuePolicyConformance


class TestSmallestFirst(QueuePolicyConformance):
    def make(self) -> SmallestFirst:
        return SmallestFirst()


def test_many_small_pods_are_a_large_job() -> None:
    policy = SmallestFirst()

    assert policy.key(unit("a/one", cpu=4)) < policy.key(unit("a/many", cpu="500m", count=10))
