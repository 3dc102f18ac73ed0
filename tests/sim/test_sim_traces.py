"""Traces: the Standard Workload Format and the Alibaba GPU lists."""

import gzip
import os
from pathlib import Path

import pytest
from worlds import quota, report, simulate, units, write

REAL = Path(os.environ.get("USHER_TRACES", Path(__file__).parents[3] / "shared" / "data"))

# job submit wait run used cpu mem asked time mem status user group app queue partition before think
SWF = """\
; MaxJobs: 6
; MaxNodes: 2
; MaxProcs: 4
 1   100  -1   60   4 -1 -1  -1 -1 -1  1   7  1 -1  0 -1 -1 -1
 2   110  -1   30   1 -1 -1   2 -1 -1  0   8  1 -1  0 -1 -1 -1
 3   110  -1   30   1 -1 -1  -1 -1 -1  5   8  1 -1  0 -1 -1 -1
 4   115  -1   -1   1 -1 -1  -1 -1 -1  1   8  1 -1  0 -1 -1 -1
 5   115  -1   10  -1 -1 -1  -1 -1 -1  1   8  1 -1  0 -1 -1 -1
 6   120  -1    0   1 -1 -1  -1 -1 -1  1  -1  2 -1  1 -1 -1 -1
"""

PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-0,4000,1024,1,500,,LS,Running,1000,1060,1000
p-1,4000,1024,1,800,,BE,Failed,1010,1040,1030
p-2,1000,1024,0,0,,BE,Pending,1010,1040,
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,8000,4096,1,T4\n"


@pytest.fixture
def swf(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress(SWF.encode()))
    return path


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    path = tmp_path / "pods.csv"
    path.write_text(PODS)
    (tmp_path / "nodes.csv").write_text(NODES)
    return path


def test_a_log_becomes_gangs_of_tenants_on_its_machine(swf: Path) -> None:
    run = report("--trace", swf, "--share", "none")

    found = units(run)
    assert list(found) == ["job-1", "job-2", "job-6"]
    assert [found[name]["arrived_s"] for name in found] == [0, 10, 20]
    assert [found[name]["admitted_s"] for name in found] == [0, 60, 60]
    assert [found[name]["finished_s"] for name in found] == [60, 90, 60]
    assert [found[name]["phase"] for name in found] == ["Succeed", "Failed", "Succeed"]
    assert [found[name]["quota"] for name in found] == ["user-7", "user-8", "user-unknown"]
    assert run["quotas"][0]["max"] == {"cpu": "4"}


# A machine of 4: one job of 3, then one of 4, then small ones that go past it until room is kept for it (reserveAfter).
BACKFILL = """\
; MaxProcs: 4
 1     0  -1  900   3 -1 -1   3 {0} -1  1   7  1 -1  0 -1 -1 -1
 2     1  -1   60   4 -1 -1   4 {1} -1  1   7  1 -1  0 -1 -1 -1
 3     2  -1  700   1 -1 -1   1 {2} -1  1   7  1 -1  0 -1 -1 -1
 4   705  -1  100   1 -1 -1   1 {3} -1  1   7  1 -1  0 -1 -1 -1
 5   810  -1  100   1 -1 -1   1 {4} -1  1   7  1 -1  0 -1 -1 -1
"""


def started(tmp_path: Path, asked: tuple[int, ...], *options: str) -> list[float]:
    path = tmp_path / "log.swf"
    path.write_text(BACKFILL.format(*asked))
    return [each["admitted_s"] for each in report("--trace", path, *options)["units"]]


def test_a_job_that_asked_for_little_time_goes_before_room_that_is_kept(tmp_path: Path) -> None:
    """Job 2 has room kept from 602 s on and can start at 900 s: job 4 is gone by then, job 5 would not be."""
    asked = (900, 100, 800, 150, 150)

    assert started(tmp_path, asked) == [0, 900, 2, 705, 960]
    assert started(tmp_path, (900, 100, 800, 1000, 150)) == [0, 900, 2, 960, 960], "job 4 asked for more than is left"


def test_without_limits_nobody_goes_before_room_that_is_kept(tmp_path: Path) -> None:
    asked = (900, 100, 800, 150, 150)

    assert started(tmp_path, asked, "--time-limits", "none") == [0, 900, 2, 960, 960]
    assert started(tmp_path, (-1,) * 5) == [0, 900, 2, 960, 960], "a log in which nobody asked for a time"


def test_a_log_without_requested_times_may_be_given_perfect_ones(tmp_path: Path) -> None:
    assert started(tmp_path, (-1,) * 5, "--time-limits", "run") == [0, 900, 2, 705, 960]


def test_a_job_that_ran_longer_than_it_asked_for_is_not_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(SWF.replace("60   4 -1 -1  -1 -1", "60   4 -1 -1  -1 30"))

    job = units(report("--trace", path, "--share", "none"))["job-1"]

    assert (job["finished_s"], job["phase"]) == (60, "Succeed")


