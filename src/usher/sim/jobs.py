"""Job, QueueUnit and QueueJob manifests as units with their timing; called by the manifest loader.

What a spec says goes before labels and annotations. A Job is simulated if it names a queue or a quota, or is in a
managed namespace, QueueUnits and QueueJobs always.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from usher.core.model import PodSet, Unit
from usher.core.podrequest import effective_request
from usher.sim import labels as keys
from usher.sim.fields import Fields
from usher.sim.objects import Manifest, texts_of
from usher.sim.queues import priority_of_class
from usher.sim.scenario import Work

MAIN: Final = "main"
POD_SETS_MAX: Final = 64
COUNT_MAX: Final = 10_000_000


class JobReader:
    """Reads units; knows the priority classes and the defaults of one run."""

    def __init__(self, classes: Mapping[str, int], default_class: int, runs_ms: int) -> None:
        self._classes = classes
        self._default_priority = default_class
        self._runs_ms = runs_ms

    def read_job(self, manifest: Manifest, managed: bool = False) -> Work | None:
        """A batch/v1 Job; None if it names neither a queue nor a quota, and nobody manages it or it draws on others."""
        spec = manifest.spec
        template = spec.inside("template")
        manifest.extra = texts_of(template.inside("metadata"), "annotations")
        named = manifest.named(keys.QUEUE_KEYS) or manifest.named(keys.QUOTA_KEYS)
        if not named and (not managed or manifest.named((keys.QUEUE_JOB,))):
            return None
        parallelism = spec.integer("parallelism", 1, low=0)
        count = min(parallelism, spec.integer("completions", parallelism, low=0))
        request = effective_request(template.get("spec"), "spec.template.spec", manifest.errors)
        least = manifest.named_integer(keys.MIN_COUNT_KEYS, low=0)
        work = self._work(manifest, (PodSet(MAIN, count, request, least),), spec, [template])
        deadline = spec.optional_integer("activeDeadlineSeconds", low=1)
        if deadline is not None and deadline * 1000 < work.runs_ms:
            return replace(work, runs_ms=deadline * 1000, fails=True)
        return work

    def read_queue_unit(self, manifest: Manifest) -> Work:
        """A QueueUnit, as its pod sets say or, without them, its `request` (or `resource`) as one pod."""
        spec = manifest.spec
        templates: list[Fields] = []
        pod_sets = _pod_sets(spec, templates)
        request, resource = spec.amounts("request"), spec.amounts("resource")
        whole = request or resource
        if whole and not any(pod_set.request for pod_set in pod_sets):
            pod_sets = (PodSet(pod_sets[0].name if pod_sets else MAIN, 1, whole),)
        if not pod_sets:
            spec.complain("podSets", "is missing; give podSets or request")
            pod_sets = (PodSet(MAIN, 1, {}),)
        spec.inside("consumerRef")
        work = self._work(manifest, pod_sets, spec, templates)
        limit = spec.optional_integer("maximumExecutionTimeSeconds", low=1)
        unit = replace(
            work.unit,
            active=spec.flag("active", True),
            quota=spec.text("quota") or work.unit.quota,
            preemptible=spec.flag("preemptible", work.unit.preemptible),
        )
        if limit is not None:
            unit = replace(unit, max_execution_ms=limit * 1000)
        spec.refuse_others()
        return replace(work, unit=unit)

    def read_queue_job(self, manifest: Manifest) -> Work:
        """A QueueJob: `resourceno` pods of `resourceunit`, of which one is enough to start."""
        spec = manifest.spec
        count = spec.integer("resourceno", 1, low=0, high=COUNT_MAX)
        pod_set = PodSet(MAIN, count, spec.amounts("resourceunit"), min_count=min(1, count))
        work = self._work(manifest, (pod_set,), spec, [])
        spec.refuse_others()
        return replace(work, unit=replace(work.unit, elastic=True))

    def _work(self, manifest: Manifest, pod_sets: tuple[PodSet, ...], spec: Fields, templates: list[Fields]) -> Work:
        names_queue = manifest.kind != "Job"
        limit = manifest.named_integer(keys.MAX_EXECUTION_KEYS, low=1)
        unit = Unit(
            namespace=manifest.namespace,
            name=manifest.name,
            pod_sets=pod_sets,
            queue=(spec.text("queue") if names_queue else "") or manifest.named(keys.QUEUE_KEYS),
            quota=manifest.named(keys.QUOTA_KEYS),
            priority=self._priority(manifest, spec, templates),
            created_ms=manifest.arrives_ms(),
            labels=manifest.labels,
            preemptible=manifest.named_flag(keys.PREEMPTIBLE_KEYS, True),
            elastic=manifest.named_flag(keys.ELASTIC_KEYS, False),
            max_execution_ms=None if limit is None else limit * 1000,
        )
        return Work(
            unit=unit,
            runs_ms=manifest.runs_ms(self._runs_ms),
            ready_after_ms=manifest.ready_after_ms(),
            leaves_ms=manifest.leaves_ms(),
            fails=manifest.fails(),
            answers=manifest.answers(),
        )

    def _priority(self, manifest: Manifest, spec: Fields, templates: list[Fields]) -> int:
        """Of the spec, the labels, the class, the first pod template, or the default class: the first that says one."""
        if manifest.kind != "Job":
            said = spec.optional_integer("priority")
            if manifest.kind == "QueueUnit" and said is None:
                said = priority_of_class(spec, self._classes)
            if said is not None:
                return said
        said = manifest.named_integer(keys.PRIORITY_KEYS, low=-(2**31))
        if said is None and templates:
            pod = Fields(templates[0].raw.get("spec"), "", [])
            said = pod.optional_integer("priority")
            if said is None:
                said = priority_of_class(pod, self._classes)
        return self._default_priority if said is None else said


def _pod_sets(spec: Fields, templates: list[Fields]) -> tuple[PodSet, ...]:
    field = "podSet" if spec.has("podSet") and not spec.has("podSets") else "podSets"
    found: list[PodSet] = []
    for item in spec.items(field):
        name = item.text("name", MAIN)
        if name in [pod_set.name for pod_set in found]:
            item.complain("name", f"{name} is there twice")
        count = item.integer("count", 1, low=0, high=COUNT_MAX)
        least = item.optional_integer("minCount", low=0)
        if least is not None and least > count:
            item.complain("minCount", f"{least} is above count, {count}")
        template = item.inside("template")
        request = effective_request(template.get("spec"), template.at("spec"), item.errors)
        templates.append(template)
        found.append(PodSet(name, count, request, least))
        item.get("topologyRequest")
        item.refuse_others()
    if len(found) > POD_SETS_MAX:
        spec.complain(field, f"{len(found)} sets are more than {POD_SETS_MAX}")
    return tuple(found)
