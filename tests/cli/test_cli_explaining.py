"""The explanation that is made from what is stored says what the engine would say, as far as it is stored."""

from __future__ import annotations

from typing import Any

import pytest

from usher.cli.explain import document
from usher.cli.explaining import from_status
from usher.core.explain import render
from usher.core.ledger import Blocked

CAPACITY = Blocked("Capacity", "root", "cpu", asked=3000, used=6000, limit=8000)
MAX_UNITS = Blocked("MaxUnits", "ns/main", used=2, limit=2)


def queue(namespace: str = "ns", names: bool = True) -> dict[str, Any]:
    item = {"name": "job-a", "namespace": "ns", "position": 2} if names else {"position": 2}
    return {
        "metadata": {"name": "main", "namespace": namespace},
        "status": {"counts": {"waiting": 3}, "queueItemDetails": {"active": [item]}},
    }


def unit(phase: str, *conditions: tuple[str, str, str, str], **status: Any) -> dict[str, Any]:
    said = [
        {"type": kind, "status": holds, "reason": reason, "message": message}
        for kind, holds, reason, message in conditions
    ]
    return {
        "metadata": {"name": "job-a", "namespace": "ns"},
        "spec": {"queue": "main"},
        "status": {"phase": phase, "conditions": said, **status},
    }


def waiting(reason: str, message: str, **status: Any) -> dict[str, Any]:
    return unit("Enqueued", ("QuotaReserved", "False", reason, message), **status)


BEFORE = "ns/job-a is number 2 of 3 in queue ns/main."
TEXTS = {
    "it waits for room": (waiting("Capacity", render(CAPACITY)), f"{BEFORE} {render(CAPACITY)}"),
    "its queue runs as many as it may": (waiting("MaxUnits", render(MAX_UNITS)), f"{BEFORE} {render(MAX_UNITS)}"),
    "it waits behind another": (
        waiting("Behind", "It waits behind ns/b, which must start first."),
        f"{BEFORE} It waits behind ns/b, which must start first.",
    ),
    "room is kept for it": (
        waiting("Capacity", render(CAPACITY), nomination={"node": "root"}),
        f"{BEFORE} Room is being kept for it. {render(CAPACITY)}",
    ),
    "it runs": (unit("Running", ("QuotaReserved", "True", "QuotaReserved", "")), "ns/job-a is Running."),
    "it is being stopped": (
        unit("Running", ("QuotaReserved", "True", "QuotaReserved", ""), ("Evicted", "True", "Reclaimed", "")),
        "ns/job-a is Running and is being stopped (Reclaimed).",
    ),
    "it was stopped before": (
        unit("Running", ("QuotaReserved", "True", "QuotaReserved", ""), ("Evicted", "False", "Admitted", "")),
        "ns/job-a is Running.",
    ),
    "it has ended": (
        unit("Succeed", ("QuotaReserved", "False", "Finished", ""), ("Finished", "True", "JobSucceeded", "")),
        "ns/job-a has ended: Succeed.",
    ),
    "nobody has looked at it yet": (unit(""), "ns/job-a is new."),
}


@pytest.mark.parametrize("given", TEXTS)
def test_what_is_stored_is_said_in_the_words_that_were_stored(given: str) -> None:
    found, want = TEXTS[given]

    assert from_status(found, [queue()]).text() == want


def test_the_shared_queue_is_meant_where_the_namespace_has_none_and_does_not_name_its_units() -> None:
    explanation = from_status(waiting("Capacity", render(CAPACITY)), [queue("usher-system", names=False)])

    assert (explanation.queue, explanation.position, explanation.waiting) == ("usher-system/main", None, 3)
    assert explanation.text() == f"ns/job-a waits. {render(CAPACITY)}"


def test_without_a_queue_to_be_seen_the_unit_alone_is_enough() -> None:
    assert from_status(waiting("Capacity", render(CAPACITY)), []).text() == f"ns/job-a waits. {render(CAPACITY)}"


def test_for_programs_it_has_the_fields_of_the_engines_answer_and_where_it_is_from() -> None:
    shown = document(from_status(waiting("Capacity", render(CAPACITY)), [queue()]), "status")

    assert shown["blocked"]["check"] == "Capacity"
    assert (shown["position"], shown["waiting"], shown["holders"], shown["source"]) == (2, 3, [], "status")
    assert shown["text"].startswith(BEFORE)
