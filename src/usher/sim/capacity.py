"""What the nodes offer over time: from Node manifests, or from `--capacity`, which stands for them.

A node counts while it is there, Ready (or says nothing of it) and not cordoned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from usher.core.amounts import Amounts, AmountsError, add, parse_amounts, quoted
from usher.core.events import CapacityChanged
from usher.sim.objects import Manifest
from usher.sim.problems import BadInputError

MISSING = (
    "no capacity: add Node manifests (kubectl get nodes -o yaml), or say what the cluster has: "
    "--capacity cpu=64,memory=256Gi (or --nodes FILE with a node list of the Alibaba GPU trace)"
)


def parse_capacity(text: str) -> dict[str, int]:
    """`cpu=9,memory=18Gi` as amounts; raises BadInputError with every error."""
    quantities: dict[str, Any] = {}
    errors: list[str] = []
    for part in text.split(","):
        resource, sign, quantity = (piece.strip() for piece in part.partition("="))
        if not sign or not resource or not quantity:
            errors.append(f"--capacity: {quoted(part)} is not resource=quantity, as in cpu=9,memory=18Gi")
        elif resource in quantities:
            errors.append(f"--capacity: {resource} is there twice")
        else:
            quantities[resource] = quantity
    try:
        amounts = parse_amounts(quantities, "--capacity")
    except AmountsError as error:
        errors.extend(error.errors)
    if errors:
        raise BadInputError(errors)
    return amounts


def read_node(manifest: Manifest) -> dict[str, int]:
    """What one node offers while it is there; nothing if it is cordoned or not Ready."""
    status = manifest.body.inside("status")
    offered = status.amounts("allocatable") if status.has("allocatable") else status.amounts("capacity")
    ready = [each.text("status") for each in status.items("conditions") if each.text("type") == "Ready"]
    if manifest.spec.flag("unschedulable", False) or (ready and ready[0] != "True"):
        return {}
    return offered


def over_time(nodes: Sequence[tuple[int, int | None, Amounts]]) -> list[tuple[int, CapacityChanged]]:
    """The sum of nodes (arrives, leaves, offers) at each time at which it changes."""
    moves = sorted({0, *(node[0] for node in nodes), *(node[1] for node in nodes if node[1] is not None)})
    found: list[tuple[int, CapacityChanged]] = []
    for now in moves:
        total: dict[str, int] = {}
        for arrives, leaves, offers in nodes:
            if arrives <= now and (leaves is None or now < leaves):
                add(total, offers)
        if not found or found[-1][1].amounts != total:
            found.append((now, CapacityChanged(total)))
    return found
