"""What the doors know is what the caches were told, worked out when somebody asks."""

from __future__ import annotations

from typing import Any

import msgspec

from usher.api.queue import Queue
from usher.api.queuequota import QueueQuota
from usher.app.doors_known import Memory
from usher.kube.store import Added, Changed, Deleted
from usher.quotas.objects import ElasticQuota
from usher.runtime.facts import Reading
from usher.runtime.objects import NamespaceObject
from usher.settings.loader import load_text
from usher.webhooks.terms import terms_of

MANAGED = {"scheduling.x-k8s.io/managed": "true"}


def memory(*objects: Any, settings: str = "managedNamespaces: [named]") -> Memory:
    found = load_text(settings, "test")
    made = Memory(found, terms_of(found), Reading(managed=frozenset(found.managed_namespaces)))
    for each in objects:
        made.hear([Added(("", ""), each)])
    return made


def space(name: str, **labels: str) -> NamespaceObject:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, NamespaceObject)


def queue(name: str, namespace: str = "team", **spec: Any) -> Queue:
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": "1"}
    return msgspec.convert({"metadata": meta, "spec": spec}, Queue)


def quota(name: str, **spec: Any) -> QueueQuota:
    return msgspec.convert({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec}, QueueQuota)


def names(found: Memory, namespace: str) -> list[str]:
    return [each.name for each in found.usable(namespace)]


def test_namespaces_are_managed_by_label_or_setting_but_never_those_of_the_system() -> None:
    found = memory(space("a", **MANAGED), space("b"), space("kube-system", **MANAGED), space("usher-system", **MANAGED))

    assert [name for name in ("a", "b", "named", "kube-system", "usher-system") if found.managed(name)] == [
        "a",
        "named",
    ]


def test_own_queues_come_first_and_shared_ones_if_they_are_open() -> None:
    selector = {"matchLabels": {"team": "red"}}
    found = memory(
        space("team", team="red"),
        space("blue"),
        queue("own"),
        queue("all", "usher-system"),
        queue("red", "usher-system", namespaceSelector=selector),
        queue("foreign", "elsewhere"),
    )

    assert names(found, "team") == ["own", "all", "red"]
    assert names(found, "blue") == ["all"]
    own = found.queue("team", "own")
    assert own is not None
    assert own.namespace == "team"
    assert found.queue("blue", "own") is None


def test_a_changed_namespace_opens_and_closes_queues() -> None:
    found = memory(space("team"), queue("red", "usher-system", namespaceSelector={"matchLabels": {"team": "red"}}))
    assert names(found, "team") == []

    found.hear([Changed(("", "team"), space("team"), space("team", team="red"))])
    assert names(found, "team") == ["red"]
    found.hear([Deleted(("usher-system", "red"), queue("red", "usher-system"))])
    assert names(found, "team") == []


def test_a_queue_whose_quota_belongs_to_others_is_not_usable_without_one_of_ones_own() -> None:
    found = memory(space("team"), space("poor"), quota("a", namespaces=["rich"]), queue("a", "usher-system", quota="a"))

    assert names(found, "poor") == []
    found.hear([Added(("", ""), quota("b", namespaces=["poor"]))])
    assert names(found, "poor") == ["a"]
    assert (found.quota_of("poor"), found.quota_of("team")) == ("b", "")
    assert (found.reserved("a"), found.reserved("b")) == (True, True)


def test_the_only_queue_of_a_managed_namespace_is_its_default() -> None:
    found = memory(space("a", **MANAGED), space("team"), queue("only", "a"), queue("own"))

    assert dict(found.reading().queues) == {"a": "only"}


def test_jobs_of_an_elastic_quota_have_a_scheduler_of_their_own() -> None:
    body = {"metadata": {"name": "koord", "namespace": "q", "uid": "1", "resourceVersion": "1"}, "spec": {}}
    found = memory(msgspec.convert(body, ElasticQuota), quota("ours"))

    assert (found.scheduler("koord"), found.scheduler("ours")) == ("koord-scheduler", "")
    off = memory(msgspec.convert(body, ElasticQuota), settings="admission: {elasticQuotaScheduler: ''}")
    assert off.scheduler("koord") == ""
