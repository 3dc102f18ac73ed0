"""What the simulator says about bad input: everything, with file, object and field, and exit code 2."""

from pathlib import Path
from typing import Any

import pytest
from worlds import OURS, job, node, queue, quota, report, simulate, unit, units, write

NODE = node(cpu="4")


def the_queue(**spec: Any) -> list[dict[str, Any]]:
    return [queue(**spec)]


BAD: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a weight below zero": ([queue(weight=-1)], "Queue default/q: spec.weight: -1 is negative"),
    "a weight that is no whole number": (
        [quota("a", weight=1.5)],
        "QueueQuota a: spec.weight: 1.5 is not a whole number",
    ),
    "a bad quantity": ([quota("a", max={"cpu": "4x"})], "QueueQuota a: spec.max.cpu: "),
    "a negative quantity": ([quota("a", min={"cpu": "-1"})], "QueueQuota a: spec.min.cpu: "),
    "min above max": (
        [quota("a", min={"cpu": "5"}, max={"cpu": "4"})],
        "QueueQuota a: spec.min.cpu: 5 is above spec.max, 4",
    ),
    "a misspelt field": ([queue(wieght=3)], "Queue default/q: spec.wieght: no such field; did you mean weight?"),
    "an unknown policy": ([queue(queuePolicy="LIFO")], "spec.queuePolicy: "),
    "an unknown stop policy": ([queue(stopPolicy="Pause")], "spec.stopPolicy: "),
    "a bad duration": ([queue(reserveAfter="soon")], "spec.reserveAfter: "),
    "a boolean that is a string": ([quota("a", lendable="no")], 'spec.lendable: "no" is not true or false'),
    "a list that is none": ([queue(admissionChecks="x")], "spec.admissionChecks: "),
    "a check without a name": ([queue(admissionChecks=[{}])], "spec.admissionChecks[0].name: is missing"),
    "a bad selector": (
        [queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Like"}]})],
        "spec.namespaceSelector.matchExpressions[0].operator: ",
    ),
    "a bad request in a template": ([job("j", cpu="lots")], "Job default/j: spec.template.spec.containers[0]."),
    "a unit without pods": ([unit("u")], "QueueUnit default/u: spec.podSets: is missing"),
    "a minimum above the count": (
        [unit("u", podSets=[{"count": 2, "minCount": 3}])],
        "spec.podSets[0].minCount: 3 is above count, 2",
    ),
    "a priority that is a word": (
        [job("j", labels={"scheduling.x-k8s.io/queue-name": "q", "scheduling.x-k8s.io/priority": "high"})],
        "Job default/j: metadata.labels[scheduling.x-k8s.io/priority]: ",
    ),
    "a bad arrival": ([job("j", at="later")], "metadata.annotations[sim.usher.dev/arrives]: "),
    "an unknown annotation of ours": (
        [job("j", annotations={"sim.usher.dev/arives": "3s"})],
        "metadata.annotations[sim.usher.dev/arives]: no such annotation",
    ),
    "leaving before arriving": (
        [job("j", at="9s", annotations={"sim.usher.dev/leaves": "3s"})],
        "metadata.annotations[sim.usher.dev/leaves]: it leaves before it arrives",
    ),
    "a cycle of quotas": (
        [quota("a", parent="b"), quota("b", parent="c"), quota("c", parent="a")],
        "spec.parent: a cycle: a → b → c → a",
    ),
    "a quota that is its own parent": ([quota("a", parent="a")], "spec.parent: a cycle: a → a"),
    "an object that is there twice": ([queue(), queue()], "Queue default/q: metadata.name: is there twice"),
    "a name that is none": ([quota("A_b")], "metadata.name: "),
    "an object without a kind": ([{"apiVersion": "v1", "metadata": {"name": "x"}}], "kind: is missing"),
    "another version of ours": (
        [{"apiVersion": "scheduling.x-k8s.io/v2", "kind": "Queue", "metadata": {"name": "x"}}],
        "apiVersion: scheduling.x-k8s.io/v2 is not scheduling.x-k8s.io/v1alpha1",
    ),
    "something beside the spec": ([queue() | {"specs": {}}], "Queue default/q: specs: no such field"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_by_file_object_and_field(case: str, tmp_path: Path) -> None:
    objects, want = BAD[case]
    path = write(tmp_path, NODE, job("fine"), *objects)

    done = simulate(path)

    assert done.exit_code == 2
    assert f"{path}: " in done.stderr
    assert want in done.stderr
    assert "Traceback" not in done.output
    assert not done.stdout


def test_every_error_of_every_file_is_said_at_once(tmp_path: Path) -> None:
    write(tmp_path, queue(weight=-1, priority="x"), name="a.json")
    write(tmp_path, quota("q", min={"cpu": "x", "memory": "y"}), name="b.json")
    (tmp_path / "c.yaml").write_text("kind: [")

    done = simulate(tmp_path)

    assert done.exit_code == 2
    for want in (
        "a.json",
        "spec.weight",
        "spec.priority",
        "b.json",
        "spec.min.cpu",
        "spec.min.memory",
        "c.yaml: line 2",
    ):
        assert want in done.stderr
    assert len(done.stderr.splitlines()) == 6  # and that there is no capacity


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: 1\na: 2\n", 'the key "a" is given twice'),
        ("just words", "is not an object"),
        ("\t{", "is not YAML"),
        ("kind: Queue\napiVersion: 3\nmetadata: 7\n", "metadata: 7 is not an object"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused(text: str, want: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text)

    done = simulate(tmp_path / "x.yaml", "--capacity", "cpu=1")

    assert done.exit_code == 2
    assert want in done.stderr


def test_a_missing_file_and_an_empty_folder_are_errors(tmp_path: Path) -> None:
    done = simulate(tmp_path / "none.yaml", tmp_path)

    assert done.exit_code == 2
    assert "no such file or folder" in done.stderr
    assert "has no *.yaml" in done.stderr


def test_without_capacity_it_says_what_to_do(tmp_path: Path) -> None:
    done = simulate(write(tmp_path, queue(), job("j")))

    assert done.exit_code == 2
    assert "--capacity cpu=64,memory=256Gi" in done.stderr


def test_other_kinds_and_jobs_without_a_queue_are_noted_not_refused(tmp_path: Path) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    path = write(tmp_path, NODE, queue(), config, job("mine"), job("other", labels={}))

    done = simulate(path)

    assert done.exit_code == 0
    assert "ConfigMap (v1) is not simulated" in done.stderr
    assert "Job default/other: names no queue and no quota" in done.stderr
    assert "default/mine" in done.stdout
    assert "default/other" not in done.stdout


def test_folders_are_read_recursively_with_many_documents_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    write(tmp_path / "deep", NODE, job("a"))
    (tmp_path / "deep" / "er" / "q.yml").write_text(
        f"---\n---\napiVersion: {OURS}\nkind: Queue\nmetadata: {{name: q}}\n---\n"
        f"apiVersion: {OURS}\nkind: QueueList\nitems:\n- apiVersion: {OURS}\n  kind: Queue\n  metadata: {{name: r}}\n"
    )

    run = report(tmp_path)

    assert {each["name"] for each in run["queues"]} == {"q", "r"}
    assert units(run)["a"]["phase"] == "Succeed"


@pytest.mark.parametrize(
    "key",
    ["scheduling.x-k8s.io/queue-name", "koord-queue/queue-name", "kube-queue/queue-name", "kueue.x-k8s.io/queue-name"],
)
@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_a_job_may_name_its_queue_in_any_of_the_known_ways(key: str, place: str, tmp_path: Path) -> None:
    made = job("j", labels={})
    made["metadata"][place][key] = "q"

    run = report(write(tmp_path, NODE, queue(), made))

    assert units(run)["j"]["admitted_s"] == 0
    assert units(run)["j"]["queue"] == "q"


def test_a_unit_says_what_is_missing_instead_of_being_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path, NODE, queue("q", quota="gone"), job("a", labels={"koord-queue/queue-name": "nowhere"}), job("b")
    )

    found = units(report(path))

    assert found["a"]["admitted_s"] is None
    assert "nowhere" in found["a"]["message"]
    assert "gone" in found["b"]["message"]


def test_a_shared_queue_is_open_to_the_namespaces_it_selects(tmp_path: Path) -> None:
    selector = {"matchLabels": {"team": "red"}}
    red = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "red", "labels": {"team": "red"}}}
    path = write(
        tmp_path,
        NODE,
        red,
        queue("q", namespace="usher-system", namespaceSelector=selector),
        job("in", namespace="red"),
        job("out", namespace="blue"),
    )

    found = units(report(path))

    assert found["in"]["admitted_s"] == 0
    assert found["out"]["admitted_s"] is None
    assert "may not use" in found["out"]["message"]


