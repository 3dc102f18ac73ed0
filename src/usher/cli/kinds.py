"""The words that commands take for kinds of objects, and where the API server has these.

`usher get qu`, `usher get units` and `usher get queueunits` mean the same. Called by every command that takes a kind.
A job is whatever a unit was made for: jobs are found by their units, so every kind that is queued is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click
from msgspec import Struct

from usher.api.names import GROUP, VERSION
from usher.kube.resource import Resource, untyped

Object = dict[str, Any]


class Kind(Struct, frozen=True):
    """A kind as commands know it."""

    plural: str
    """The word that help and messages use."""
    words: tuple[str, ...]
    """Every other word for it."""
    resource: Resource[Object]

    @property
    def full_name(self) -> str:
        """As in `queue.scheduling.x-k8s.io`."""
        return f"{self.resource.kind.lower()}.{self.resource.group}"


def _ours(plural: str, kind: str, words: tuple[str, ...], *, word: str = "", namespaced: bool = True) -> Kind:
    resource = untyped(GROUP, VERSION, plural, kind, namespaced=namespaced)
    known = (plural, kind.lower(), f"{plural}.{GROUP}", f"{kind.lower()}.{GROUP}", *words)
    return Kind(word or plural, known, resource)


QUEUES: Final = _ours("queues", "Queue", ("q",))
UNITS: Final = _ours("queueunits", "QueueUnit", ("unit", "qu", "qus"), word="units")
QUOTAS: Final = _ours("queuequotas", "QueueQuota", ("quota", "qq"), word="quotas", namespaced=False)
CHECKS: Final = _ours("admissionchecks", "AdmissionCheck", ("check", "ac"), word="checks", namespaced=False)
QUEUE_JOBS: Final = _ours("queuejobs", "QueueJob", ("qj",))
WORKLOADS: Final = _ours("dynamicworkloads", "DynamicWorkload", ("dw",))
JOBS: Final = Kind("jobs", ("job", "job.batch", "jobs.batch"), untyped("batch", "v1", "jobs", "Job", namespaced=True))

KINDS: Final = (QUEUES, UNITS, QUOTAS, JOBS, QUEUE_JOBS, WORKLOADS, CHECKS)


def kind_of(word: str, among: Sequence[Kind] = KINDS) -> Kind:
    """The kind that a word means."""
    for kind in among:
        if _means(word, kind):
            return kind
    names = ", ".join(kind.plural for kind in among)
    raise click.UsageError(f"There is no kind {word!r} here. There are: {names}.")


def _means(word: str, kind: Kind) -> bool:
    return word.lower() == kind.plural or word.lower() in kind.words


def kind_and_names(words: Sequence[str], among: Sequence[Kind] = KINDS) -> tuple[Kind, list[str]]:
    """What `queues a b`, `queue/a` or `queue/a queue/b` mean."""
    if "/" not in words[0]:
        named = [word for word in words[1:] if "/" in word]
        if named:
            raise click.UsageError(f"{named[0]} names its kind, but {words[0]} was said before it: say it once.")
        return kind_of(words[0], among), list(words[1:])
    found: list[str] = []
    kinds: set[Kind] = set()
    for word in words:
        kind, slash, name = word.partition("/")
        if not slash or not name:
            raise click.UsageError(f"{word!r} is not KIND/NAME, as the others are.")
        kinds.add(kind_of(kind, among))
        found.append(name)
    if len(kinds) > 1:
        raise click.UsageError("These are of several kinds: ask for one kind at a time.")
    return kinds.pop(), found


def one_named(words: Sequence[str], among: Sequence[Kind], default: Kind | None = None) -> tuple[Kind, str]:
    """The one object that `queue main`, `queue/main` or, with a default kind, `main` means."""
    if len(words) == 1 and "/" not in words[0] and default is not None:
        return default, words[0]
    if default is not None and "/" not in words[0] and not any(_means(words[0], kind) for kind in among):
        raise click.UsageError(f"Name one of the {default.plural}, not {len(words)}.")
    kind, names = kind_and_names(words, among)
    if len(names) != 1:
        raise click.UsageError(f"Name one of the {kind.plural}, as in: {kind.resource.kind.lower()} NAME.")
    return kind, names[0]
