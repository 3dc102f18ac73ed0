"""ElasticQuotas for tests, and what Koordinator makes of some: its runtime quotas, as numbers that can be checked.

The same table is run against the engine, through `usher simulate` and through real objects on the control plane, so
that "the same as Koordinator" means one thing everywhere. Amounts are of resources that no machine really has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

CHIP: Final = "example.com/chip"
OTHER: Final = "example.com/other"
KOORDINATOR: Final = "quota.scheduling.koordinator.sh/"
API_VERSION: Final = "scheduling.sigs.k8s.io/v1alpha1"

Object = dict[str, Any]
Amounts = Mapping[str, int]


def elastic_quota(
    name: str,
    namespace: str = "default",
    *,
    min: Mapping[str, Any] | None = None,  # noqa: A002 - as the spec has it
    max: Mapping[str, Any] | None = None,  # noqa: A002
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> Object:
    """An ElasticQuota; the keys of its labels and annotations without Koordinator's prefix, values as JSON."""
    said = {
        KOORDINATOR + key: value if isinstance(value, str) else json.dumps(value)
        for key, value in (annotations or {}).items()
    }
    metadata: Object = {"name": name, "namespace": namespace, "annotations": said}
    metadata["labels"] = {KOORDINATOR + key: value for key, value in (labels or {}).items()}
    return {
        "apiVersion": API_VERSION,
        "kind": "ElasticQuota",
        "metadata": metadata,
        "spec": {
            "min": {k: str(v) for k, v in (min or {}).items()},
            "max": {k: str(v) for k, v in (max or {}).items()},
        },
    }


