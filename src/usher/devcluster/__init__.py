"""A real Kubernetes control plane on one machine, from pinned parts, for development, tests and benchmarks."""

from usher.devcluster.controlplane import ControlPlane
from usher.devcluster.errors import DevClusterError
from usher.devcluster.kubectl import Kubectl, KubectlError
from usher.devcluster.nodes import Nodes

__all__ = ["ControlPlane", "DevClusterError", "Kubectl", "KubectlError", "Nodes"]
