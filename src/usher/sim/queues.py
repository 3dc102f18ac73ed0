"""Queue and QueueQuota manifests as the engine's values; called by the manifest loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from usher.core.amounts import field_path
from usher.core.model import ROOT, Check, Queue, Quota, StopPolicy
from usher.policies.registry import ALIASES, PluginError, queue_policies
from usher.quotas.placing import above_max
from usher.quotas.source import selected
from usher.sim.fields import Fields
from usher.sim.objects import SYSTEM_NAMESPACE, Manifest
from usher.sim.problems import BadInputError

PREEMPTION: Final = ("Never", "LowerPriority")
CHECKS_MAX: Final = 8

NamespaceLabels = Mapping[str, Mapping[str, str]]
"""Every namespace of the scenario, with its labels."""


def policy_names() -> tuple[str, ...]:
    """What a queue may name as its policy, those of installed plug-ins included.

    Raises BadInputError if a plug-in cannot be loaded.
    """
    try:
        return tuple(queue_policies())
    except PluginError as error:
        raise BadInputError([str(error)]) from None


def read_queue(
    manifest: Manifest, namespaces: NamespaceLabels, classes: Mapping[str, int], policies: Sequence[str]
) -> Queue:
    """A Queue; one in the system namespace is shared."""
    spec = manifest.spec
    policy = spec.choice("queuePolicy", policies, "Priority")
    selector = spec.selector("namespaceSelector")
    class_priority = priority_of_class(spec, classes)
    queue = Queue(
        namespace=manifest.namespace,
        name=manifest.name,
        policy=ALIASES.get(policy, policy),
        priority=spec.integer("priority", class_priority or 0),
        weight=spec.integer("weight", 1, low=0),
        quota=spec.text("quota"),
        request=spec.amounts("request"),
        shared=manifest.namespace == SYSTEM_NAMESPACE,
        namespaces=None if selector is None else selected(selector, namespaces),
        max_priority=spec.optional_integer("maxPriority"),
        max_units=spec.optional_integer("maxUnits", low=0),
        stop=StopPolicy(spec.choice("stopPolicy", [each.value for each in StopPolicy], StopPolicy.NONE)),
        checks=_checks(spec),
        preempts=_preempts(spec),
        reserve_after_ms=spec.duration("reserveAfter"),
    )
    spec.refuse_others()
    return queue


def read_quota(manifest: Manifest, namespaces: NamespaceLabels) -> Quota:
    """A QueueQuota; `parent: root` is the same as none."""
    spec = manifest.spec
    if manifest.name == ROOT:
        manifest.errors.append(f"metadata.name: {ROOT} is the whole cluster; name the quotas below it")
    selector = spec.selector("namespaceSelector")
    chosen = frozenset(spec.texts("namespaces"))
    parent = spec.text("parent")
    quota = Quota(
        name=manifest.name,
        parent="" if parent == ROOT else parent,
        min=spec.amounts("min"),
        max=spec.amounts("max"),
        weight=spec.integer("weight", 1, low=0),
        lends=spec.flag("lendable", True),
        namespaces=chosen if selector is None else chosen | selected(selector, namespaces),
    )
    for resource, why in above_max(quota.min, quota.max):
        manifest.errors.append(f"{field_path('spec.min', resource)}: {why}")
    spec.refuse_others()
    return quota


def priority_of_class(spec: Fields, classes: Mapping[str, int]) -> int | None:
    """The value of the PriorityClass that is named; None if none is, or it is not there."""
    name = spec.text("priorityClassName")
    return classes.get(name) if name else None


def _checks(spec: Fields) -> tuple[Check, ...]:
    found: list[Check] = []
    for item in spec.items("admissionChecks"):
        name = item.text("name")
        if not name:
            item.complain("name", "is missing")
        elif name in [check.name for check in found]:
            item.complain("name", f"{name} is there twice")
        found.append(Check(name, item.selector("labelSelector") or ()))
        item.refuse_others()
    if len(found) > CHECKS_MAX:
        spec.complain("admissionChecks", f"{len(found)} checks are more than {CHECKS_MAX}")
    return tuple(found)


def _preempts(spec: Fields) -> bool:
    if isinstance(spec.get("preemption"), Mapping):
        inside = spec.inside("preemption")
        choice = inside.choice("withinQuota", PREEMPTION, "Never")
        inside.refuse_others()
    else:
        choice = spec.choice("preemption", PREEMPTION, "Never")
    return choice == "LowerPriority"
