"""What happens in a simulated cluster, and what is reported of it."""

from pathlib import Path

import pytest
from worlds import job, node, queue, quota, quotas, report, simulate, unit, units, write


def test_jobs_arrive_wait_run_and_finish_in_virtual_time(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        node(cpu="2"),
        queue(),
        job("a", cpu="2", at="10s", runs="1m"),
        job("b", cpu="2", at="20s", runs="30s"),
    )

    found = units(report(path))

    assert (found["a"]["arrived_s"], found["a"]["admitted_s"], found["a"]["finished_s"]) == (10, 10, 70)
    assert (found["b"]["arrived_s"], found["b"]["admitted_s"], found["b"]["finished_s"]) == (20, 70, 100)
    assert (found["a"]["wait_s"], found["b"]["wait_s"]) == (0, 50)
    assert {each["phase"] for each in found.values()} == {"Succeed"}


def test_until_reports_the_state_at_that_moment_including_its_events(tmp_path: Path) -> None:
    path = write(tmp_path, node(cpu="1"), queue(), job("a", runs="30s"), job("b", at="1s"), job("late", at="31s"))

    at_29, at_30 = (units(report(path, "--until", until)) for until in ("29s", "30s"))

    assert (at_29["a"]["phase"], at_29["b"]["phase"]) == ("Running", "Enqueued")
    assert at_29["b"]["wait_s"] == 28
    assert "default/b is number 1" in at_29["b"]["message"]
    assert (at_30["a"]["phase"], at_30["b"]["phase"]) == ("Succeed", "Running")
    assert at_30["late"]["phase"] == ""
    assert at_30["late"]["admitted_s"] is None


def test_deserved_is_reported_as_quantities(tmp_path: Path) -> None:
    tasks = [
        unit(f"{team}-{i}", namespace=team, queue="q", request=request)
        for team, request in (("a", {"cpu": "1", "memory": "4Gi"}), ("b", {"cpu": "3", "memory": "1Gi"}))
        for i in range(10)
    ]
    path = write(
        tmp_path, queue(namespace="a", quota="qa"), queue(namespace="b", quota="qb"), quota("qa"), quota("qb"), *tasks
    )

    run = report(path, "--capacity", "cpu=9,memory=18Gi", "--until", "0s")

    found = quotas(run)
    assert found["qa"]["deserved"] == {"cpu": "3", "memory": "12Gi"}
    assert found["qb"]["deserved"] == {"cpu": "6", "memory": "2Gi"}
    assert found["qa"]["used"] == {"cpu": "3", "memory": "12Gi"}
    assert found["root"]["max"] == {"cpu": "9", "memory": "18Gi"}


def test_an_evicted_job_loses_its_work_and_counts_its_eviction(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        node(cpu="2"),
        quota("a"),
        quota("b"),
        queue(namespace="a", quota="a"),
        queue(namespace="b", quota="b"),
        job("first", namespace="a", runs="1m"),
        job("second", namespace="a", runs="1m", at="1s"),
        job("owner", namespace="b", runs="1m", at="30s"),
    )

    found = units(report(path))

    assert found["owner"]["admitted_s"] == 30
    assert found["second"]["evictions"] == 1
    assert found["second"]["admitted_s"] == 60
    assert found["second"]["finished_s"] == 120
    assert found["second"]["wait_s"] == 30
    assert found["first"]["evictions"] == 0


def test_evicted_pods_take_their_time_to_go(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        node(cpu="1"),
        queue(preemption="LowerPriority"),
        job("low", runs="1m"),
        job("high", at="10s", labels={"scheduling.x-k8s.io/queue-name": "q", "scheduling.x-k8s.io/priority": "5"}),
    )

    assert units(report(path, "--grace", "7s"))["high"]["admitted_s"] == 17
    assert units(report(path))["high"]["admitted_s"] == 10


def test_a_job_may_fail_or_leave(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        node(cpu="2"),
        queue(),
        job("fails", annotations={"sim.usher.dev/fails": "true"}),
        job("leaves", annotations={"sim.usher.dev/leaves": "20s"}),
        job("overdue", runs="10m", activeDeadlineSeconds=30),
        job("next", cpu="2"),
    )

    run = report(path)

    found = units(run)
    assert (found["fails"]["phase"], found["fails"]["finished_s"]) == ("Failed", 60)
    assert (found["leaves"]["finished_s"], found["leaves"]["message"]) == (None, "deleted at 20s")
    assert (found["overdue"]["phase"], found["overdue"]["finished_s"]) == ("Failed", 50)
    assert run["summary"]["failed"] == 2
    assert run["summary"]["left"] == 1


