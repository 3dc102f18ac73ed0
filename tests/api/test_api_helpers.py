"""What the rest of Usher reads and writes our kinds with: conditions, times, quantities, a unit's past."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from usher.api.codec import as_dict, decode
from usher.api.conditions import find, is_true, with_condition, without_condition
from usher.api.meta import Condition, LabelSelector, LabelSelectorRequirement
from usher.api.quantities import amounts_of, quantities_of, requirements_of
from usher.api.queueunit import Admission, AdmissionCheckState, QueueUnitStatus
from usher.api.shapes import DURATION
from usher.api.stored import stored_of, with_stored
from usher.api.times import ms_of, time_of
from usher.core.amounts import AmountsError
from usher.core.durations import parse_ms
from usher.core.model import CheckState, Grant, Nomination, Stored
from usher.core.phases import Cause, Phase

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines may be busy
T0 = 1_767_225_600_000
"""2026-01-01T00:00:00Z"""


def test_times_have_a_fraction_only_where_there_is_one() -> None:
    assert time_of(T0) == "2026-01-01T00:00:00Z"
    assert time_of(T0 + 7) == "2026-01-01T00:00:00.007Z"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-01-01T00:00:00Z", T0),
        ("2026-01-01T01:30:00+01:30", T0),
        ("2026-01-01T00:00:00.123456Z", T0 + 123),
        ("2025-12-31T23:59:59.999999Z", T0 - 1),
        (None, 0),
        ("", 0),
    ],
)
def test_times_are_read_as_kubernetes_writes_them(text: str | None, ms: int) -> None:
    assert ms_of(text) == ms


@CALM
@given(st.integers(0, 4_000_000_000_000))
def test_times_lose_nothing(ms: int) -> None:
    assert ms_of(time_of(ms)) == ms


def test_the_time_of_a_condition_moves_only_with_its_status() -> None:
    first = with_condition((), "Admitted", False, "Waiting", "1 cpu is missing", now_ms=T0)
    second = with_condition(first, "Admitted", False, "Waiting", "2 cpu are missing", now_ms=T0 + 1000)
    third = with_condition(second, "Admitted", True, "Admitted", now_ms=T0 + 2000)

    assert [each[0].last_transition_time for each in (first, second, third)] == [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:02Z",
    ]
    assert second[0].message == "2 cpu are missing"
    assert is_true(third, "Admitted")
    assert not is_true(first, "Admitted")


def test_a_condition_that_says_the_same_changes_nothing() -> None:
    before = with_condition((), "Active", True, "Ready", now_ms=T0, generation=3)

    assert with_condition(before, "Active", True, "Ready", now_ms=T0 + 5, generation=3) is before
    assert with_condition(before, "Active", True, "Ready", now_ms=T0 + 5, generation=4) is not before


def test_a_condition_keeps_its_place_and_leaves_the_others() -> None:
    both = with_condition(with_condition((), "A", True, "X", now_ms=T0), "B", None, "Y", now_ms=T0)
    changed = with_condition(both, "A", False, "Z", now_ms=T0 + 1)

    assert [(each.type, each.status) for each in changed] == [("A", "False"), ("B", "Unknown")]
    assert changed[1] is both[1]
    assert [each.type for each in without_condition(changed, "A")] == ["B"]
    assert without_condition(both, "C") is both
    assert find(both, "C") is None


def test_a_bad_quantity_is_named_by_its_field() -> None:
    with pytest.raises(AmountsError) as raised:
        amounts_of({"cpu": "much", "memory": "1Gi", "example.com/gpu": -1}, "spec.min")

    assert [error.split(":")[0] for error in raised.value.errors] == ["spec.min.cpu", "spec.min[example.com/gpu]"]


def test_amounts_become_canonical_quantities_and_come_back() -> None:
    amounts = {"memory": 2**30, "cpu": 1500, "example.com/gpu": 2}

    assert quantities_of(amounts) == {"cpu": "1500m", "example.com/gpu": "2", "memory": "1Gi"}
    assert amounts_of(quantities_of(amounts), "x") == amounts


@CALM
@given(st.from_regex(DURATION, fullmatch=True).filter(str.strip))
def test_every_duration_that_the_crd_lets_through_can_be_read(text: str) -> None:
    assert parse_ms(text.strip(), plain=False) >= 0


def test_a_selector_is_read_line_by_line() -> None:
    selector = LabelSelector(
        match_labels={"team": "red"},
        match_expressions=(
            LabelSelectorRequirement(key="size", operator="NotIn", values=("s", "m")),
            LabelSelectorRequirement(key="gpu", operator="Exists"),
        ),
    )
    lines = requirements_of(selector)

    def chosen(**labels: str) -> bool:
        return all(line.matches(labels) for line in lines)

    assert chosen(team="red", gpu="1", size="l")
    assert not chosen(team="blue", gpu="1")
    assert not chosen(team="red", gpu="1", size="s")
    assert not chosen(team="red")
    assert requirements_of(None) == ()


NAMES = st.sampled_from(["main", "driver", "workers"])
MS = st.integers(1, 4_000_000_000_000)
GRANTS = st.dictionaries(NAMES, st.integers(0, 9), min_size=1).map(
    lambda found: tuple(Grant(name, count) for name, count in found.items())
)


@st.composite
def pasts(draw: st.DrawFn) -> Stored:
    """Any past that an engine may have left: what is being evicted, and checks, are there only with grants."""
    grants = draw(st.just(()) | GRANTS)
    return Stored(
        phase=draw(st.sampled_from(Phase)),
        grants=grants,
        quota=draw(st.sampled_from(["", "red", "red/train"])),
        evicting=draw(st.sampled_from(["", *[cause.value for cause in Cause]])) if grants else "",
        admitted_ms=draw(st.just(0) | MS),
        ran_ms=draw(st.integers(0, 10**12)),
        generation=draw(st.integers(0, 10**9)),
        evictions=draw(st.integers(0, 1000)),
        retries=draw(st.integers(0, 1000)),
        requeue_at_ms=draw(st.just(0) | MS),
        inactive=draw(st.sampled_from(["", "its execution time is used up"])),
        nomination=draw(st.none() | st.builds(Nomination, st.booleans(), MS, st.sampled_from(["root", "red"]))),
        overtaken_ms=draw(st.just(-1) | MS),
        protected_ms=draw(st.just(0) | MS),
        has_run=draw(st.booleans()),
        checks=draw(st.dictionaries(NAMES, st.sampled_from(CheckState))) if grants else {},
    )


@CALM
@given(pasts(), pasts())
def test_a_units_past_is_found_again_in_its_status_whatever_was_there_before(before: Stored, after: Stored) -> None:
    status = with_stored(with_stored(QueueUnitStatus(), before, now_ms=T0), after, now_ms=T0 + 1000)

    assert stored_of(decode(QueueUnitStatus, as_dict(status))) == after


def test_every_field_of_a_past_has_a_home() -> None:
    """A field that is added to the engine's record must be added to the status."""
    full = Stored(
        phase=Phase.RUNNING,
        grants=(Grant("main", 2),),
        quota="red",
        evicting="Reclaimed",
        admitted_ms=T0 + 1,
        ran_ms=5,
        generation=3,
        evictions=1,
        retries=2,
        requeue_at_ms=T0,
        inactive="rejected",
        nomination=Nomination(True, T0, "root"),
        overtaken_ms=T0 + 2,
        protected_ms=T0 + 3,
        has_run=True,
        checks={"budget": CheckState.READY},
    )
    empty = Stored()

    assert not [each.name for each in fields(Stored) if getattr(full, each.name) == getattr(empty, each.name)]
    for each in fields(Stored):
        if each.name in ("grants", "evicting", "checks"):
            continue
        changed = replace(full, **{each.name: getattr(empty, each.name)})
        assert with_stored(QueueUnitStatus(), changed, now_ms=T0) != with_stored(QueueUnitStatus(), full, now_ms=T0)


def test_a_unit_without_a_status_has_no_past() -> None:
    assert stored_of(None) == stored_of(QueueUnitStatus()) == Stored()


def test_an_eviction_that_is_over_is_not_told_again() -> None:
    gone = Condition(type="Evicted", status="True", reason="Preempted", last_transition_time=time_of(T0))

    assert stored_of(QueueUnitStatus(phase=Phase.ENQUEUED, conditions=(gone,))).evicting == ""


def test_writing_a_past_keeps_what_others_wrote() -> None:
    status = QueueUnitStatus(
        message="hello",
        admissions=(Admission(name="main", replicas=1, running=1, resources={"cpu": "1"}),),
        admission_checks=(AdmissionCheckState(name="budget", state=CheckState.READY, message="12 spent"),),
    )
    stored = Stored(phase=Phase.RUNNING, grants=(Grant("main", 3),), generation=1, checks={"budget": CheckState.READY})
    written = with_stored(status, stored, now_ms=T0)

    assert written.message == "hello"
    assert written.admissions == (Admission(name="main", replicas=3, running=1, resources={"cpu": "1"}),)
    assert written.admission_checks == status.admission_checks
    assert with_stored(written, stored, now_ms=T0 + 9) == written