@dataclass(frozen=True)
class Runtime:
    """A tree, what is asked for, and what Koordinator's runtime quota is then."""

    total: Amounts
    quotas: Sequence[Object]
    requests: Mapping[str, Amounts]
    want: Mapping[str, Amounts]
    pieces: int = 10
    """Into how many units each request is cut: what exceeds a max as one would never start, and so ask for nothing."""

    def units(self) -> list[tuple[str, str, dict[str, int]]]:
        """Name, quota and request of each."""
        found: list[tuple[str, str, dict[str, int]]] = []
        for quota, request in self.requests.items():
            assert not any(amount % self.pieces for amount in request.values())
            piece = {resource: amount // self.pieces for resource, amount in request.items() if amount}
            found.extend((f"{quota}-{i}", quota, piece) for i in range(self.pieces) if piece)
        return found


def _q(
    name: str,
    least: int | Amounts = 0,
    most: int | Amounts | None = None,
    weight: int | None = None,
    parent: str = "",
    lends: bool = True,
    is_parent: bool = False,
    guaranteed: int = 0,
) -> Object:
    labels = {"parent": parent} if parent else {}
    labels |= {} if lends else {"allow-lent-resource": "false"}
    labels |= {"is-parent": "true"} if is_parent else {}
    # A weight of zero alone counts as none; beside another one it is meant.
    notes: Object = {} if weight is None else {"shared-weight": {CHIP: str(weight), "example.com/none": "1"}}
    notes |= {"guaranteed": {CHIP: str(guaranteed)}} if guaranteed else {}
    return elastic_quota(
        name,
        min={CHIP: least} if isinstance(least, int) else least,
        max={} if most is None else {CHIP: most} if isinstance(most, int) else most,
        labels=labels,
        annotations=notes,
    )


def _of(**amounts: int) -> dict[str, dict[str, int]]:
    return {name.replace("_", "-"): {CHIP: amount} for name, amount in amounts.items()}


_FOUR: Final = (_q("n1", 10, weight=40), _q("n2", 15, weight=60), _q("n3", 20, weight=50), _q("n4", 15, weight=80))
_TWO: Final = (_q("t1", 60, 80, 1), _q("t2", 50, 100, 1))
_BORROWERS: Final = {f"b{i:02}": 8 if i < 8 else 7 for i in range(10)}
_DEEP: Final = (
    _q("test1", most={CHIP: 96, OTHER: 160}, is_parent=True),
    _q("test1-a", most={CHIP: 60, OTHER: 80}, parent="test1", is_parent=True),
    _q("a-123", {CHIP: 20, OTHER: 40}, {CHIP: 30, OTHER: 60}, parent="test1-a"),
)
_LENT: Final = (
    _q("p", 60, 100, is_parent=True),
    _q("c1", 20, 100, parent="p", lends=False),
    _q("c2", 20, 100, parent="p"),
)
_SCALED: Final = (
    _q("p", 300, 1000, is_parent=True),
    *(_q(name, 100, 1000, parent="p") for name in ("a", "b", "c")),
)


def _deep(asked: tuple[int, int], got: tuple[int, int]) -> Runtime:
    want = {CHIP: got[0], OTHER: got[1]}
    return Runtime(
        {CHIP: 100, OTHER: 200},
        _DEEP,
        {"a-123": {CHIP: asked[0], OTHER: asked[1]}},
        dict.fromkeys(("test1", "test1-a", "a-123"), want),
        pieces=5,
    )


RUNTIMES: Final[dict[str, Runtime]] = {
    "by weight above min": Runtime(
        {CHIP: 100}, _FOUR, _of(n1=5, n2=20, n3=40, n4=70), _of(n1=5, n2=20, n3=35, n4=40), pieces=5
    ),
    "no weight, no more than min": Runtime(
        {CHIP: 100},
        (*_FOUR[:3], _q("n4", 15, weight=0)),
        _of(n1=5, n2=20, n3=40, n4=70),
        _of(n1=5, n2=20, n3=40, n4=15),
        pieces=5,
    ),
    "no unit is lost by rounding": Runtime(
        {CHIP: 81},
        [_q("donor", 3, weight=1), *(_q(name, least, weight=1) for name, least in _BORROWERS.items())],
        {name: {CHIP: 100} for name in _BORROWERS},
        {name: {CHIP: 9 if name < "b03" else 8 if name < "b08" else 7} for name in _BORROWERS},
    ),
    "the idle lend everything": Runtime({CHIP: 100}, _TWO, _of(t1=0, t2=90), _of(t2=90)),
    "the owner has come back a little": Runtime({CHIP: 100}, _TWO, _of(t1=30, t2=90), _of(t1=30, t2=70)),
    "the owner is gone": Runtime({CHIP: 100}, _TWO[1:], _of(t2=90), _of(t2=90)),
    "one quota takes up to its max": Runtime({CHIP: 120}, [_q("t1", 50, 80, 1)], _of(t1=100), _of(t1=80)),
    "a second one makes it half": Runtime(
        {CHIP: 120}, [_q("t1", 50, 80, 1), _q("t2", 50, 100, 1)], _of(t1=100, t2=150), _of(t1=60, t2=60)
    ),
    "what is not lent stays": Runtime(
        {CHIP: 100}, [_q("t1", 60, 96), _q("t2", 40, 96, lends=False)], _of(t1=120), _of(t1=60, t2=40)
    ),
    "what is guaranteed counts as min": Runtime(
        {CHIP: 100}, [_q("t1", 20, 100, 1, guaranteed=70), _q("t2", 20, 100, 1)], _of(t1=100, t2=100), _of(t1=75, t2=25)
    ),
    "two alike": Runtime(
        {CHIP: 50}, [_q("q1", 10, 40), _q("q2", 10, 40)], _of(q1=35, q2=35), _of(q1=25, q2=25), pieces=5
    ),
    "min first": Runtime(
        {CHIP: 50}, [_q("q1", 40, 40), _q("q2", 5, 40)], _of(q1=1000, q2=1000), _of(q1=40, q2=10), pieces=50
    ),
    "min is scaled where more is promised than there is": Runtime(
        {CHIP: 200}, _SCALED, _of(a=200, b=200, c=200), _of(p=200, a=67, b=67, c=66)
    ),
    "min is scaled, and the idle lend theirs": Runtime(
        {CHIP: 200}, _SCALED, _of(a=200, c=200), _of(p=200, a=100, c=100)
    ),
    "min is whole again with more to share": Runtime(
        {CHIP: 600}, _SCALED, _of(a=200, b=200, c=200), _of(p=600, a=200, b=200, c=200)
    ),
    "a child that does not lend asks upwards": Runtime({CHIP: 100}, _LENT, {}, _of(p=20, c1=20)),
    "a child may have what its sibling lends": Runtime({CHIP: 100}, _LENT, _of(c1=40), _of(p=40, c1=40)),
    "up to the min of the parent": Runtime({CHIP: 100}, _LENT, _of(c1=60), _of(p=60, c1=60)),
    "three levels, little asked": _deep((10, 30), (10, 30)),
    "three levels, more asked": _deep((25, 45), (25, 45)),
    "three levels, more than max asked": _deep((55, 75), (30, 60)),
}
"""Koordinator's own numbers; every resource that is not named is zero.

Two of its tests are not here, for they hold with min scaling off, where more is issued than there is: t1 and t2 of the
idle owner's example with 60 and 90 asked (60 and 50 of 100), and the first scaled one (100 each of 200)."""


def _node_schema(depth: int) -> Object:
    """A quota of a tree; schemas cannot refer to themselves, so levels are written out."""
    amounts: Object = {
        "type": "object",
        "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        },
    }
    properties: Object = {
        "name": {"type": "string"},
        "namespaces": {"type": "array", "items": {"type": "string"}},
        "attributes": {"type": "object", "additionalProperties": {"type": "string"}},
        "min": amounts,
        "max": amounts,
    }
    if depth:
        properties["children"] = {"type": "array", "items": _node_schema(depth - 1)}
    return {"type": "object", "properties": properties}


TREE_CRD: Final[Object] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "elasticquotatrees.scheduling.sigs.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for tests of Usher only"},
    },
    "spec": {
        "group": "scheduling.sigs.k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "ElasticQuotaTree", "plural": "elasticquotatrees", "singular": "elasticquotatree"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"root": _node_schema(5)}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
"""ElasticQuotaTree has no public module: its shape, for tests."""


def quota_tree(root: Object, name: str = "company", namespace: str = "kube-system") -> Object:
    """An ElasticQuotaTree."""
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"root": root},
    }
