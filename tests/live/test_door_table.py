"""The table of the doors on the real API server, both ways: by policies with the webhook for the rest, and by the
webhook alone. The manager that answers is a standby: nothing but the doors touches a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from doorway import JOBS, USHER, Doorway, doorcases, doorway
from living import KINDS, Live

from usher.api.names import API_VERSION, GROUP
from usher.kube.errors import KubeError
from usher.kube.resource import untyped
from usher.webhooks import words

ALONE, WITH_OTHERS = doorcases.ALONE, doorcases.WITH_OTHERS
RBAC = "rbac.authorization.k8s.io"


async def world(way: Doorway) -> None:
    """What the table says is there."""
    live, spaces = way.live, way.spaces
    for name in (each for each in spaces.values()):
        await live.admin("label", "namespace", name, f"door-of={way.team}", "--overwrite")
    await live.queue("main", maxPriority=100)
    await live.queue("second")
    await live.queue("only", namespace=spaces["managed"])

    def chosen(*roles: str) -> dict[str, Any]:
        names = [spaces[role] for role in roles]
        return {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": names}]}

    await live.queue("open", namespace="usher-system", namespaceSelector=chosen("team", "managed"))
    await live.queue("closed", namespace="usher-system", namespaceSelector=chosen("other"))
    await live.queue("theirs", namespace="usher-system", quota="theirs")
    await live.quota("ours", namespaces=[spaces["team"]])
    await live.quota("below", parent="ours")
    await live.quota("theirs", namespaces=[spaces["other"]])
    await live.quota("free")


async def outcome(way: Doorway, name: str, case: Any) -> tuple[dict[str, Any], str]:
    """The job as it is stored in the end, and what was said."""
    space, user = way.spaces[case.namespace], way.as_(case.user)
    body = {**case.create, "metadata": {**case.create["metadata"], "name": name}}
    try:
        stored = await user.create(JOBS, body, space)
        for patch in case.first:
            await way.as_(USHER).patch(JOBS, name, space, patch)
        if case.change is not None:
            stored = await user.patch(JOBS, name, space, case.change)
    except KubeError as error:
        return {}, error.message
    return stored, ""


async def problems(way: Doorway, table: Mapping[str, Any]) -> list[str]:
    found = []
    for number, (title, case) in enumerate(table.items()):
        stored, said = await outcome(way, f"case-{number}", case)
        want = case.text.format(namespace=way.spaces[case.namespace]) if case.refused else ""
        if (want and not said.endswith(want)) or (said and not want):
            found.append(f"{title}: said {said!r}, want {want!r}")
        elif not want:
            have = {path: doorcases.inside(stored, path) for path in case.want}
            if have != dict(case.want):
                found.append(f"{title}: {have}")
    return found


@pytest.mark.parametrize("way_of", ["policies", "webhook"])
async def test_both_ways_do_what_the_table_says(live: Live, way_of: str) -> None:
    async with doorway(live, policies=way_of == "policies") as way:
        await world(way)
        await way.install()
        await way.manager(leads=False)
        await way.effective()

        assert await problems(way, {**ALONE, **WITH_OTHERS}) == []


async def test_policies_alone_do_what_one_object_shows(live: Live) -> None:
    """Nobody runs who could answer: Usher is down, or was never there."""
    async with doorway(live, policies=True) as way:
        await world(way)
        await way.install(with_webhook=False)
        await way.effective(with_webhook=False)

        assert await problems(way, ALONE) == []


@pytest.mark.parametrize("way_of", ["policies", "webhook"])
async def test_our_own_kinds_are_guarded_in_both_ways(live: Live, way_of: str) -> None:
    async with doorway(live, policies=way_of == "policies") as way:
        await world(way)
        await way.install()
        await way.manager(leads=False)
        await way.effective()
        await guard_quotas(way)
        await guard_units(way)


RESOURCE_QUOTAS = untyped("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)


@pytest.mark.parametrize("way_of", ["policies", "webhook"])
async def test_a_resource_quota_that_was_made_is_locked_in_both_ways(live: Live, way_of: str) -> None:
    """By people with the rights of their roles: whether somebody is an administrator is what the door asks."""
    quotas = {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["*"]}
    queues = {"apiGroups": [GROUP], "resources": ["queues"], "verbs": ["*"]}
    users = {lock.user for lock in doorcases.LOCKS.values()}
    async with doorway(live, policies=way_of == "policies") as way:
        for number, user in enumerate(sorted(users)):
            rules = [quotas, queues] if user == doorcases.ADMINISTRATOR else [quotas]
            await live.admin.apply(*role(live.namespace, f"role-{number}", user, rules))
        await way.install()
        await way.manager(leads=False)
        await way.effective()
        admin = way.as_("admin")
        await admin.create(RESOURCE_QUOTAS, doorcases.made_quota("probe"), way.team)
        tenant = way.as_(doorcases.TENANT, "system:authenticated", rights=True)

        async def locked() -> bool:
            attempt = tenant.delete(RESOURCE_QUOTAS, "probe", way.team, dry_run=True)
            return words.say(words.RESOURCE_QUOTA, queue="main") in await way.refusal(attempt)

        await live.wait("the lock is there", locked)
        found = []
        for number, (title, lock) in enumerate(doorcases.LOCKS.items()):
            name, user = f"made-{number}", way.as_(lock.user, "system:authenticated", rights=True)
            await admin.create(RESOURCE_QUOTAS, doorcases.made_quota(name), way.team)
            attempt = (
                user.delete(RESOURCE_QUOTAS, name, way.team)
                if lock.change is None
                else user.patch(RESOURCE_QUOTAS, name, way.team, lock.change)
            )
            said = await way.refusal(attempt)
            if said.endswith(words.say(words.RESOURCE_QUOTA, queue="main")) != lock.refused or (
                said and not lock.refused
            ):
                found.append(f"{title}: said {said!r}")
        assert found == []


def role(namespace: str, name: str, user: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rights of one user in a namespace."""
    meta, subject = {"name": name, "namespace": namespace}, {"apiGroup": RBAC, "kind": "User", "name": user}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": name}
    bound = {"metadata": meta, "roleRef": reference, "subjects": [subject]}
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", **bound},
    ]


