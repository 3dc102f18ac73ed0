"""What is decoded of objects that are not ours: only what is needed. Their specs stay bytes until somebody looks."""

from msgspec import Raw, field

from usher.api.meta import ObjectMeta
from usher.api.shapes import Api

EMPTY = Raw(b"{}")


class JobObject(Api, frozen=True, kw_only=True):
    """A job of any kind."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Raw = EMPTY
    status: Raw = EMPTY


class PodCondition(Api, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""


class PodStatus(Api, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()


class PodObject(Api, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Raw = EMPTY
    status: PodStatus = PodStatus()


class NamespaceObject(Api, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()


class PriorityClassObject(Api, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False


class Taint(Api, frozen=True, kw_only=True):
    key: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeCondition(Api, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class NodeSpec(Api, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Api, frozen=True, kw_only=True):
    allocatable: dict[str, str] = field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()


class NodeObject(Api, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
