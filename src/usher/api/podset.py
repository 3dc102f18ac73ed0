"""Pod sets of a unit: what a job asks for, and what an admission check adds to it. The shape is that of Kueue's."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import field

from usher.api.names import DEFAULT_POD_SET
from usher.api.podtemplate import NO_TEMPLATE, Template
from usher.api.shapes import Api, Count, Rule, keyed, shape

POD_SETS_MAX = 64
CHECKS_MAX = 8

PodSetName = Annotated[str, shape(minLength=1, maxLength=63, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$")]


class PodSet(Api, frozen=True, kw_only=True):
    """Pods that are alike."""

    RULES = (
        Rule(
            "!has(self.minCount) || self.minCount <= self.count",
            "minCount must not be above count",
            field=".minCount",
        ),
    )

    name: PodSetName = DEFAULT_POD_SET
    """Of the set, as in driver or worker."""
    count: Count = 1
    """How many pods."""
    min_count: Count | None = None
    """The least with which the job can start; without it, all of them."""
    elastic: bool = False
    """Whether count may change while quota is reserved: the job grows as granted, and gives back pods first."""
    template: Template = NO_TEMPLATE
    """Of one pod; its request is what is charged."""
    topology_request: Annotated[
        Mapping[str, Any] | None, shape(type="object", x_kubernetes_preserve_unknown_fields=True)
    ] = None
    """Where the pods should stand to each other; kept for the scheduler, not read."""


class Toleration(Api, frozen=True, kw_only=True):
    """A taint that pods of the set put up with."""

    key: Annotated[str, shape(maxLength=317)] = ""
    """The taint's key; empty with Exists: all."""
    operator: Annotated[str, shape(enum=["", "Exists", "Equal", "Lt", "Gt"])] = ""
    """How value relates to the taint's; Equal where it is not given."""
    value: Annotated[str, shape(maxLength=63)] = ""
    """The taint's value."""
    effect: Annotated[str, shape(enum=["", "NoSchedule", "PreferNoSchedule", "NoExecute"])] = ""
    """The taint's effect; empty: all."""
    toleration_seconds: Annotated[int, shape(format="int64")] | None = None
    """How long NoExecute is put up with; without it, for ever."""


Texts = Annotated[Mapping[str, Annotated[str, shape(maxLength=4096)]], shape(maxProperties=64)]


class PodSetUpdate(Api, frozen=True, kw_only=True):
    """What a check adds to the pods of a set when the job starts."""

    name: PodSetName
    """The pod set."""
    labels: Texts = field(default_factory=dict)
    """Labels of the pods."""
    annotations: Texts = field(default_factory=dict)
    """Annotations of the pods."""
    node_selector: Texts = field(default_factory=dict)
    """Labels that their nodes must have."""
    tolerations: Annotated[tuple[Toleration, ...], shape(x_kubernetes_list_type="atomic", maxItems=32)] = ()
    """Taints that the pods put up with."""


PodSets = Annotated[tuple[PodSet, ...], keyed("name", most=POD_SETS_MAX)]
PodSetUpdates = Annotated[tuple[PodSetUpdate, ...], keyed("name", most=POD_SETS_MAX)]
