"""The jobs that `usher submit` creates: one from flags, or those of a file, put into a queue.

Pure: flags and text in, objects out. A job is created held, as its kind is held, so that nothing starts before its
turn even where no manager runs yet.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click
from msgspec import Struct, field

from usher.api.names import MAX_EXECUTION_TIME, PRIORITY, QUEUE_JOB, QUEUE_KEYS, QUEUE_NAME, QUOTA_KEYS, QUOTA_NAME
from usher.cli.kinds import Object
from usher.core.amounts import QuantityError, amount
from usher.jobkinds.base import Job, JobKind

GPU: Final = "nvidia.com/gpu"
CONTAINER: Final = "main"


class Place(Struct, frozen=True):
    """Where in the line a job goes: what flags say of any job."""

    queue: str = ""
    quota: str = ""
    priority: int | None = None
    max_time_s: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    queue_job: str = ""
    """The QueueJob on whose allocation it draws, instead of being queued itself."""

    def all_labels(self) -> dict[str, str]:
        queue = {QUEUE_NAME: self.queue} if self.queue else {}
        quota = {QUOTA_NAME: self.quota} if self.quota else {}
        drawn = {QUEUE_JOB: self.queue_job} if self.queue_job else {}
        return {**self.labels, **queue, **quota, **drawn}

    def all_annotations(self) -> dict[str, str]:
        priority = {PRIORITY: str(self.priority)} if self.priority is not None else {}
        limit = {MAX_EXECUTION_TIME: str(self.max_time_s)} if self.max_time_s is not None else {}
        return {**self.annotations, **priority, **limit}


class Work(Struct, frozen=True):
    """What a job made from flags runs."""

    image: str
    command: Sequence[str] = ()
    name: str = ""
    cpu: str = ""
    memory: str = ""
    gpu: int = 0
    gpu_resource: str = GPU
    parallelism: int = 1
    completions: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)


def from_flags(work: Work, place: Place) -> Object:
    """A batch Job."""
    requests = {key: value for key, value in (("cpu", work.cpu), ("memory", work.memory)) if value}
    for resource, quantity in requests.items():
        try:
            amount(resource, quantity)
        except QuantityError as error:
            raise click.UsageError(f"--{resource}: {error}.") from None
    resources: Object = {"requests": requests} if requests else {}
    if work.gpu:
        resources = {
            "requests": {**requests, work.gpu_resource: str(work.gpu)},
            "limits": {work.gpu_resource: str(work.gpu)},
        }
    container: Object = {"name": CONTAINER, "image": work.image}
    if work.command:
        container["command"] = list(work.command)
    if work.env:
        container["env"] = [{"name": key, "value": value} for key, value in work.env.items()]
    if resources:
        container["resources"] = resources
    template: Object = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    if place.annotations:
        template["metadata"] = {"annotations": dict(place.annotations)}
    metadata: Object = {"name": work.name} if work.name else {"generateName": f"{_stem(work.image)}-"}
    spec = {
        "parallelism": work.parallelism,
        "completions": work.completions if work.completions is not None else work.parallelism,
        "template": template,
    }
    return placed({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}, place)


def _stem(image: str) -> str:
    """A name for jobs of an image: its last part, without tag and digest."""
    last = image.partition("@")[0].rpartition("/")[2].partition(":")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", last).strip("-")[:40] or "job"


def from_text(text: str, source: str, place: Place) -> Iterator[Object]:
    """The jobs in a file of YAML or JSON; anything else in it is refused."""
    import yaml

    try:
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
        copy.deepcopy(documents)
        json.dumps(documents, default=str)
    except yaml.YAMLError as error:
        raise click.ClickException(f"{source} is not YAML: {' '.join(str(error).split())}") from None
    except (RecursionError, ValueError, TypeError):
        raise click.ClickException(f"{source} cannot be sent: it holds itself, or too much in each other.") from None
    if not documents:
        raise click.ClickException(f"{source} has nothing in it.")
    for where, document in _each(documents, source):
        if not isinstance(document, dict) or not isinstance(document.get("spec"), dict):
            raise click.ClickException(f"{where} is not a job: it must have apiVersion, kind, metadata and spec.")
        meta = document.setdefault("metadata", {})
        if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
            raise click.ClickException(f"{where} has no metadata.name.")
        for key, wanted in _WANTED.items():
            if not isinstance(meta.get(key) or wanted(), wanted):
                what = "a text" if wanted is str else "a map of texts"
                raise click.ClickException(f"{where}: metadata.{key} must be {what}, not {meta[key]!r}.")
        _kind_of(document, where)
        yield placed(document, place)


_WANTED: Final = {"name": str, "generateName": str, "namespace": str, "labels": dict, "annotations": dict}
"""What is looked at before the server looks at all of it."""


def _each(documents: Sequence[Any], source: str) -> Iterator[tuple[str, Any]]:
    """Every object with its place; a List, as `get -o yaml` prints it, is what is in it."""
    for number, document in enumerate(documents, start=1):
        where = source if len(documents) == 1 else f"{source}, document {number}"
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
        if isinstance(items, list):
            yield from ((f"{where}, item {place}", item) for place, item in enumerate(items, start=1))
        else:
            yield where, document


def placed(job: Object, place: Place) -> Object:
    """The job with its place in line, held."""
    found = copy.deepcopy(job)
    meta = found["metadata"]
    for key, added in (("labels", place.all_labels()), ("annotations", place.all_annotations())):
        if added:
            meta[key] = {**(meta.get(key) or {}), **added}
    spec = found["spec"]
    kind = _kind_of(found, "this")
    held = Job(
        namespace=str(meta.get("namespace") or ""),
        name=str(meta.get("name") or ""),
        uid="",
        spec=spec,
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
    )
    found["spec"] = merged(spec, kind.hold(held, {}))
    return found


def _kind_of(job: Object, where: str) -> JobKind:
    group = str(job.get("apiVersion", "")).rpartition("/")[0]
    if (group, job.get("kind")) == ("batch", "Job"):
        from usher.jobkinds.batchjob import BatchJob  # the others take longer to import than most commands to run

        return BatchJob()
    from usher.jobkinds.registry import BUILT_IN

    for kind in BUILT_IN:
        if (kind.group, kind.kind) == (group, job.get("kind")):
            return kind
    known = ", ".join(f"{kind.kind} ({kind.group or 'core'})" for kind in BUILT_IN)
    raise click.ClickException(
        f"{where}: {job.get('kind')} of {job.get('apiVersion')} is not queued. Queued are: {known}."
    )


def merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """What a merge patch makes of an object."""
    after = dict(before)
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        elif isinstance(value, Mapping):
            inside = after.get(key)
            after[key] = merged(inside if isinstance(inside, Mapping) else {}, value)
        else:
            after[key] = value
    return after


def names_a_place(job: Object) -> bool:
    """Whether it says which queue, quota or QueueJob it is for."""
    meta = job["metadata"]
    said = {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}
    return any(said.get(key) for key in (*QUEUE_KEYS, *QUOTA_KEYS, QUEUE_JOB))


def queue_named(job: Object) -> str:
    """The queue that it names."""
    meta = job["metadata"]
    said = {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}
    return next((str(said[key]) for key in QUEUE_KEYS if said.get(key)), "")
