"""Which object a person means."""

from __future__ import annotations

import click
import pytest

from usher.api.kinds import KINDS as API_KINDS
from usher.cli.kinds import JOBS, KINDS, QUEUES, QUOTAS, UNITS, Kind, kind_and_names, kind_of, one_named

WORDS = {
    "queues": QUEUES,
    "queue": QUEUES,
    "q": QUEUES,
    "Queue": QUEUES,
    "queues.scheduling.x-k8s.io": QUEUES,
    "units": UNITS,
    "unit": UNITS,
    "qu": UNITS,
    "qus": UNITS,
    "queueunits": UNITS,
    "quotas": QUOTAS,
    "quota": QUOTAS,
    "qq": QUOTAS,
    "jobs": JOBS,
    "job": JOBS,
}


@pytest.mark.parametrize("word", WORDS)
def test_a_word_means_a_kind(word: str) -> None:
    assert kind_of(word) is WORDS[word]


@pytest.mark.parametrize("name", API_KINDS)
def test_every_kind_of_ours_is_known_by_its_plural_its_name_and_its_short_names(name: str) -> None:
    kind = API_KINDS[name]
    found = {kind_of(word) for word in (kind.plural, kind.singular, *kind.short)}

    (one,) = found
    assert (one.resource.group, one.resource.version) == (kind.group, kind.version)
    assert (one.resource.plural, one.resource.kind, one.resource.namespaced) == (
        kind.plural,
        kind.kind,
        kind.namespaced,
    )


MEANT: dict[str, tuple[list[str], Kind, list[str]]] = {
    "a kind alone": (["queues"], QUEUES, []),
    "a kind and names": (["queue", "a", "b"], QUEUES, ["a", "b"]),
    "kinds and names together": (["q/a", "queue/b"], QUEUES, ["a", "b"]),
}


@pytest.mark.parametrize("given", MEANT)
def test_a_kind_and_names_are_read_as_kubectl_does(given: str) -> None:
    words, kind, names = MEANT[given]

    assert kind_and_names(words) == (kind, names)


REFUSED = {
    "a word that is no kind": (["frogs"], "There is no kind 'frogs' here. There are: queues, units, quotas, jobs"),
    "several kinds": (["queue/a", "unit/b"], "several kinds"),
    "the kind said twice": (["queue", "queue/a"], "queue/a names its kind, but queue was said before it"),
    "a name without its kind": (["queue/a", "b"], "'b' is not KIND/NAME"),
    "a kind without its name": (["queue/"], "'queue/' is not KIND/NAME"),
}


@pytest.mark.parametrize("given", REFUSED)
def test_what_cannot_be_meant_is_a_usage_error(given: str) -> None:
    words, want = REFUSED[given]

    with pytest.raises(click.UsageError) as caught:
        kind_and_names(words)

    assert want in caught.value.message


def test_one_object_may_be_named_without_its_kind_where_there_is_a_usual_one() -> None:
    assert one_named(["train"], KINDS, default=JOBS) == (JOBS, "train")
    assert one_named(["unit", "train"], KINDS, default=JOBS) == (UNITS, "train")
    with pytest.raises(click.UsageError, match="Name one of the queues"):
        one_named(["queue"], KINDS)
    with pytest.raises(click.UsageError, match="Name one of the queues"):
        one_named(["queue", "a", "b"], KINDS)
