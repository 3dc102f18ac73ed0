"""Everything that is installed, in the order in which it is applied.

Kinds first, then the anchor (see `usher.kube.fencing`: it must be there before the fence, and stays when Usher goes),
rights, the manager, and last the doors: a webhook that nobody answers would keep jobs out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from usher.api.crd import crds
from usher.install.doors import doors
from usher.install.part import KEEP, LABELS, Object, Part, enabled
from usher.install.rights import rights
from usher.install.values import Values
from usher.install.workload import workload
from usher.kube.fencing import anchor

ANCHOR: Final = "usher-lease-anchor"
OUTSIDE: Final = ""
"""The file of what the chart does not have."""


def objects(values: Values) -> list[Object]:
    """What `usher install` applies and the chart renders, by these values."""
    return [part.object for part in parts(values) if part.when is None or part.when.holds(values)]


def parts(values: Values, doors: Callable[[Values], list[Part]] = doors) -> list[Part]:
    """All there is, also what these values turn off."""
    return [Part(OUTSIDE, namespace(values)), *kinds(), *rights(values), *workload(values), *doors(values)]


def namespace(values: Values) -> Object:
    """Where it lives. Helm makes it by itself (`--create-namespace`)."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": values.namespace}}


def kinds() -> list[Part]:
    """Our kinds, and the anchor: all of it stays when Usher goes."""
    found = [Part(f"kind-{plural}", _kept(body), enabled("crds.install")) for plural, body in crds().items()]
    return [*found, *(Part("anchor", _kept(each)) for each in lease_anchor())]


def lease_anchor() -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy that concerns nothing, and keeps the API server following leases even while no fence is there."""
    return anchor(ANCHOR)


def _kept(body: Object) -> Object:
    meta = {**body["metadata"], "labels": {**LABELS, **body["metadata"].get("labels", {})}, "annotations": dict(KEEP)}
    return {**body, "metadata": meta}
