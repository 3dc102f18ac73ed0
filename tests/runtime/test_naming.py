"""Which queue a managed job that names none is given, and that it is given one before anything else happens to it."""

from __future__ import annotations

import pytest
from made import entry, job, unit

from usher.api.meta import ObjectMeta
from usher.core.events import UnitReactivated
from usher.core.model import Queue, Stored
from usher.core.phases import Phase
from usher.runtime.entry import PAUSED, Step, next_step, observe
from usher.runtime.facts import Reading
from usher.runtime.naming import default_queues, lacking

MANAGED = {"scheduling.x-k8s.io/managed": "true"}
SPACES = {"a": MANAGED, "b": MANAGED, "c": MANAGED, "plain": {}, "named": {}}
QUEUES = [
    Queue("a", "only"),
    Queue("b", "one"),
    Queue("b", "two"),
    Queue("plain", "own"),
    Queue("usher-system", "shared", shared=True, namespaces=frozenset({"a", "c", "named"})),
]


def test_a_namespace_means_its_only_queue_or_the_only_shared_one() -> None:
    assert default_queues({"named"}, SPACES, QUEUES) == {"a": "only", "c": "shared", "named": "shared"}


def test_of_several_shared_queues_none_is_meant() -> None:
    more = [*QUEUES, Queue("usher-system", "open", shared=True)]

    assert default_queues((), SPACES, more) == {"a": "only"}


def test_an_open_queue_with_a_quota_of_its_own_is_not_everybodys() -> None:
    charging = Queue("usher-system", "of-a-quota", shared=True, quota="x")

    assert default_queues({"named"}, SPACES, [*QUEUES, charging])["named"] == "shared"
    assert default_queues({"named"}, SPACES, [charging]) == {}


def test_a_queue_that_its_own_namespace_may_not_use_is_none() -> None:
    assert default_queues((), SPACES, [Queue("a", "shut", namespaces=frozenset())]) == {}


READING = Reading(managed=frozenset({"named"}), queues={"a": "only", "named": "shared", "plain": "own"})
META = {
    "marked, and names nothing": (ObjectMeta(namespace="a", labels=MANAGED), "only"),
    "in a namespace of the settings": (ObjectMeta(namespace="named"), "shared"),
    "not marked": (ObjectMeta(namespace="plain"), ""),
    "names a queue": (ObjectMeta(namespace="a", labels={**MANAGED, "kueue.x-k8s.io/queue-name": "x"}), ""),
    "names a quota": (ObjectMeta(namespace="a", labels={**MANAGED, "scheduling.x-k8s.io/quota-name": "x"}), ""),
    "names a queue in an annotation": (
        ObjectMeta(namespace="a", labels=MANAGED, annotations={"koord-queue/queue-name": "x"}),
        "",
    ),
    "has an empty name": (ObjectMeta(namespace="a", labels={**MANAGED, "kueue.x-k8s.io/queue-name": ""}), "only"),
    "where no queue is meant": (ObjectMeta(namespace="b", labels=MANAGED), ""),
}


@pytest.mark.parametrize("name", META)
def test_a_job_is_given_a_queue_only_if_it_names_nothing(name: str) -> None:
    meta, want = META[name]

    assert lacking(meta, READING) == want


def test_a_job_gets_its_name_before_its_unit_and_keeps_it_while_it_holds_quota() -> None:
    reading = Reading(kinds=frozenset({"batch/Job"}), queues={"ns": "only"})
    nameless = job(queue="", labels=MANAGED, reading=reading)
    running = job(queue="", labels=MANAGED, reading=reading, suspend=False)

    assert next_step(entry(nameless)) is Step.NAME
    assert next_step(entry(running)) is Step.HOLD
    assert next_step(entry(job(labels=MANAGED, reading=reading))) is Step.CREATE


def test_a_paused_job_is_queued_again_when_the_doors_say_that_its_owner_wants_it() -> None:
    past = Stored(Phase.ENQUEUED, inactive=PAUSED)
    paused, resumed = (job(annotations={"scheduling.x-k8s.io/paused": value}) for value in ("true", "false"))

    assert observe(entry(paused, unit(paused, past)), 0, 0) == []
    assert observe(entry(resumed, unit(resumed, past)), 0, 0) == [UnitReactivated("ns/job")]
