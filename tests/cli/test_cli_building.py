"""Jobs made from flags and files."""

from __future__ import annotations

from typing import Any

import click
import pytest

from usher.cli.building import Place, Work, from_flags, from_text, merged, names_a_place, queue_named

GROUP = "scheduling.x-k8s.io"


def test_a_job_from_flags_is_held_and_says_its_place() -> None:
    work = Work("busybox:1.36", ("sleep", "60"), "train", "2", "1Gi", env={"A": "1"})
    place = Place("main", "red", 7, 3600, {"team": "red"}, {"note": "x"})

    job = from_flags(work, place)

    assert job["metadata"] == {
        "name": "train",
        "labels": {"team": "red", f"{GROUP}/queue-name": "main", f"{GROUP}/quota-name": "red"},
        "annotations": {"note": "x", f"{GROUP}/priority": "7", f"{GROUP}/max-exec-time-seconds": "3600"},
    }
    assert {key: job["spec"][key] for key in ("suspend", "parallelism", "completions")} == {
        "suspend": True,
        "parallelism": 1,
        "completions": 1,
    }
    template = job["spec"]["template"]
    assert template["metadata"] == {"annotations": {"note": "x"}}
    assert template["spec"] == {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "busybox:1.36",
                "command": ["sleep", "60"],
                "env": [{"name": "A", "value": "1"}],
                "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
            }
        ],
    }


def test_gpus_are_requested_and_limited_because_the_server_insists_on_both() -> None:
    job = from_flags(Work("x", gpu=2, gpu_resource="example.com/gpu", cpu="1"), Place("main"))

    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "1", "example.com/gpu": "2"},
        "limits": {"example.com/gpu": "2"},
    }


def test_as_many_pods_must_succeed_as_run_at_a_time_unless_said_otherwise() -> None:
    alike = from_flags(Work("x", parallelism=3), Place("main"))
    more = from_flags(Work("x", parallelism=3, completions=9), Place("main"))

    assert (alike["spec"]["parallelism"], alike["spec"]["completions"]) == (3, 3)
    assert (more["spec"]["parallelism"], more["spec"]["completions"]) == (3, 9)


STEMS = {
    "busybox": "busybox-",
    "registry.example.com:5000/team/Train_it:v1": "train-it-",
    "python@sha256:0123": "python-",
    "...": "job-",
}


@pytest.mark.parametrize("image", STEMS)
def test_a_job_without_a_name_is_called_after_its_image(image: str) -> None:
    assert from_flags(Work(image), Place("main"))["metadata"]["generateName"] == STEMS[image]


