"""A pod's request is the one that the scheduler will compute.

`podrequests.json` holds the answers of Kubernetes v1.36.4: a template's spec after the API server's defaults (for the
template, then for the pod), given to `PodRequests` of component-helpers; cpu as MilliValue, the rest as Value.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from usher.core.amounts import AmountsError
from usher.core.podrequest import effective_request

KUBERNETES = json.loads(Path(__file__).with_name("podrequests.json").read_text())


@pytest.mark.parametrize("case", KUBERNETES)
def test_a_pod_asks_for_what_the_scheduler_will_compute(case: str) -> None:
    given = copy.deepcopy(KUBERNETES[case]["given"])
    assert effective_request(given) == KUBERNETES[case]["want"]
    assert given == KUBERNETES[case]["given"], "the spec is read, never filled in"


BROKEN: dict[str, Any] = {
    "containers": [
        {"resources": {"requests": {"cpu": "1"}}},
        {"resources": {"requests": {"cpu": "1K", "memory": "1Gi"}, "limits": {"example.com/gpu": "one"}}},
        "sh",
        {"resources": ["cpu"]},
    ],
    "initContainers": {"name": "setup"},
    "resources": {"limits": {"cpu": "-2"}},
    "overhead": "lots",
}
FIELDS = [
    "containers[2]",
    "containers[1].resources.requests.cpu",
    "containers[1].resources.limits[example.com/gpu]",
    "containers[3].resources",
    "initContainers",
    "resources.limits.cpu",
    "overhead",
]


def test_every_bad_field_is_named_at_once() -> None:
    with pytest.raises(AmountsError) as caught:
        effective_request(BROKEN)
    assert [error.split(": ")[0] for error in caught.value.errors] == [
        f"spec.template.spec.{field}" for field in FIELDS
    ]
    assert caught.value.errors[1].startswith(
        'spec.template.spec.containers[1].resources.requests.cpu: "1K" is not a quantity: no suffix "K"'
    )


def test_a_collector_gets_the_errors_and_the_rest_is_read() -> None:
    errors: list[str] = []
    assert effective_request(BROKEN, "spec", errors) == {"cpu": 1000, "memory": 2**30}
    assert [error.split(": ")[0] for error in errors] == [f"spec.{field}" for field in FIELDS]


@pytest.mark.parametrize("spec", ["a pod", [], 3])
def test_what_is_no_pod_spec_is_refused(spec: object) -> None:
    with pytest.raises(AmountsError, match=r"^spec: .* is not an object$"):
        effective_request(spec, "spec")
