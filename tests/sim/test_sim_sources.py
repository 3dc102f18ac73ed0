"""Quotas of other systems in manifests: tenants' own files can be tried offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worlds import job, node, queue, quota, quotas, report, simulate, unit, units, write

from usher.testing.elastic import KOORDINATOR, RUNTIMES, Runtime, elastic_quota, quota_tree

NAME = f"{KOORDINATOR}name"


def asked(case: Runtime) -> list[dict[str, Any]]:
    made = []
    for name, purse, request in case.units():
        requests = {resource: str(amount) for resource, amount in request.items()}
        template = {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}
        made.append(unit(name, runs="1h", quota=purse, podSets=[{"name": "main", "count": 1, "template": template}]))
    return made


def later(body: dict[str, Any], arrives: str, leaves: str = "") -> dict[str, Any]:
    body["metadata"]["annotations"]["sim.usher.dev/arrives"] = arrives
    if leaves:
        body["metadata"]["annotations"]["sim.usher.dev/leaves"] = leaves
    return body


@pytest.mark.parametrize("case", RUNTIMES.values(), ids=RUNTIMES)
def test_the_shares_are_what_koordinator_computes(case: Runtime, tmp_path: Path) -> None:
    machine = node(**{name: str(amount) for name, amount in case.total.items()})
    world = write(tmp_path, machine, *case.quotas, *(asked(case) or [job("idle", labels={NAME: "c2"}, at="1h")]))

    found = quotas(report(world, "--share", "koordinator", "--until", "1s"))

    names = [each["metadata"]["name"] for each in case.quotas]
    have = {name: {r: int(n) for r, n in found[name]["deserved"].items() if n != "0"} for name in names}
    assert have == {name: dict(case.want.get(name, {})) for name in names}


def test_jobs_find_their_quota_by_label_or_namespace_and_its_queue_with_it(tmp_path: Path) -> None:
    world = write(
        tmp_path,
        node(cpu="4"),
        elastic_quota("red", max={"cpu": 1}, annotations={"namespaces": ["r"]}),
        elastic_quota("blue", max={"cpu": 2}),
        job("by-label", labels={NAME: "blue"}, cpu="2"),
        job("waits", labels={NAME: "blue"}, cpu="1"),
        job("by-namespace", namespace="r", labels={"scheduling.x-k8s.io/queue-name": "red"}, cpu="1"),
    )

    found = units(report(world))

    assert {name: (each["quota"], each["wait_s"]) for name, each in found.items()} == {
        "by-label": ("blue", 0),
        "waits": ("blue", 60),
        "by-namespace": ("red", 0),
    }


def test_a_quota_changes_and_goes_in_time(tmp_path: Path) -> None:
    world = write(
        tmp_path,
        node(cpu="4"),
        elastic_quota("a", max={"cpu": 1}),
        later(elastic_quota("a", max={"cpu": 2}), "30s"),
        later(elastic_quota("b", max={"cpu": 2}), "0s", leaves="10s"),
        job("two", labels={NAME: "a"}, cpu="2"),
        job("late", labels={NAME: "b"}, cpu="1", at="20s"),
    )

    found = units(report(world, "--until", "10m"))

    assert found["two"]["wait_s"] == 30
    assert found["late"]["phase"] == "Enqueued"
    assert "b does not exist" in found["late"]["message"]


def test_what_is_wrong_is_said_with_file_and_object(tmp_path: Path) -> None:
    bad = write(tmp_path, node(cpu="4"), elastic_quota("a", max={"cpu": "lots"}), job("j", labels={NAME: "a"}))
    done = simulate(bad)
    assert done.exit_code == 2
    assert 'world.json: ElasticQuota default/a: spec.max.cpu: "lots" is not a quantity' in done.stderr

    mild = write(
        tmp_path, node(cpu="4"), elastic_quota("a", min={"cpu": 2}, max={"cpu": 1}), job("j", labels={NAME: "a"})
    )
    done = simulate(mild)
    assert done.exit_code == 0, done.stderr
    assert "ElasticQuota default/a: spec.min.cpu: 2 is above spec.max, 1; max counts" in done.stderr + done.stdout


def test_two_sources_with_one_name_are_refused(tmp_path: Path) -> None:
    own = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "QueueQuota", "metadata": {"name": "a"}, "spec": {}}
    done = simulate(write(tmp_path, node(cpu="4"), own, elastic_quota("a"), job("j", labels={NAME: "a"})))

    assert done.exit_code == 2
    assert "QueueQuota a: another source has a quota of this name" in done.stderr


def test_a_tree_in_one_object_limits_amounts_and_jobs(tmp_path: Path) -> None:
    root = {
        "name": "root",
        "min": {"cpu": 4},
        "max": {"cpu": 4},
        "children": [
            {"name": "Team_A", "max": {"cpu": 2}, "namespaces": ["a"]},
            {"name": "b", "max": {"koord-queue/max-jobs": 1}, "namespaces": ["b"]},
        ],
    }
    world = write(
        tmp_path,
        node(cpu="9"),
        quota_tree(root),
        queue("q", namespace="usher-system"),
        *(job(f"a{i}", namespace="a", cpu="1") for i in range(3)),
        *(job(f"b{i}", namespace="b", cpu="1") for i in range(2)),
        job("unnamed", namespace="a", cpu="1", labels={NAME: "Team_A"}, at="5m"),
    )

    run = report(world)

    found = {name: (each["quota"], each["wait_s"]) for name, each in units(run).items()}
    assert found == {
        "a0": ("Team_A", 0),
        "a1": ("Team_A", 0),
        "a2": ("Team_A", 60),
        "b0": ("b", 0),
        "b1": ("b", 60),
        "unnamed": ("Team_A", 0),
    }
    assert quotas(run)["Team_A"]["parent"] == "tree:company"


def resource_quota(name: str, namespace: str, **hard: str) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": hard}}
    return body | {"metadata": {"name": name, "namespace": namespace, "annotations": {}}}


def test_a_resource_quota_is_the_purse_of_a_queue_that_has_no_other(tmp_path: Path) -> None:
    world = write(
        tmp_path,
        node(cpu="9", memory="9Gi"),
        resource_quota("rq", "a", cpu="2"),
        resource_quota("rq", "b", cpu="1"),
        later(resource_quota("rq", "a", cpu="3"), "30s"),
        quota("team", namespaces=["b"]),
        queue("q", namespace="a"),
        queue("q", namespace="b"),
        *(job(f"a{i}", namespace="a", cpu="2" if i == 2 else "1") for i in range(3)),
        job("b0", namespace="b", cpu="4"),
    )

    run = report(world)

    waits = {name: (each["quota"], each["wait_s"]) for name, each in units(run).items()}
    assert waits == {
        "a0": ("resourcequota:a", 0),
        "a1": ("resourcequota:a", 0),
        "a2": ("resourcequota:a", 60),
        "b0": ("team", 0),
    }


def test_in_a_managed_namespace_a_lone_resource_quota_has_a_queue(tmp_path: Path) -> None:
    label = {"scheduling.x-k8s.io/managed": "true"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": label}}
    named = {"scheduling.x-k8s.io/queue-name": "rq"}
    world = write(
        tmp_path,
        node(cpu="9"),
        space,
        resource_quota("rq", "a", cpu="2"),
        job("fits", namespace="a", cpu="2", labels=named),
        job("silent", namespace="a", labels=named, template={"spec": {"containers": [{"name": "c"}]}}),
    )

    found = units(report(world))

    assert found["fits"]["wait_s"] == 0
    assert "no request for cpu" in found["silent"]["message"]


def managed(name: str) -> dict[str, Any]:
    labels = {"scheduling.x-k8s.io/managed": "true"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def test_in_a_managed_namespace_jobs_that_name_nothing_are_queued_as_on_a_cluster(tmp_path: Path) -> None:
    draws = {"scheduling.x-k8s.io/queue-job": "x"}
    world = write(
        tmp_path,
        node(cpu="20"),
        *(managed(each) for each in ("limited", "elastic", "own", "two", "none")),
        resource_quota("rq", "limited", cpu="2"),
        elastic_quota("red", max={"cpu": 1}, annotations={"namespaces": ["elastic"]}),
        *(queue("only", "own"), queue("q1", "two"), queue("q2", "two")),
        *(job(f"{name}-{i}", namespace=name, labels={}, cpu="1") for name in ("limited", "elastic") for i in range(3)),
        *(job(name, namespace=name, labels={}) for name in ("own", "two", "none", "plain")),
        job("draws", namespace="own", labels=draws),
    )

    done = simulate(world)
    found = units(report(world))

    assert sorted(found[f"limited-{i}"]["wait_s"] for i in range(3)) == [0, 0, 60], "two at a time"
    assert sorted(found[f"elastic-{i}"]["wait_s"] for i in range(3)) == [0, 60, 120]
    assert found["elastic-0"]["quota"] == "red"
    assert found["own"]["queue"] == "only"
    for name in ("two", "none"):
        assert "It names no queue." in found[name]["message"], "it could mean several, or none"
    assert {"plain", "draws"}.isdisjoint(found)
    assert "Job plain/plain: names no queue and no quota" in done.stderr


def test_the_example_does_what_it_says() -> None:
    example = Path(__file__).parents[2] / "examples" / "simulate" / "elastic-quotas.yaml"

    found = units(report(example, "--share", "koordinator"))

    assert (found["build"]["wait_s"], found["report"]["evictions"]) == (0, 1), "what was lent comes back"
    assert (found["first"]["wait_s"], found["second"]["wait_s"]) == (0, 50), "one intern's job at a time"
    assert {each["phase"] for each in found.values()} == {"Succeed"}
