"""A queue policy for Usher: the job that asks for the fewest cpus goes first."""

from usher.core.model import Unit
from usher.core.plugins import Blocks


class SmallestFirst:
    name = "SmallestFirst"
    blocks = Blocks.NOBODY

    def key(self, unit: Unit) -> tuple[int, ...]:
        return (sum(pods.count * pods.request.get("cpu", 0) for pods in unit.pod_sets),)
