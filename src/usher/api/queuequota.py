"""QueueQuota: a node in the tree of quotas."""

from typing import Annotated, Final

from msgspec import field

from usher.api.meta import Condition, LabelSelector, ObjectMeta
from usher.api.names import API_VERSION
from usher.api.shapes import Api, Count, Name, Natural, OptionalName, Quantities, Reported, Rule, always, keyed, shape

_BOTH: Final = (
    "r in self.max && isQuantity(string(self.min[r])) && isQuantity(string(self.max[r])) && "
    "quantity(string(self.min[r])).isGreaterThan(quantity(string(self.max[r])))"
)


class QueueQuotaSpec(Api, frozen=True, kw_only=True):
    """What the node guarantees and limits."""

    RULES = (
        Rule(
            f"!has(self.min) || !has(self.max) || !self.min.exists(r, {_BOTH})",
            "min must not be above max",
            f"'min must not be above max: that of ' + self.min.filter(r, {_BOTH})[0] + ' is'",
            field=".min",
        ),
    )

    parent: OptionalName = ""
    """The QueueQuota above; without it (or with root), the whole cluster. One that does not exist yet is waited for."""
    min: Quantities = field(default_factory=dict)
    """What is guaranteed; a resource that is not there has no guarantee."""
    max: Quantities = field(default_factory=dict)
    """What may be used at most; a resource that is not there is not limited here."""
    weight: Count = 1
    """Its part of what is shared beyond the guarantees; 0: only what others leave."""
    lendable: bool = True
    """Whether others may use the min while it is idle."""
    namespaces: Annotated[
        tuple[Annotated[Name, shape(maxLength=63)], ...], shape(x_kubernetes_list_type="set", maxItems=1000)
    ] = ()
    """Namespaces whose units are charged here where nothing names another quota. Where this or namespaceSelector says
    whose it is, others may not name it, nor what hangs below it and says nothing."""
    namespace_selector: LabelSelector | None = None
    """More such namespaces, by their labels."""


class QueueQuotaStatus(Api, frozen=True, kw_only=True):
    """How the node stands, everything below it included."""

    deserved: Reported = field(default_factory=dict)
    """What the share policy entitles it to now, given everybody's demand."""
    used: Reported = field(default_factory=dict)
    """What units hold."""
    demand: Reported = field(default_factory=dict)
    """What units hold or wait for, as far as it could run."""
    preempting: Reported = field(default_factory=dict)
    """What is being taken back for its units."""
    waiting: Natural = 0
    """Units that wait."""
    holding: Natural = 0
    """Units that hold quota."""
    observed_generation: Natural = 0
    """The generation of the spec that this is about."""
    conditions: Annotated[tuple[Condition, ...], keyed("type", most=16)] = ()
    """Active: it takes part, or why not."""


class QueueQuota(Api, frozen=True, kw_only=True):
    """A node in the tree of quotas: units are charged to a leaf, and so to every node above it."""

    RULES = (
        Rule(
            "size(self.metadata.name) <= 63",
            "the name of a QueueQuota has at most 63 characters, because jobs name it in a label",
            field=".metadata.name",
        ),
        Rule(
            "self.metadata.name != 'root'",
            "root is the whole cluster: name the quotas below it otherwise",
            field=".metadata.name",
        ),
        Rule(
            "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "a QueueQuota cannot be its own parent",
            field=".spec.parent",
        ),
    )

    api_version: str = always(API_VERSION)
    kind: str = always("QueueQuota")
    metadata: ObjectMeta = ObjectMeta()
    spec: QueueQuotaSpec = QueueQuotaSpec()
    """What the node guarantees and limits."""
    status: QueueQuotaStatus | None = None
    """How the node stands; written by the manager."""