def test_an_evicted_job_of_a_log_has_its_whole_time_again(tmp_path: Path) -> None:
    """It ran for 50 of 60 s and starts over; with the 10 s that were left it would never end."""
    path = tmp_path / "log.swf"
    path.write_text(
        "; MaxProcs: 2\n"
        " 1     0  -1   60   1 -1 -1   1 60 -1  1   7  1 -1  0 -1 -1 -1\n"
        " 2     1  -1   60   1 -1 -1   1 60 -1  1   7  1 -1  0 -1 -1 -1\n"
        " 3    51  -1   10   1 -1 -1   1 60 -1  1   8  1 -1  0 -1 -1 -1\n"
    )

    found = units(report("--trace", path))

    assert [found[f"job-{n}"]["evictions"] for n in (1, 2, 3)] == [0, 1, 0]
    assert [found[f"job-{n}"]["finished_s"] for n in (1, 2, 3)] == [60, 120, 61]
    assert found["job-2"]["phase"] == "Succeed"


def test_what_is_left_out_of_a_log_is_counted(swf: Path) -> None:
    done = simulate("--trace", swf)

    for why in ("1 jobs left out: cancelled", "1 jobs left out: no run time", "1 jobs left out: no processors"):
        assert why in done.stderr


@pytest.mark.parametrize(
    ("by", "want"), [("group", {"group-1", "group-2"}), ("queue", {"queue-0", "queue-1"}), ("none", {"everybody"})]
)
def test_tenants_are_what_one_says_they_are(by: str, want: set[str], swf: Path) -> None:
    assert {each["quota"] for each in report("--trace", swf, "--tenants", by)["units"]} == want


def test_a_tenant_that_the_format_does_not_know_is_refused(swf: Path) -> None:
    done = simulate("--trace", swf, "--tenants", "qos")

    assert done.exit_code == 2
    assert "has no qos; it has user, group, queue" in done.stderr


def test_limit_and_capacity_stand_for_the_log(swf: Path) -> None:
    run = report("--trace", swf, "--limit", 2, "--capacity", "cpu=6")

    assert [each["admitted_s"] for each in run["units"]] == [0, 10]


def test_manifests_beside_a_trace_say_more_about_its_tenants(swf: Path, tmp_path: Path) -> None:
    path = write(tmp_path, quota("user-8", weight=5, max={"cpu": "1"}))

    run = report(path, "--trace", swf)

    assert {each["name"]: each["weight"] for each in run["quotas"]}["user-8"] == 5
    assert units(run)["job-2"]["admitted_s"] is None


def test_pods_take_parts_of_gpus(pods: Path, tmp_path: Path) -> None:
    run = report("--trace", pods, "--nodes", tmp_path / "nodes.csv")

    found = units(run)
    assert list(found) == ["p-0", "p-1"]
    assert (found["p-0"]["admitted_s"], found["p-0"]["finished_s"]) == (0, 60)
    assert (found["p-1"]["arrived_s"], found["p-1"]["admitted_s"], found["p-1"]["finished_s"]) == (10, 60, 70)
    assert found["p-1"]["phase"] == "Failed"
    assert found["p-1"]["quota"] == "qos-be"
    assert run["quotas"][0]["max"] == {"cpu": "8", "memory": "4Gi", "alibabacloud.com/gpu-milli": "1k"}


BAD = {
    "too few columns": ("; MaxProcs: 4\n1 2 3\n", "line 2: ", []),
    "words": ("; MaxProcs: 4\n" + " ".join(["x"] * 18), "line 2: ", []),
    "no machine": ("1 100 -1 60 4 -1 -1 -1 -1 -1 1 7 1 -1 0 -1 -1 -1\n", "no MaxProcs", []),
    "nothing to run": ("; MaxProcs: 4\n", "no job in it", []),
    "an empty file": ("", "is empty", []),
    "a pod list without columns": ("name,qos\na,b\n", "the columns cpu_milli, ", []),
    "a pod list with a word for a number": (
        PODS.replace("p-0,4000", "p-0,four"),
        "line 2: cpu_milli",
        ["--capacity", "cpu=1"],
    ),
    "a pod list without nodes": (PODS, "--nodes FILE", []),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_trace_is_named_by_file_and_line(case: str, tmp_path: Path) -> None:
    text, want, more = BAD[case]
    path = tmp_path / "trace"
    path.write_text(text)

    done = simulate("--trace", path, *more)

    assert done.exit_code == 2
    assert want in done.stderr
    assert "Traceback" not in done.output


def test_a_trace_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = simulate("--trace", tmp_path / "no.swf")

    assert done.exit_code == 2
    assert "cannot be read" in done.stderr


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no traces in {REAL}; USHER_TRACES says where they are")
@pytest.mark.parametrize(
    ("trace", "options"),
    [
        ("swf/NASA-iPSC-1993.swf.gz", ["--tenants", "user"]),
        ("swf/LCG.swf.gz", ["--tenants", "group"]),
        ("alibaba-gpu-2023/openb_pod_list_default.csv", ["--nodes", "alibaba-gpu-2023/openb_node_list_all_node.csv"]),
    ],
)
def test_real_traces_run_to_their_end(trace: str, options: list[str]) -> None:
    given = [str(REAL / option) if "/" in option else option for option in options]

    run = report("--trace", REAL / trace, "--limit", 1500, *given)

    assert run["summary"]["finished"] == run["summary"]["units"] == 1500
    assert run["summary"]["waiting"] == 0
    assert 0 < run["summary"]["fairness"] <= 1