async def guard_quotas(way: Doorway) -> None:
    quotas, tenant = KINDS["quota"], way.as_("admin")
    said = await way.refusal(tenant.patch(quotas, "ours", None, {"spec": {"parent": "below"}}))
    assert said.endswith("(below → ours → below): choose another parent")
    assert await way.refusal(tenant.patch(quotas, "ours", None, {"spec": {"parent": "later"}})) == ""
    assert await way.refusal(tenant.patch(quotas, "ours", None, {"spec": {"parent": None}})) == ""


async def guard_units(way: Doorway) -> None:
    units, admin = KINDS["unit"], way.as_("admin")
    body = {
        "apiVersion": API_VERSION,
        "kind": "QueueUnit",
        "metadata": {"name": "by-hand"},
        "spec": {"queue": "main", "priority": 101, "request": {"cpu": "1"}},
    }
    said = await way.refusal(admin.create(units, body, way.team))
    assert said.endswith(
        "priority 101 is above 100, the highest of queue main: ask for at most 100, or use another queue"
    )
    made = {**body, "spec": {**body["spec"], "priority": 5}}  # type: ignore[dict-item]
    await admin.create(units, made, way.team)

    async def status(user: str, said: dict[str, Any], *, dry_run: bool = False) -> str:
        attempt = way.as_(user).patch(
            units, "by-hand", way.team, {"status": said}, subresource="status", dry_run=dry_run
        )
        return await way.refusal(attempt)

    async def guarded() -> bool:
        return bool(await status("admin", {"phase": "Dequeued"}, dry_run=True))

    await way.live.wait("the API server has learned of this policy, too", guarded)
    refusal = await status("admin", {"phase": "Dequeued"})
    fenced = "usher-unit-status" in refusal  # where a leader has been before, its fence may be the first to speak
    assert fenced or "the status of a QueueUnit is written by Usher alone" in refusal
    assert await status("a-check", {"admissionChecks": [{"name": "budget", "state": "Ready"}]}) == ""
    assert await status("a-check", {"admissionChecks": [], "phase": "Dequeued"})

    async def queue_guarded() -> bool:
        attempt = admin.patch(KINDS["queue"], "main", way.team, {"status": {"used": {}}}, subresource="status")
        return "the status of a Queue is written by Usher alone" in await way.refusal(attempt)

    await way.live.wait("and of that for Queues", queue_guarded)
    await admin.delete(units, "by-hand", way.team)
