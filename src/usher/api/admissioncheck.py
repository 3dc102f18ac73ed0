"""AdmissionCheck: a third party that must agree after the quota is reserved and before the job starts."""

from typing import Annotated

from usher.api.meta import Condition, ObjectMeta
from usher.api.names import API_VERSION
from usher.api.shapes import Api, Count, Name, Natural, Rule, always, keyed, shape


class AdmissionCheckParameters(Api, frozen=True, kw_only=True):
    """An object of its controller's own kind."""

    api_group: Annotated[str, shape(maxLength=253)] = ""
    """Its group."""
    kind: Annotated[str, shape(minLength=1, maxLength=63)]
    """Its kind."""
    name: Name
    """Its name."""


class AdmissionCheckSpec(Api, frozen=True, kw_only=True):
    """Who answers."""

    RULES = (
        Rule(
            "self.controllerName == oldSelf.controllerName",
            "controllerName cannot be changed: make another AdmissionCheck",
            field=".controllerName",
        ),
    )

    controller_name: Annotated[str, shape(minLength=1, maxLength=253)]
    """The controller that sets the state of this check on units, as in example.com/budget."""
    parameters: AdmissionCheckParameters | None = None
    """What its controller needs to know."""
    retry_delay_minutes: Count | None = None
    """How long its controller waits before it tries again; for its controller only."""


class AdmissionCheckStatus(Api, frozen=True, kw_only=True):
    """Whether somebody answers."""

    observed_generation: Natural = 0
    """The generation of the spec that this is about."""
    conditions: Annotated[tuple[Condition, ...], keyed("type", most=16)] = ()
    """Active: its controller is there."""


class AdmissionCheck(Api, frozen=True, kw_only=True):
    """A third party that must agree after the quota is reserved and before the job starts."""

    api_version: str = always(API_VERSION)
    kind: str = always("AdmissionCheck")
    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionCheckSpec
    """Who answers."""
    status: AdmissionCheckStatus | None = None
    """Whether somebody answers; written by its controller."""
