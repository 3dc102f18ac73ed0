"""What our kinds share with all of Kubernetes: metadata, conditions, selectors, references. Only the fields we read."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from usher.api.shapes import ATOMIC, LABEL_KEY, Api, Natural, Rule, Time, shape


class OwnerReference(Api, frozen=True, kw_only=True):
    """Whose object this is."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Api, frozen=True, kw_only=True):
    """Of the metadata of an object, what we use."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(Api, frozen=True, kw_only=True):
    """One aspect of an object's state."""

    type: Annotated[str, shape(maxLength=316, pattern=LABEL_KEY)]
    """What it is about, in CamelCase."""
    status: Annotated[str, shape(enum=["True", "False", "Unknown"])]
    """True, False or Unknown."""
    observed_generation: Natural = 0
    """The generation of the object that this was said about."""
    last_transition_time: Time
    """When the status last changed."""
    reason: Annotated[str, shape(minLength=1, maxLength=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, in one CamelCase word for programs."""
    message: Annotated[str, shape(maxLength=32768)] = ""
    """Why, for people; may be empty."""


class LabelSelectorRequirement(Api, frozen=True, kw_only=True):
    """One line of a selector."""

    RULES = (
        Rule(
            "self.operator in ['In', 'NotIn'] ? (has(self.values) && size(self.values) > 0) : "
            "(!has(self.values) || size(self.values) == 0)",
            "values must be given for In and NotIn, and only for them",
            field=".values",
        ),
    )

    key: Annotated[str, shape(minLength=1, maxLength=317, pattern=LABEL_KEY)]
    """The label's key."""
    operator: Annotated[str, shape(enum=["In", "NotIn", "Exists", "DoesNotExist"])]
    """How the label relates to the values."""
    values: Annotated[
        tuple[Annotated[str, shape(maxLength=63)], ...], shape(x_kubernetes_list_type="atomic", maxItems=256)
    ] = ()
    """The values for In and NotIn."""


class LabelSelector(Api, frozen=True, kw_only=True):
    """Chooses objects by their labels; an empty one chooses all."""

    SHAPE = ATOMIC

    match_labels: Annotated[Mapping[str, Annotated[str, shape(maxLength=63)]], shape(maxProperties=64)] = field(
        default_factory=dict
    )
    """Labels that an object must have, with these values."""
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...], shape(x_kubernetes_list_type="atomic", maxItems=64)
    ] = ()
    """Lines that must all hold."""


class ObjectReference(Api, frozen=True, kw_only=True):
    """Names another object."""

    SHAPE = ATOMIC

    api_version: Annotated[str, shape(maxLength=317)] = ""
    """Its API version, as in batch/v1."""
    kind: Annotated[str, shape(maxLength=63)] = ""
    """Its kind, as in Job."""
    namespace: Annotated[str, shape(maxLength=63)] = ""
    """Its namespace."""
    name: Annotated[str, shape(maxLength=253)] = ""
    """Its name."""
    uid: Annotated[str, shape(maxLength=128)] = ""
    """Its uid."""
    resource_version: Annotated[str, shape(maxLength=128)] = ""
    """The version of it that was looked at."""
    field_path: Annotated[str, shape(maxLength=1024)] = ""
    """The part of it that is meant."""
