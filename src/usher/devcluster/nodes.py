"""Simulated nodes: how many, and what each of them offers."""

import re
from dataclasses import dataclass

from usher.devcluster.errors import DevClusterError
from usher.devcluster.parts import version_of

QUANTITY = re.compile(r"(\d+(\.\d*)?|\.\d+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+)?")
NODES_MAX = 5000
PODS_PER_NODE = 110


@dataclass(frozen=True)
class Nodes:
    """A number of equal nodes. Quantities are written as Kubernetes writes them (`8`, `500m`, `32Gi`)."""

    count: int = 4
    cpu: str = "8"
    memory: str = "32Gi"
    gpus: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.count <= NODES_MAX:
            raise DevClusterError(f"{self.count} nodes: between 0 and {NODES_MAX} can be simulated.")
        if self.gpus < 0:
            raise DevClusterError(f"{self.gpus} GPUs per node: the number cannot be negative.")
        for name, value in (("cpu", self.cpu), ("memory", self.memory)):
            if not QUANTITY.fullmatch(value):
                raise DevClusterError(f"{name} {value!r} is not a quantity. Examples: 8, 500m, 32Gi.")

    def objects(self) -> list[dict[str, object]]:
        """The Node objects, `node-0` first."""
        offers = {"cpu": self.cpu, "memory": self.memory, "ephemeral-storage": "100Gi", "pods": str(PODS_PER_NODE)}
        if self.gpus:
            offers["nvidia.com/gpu"] = str(self.gpus)
        return [_node(f"node-{number}", offers) for number in range(self.count)]


def _node(name: str, offers: dict[str, str]) -> dict[str, object]:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "usher.dev/simulated": "true",
    }
    info = {"kubeletVersion": version_of("k8s.io/kubernetes"), "operatingSystem": "linux", "architecture": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": offers, "allocatable": offers, "nodeInfo": info},
    }


def is_usable(node: dict[str, dict[str, object]]) -> bool:
    """Whether the scheduler may place pods on a node: it is Ready, and the taint it was born with is gone."""
    conditions = node["status"].get("conditions", [])
    assert isinstance(conditions, list)
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node["spec"].get("taints")
