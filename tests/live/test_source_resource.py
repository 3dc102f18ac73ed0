"""ResourceQuota and Queue (seed 000): whoever makes which, on a real control plane."""

from __future__ import annotations

import json
from typing import Any

from acts import condition, until_unit
from living import Live, job
from sourcing import plain_pod, until_no_queue, until_queue, until_told

from usher.devcluster.kubectl import KubectlError
from usher.webhooks.policies_resourcequota import resource_quotas
from usher.webhooks.terms import Terms

Object = dict[str, Any]


def resource_quota(name: str, namespace: str, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


async def quotas_in(live: Live) -> dict[str, Object]:
    items = json.loads(await live.kubectl("get", "resourcequotas", "-o", "json"))["items"]
    return {each["metadata"]["name"]: each for each in items}


def managed(live: Live) -> str:
    return f"managedNamespaces=[{live.namespace}]"


async def test_both_are_the_users_and_the_queue_lives_in_the_room_that_is_left(live: Live) -> None:
    await live.admin.apply(
        resource_quota("wide", live.namespace, hard={"requests.cpu": "5"}),
        resource_quota("narrow", live.namespace, hard={"cpu": "4"}),
        resource_quota("scoped", live.namespace, hard={"cpu": "1"}, scopes=["Terminating"]),
    )
    await live.queue("main")
    await live.kubectl("apply", "-f", "-", stdin=json.dumps(plain_pod("other", "1")))
    await live.start()
    await live.job("first", cpu="2")
    first = await live.until("first", "Running")
    assert first["status"]["quota"] == f"resourcequota:{live.namespace}"

    await live.job("second", cpu="2")

    second = await live.until("second", "Enqueued")
    message = condition(second, "QuotaReserved")["message"]
    assert f"quota resourcequota:{live.namespace} has 3, 2 in use" in message, "four, of which a pod of others has one"
    await live.kubectl("delete", "pod", "other", "--wait=true")
    await live.until("second", "Running")
    silent = job("silent", live.namespace)
    silent["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1Mi"}}
    await live.admin.apply(silent)
    held = await until_unit(live, "silent", "waits", lambda unit: unit["status"].get("phase") == "Enqueued")
    assert "has no request for cpu" in held["status"]["message"]
    assert "left out" in await until_told(live, "ResourceQuota", "scoped", "ScopesNotCounted")

    async def said() -> bool:
        queue = await live.get("queue", "main")
        return any(each["reason"] == "ScopesNotCounted" for each in queue["status"].get("conditions", ()))

    await live.wait("the queue says what is left out", said)
    found = await quotas_in(live)
    assert set(found) == {"wide", "narrow", "scoped"}, "nothing was made, for nothing was missing"


async def test_a_lone_queue_gets_a_resource_quota_that_follows_its_quota(live: Live) -> None:
    await live.quota("team", max={"cpu": "3"})
    await live.queue("main", quota="team")
    process = await live.start(managed(live), "reports.resourceReportInterval=1s")

    def writes() -> dict[str, int]:
        counts = process.numbers.requests.items()
        return {verb: n for (verb, what, _), n in counts if what == "resourcequotas" and verb not in ("GET", "WATCH")}

    async def hard(want: Object) -> bool:
        found = await quotas_in(live)
        return "main" in found and found["main"]["spec"].get("hard") == want

    await live.wait("it is made", lambda: hard({"requests.cpu": "3"}))
    made = (await quotas_in(live))["main"]
    owner = made["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Queue", "main")
    await live.job("runs", cpu="3")
    await live.until("runs", "Running")
    await live.quota("team", max={"cpu": "3"}, weight=2)  # nothing of which it says anything

    async def counted() -> bool:
        return (await quotas_in(live))["main"].get("status", {}).get("used") == {"requests.cpu": "3"}

    await live.wait("the API server counts the pod in it", counted)
    await live.job("waits", cpu="3")
    await live.until("waits", "Enqueued")
    silent = job("silent", live.namespace)
    silent["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1Mi"}}
    await live.admin.apply(silent)
    held = await live.until("silent", "Enqueued")
    assert "has no request for cpu" in held["status"]["message"], "the API server would refuse its pods"
    assert writes() == {"POST": 1}, "written only on change"
    await live.quota("team", max={"cpu": "4"})
    await live.wait("it follows", lambda: hard({"requests.cpu": "4"}))
    assert writes() == {"POST": 1, "PATCH": 1}
    await live.admin.apply(resource_quota("mine", live.namespace, hard={"requests.cpu": "2"}))

    async def only_theirs() -> bool:
        return set(await quotas_in(live)) == {"mine"}

    await live.wait("ours gives way", only_theirs)


