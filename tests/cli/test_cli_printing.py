"""What commands print, as values in and text out."""

from __future__ import annotations

import json

import pytest
import yaml

from usher.cli.printing import age, dumped, duration, name_of, quantities, table, widths_of

DURATIONS = {
    "nothing": (0, "0s"),
    "just below two minutes": (119, "119s"),
    "two minutes": (120, "2m"),
    "minutes and seconds": (330, "5m30s"),
    "ten minutes have no seconds": (659, "10m"),
    "just below three hours": (3 * 3600 - 1, "179m"),
    "hours and minutes": (3 * 3600 + 1200, "3h20m"),
    "a whole number of hours": (4 * 3600, "4h"),
    "eight hours have no minutes": (8 * 3600 + 1200, "8h"),
    "two days": (48 * 3600, "2d"),
    "days and hours": (3 * 86_400 + 4 * 3600, "3d4h"),
    "eight days have no hours": (8 * 86_400 + 4 * 3600, "8d"),
    "two years": (730 * 86_400, "2y"),
    "years and days": (800 * 86_400, "2y70d"),
    "eight years have no days": (3000 * 86_400, "8y"),
}


@pytest.mark.parametrize("given", DURATIONS)
def test_a_duration_is_as_short_as_kubectl_says_it(given: str) -> None:
    seconds, want = DURATIONS[given]

    assert duration(seconds) == want


def test_an_age_is_never_negative_and_says_when_it_is_not_known() -> None:
    now_ms = 1_700_000_000_000

    assert age("2023-11-14T22:13:10Z", now_ms) == "10s"
    assert age("2023-11-14T22:13:30Z", now_ms) == "0s"
    assert age(None, now_ms) == "<unknown>"


AMOUNTS = {
    "nothing": ({}, "-"),
    "not there": (None, "-"),
    "cpu and memory come first": (
        {"example.com/gpu": "2", "memory": "2Gi", "cpu": "1500m"},
        "cpu 1500m, memory 2Gi, example.com/gpu 2",
    ),
    "written otherwise than it would be": ({"cpu": "6000m", "memory": "2048Mi"}, "cpu 6, memory 2Gi"),
    "what is no quantity is shown as it is": ({"cpu": "lots"}, "cpu lots"),
}


@pytest.mark.parametrize("given", AMOUNTS)
def test_amounts_are_shown_in_one_way(given: str) -> None:
    amounts, want = AMOUNTS[given]

    assert quantities(amounts) == want


def test_columns_stand_under_each_other_with_nothing_behind_the_last() -> None:
    lines = table(("NAME", "AGE"), [("a", "5s"), ("a-long-name", "10m")])

    assert lines == ["NAME          AGE", "a             5s", "a-long-name   10m"]


def test_what_others_wrote_cannot_leave_its_cell() -> None:
    assert table(("A", "B"), [("x\x1b[2J", "y\nz")]) == ["A       B", "x [2J   y z"]


def test_later_lines_go_on_under_the_earlier_ones() -> None:
    headers, first = ("NAME", "AGE"), [("a-long-name", "5s")]
    widths = widths_of(headers, first)

    assert table(headers, [("b", "1s")], headed=False, widths=widths) == ["b             1s"]


QUEUE = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "Queue",
    "metadata": {"name": "main", "managedFields": [{"manager": "x"}]},
}


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_an_object_asked_for_by_name_is_printed_alone_and_others_as_a_list(output: str) -> None:
    read = json.loads if output == "json" else yaml.safe_load

    alone, listed = read(dumped([QUEUE], output, single=True)), read(dumped([QUEUE], output, single=False))

    assert alone["kind"] == "Queue"
    assert alone["metadata"] == {"name": "main"}
    assert (listed["kind"], listed["items"]) == ("List", [alone])


def test_a_name_has_kind_and_group() -> None:
    assert name_of(QUEUE) == "queue.scheduling.x-k8s.io/main"
    assert name_of({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}) == "pod/a"
