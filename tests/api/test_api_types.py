"""The structs of our kinds: JSON names, what is left out, what is ignored."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seeds import MANIFESTS, STATUSES

from usher.api import codec
from usher.api.codec import DecodeError, as_dict, decode, encode, merge_patch, template_of
from usher.api.kinds import KINDS, QUEUE_UNIT
from usher.api.meta import Condition, ObjectMeta
from usher.api.podset import PodSet
from usher.api.queue import Queue, QueueSpec
from usher.api.queuejob import QueueJob, QueueJobSpec
from usher.api.queueunit import QueueUnit, QueueUnitSpec, QueueUnitStatus
from usher.core.phases import Phase

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines may be busy


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_of_the_seeds_is_read_and_written_without_loss(name: str) -> None:
    body = MANIFESTS[name]
    read = decode(KINDS[body["kind"]].type, body)

    assert as_dict(read) == body


@pytest.mark.parametrize("name", STATUSES)
def test_a_status_of_the_seeds_is_read_and_written_without_loss(name: str) -> None:
    manifest, status = STATUSES[name]
    body = MANIFESTS[manifest] | {"status": status}
    read = decode(KINDS[body["kind"]].type, body)

    assert as_dict(read) == body


def test_fields_that_are_not_known_are_ignored_at_every_depth() -> None:
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {"name": "u", "managedFields": [{"manager": "x"}], "selfLink": "/x"},
        "spec": {"podSets": [{"name": "a", "colour": "red"}], "mood": {"good": True}},
        "status": {"phase": "Running", "weather": "fine"},
        "more": 1,
    }
    read = decode(QueueUnit, body)

    assert as_dict(read) == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {"name": "u"},
        "spec": {"podSets": [{"name": "a"}]},
        "status": {"phase": "Running"},
    }


def test_an_object_always_says_what_it_is_and_leaves_defaults_out() -> None:
    assert as_dict(Queue(metadata=ObjectMeta(name="q"), spec=QueueSpec(weight=1, priority=0))) == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {"priority": 0},
    }


def test_the_names_of_the_second_seed_are_run_together() -> None:
    job = QueueJob(spec=QueueJobSpec(resourceunit={"cpu": "1"}, resourceno=3))

    assert as_dict(job)["spec"] == {"resourceunit": {"cpu": "1"}, "resourceno": 3}


def test_the_epoch_is_written_even_if_it_is_zero() -> None:
    assert as_dict(QueueUnitStatus(epoch=0)) == {"epoch": 0}


def test_structs_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        QueueUnitStatus().phase = Phase.RUNNING  # type: ignore[misc]


def test_bounds_of_the_crd_do_not_stop_decoding() -> None:
    read = decode(Queue, {"spec": {"weight": -1, "queuePolicy": "a b", "request": {"cpu": "much"}}})

    assert (read.spec.weight, read.spec.queue_policy) == (-1, "a b")


def test_what_cannot_be_read_is_named_by_its_path() -> None:
    with pytest.raises(DecodeError, match=r"`\$\.spec\.podSets\[0\]\.count`"):
        decode(QueueUnit, {"spec": {"podSets": [{"count": "many"}]}})


def test_a_template_is_kept_as_it_came() -> None:
    body = {"spec": {"containers": [{"name": "é", "x": [1, 2.5, None, True]}]}}
    pods = PodSet(template=codec.template(body))

    assert template_of(pods) == body
    assert template_of(decode(PodSet, encode(pods))) == body
    assert template_of(PodSet()) == {}


def test_conditions_have_the_shape_of_kubernetes() -> None:
    condition = Condition(type="Admitted", status="True", last_transition_time="2026-01-01T00:00:00Z", reason="X")

    assert as_dict(condition) == {
        "type": "Admitted",
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "X",
    }


def test_the_facts_of_a_kind_are_those_of_its_type() -> None:
    for name, kind in KINDS.items():
        assert name == kind.kind == kind.type.__name__
        assert {"api_version", "kind", "metadata", "spec", "status"} == set(kind.type.__struct_fields__)
    assert (QUEUE_UNIT.api_version, QUEUE_UNIT.plural) == ("scheduling.x-k8s.io/v1alpha1", "queueunits")
    assert {name for name, kind in KINDS.items() if not kind.namespaced} == {"QueueQuota", "AdmissionCheck"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from("abc"), inside, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON.filter(lambda value: value is not None), max_size=4)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, as it is written there."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def without_nulls(value: Any) -> Any:
    """Our structs write no null, and a merge patch could not."""
    if isinstance(value, dict):
        return {key: without_nulls(inside) for key, inside in value.items() if inside is not None}
    return value


@CALM
@given(OBJECTS.map(without_nulls), OBJECTS.map(without_nulls))
def test_a_merge_patch_turns_the_one_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    patch = merge_patch(before, after)

    assert merged(before, json.loads(json.dumps(patch))) == after
    assert bool(patch) == (before != after)


def test_a_patch_clears_what_is_no_longer_said() -> None:
    before = QueueUnitStatus(phase=Phase.DEQUEUED, message="go", epoch=1)
    after = msgspec.structs.replace(before, message="", phase=Phase.RUNNING)

    assert merge_patch(as_dict(before), as_dict(after)) == {"phase": "Running", "message": None}


def test_a_unit_of_a_request_only_needs_no_pod_set() -> None:
    unit = QueueUnit(spec=QueueUnitSpec(request={"cpu": 1}))

    assert as_dict(unit)["spec"] == {"request": {"cpu": 1}}
