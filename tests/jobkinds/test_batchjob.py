"""What batch/v1 Jobs say and are told."""

from __future__ import annotations

from typing import Any

import pytest

from usher.jobkinds.additions import Additions
from usher.jobkinds.base import BadJobError, Job
from usher.jobkinds.batchjob import BatchJob
from usher.jobkinds.registry import UnknownKindError, kinds_named

KIND = BatchJob()
GATE = "example.com/gate"


def made(status: dict[str, Any] | None = None, **spec: Any) -> Job:
    return Job("ns", "job", "uid", {"template": {"spec": {}}, **spec}, status or {})


@pytest.mark.parametrize(
    ("spec", "count"),
    [({}, 1), ({"parallelism": 4}, 4), ({"parallelism": 4, "completions": 2}, 2), ({"parallelism": 0}, 0)],
)
def test_it_asks_for_what_can_run_at_once(spec: dict[str, Any], count: int) -> None:
    assert KIND.counts(made(**spec)) == {"main": count}
    assert KIND.pod_sets(made(**spec))[0].count == count


SIX = {"parallelism": 4, "completions": 6}
USABLE: dict[str, tuple[dict[str, Any], dict[str, Any], int, int]] = {
    "all of it at first": (SIX, {}, 4, 4),
    "no more than is left to do": (SIX, {"succeeded": 4, "active": 2}, 2, 2),
    "and what still stops": (SIX, {"succeeded": 5, "active": 1, "terminating": 2}, 1, 3),
    "what its owner lowered it to": ({"parallelism": 2}, {"active": 2, "terminating": 1}, 2, 3),
    "of a work queue what is left after its first success": ({"parallelism": 4}, {"succeeded": 1, "active": 2}, 2, 2),
    "nothing when all is done": (SIX, {"succeeded": 6}, 0, 0),
}


@pytest.mark.parametrize("what", USABLE)
def test_what_it_can_still_use(what: str) -> None:
    spec, status, usable, needed = USABLE[what]
    progress = KIND.progress(made(status, **spec))
    assert (progress.usable["main"], progress.needed["main"]) == (usable, needed)


def test_a_release_lowers_parallelism_only_where_less_was_granted() -> None:
    marks = Additions({"unit": "u"}, GATE)
    job = made(parallelism=4, completions=8)
    template = {"metadata": {"annotations": {"unit": "u"}}}
    assert KIND.release(job, {"main": 4}, marks) == {"suspend": False, "template": template}
    assert KIND.release(job, {"main": 2}, marks) == {"suspend": False, "template": template, "parallelism": 2}
    assert KIND.hold(made(parallelism=2, completions=8), {"main": 4}) == {"suspend": True, "parallelism": 4}
    assert KIND.hold(job, {"main": 4}) == {"suspend": True}


def test_the_pods_of_an_elastic_job_wait_at_our_gate_beside_others() -> None:
    job = made(parallelism=4, template={"spec": {"schedulingGates": [{"name": "theirs"}]}})
    gated = KIND.release(job, {"main": 2}, Additions({}, GATE, gated=True))
    assert gated["template"]["spec"] == {"schedulingGates": [{"name": "theirs"}, {"name": GATE}]}
    assert "parallelism" not in gated
    before = made(parallelism=4, template={"spec": {"schedulingGates": [{"name": "theirs"}, {"name": GATE}]}})
    plain = KIND.release(before, {"main": 4}, Additions({}, GATE))
    assert plain["template"]["spec"] == {"schedulingGates": [{"name": "theirs"}]}, "one that is elastic no more"


def conditions(**said: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status} for kind, status in said.items()]}


def test_it_is_held_when_its_controller_says_so() -> None:
    assert not KIND.progress(made({}, suspend=True)).held
    assert KIND.progress(made(conditions(Suspended="True"), suspend=True)).held
    stopping = KIND.progress(made({**conditions(Suspended="True"), "terminating": 2}, suspend=True))
    assert (stopping.held, stopping.alive) == (True, 2)


def test_what_an_older_controller_leaves_must_be_cleared_before_it_counts_as_held() -> None:
    left = {**conditions(Suspended="True"), "startTime": "t"}
    found = KIND.progress(made(left, suspend=True))

    assert (found.held, found.leaves) == (False, {"startTime": None})
    assert not KIND.progress(made(left, suspend=False)).leaves, "it is being resumed"
    assert not KIND.progress(made({"startTime": "t"}, suspend=True)).leaves, "its controller has not stopped it yet"
    for over in ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"):
        ends = {**conditions(Suspended="True", **{over: "True"}), "startTime": "t"}
        assert not KIND.progress(made(ends, suspend=True)).leaves, over
    assert not KIND.progress(made(left, suspend=True, managedBy="example.com/other")).leaves, "of another controller"
    assert KIND.progress(made(left, suspend=True, managedBy="kubernetes.io/job-controller")).leaves


def test_it_has_ended_when_it_is_complete_or_failed() -> None:
    assert KIND.progress(made(conditions(Complete="True"))).succeeded is True
    assert KIND.progress(made(conditions(SuccessCriteriaMet="True"))).succeeded is None, "its pods may still be there"
    failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too slow"}]}
    assert KIND.progress(made(failed)).succeeded is False
    assert KIND.progress(made(failed)).message == "DeadlineExceeded: too slow"


def test_a_job_without_a_template_says_so() -> None:
    with pytest.raises(BadJobError, match=r"spec\.template"):
        KIND.pod_sets(Job("ns", "job", "uid", {}))


def test_kinds_are_found_by_the_names_that_kubectl_has() -> None:
    assert [kind.kind for kind in kinds_named(["jobs.batch"])] == ["Job"]
    with pytest.raises(UnknownKindError, match=r"there is no kind cows; there are .*jobs\.batch"):
        kinds_named(["cows"])
