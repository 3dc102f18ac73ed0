"""What Usher puts on jobs and pods, so that everything about them can be read from the objects themselves.

None of it counts as something their owner said: `without_ours` takes it off a template before that is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from usher.api import names
from usher.jobkinds.additions import without_added

UNIT_ANNOTATION: Final = f"{names.GROUP}/queue-unit"
QUOTA_ANNOTATION: Final = f"{names.GROUP}/charged-quota"
"""On the pods of a job that was let in: its unit and the quota that is charged, so that its pods can be counted even
when job and unit are gone."""
ADMISSION_ANNOTATION: Final = f"{names.GROUP}/admission"
"""On a job: the admission with which it was last let start. Held in that admission, it was held by its owner."""
REDUCED_ANNOTATION: Final = f"{names.GROUP}/reduced"
"""On a job that was let start with fewer pods than it wants: `main=2/5`. Its own counts come back when it is held."""
GATE: Final = f"{names.GROUP}/granted"
"""The scheduling gate on pods of a job that may grow while it runs."""
OURS: Final = (UNIT_ANNOTATION, QUOTA_ANNOTATION)


def without_ours(template: Mapping[str, Any]) -> dict[str, Any]:
    """A pod template without what was put there when its job was let in."""
    clean = without_added(template)
    meta = dict(clean.get("metadata") or {})
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key not in OURS}
    meta.pop("annotations", None)
    meta.pop("creationTimestamp", None)
    if annotations:
        meta["annotations"] = annotations
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if not _made_by_the_job_controller(k)}
    meta.pop("labels", None)
    if labels:
        meta["labels"] = labels
    clean.pop("metadata", None)
    if meta:
        clean["metadata"] = meta
    spec = dict(clean.get("spec") or {})
    gates = [gate for gate in spec.get("schedulingGates") or () if gate.get("name") != GATE]
    spec.pop("schedulingGates", None)
    if gates:
        spec["schedulingGates"] = gates
    clean["spec"] = spec
    return clean


def _made_by_the_job_controller(label: str) -> bool:
    return label.startswith("batch.kubernetes.io/") or label in ("controller-uid", "job-name")
