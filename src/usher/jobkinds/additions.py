"""What the pods of a released job get besides what their own template says, and how it comes off again.

A mark in the template's annotations names what was added, so that `without_added` gives back the owner's own template
at any time: while the job runs its template cannot change, and what an earlier admission added goes in the patch of the
next one. What the owner said is never overwritten: `clashes` names where an addition would have to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

ADDED_ANNOTATION: Final = "scheduling.x-k8s.io/added"
"""On a pod template: what was added to it when its job was let in."""

Template = Mapping[str, Any]
_MAPS: Final = {"labels": "metadata", "annotations": "metadata", "nodeSelector": "spec"}
"""What is added key by key, and where it is in a template."""


class PodAddition(Struct, frozen=True):
    """What admission checks add to the pods of one set."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()

    def maps(self) -> dict[str, Mapping[str, str]]:
        return {"labels": self.labels, "annotations": self.annotations, "nodeSelector": self.node_selector}


class Additions(Struct, frozen=True):
    """Everything that is added when a job is released."""

    annotations: Mapping[str, str]
    """Our own marks, on every pod."""
    gate: str = ""
    """Our scheduling gate, which a template may still have from an earlier time."""
    gated: bool = False
    """Every pod waits at the gate until it is let in by itself, and the job keeps its own counts."""
    pods: Mapping[str, PodAddition] = field(default_factory=dict)
    """By pod set."""


def template_patch(template: Template, additions: Additions, pod_set: str) -> dict[str, Any]:
    """The merge patch of a pod template that adds all this, and takes off what was added before."""
    added = additions.pods.get(pod_set, PodAddition())
    own, before = without_added(template), _added(template)
    metadata: dict[str, Any] = {"annotations": dict(additions.annotations)}
    spec: dict[str, Any] = {}
    mark: dict[str, Any] = {}
    for name, values in added.maps().items():
        new = {key: value for key, value in values.items() if key not in _part(own, name)}
        change: dict[str, str | None] = {**dict.fromkeys(before.get(name, ())), **new}
        if change:
            (metadata if _MAPS[name] == "metadata" else spec).setdefault(name, {}).update(change)
        if new:
            mark[name] = sorted(new)
    theirs = list((own.get("spec") or {}).get("tolerations") or ())
    extra = [dict(each) for each in added.tolerations if each not in theirs]
    if extra or before.get("tolerations"):
        spec["tolerations"] = [*theirs, *extra]
    if extra:
        mark["tolerations"] = extra
    if mark or before:
        metadata["annotations"][ADDED_ANNOTATION] = json.dumps(mark, separators=(",", ":")) if mark else None
    spec.update(_gates(template, additions))
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


def without_added(template: Template) -> dict[str, Any]:
    """A template as its owner wrote it."""
    added = _added(template)
    if not added:
        return dict(template)
    clean = dict(template)
    for part in ("metadata", "spec"):
        clean[part] = dict(clean.get(part) or {})
    for name, where in _MAPS.items():
        gone = {*added.get(name, ()), ADDED_ANNOTATION}
        _keep(clean[where], name, {key: value for key, value in _part(template, name).items() if key not in gone})
    theirs = [each for each in clean["spec"].get("tolerations") or () if each not in added.get("tolerations", ())]
    _keep(clean["spec"], "tolerations", theirs)
    return clean


def own_maps(template: Template) -> dict[str, Mapping[str, str]]:
    """What the owner says key by key."""
    own = without_added(template)
    return {name: _part(own, name) for name in _MAPS}


def clashes(said: Mapping[str, Mapping[str, str]], addition: PodAddition) -> list[str]:
    """Where an addition says something else than was said already."""
    return [
        f"{name}[{key}] cannot be {value!r}: it is {said[name][key]!r}"
        for name, values in addition.maps().items()
        for key, value in sorted(values.items())
        if said[name].get(key, value) != value
    ]


def joined(additions: Iterable[PodAddition]) -> PodAddition:
    """All of them as one; of two that differ, the first counts."""
    maps: dict[str, dict[str, str]] = {name: {} for name in _MAPS}
    tolerations: list[Mapping[str, Any]] = []
    for each in additions:
        for name, values in each.maps().items():
            maps[name] = {**values, **maps[name]}
        tolerations.extend(one for one in each.tolerations if one not in tolerations)
    return PodAddition(maps["labels"], maps["annotations"], maps["nodeSelector"], tuple(tolerations))


def _added(template: Template) -> dict[str, Any]:
    text = _part(template, "annotations").get(ADDED_ANNOTATION)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _part(template: Template, name: str) -> Mapping[str, str]:
    return (template.get(_MAPS[name]) or {}).get(name) or {}


def _keep(where: dict[str, Any], name: str, value: Any) -> None:
    where.pop(name, None)
    if value:
        where[name] = value


def _gates(template: Template, additions: Additions) -> dict[str, Any]:
    if not additions.gate:
        return {}
    gates = [gate.get("name", "") for gate in (template.get("spec") or {}).get("schedulingGates") or ()]
    if not additions.gated and additions.gate not in gates:
        return {}
    names = [name for name in gates if name != additions.gate] + ([additions.gate] if additions.gated else [])
    return {"schedulingGates": [{"name": name} for name in names]}