@pytest.mark.parametrize(("work", "want"), [(Work("x", cpu="lots"), "--cpu: "), (Work("x", memory="-1"), "--memory: ")])
def test_what_is_no_quantity_is_a_usage_error_that_names_the_flag(work: Work, want: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        from_flags(work, Place("main"))

    assert caught.value.message.startswith(want)


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: a, labels: {team: red, scheduling.x-k8s.io/queue-name: old}}
spec: {template: {spec: {containers: [{name: c, image: x}]}}}
"""


def test_the_jobs_of_a_file_are_held_and_keep_what_flags_do_not_say() -> None:
    first, second = from_text(f"{JOB}---\n{JOB.replace('name: a', 'name: b')}", "jobs.yaml", Place("new", priority=1))

    assert [first["metadata"]["name"], second["metadata"]["name"]] == ["a", "b"]
    assert first["metadata"]["labels"] == {"team": "red", f"{GROUP}/queue-name": "new"}
    assert first["metadata"]["annotations"] == {f"{GROUP}/priority": "1"}
    assert first["spec"]["suspend"] is True
    (kept,) = from_text(JOB, "jobs.yaml", Place())
    assert queue_named(kept) == "old"


def test_a_list_is_what_is_in_it() -> None:
    job = JOB.strip().replace("\n", "\n  ")

    found = list(from_text(f"apiVersion: v1\nkind: List\nitems:\n- {job}\n- {job}", "jobs.yaml", Place("main")))

    assert [each["metadata"]["name"] for each in found] == ["a", "a"]
    assert all(each["spec"]["suspend"] for each in found)


REFUSED = {
    "nothing": ("", "jobs.yaml has nothing in it."),
    "no YAML": ("a: [", "jobs.yaml is not YAML: "),
    "no object": ("- 1", "jobs.yaml is not a job: "),
    "no name": ("kind: Job\napiVersion: batch/v1\nspec: {}", "jobs.yaml has no metadata.name."),
    "a kind that is not queued": (
        "kind: CronJob\napiVersion: batch/v1\nmetadata: {name: a}\nspec: {}",
        "jobs.yaml: CronJob of batch/v1 is not queued. Queued are: Job (batch)",
    ),
    "labels that are a list": (
        JOB.replace("{team: red, scheduling.x-k8s.io/queue-name: old}", "[x]"),
        "jobs.yaml: metadata.labels must be a map of texts, not ['x'].",
    ),
    "labels that are a text": (
        JOB.replace("{team: red, scheduling.x-k8s.io/queue-name: old}", "x"),
        "jobs.yaml: metadata.labels must be a map of texts, not 'x'.",
    ),
    "a name that is a number": (JOB.replace("name: a,", "name: 5,"), "jobs.yaml: metadata.name must be a text, not 5."),
    "what holds itself": (f"{JOB.strip()}\nself: &a [*a]\n", "jobs.yaml cannot be sent: it holds itself"),
    "what is too deep": ("[" * 5000, "jobs.yaml cannot be sent: it holds itself, or too much in each other."),
    "one of a list": (
        "kind: List\napiVersion: v1\nitems: [{kind: Queue, metadata: {name: a}, spec: {}}]",
        "jobs.yaml, item 1: Queue of",
    ),
    "the second of two": (
        f"{JOB}---\nkind: Queue\nmetadata: {{name: a}}\nspec: {{}}",
        "jobs.yaml, document 2: Queue of",
    ),
}


@pytest.mark.parametrize("given", REFUSED)
def test_a_file_that_cannot_be_queued_is_refused_with_its_place(given: str) -> None:
    text, want = REFUSED[given]

    with pytest.raises(click.ClickException) as caught:
        list(from_text(text, "jobs.yaml", Place("main")))

    assert caught.value.message.startswith(want)


PLACES: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, False),
    "our label": ({"labels": {f"{GROUP}/queue-name": "a"}}, True),
    "an alias": ({"labels": {"kueue.x-k8s.io/queue-name": "a"}}, True),
    "an annotation": ({"annotations": {f"{GROUP}/queue-name": "a"}}, True),
    "only a quota": ({"labels": {f"{GROUP}/quota-name": "a"}}, True),
    "an empty name": ({"labels": {f"{GROUP}/queue-name": ""}}, False),
}


@pytest.mark.parametrize("given", PLACES)
def test_a_job_is_for_a_queue_if_it_says_so_in_one_of_the_known_ways(given: str) -> None:
    metadata, want = PLACES[given]

    assert names_a_place({"metadata": metadata}) is want


def test_a_merge_patch_changes_what_it_names_and_nothing_else() -> None:
    before = {"a": 1, "b": {"c": 2, "d": 3}, "e": 4}

    assert merged(before, {"b": {"c": 5}, "e": None, "f": {"g": 6}}) == {"a": 1, "b": {"c": 5, "d": 3}, "f": {"g": 6}}
    assert before == {"a": 1, "b": {"c": 2, "d": 3}, "e": 4}


def test_a_job_that_draws_on_a_queue_job_is_held_and_names_no_queue() -> None:
    job = from_flags(Work("x", name="draws"), Place(queue_job="mine"))

    assert job["metadata"]["labels"] == {f"{GROUP}/queue-job": "mine"}
    assert job["spec"]["suspend"] is True
    assert names_a_place(job)
    assert queue_named(job) == ""
