"""What QueueJobs say and are told."""

from __future__ import annotations

from typing import Any

import pytest

from usher.jobkinds.additions import Additions
from usher.jobkinds.base import Allocation, BadJobError, Job, OwnWords, PodlessKind
from usher.jobkinds.batchjob import BatchJob
from usher.jobkinds.queuejob import QueueJobs

KIND = QueueJobs()
EACH = {"cpu": 500, "memory": 1 << 30}
RESERVED = {
    "type": "QuotaReserved",
    "status": "True",
    "reason": "Allocated",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def made(status: dict[str, Any] | None = None, **spec: Any) -> Job:
    unit = {"cpu": "500m", "memory": "1Gi"}
    return Job("ns", "asks", "uid", {"resourceunit": unit, "resourceno": 3, **spec}, status or {})


def test_it_has_no_pods_and_is_told_by_its_status() -> None:
    assert isinstance(KIND, PodlessKind)
    assert KIND.part == "status"
    assert not isinstance(BatchJob(), PodlessKind)


@pytest.mark.parametrize(
    ("spec", "count", "least"), [({}, 3, 1), ({"resourceno": 0}, 0, 0), ({"resourceno": None}, 1, 1)]
)
def test_it_asks_for_units_of_which_one_is_enough(spec: dict[str, Any], count: int, least: int) -> None:
    (pods,) = KIND.pod_sets(made(**spec))
    assert (pods.name, pods.count, pods.min_count) == ("main", count, least)
    (container,) = pods.template["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "500m", "memory": "1Gi"}}


def test_without_a_unit_it_cannot_be_queued() -> None:
    with pytest.raises(BadJobError, match="resourceunit"):
        KIND.pod_sets(made(resourceunit={}))


def test_its_spec_says_its_place() -> None:
    assert KIND.words(made(queue="main", priority=-3)) == OwnWords("main", -3, elastic=True, takes_part=True)
    assert KIND.words(made()).priority is None, "a label or the default class may say one"


def test_it_is_ready_as_far_as_it_is_allocated() -> None:
    waits, has = KIND.progress(made()), KIND.progress(made({"allocatedno": 2}))
    assert (waits.held, waits.started, waits.ready) == (True, False, {"main": 0})
    assert (has.held, has.started, has.ready, has.usable) == (False, True, {"main": 2}, {"main": 3})
    assert has.succeeded is None, "it ends when it is deleted"


def test_what_it_is_told_is_what_it_has() -> None:
    for given in (
        Allocation(2, held=True, reason="Allocated"),
        Allocation(3, 1, 1_000, held=True, reason="Allocated"),
        Allocation(reason="Blocked", message="No room."),
    ):
        status = KIND.allocate(made(), given, EACH, 5_000)
        assert KIND.allocation(made(status)) == given
        assert KIND.allocate(made(status), given, EACH, 9_000) == {}, "nothing to say twice"


def test_resources_are_whole_units() -> None:
    given = Allocation(2, held=True)
    assert KIND.allocate(made(), given, EACH, 0)["allocated"] == {"cpu": "1", "memory": "2Gi"}
    gone = KIND.allocate(made({"allocated": {"cpu": "1"}, "allocatedno": 2}), Allocation(), EACH, 0)
    assert (gone["allocated"], gone["allocatedno"]) == (None, None), "as a merge patch takes fields off"


def test_what_must_be_given_back_is_a_condition_until_it_is() -> None:
    told = KIND.allocate(made({"allocatedno": 5, "conditions": [RESERVED]}), Allocation(5, 2, 7_000, True), EACH, 0)
    assert (told["shrinkTo"], told["shrinkAt"]) == (2, "1970-01-01T00:00:07Z")
    assert told["conditions"][1]["message"] == "It must give back 3 of its 5 units."
    done = KIND.allocate(made({"allocatedno": 5, **told}), Allocation(2, held=True), EACH, 0)
    assert (done["shrinkTo"], done["shrinkAt"], done["conditions"][1]["status"]) == (None, None, "False")


def test_starting_stopping_and_resizing_are_allocations() -> None:
    assert KIND.release(made(), {"main": 2}, Additions({}))["allocatedno"] == 2
    assert KIND.resize(made({"allocatedno": 2}), {"main": 1})["allocatedno"] == 1
    assert KIND.hold(made({"allocatedno": 2}), {})["allocatedno"] is None


def test_a_status_that_cannot_be_read_is_nothing() -> None:
    assert KIND.allocation(made({"allocatedno": "many"})) == Allocation()