async def test_for_two_queues_it_refuses_no_pod_that_was_let_start(live: Live) -> None:
    for name, cpu in (("one", "3"), ("two", "4")):
        await live.quota(name, max={"cpu": cpu})
        await live.queue(name, quota=name)
    await live.start(managed(live))

    async def made() -> bool:
        return [each["spec"]["hard"] for each in (await quotas_in(live)).values()] == [{"requests.cpu": "7"}]

    await live.wait("one is made for both", made)

    await live.job("first", queue="one", cpu="1", pods=3)
    await live.job("second", queue="two", cpu="1", pods=4)

    await live.until("first", "Running")
    await live.until("second", "Running")


async def test_a_lone_resource_quota_gets_a_queue(live: Live) -> None:
    await live.admin.apply(resource_quota("compute", live.namespace, hard={"requests.cpu": "2"}))
    await live.start(managed(live))
    queue = await until_queue(live, "compute", live.namespace)
    assert queue["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "usher"
    await live.job("unnamed", queue="", cpu="2")
    unnamed = await live.until("unnamed", "Running")
    assert unnamed["status"]["quota"] == f"resourcequota:{live.namespace}"
    await live.job("next", queue="", cpu="1")
    await live.until("next", "Enqueued")
    await live.kubectl("delete", "job", "unnamed")
    await live.until("next", "Running")
    await live.kubectl("delete", "job", "next")
    await live.kubectl("delete", "resourcequota", "compute")
    await until_no_queue(live, "compute", live.namespace)


async def test_in_a_namespace_that_is_not_managed_nothing_is_made(live: Live) -> None:
    await live.admin.apply(resource_quota("compute", live.namespace, hard={"requests.cpu": "2"}))
    await live.queue("other", namespace="usher-system")
    await live.start()
    await live.job("free", queue="other", cpu="1")
    await live.until("free", "Running")
    await live.queue("own")
    await live.job("fits", queue="own", cpu="1")
    fits = await live.until("fits", "Running")
    assert fits["status"]["quota"] == f"resourcequota:{live.namespace}"
    assert set(await quotas_in(live)) == {"compute"}


async def test_nobody_patches_a_resource_quota_that_was_made(live: Live) -> None:
    door = resource_quotas(Terms(), audit=False)
    everything = {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["*"]}
    queues = {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["queues"], "verbs": ["*"]}
    await live.admin.apply(
        *door, *_role(live.namespace, "tenant", everything), *_role(live.namespace, "administrator", everything, queues)
    )
    await live.quota("team", max={"cpu": "3"})
    await live.queue("main", quota="team")
    await live.start(managed(live))

    async def hard() -> object:
        return (await quotas_in(live)).get("main", {}).get("spec", {}).get("hard")

    async def made() -> bool:
        return await hard() == {"requests.cpu": "3"}

    await live.wait("it is made", made)
    more = json.dumps({"spec": {"hard": {"requests.cpu": "9"}}})
    patch = ("patch", "resourcequota", "main", "--type=merge", "-p", more)

    async def refused() -> bool:
        return bool(await refusal(live, "tenant", *patch, "--dry-run=server"))

    try:
        await live.wait("the door is there", refused)
        said = await refusal(live, "tenant", *patch)
        assert "was made by Usher for queue main" in said
        assert "made by Usher" in await refusal(live, "tenant", "delete", "resourcequota", "main")
        assert not await refusal(live, "tenant", "annotate", "resourcequota", "main", "note=mine")
        await live.kubectl("create", "quota", "own", "--hard=pods=9", "--dry-run=server", "--as=tenant")
        assert not await refusal(live, "administrator", *patch)
        await live.wait("it says again what follows from the queue", made)
        await live.kubectl("delete", "queue.scheduling.x-k8s.io", "main", "--wait=true")

        async def gone() -> bool:
            return "main" not in await quotas_in(live)

        await live.wait("it goes with its queue", gone)
    finally:
        for each in door:
            await live.admin("delete", each["kind"].lower(), each["metadata"]["name"], "--wait=true")


async def refusal(live: Live, user: str, *arguments: str) -> str:
    """What the API server says to somebody's attempt; empty: it was done."""
    try:
        await live.kubectl(*arguments, f"--as={user}")
    except KubectlError as error:
        return error.stderr
    return ""


def _role(namespace: str, user: str, *rules: Object) -> list[Object]:
    api, meta = "rbac.authorization.k8s.io", {"name": user, "namespace": namespace}
    return [
        {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": meta, "rules": list(rules)},
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": user},
            "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
        },
    ]
