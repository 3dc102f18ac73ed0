"""What the manager makes and removes: default Queues, and the other half of Queue and ResourceQuota."""

from __future__ import annotations

from typing import Any

from usher.api.codec import decode
from usher.api.queue import Queue
from usher.api.queuequota import QueueQuota
from usher.quotas.objects import ElasticQuotaTree, ResourceQuota
from usher.quotas.source import QueueHint
from usher.runtime.capacity import Capacity
from usher.runtime.making import FOR_QUOTA, Plan, default_queue, plan_defaults, plan_pairs
from usher.runtime.objects import NamespaceObject
from usher.runtime.surroundings import Surroundings
from usher.testing.elastic import quota_tree

SYSTEM = "usher-system"
MANAGED = "scheduling.x-k8s.io/managed"


class World:
    """What there is, and what the manager would do about it."""

    def __init__(self) -> None:
        self.around = Surroundings(SYSTEM, Capacity(0))
        self.full: set[str] = set()

    def queue(self, name: str, namespace: str = "a", labels: dict[str, str] | None = None, **spec: Any) -> None:
        meta = {"name": name, "namespace": namespace, "uid": f"{name}-uid", "labels": labels or {}}
        self.around.see_queue(decode(Queue, {"metadata": meta, "spec": spec}))

    def quota(self, name: str, **spec: Any) -> None:
        self.around.see_quota(decode(QueueQuota, {"metadata": {"name": name}, "spec": spec}))

    def resource_quota(
        self, name: str, namespace: str = "a", labels: dict[str, str] | None = None, **hard: Any
    ) -> None:
        meta = {"name": name, "namespace": namespace, "labels": labels or {}}
        self.around.see_foreign("ResourceQuota", decode(ResourceQuota, {"metadata": meta, "spec": {"hard": hard}}))

    def namespace(self, name: str = "a", managed: bool = True) -> None:
        labels = {MANAGED: "true"} if managed else {}
        self.around.see_namespace(decode(NamespaceObject, {"metadata": {"name": name, "labels": labels}}))

    def busy(self, key: str) -> None:
        self.full.add(key)

    def empty(self, key: str) -> bool:
        return key not in self.full

    def plan(self) -> Plan:
        plan, around = Plan(), self.around
        plan_defaults(around.quotas.queue_hints(), around.queues, self.empty, SYSTEM, plan)
        plan_pairs(around, self.empty, SYSTEM, plan)
        return plan


def names(bodies: list[dict[str, Any]]) -> list[str]:
    return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in bodies]


def test_each_quota_without_children_gets_a_shared_queue_of_its_name() -> None:
    world = World()
    world.quota("org")
    world.quota("red", parent="org")
    world.quota("blue", parent="org")
    world.queue("blue", SYSTEM, quota="red")

    (made,) = world.plan().create_queues

    assert made == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "Queue",
        "metadata": {
            "name": "red",
            "namespace": SYSTEM,
            "labels": {"app.kubernetes.io/managed-by": "usher", FOR_QUOTA: "red"},
        },
        "spec": {"quota": "red"},
    }, "blue has one, whatever it says: it is its administrator's"


def test_a_queue_is_made_as_its_quota_wants_it() -> None:
    spec = default_queue(SYSTEM, "Team_A", QueueHint("Block", preempts=True))
    assert (spec["metadata"]["name"], spec["spec"]) == (
        "team-a",
        {"quota": "Team_A", "queuePolicy": "Block", "preemption": {"withinQuota": "LowerPriority"}},
    )


def test_a_tree_with_names_that_objects_cannot_have() -> None:
    world = World()
    root = {"name": "root", "children": [{"name": "Team_A"}]}
    world.around.see_foreign("ElasticQuotaTree", decode(ElasticQuotaTree, quota_tree(root)))

    assert names(world.plan().create_queues) == [f"{SYSTEM}/team-a"]
    assert world.around.quotas.quotas()["Team_A"].queue == f"{SYSTEM}/team-a"


def test_a_queue_of_ours_goes_with_its_quota_once_it_is_empty() -> None:
    world = World()
    world.queue("red", SYSTEM, {FOR_QUOTA: "red"}, quota="red")
    world.queue("theirs", SYSTEM, quota="red")
    world.busy(f"{SYSTEM}/red")
    assert world.plan().delete_queues == []

    world.full.clear()
    assert [meta.name for meta in world.plan().delete_queues] == ["red"]
    world.quota("red")
    assert world.plan() == Plan(), "it is wanted again"


def test_user_makes_both_and_nothing_is_touched() -> None:
    world = World()
    world.namespace()
    world.queue("main")
    world.resource_quota("rq", cpu="4")

    assert world.plan() == Plan()