@pytest.mark.parametrize(
    ("answers", "admitted", "phase"),
    [
        ("Ready", 5, "Succeed"),
        ("Retry,Ready", 20, "Succeed"),
        ("Rejected", None, "Enqueued"),
        ("never", None, "Reserved"),
    ],
)
def test_checks_answer_as_their_annotations_say(answers: str, admitted: int | None, phase: str, tmp_path: Path) -> None:
    check = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "AdmissionCheck",
        "metadata": {
            "name": "c",
            "annotations": {"sim.usher.dev/answers": answers, "sim.usher.dev/answers-after": "5s"},
        },
        "spec": {"controllerName": "x"},
    }
    path = write(tmp_path, node(cpu="1"), check, queue(admissionChecks=[{"name": "c"}]), job("j"))

    found = units(report(path))["j"]

    assert (found["admitted_s"], found["phase"]) == (admitted, phase)


def test_a_run_in_which_only_retries_are_left_ends(tmp_path: Path) -> None:
    made = job("j", annotations={"sim.usher.dev/answers": "Retry"})
    path = write(tmp_path, node(cpu="1"), queue(admissionChecks=[{"name": "c"}]), made)

    run = report(path)

    assert run["summary"]["stalled"] is True
    assert units(run)["j"]["admitted_s"] is None


def test_nodes_come_and_go(tmp_path: Path) -> None:
    second = node("later", at="40s", cpu="3")
    cordoned = node("cordoned", cpu="9") | {"spec": {"unschedulable": True}}
    sick = node("sick", cpu="9")
    sick["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    path = write(tmp_path, node(cpu="1"), second, cordoned, sick, queue(), job("big", cpu="4"), job("small"))

    found = units(report(path))

    assert found["small"]["admitted_s"] == 0
    assert found["big"]["admitted_s"] == 60


def test_quotas_and_queues_may_come_change_and_leave(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        node(cpu="4"),
        quota("t", at="10s", max={"cpu": "1"}),
        quota("t", at="30s", max={"cpu": "4"}),
        queue("q", at="5s", quota="t"),
        job("a"),
        job("b"),
    )

    found = units(report(path))

    assert (found["a"]["admitted_s"], found["b"]["admitted_s"]) == (10, 30)


def test_a_queue_job_starts_with_what_there_is_and_grows(tmp_path: Path) -> None:
    made = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueJob",
        "metadata": {"name": "e", "annotations": {"sim.usher.dev/runs-for": "5m"}},
        "spec": {"queue": "q", "resourceunit": {"cpu": "1"}, "resourceno": 4},
    }
    path = write(tmp_path, node(cpu="4"), queue(), job("other", cpu="3", runs="1m"), made)

    assert quotas(report(path, "--until", "30s"))["default/q"]["used"] == {"cpu": "4"}
    run = report(path, "--until", "2m")

    assert units(run)["e"]["admitted_s"] == 0
    assert quotas(run)["default/q"]["used"] == {"cpu": "4"}


def test_the_summary_adds_up(tmp_path: Path) -> None:
    path = write(tmp_path, node(cpu="2"), queue(), job("a", cpu="2", runs="1m"), job("b", cpu="1", runs="1m"))

    summary = report(path)["summary"]

    assert (summary["units"], summary["finished"], summary["waiting"]) == (2, 2, 0)
    assert summary["makespan_s"] == summary["end_s"] == 120
    assert summary["utilisation"] == {"cpu": 0.75}
    assert summary["wait_s"] == {"mean": 30, "p50": 0, "p95": 60, "p99": 60, "max": 60}
    assert summary["decisions"] == 2


def test_the_same_input_gives_the_same_output(tmp_path: Path) -> None:
    jobs = [job(f"j{i}", cpu=str(1 + i % 3), at=f"{i % 7}s", runs=f"{10 + i}s") for i in range(60)]
    path = write(tmp_path, node(cpu="4"), queue(), *jobs)

    assert simulate(path, "-o", "json").stdout == simulate(path, "-o", "json").stdout
