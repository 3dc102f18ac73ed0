"""Which kinds of jobs there are, by the name that kubectl has for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from usher.jobkinds.base import JobKind
from usher.jobkinds.batchjob import BatchJob
from usher.jobkinds.queuejob import QueueJobs

BUILT_IN: Final[tuple[JobKind, ...]] = (BatchJob(),)
"""Jobs of others, with pods."""
ALWAYS: Final[tuple[JobKind, ...]] = (QueueJobs(),)
"""Our own, which are queued whatever the settings say."""


class UnknownKindError(ValueError):
    """A kind that cannot be queued; the text says which there are."""


def kinds_named(names: Sequence[str]) -> list[JobKind]:
    """The kinds of these names, as in `jobs.batch`."""
    known = {f"{kind.plural}.{kind.group}" if kind.group else kind.plural: kind for kind in BUILT_IN}
    for name in names:
        if name not in known:
            raise UnknownKindError(f"jobs.kinds: there is no kind {name}; there are {', '.join(known)}")
    return [known[name] for name in names]