def test_priority_comes_from_spec_label_class_or_template(tmp_path: Path) -> None:
    classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "top"}, "value": 50}
    template = {"spec": {"priorityClassName": "top", "containers": [{"resources": {"requests": {"cpu": "4"}}}]}}
    by_label = {"scheduling.x-k8s.io/queue-name": "q", "scheduling.x-k8s.io/priority": "40"}
    path = write(
        tmp_path,
        NODE,
        classes,
        queue(),
        job("none", cpu="4"),
        unit("by-spec", queue="q", priority=60, request={"cpu": "4"}),
        job("by-class", template=template),
        job("by-label", cpu="4", labels=by_label),
    )

    found = units(report(path))

    assert sorted(found, key=lambda name: found[name]["admitted_s"]) == ["by-spec", "by-class", "by-label", "none"]


def test_units_of_different_kinds_may_have_the_same_name(tmp_path: Path) -> None:
    path = write(tmp_path, NODE, queue(), job("same"), unit("same", queue="q", request={"cpu": "1"}))

    run = report(path)

    assert [each["name"] for each in run["units"]] == ["same", "same"]
    assert {each["phase"] for each in run["units"]} == {"Succeed"}


def test_a_job_whose_queue_unit_is_given_is_simulated_once(tmp_path: Path) -> None:
    owner = {"kind": "Job", "name": "j", "apiVersion": "batch/v1"}
    path = write(tmp_path, NODE, queue(), job("j"), unit("j-unit", queue="q", consumerRef=owner, request={"cpu": "1"}))

    assert list(units(report(path))) == ["j-unit"]


def test_a_quota_without_a_queue_gets_a_default_one(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        NODE,
        quota("team", namespaces=["default"]),
        job("j", labels={"scheduling.x-k8s.io/quota-name": "team"}),
    )

    run = report(path)

    assert units(run)["j"]["admitted_s"] == 0
    assert units(run)["j"]["quota"] == "team"