def test_a_lone_queue_gets_a_resource_quota_as_large_as_its_quota_may_be() -> None:
    world = World()
    world.namespace()
    world.quota("team", max={"cpu": "4", "example.com/gpu": 2}, namespaces=["a"])
    world.queue("team", SYSTEM, quota="team")
    world.queue("main")

    (made,) = world.plan().create_quotas

    assert made["spec"] == {"hard": {"requests.cpu": "4", "requests.example.com/gpu": "2"}}
    meta = made["metadata"]
    assert (meta["namespace"], meta["name"], meta["ownerReferences"][0]["uid"]) == ("a", "main", "main-uid")
    world.resource_quota("main", labels=meta["labels"], **{"requests.cpu": "4000m", "requests.example.com/gpu": "2"})
    assert world.plan() == Plan(), "what says the same is not written again"
    world.quota("team", max={"cpu": "5"}, namespaces=["a"])
    ((changed, body),) = world.plan().patch_quotas
    assert (changed.name, body) == (
        "main",
        {"spec": {"hard": {"requests.cpu": "5", "requests.example.com/gpu": None}}},
    )


def test_without_a_limit_the_resource_quota_has_none() -> None:
    world = World()
    world.namespace()
    world.queue("main")

    (made,) = world.plan().create_quotas
    assert made["spec"] == {"hard": {}}


def test_for_several_queues_it_is_as_large_as_all_their_quotas_together() -> None:
    world = World()
    world.namespace()
    world.quota("one", max={"cpu": "3", "memory": "1Gi"})
    world.quota("two", max={"cpu": "4"})
    world.queue("a", quota="one")
    world.queue("b", quota="two")
    world.queue("c", quota="one")

    (made,) = world.plan().create_quotas

    assert made["metadata"]["name"] == "a"
    assert made["spec"] == {"hard": {"requests.cpu": "7"}}, "each quota once, and memory only where all limit it"
    world.resource_quota("a", labels=made["metadata"]["labels"], **{"requests.cpu": "7"})
    assert (world.plan().create_quotas, world.plan().patch_quotas) == ([], [])
    world.quota("home", max={"cpu": "2", "memory": "1Gi"}, namespaces=["a"])
    ((_, body),) = world.plan().patch_quotas
    assert body == {"spec": {"hard": {"requests.cpu": "9"}}}, "jobs in shared queues are charged to that"
    world.queue("d")
    assert world.plan().patch_quotas[0][1] == body, "a queue without a quota, too"


def test_a_queue_without_any_quota_beside_others_means_no_limit() -> None:
    world = World()
    world.namespace()
    world.quota("one", max={"cpu": "3"})
    world.queue("a", quota="one")
    world.queue("b")

    (made,) = world.plan().create_quotas

    assert made["spec"] == {"hard": {}}


def test_ours_gives_way_to_one_that_a_user_makes_and_to_a_namespace_that_is_not_managed() -> None:
    ours = {"scheduling.x-k8s.io/made-for-queue": "main"}
    world = World()
    world.namespace()
    world.queue("main")
    world.resource_quota("main", labels=ours)
    assert world.plan() == Plan()

    world.resource_quota("theirs", cpu="3")
    assert [meta.name for meta in world.plan().delete_quotas] == ["main"]
    world = World()
    world.namespace(managed=False)
    world.queue("main")
    world.resource_quota("main", labels=ours)
    plan = world.plan()
    assert ([meta.name for meta in plan.delete_quotas], plan.create_quotas) == (["main"], [])


def test_a_lone_resource_quota_gets_a_queue_that_goes_with_it() -> None:
    world = World()
    world.resource_quota("rq", cpu="4")
    assert world.plan() == Plan(), "not in a namespace that nobody gave us"

    world.namespace()
    (made,) = world.plan().create_queues
    assert (names([made]), made["spec"]) == (["a/rq"], {})
    world.queue("rq", labels=made["metadata"]["labels"])
    assert world.plan() == Plan()
    world.around.foreign.see("ResourceQuota", world.around.foreign.resource_quotas["a/rq"], True)
    world.busy("a/rq")
    assert world.plan().delete_queues == []
    world.full.clear()
    assert [meta.name for meta in world.plan().delete_queues] == ["rq"]


def test_a_queue_of_ours_gives_way_to_one_that_a_user_makes_once_it_is_empty() -> None:
    world = World()
    world.namespace()
    world.resource_quota("rq", cpu="4")
    (made,) = world.plan().create_queues
    world.queue("rq", labels=made["metadata"]["labels"])
    world.busy("a/rq")
    world.queue("theirs")
    assert world.plan() == Plan(waits=True)
    world.full.clear()
    assert [meta.name for meta in world.plan().delete_queues] == ["rq"]
