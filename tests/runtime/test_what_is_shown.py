"""What statuses should say, as pure functions, and who is deleted when."""

from __future__ import annotations

import pytest

from usher.api.meta import Condition, ObjectMeta
from usher.api.queue import Queue as QueueObject
from usher.api.queue import QueueItemDetail, QueueSpec, QueueStatus
from usher.api.queuequota import QueueQuota
from usher.api.queueunit import QueueUnit, QueueUnitSpec, QueueUnitStatus
from usher.api.times import time_of
from usher.app.counting import resource_in
from usher.core.model import StopPolicy
from usher.core.phases import Phase
from usher.core.views import QueueView, WaitingView
from usher.quotas.source import Problem, Verdict
from usher.runtime.facts import UnitFacts, read_unit
from usher.runtime.report import patch_between, queue_items, queue_status, queue_verdict, quota_status
from usher.runtime.retention import RetentionSettings, surplus
from usher.runtime.surroundings import KnownQueue, read_queue

FINE = Verdict(True, "Accepted", "")


def known(spec: QueueSpec | None = None, status: QueueStatus | None = None) -> KnownQueue:
    found = QueueObject(
        metadata=ObjectMeta(name="q", namespace="a", generation=3), spec=spec or QueueSpec(), status=status
    )
    errors: list[str] = []
    return KnownQueue(found, read_queue(found, {}, {}, "usher-system", errors), errors)


def view(**given: object) -> QueueView:
    said: dict[str, object] = {"key": "a/q", "policy": "Priority", "waiting": 0, "holding": 0}
    return QueueView(**{**said, "deserved": {}, "used": {}, "preempting": {}, **given})  # type: ignore[arg-type]


def test_a_status_that_says_the_same_is_not_written() -> None:
    first = queue_status(known(), view(waiting=2, used={"cpu": 1500}), (), {"cpu": 1000}, FINE, 1_000)
    again = queue_status(known(status=first), view(waiting=2, used={"cpu": 1500}), (), {"cpu": 1000}, FINE, 9_000)

    assert patch_between(first, again) == {}
    assert patch_between(None, first)["status"]["allocated"] == {"cpu": "1500m"}
    assert patch_between(None, first)["status"]["used"] == {"cpu": "1"}


def test_only_what_changed_is_in_the_patch() -> None:
    first = queue_status(known(), view(waiting=2, preempting={"cpu": 1000}), (), {}, FINE, 1_000)
    after = queue_status(known(status=first), view(waiting=3), (), {}, FINE, 9_000)

    assert patch_between(first, after) == {"status": {"counts": {"waiting": 3}, "preempting": None}}


def test_a_list_that_is_not_due_stays_as_it_is() -> None:
    items = queue_items([WaitingView("a", "x", 5)], hidden=False)
    first = queue_status(known(), view(waiting=1), items, {}, FINE, 1_000)

    kept = queue_status(known(status=first), view(waiting=7), None, {}, FINE, 2_000)
    emptied = queue_status(known(status=first), view(), (), {}, FINE, 2_000)

    assert kept.queue_item_details == {"active": (QueueItemDetail(name="x", namespace="a", priority=5, position=1),)}
    assert patch_between(first, emptied)["status"]["queueItemDetails"] is None


def test_a_hidden_line_says_nobodys_name() -> None:
    hidden = queue_items([WaitingView("a", "x", 5), WaitingView("b", "y", 0)], hidden=True)

    assert hidden == (QueueItemDetail(priority=5, position=1), QueueItemDetail(position=2))


@pytest.mark.parametrize(
    ("spec", "problem", "quotas", "want"),
    [
        (QueueSpec(), "", {}, (True, "Accepted")),
        (QueueSpec(stop_policy=StopPolicy.HOLD), "", {}, (False, "Stopped")),
        (QueueSpec(queue_policy="Odd"), "there is no queue policy Odd", {}, (True, "PolicyMissing")),
        (QueueSpec(quota="a"), "", {"root": ""}, (False, "QuotaMissing")),
        (QueueSpec(quota="a"), "", {"a": "its parent is missing"}, (False, "QuotaMissing")),
        (QueueSpec(quota="a"), "", {"a": ""}, (True, "Accepted")),
        (QueueSpec(quota="root"), "", {}, (True, "Accepted")),
        (QueueSpec(reserve_after="soon"), "", {}, (True, "Invalid")),
    ],
)
def test_what_active_says_of_a_queue(
    spec: QueueSpec, problem: str, quotas: dict[str, str], want: tuple[bool, str]
) -> None:
    found = queue_verdict(known(spec), view(problem=problem), quotas)

    assert (found.active, found.reason) == want
    assert bool(found.message) is (found.reason != "Accepted")


def test_a_quota_without_a_place_shows_why_and_no_numbers() -> None:
    found = QueueQuota(metadata=ObjectMeta(name="a", generation=2))

    status = quota_status(found, None, [Problem("ParentMissing", "its parent b does not exist")], 5_000)

    assert patch_between(None, status) == {
        "status": {
            "observedGeneration": 2,
            "conditions": [
                {
                    "type": "Active",
                    "status": "False",
                    "observedGeneration": 2,
                    "lastTransitionTime": time_of(5_000),
                    "reason": "ParentMissing",
                    "message": "its parent b does not exist",
                }
            ],
        }
    }


def ended(name: str, at_s: int, phase: Phase = Phase.SUCCEED) -> UnitFacts:
    condition = Condition(
        type="Finished", status="True", last_transition_time=time_of(at_s * 1000), reason="JobSucceeded"
    )
    return read_unit(
        QueueUnit(
            metadata=ObjectMeta(name=name, namespace="a", uid=name),
            spec=QueueUnitSpec(request={"cpu": "1"}),
            status=QueueUnitStatus(phase=phase, conditions=(condition,) if phase is Phase.SUCCEED else ()),
        )
    )


@pytest.mark.parametrize(
    ("age_s", "most", "want"),
    [(100, 10, []), (100, 2, ["old"]), (100, 0, ["old", "mid", "new"]), (15, 10, ["old"]), (10, 2, ["old", "mid"])],
)
def test_the_oldest_go_by_number_and_by_age(age_s: int, most: int, want: list[str]) -> None:
    units = [ended("new", 30), ended("old", 10), ended("runs", 0, Phase.RUNNING), ended("mid", 20)]

    found = surplus(units, 30_000, RetentionSettings(age_s * 1000, most))

    assert [unit.name for unit in found] == want


@pytest.mark.parametrize(
    ("target", "want"),
    [
        ("/api/v1/pods?watch=true", "pods"),
        ("/api/v1/namespaces", "namespaces"),
        ("/api/v1/namespaces/a", "namespaces"),
        ("/api/v1/namespaces/a/pods/b", "pods"),
        ("/apis/scheduling.x-k8s.io/v1alpha1/namespaces/a/queueunits/b/status?fieldManager=usher", "queueunits/status"),
        ("/apis/scheduling.x-k8s.io/v1alpha1/queuequotas/b/status", "queuequotas/status"),
        ("/version", ""),
    ],
)
def test_the_resource_of_a_request_is_read_from_its_path(target: str, want: str) -> None:
    assert resource_in(target) == want
