"""Trees of QueueQuota at work: limits, lending, taking back, and capacity that follows the nodes."""

from __future__ import annotations

from typing import Any

from acts import condition, granted, suspended, until_unit
from living import Live
from sourcing import until_no_queue, until_queue, until_told

QUOTA = "scheduling.x-k8s.io/quota-name"


async def test_every_limit_on_the_way_up_counts_and_moves_at_once(live: Live) -> None:
    await live.quota("org", max={"cpu": "4"})
    await live.quota("team-a", parent="org", max={"cpu": "3"})
    await live.quota("team-b", parent="org")
    await live.queue("a", quota="team-a")
    await live.queue("b", quota="team-b")
    await live.start("reports.resourceReportInterval=1s")
    await live.job("a1", queue="a", cpu="2")
    await live.until("a1", "Running")
    await live.job("a2", queue="a", cpu="2")
    await live.job("b1", queue="b", cpu="2")
    await live.until("b1", "Running")
    await live.job("b2", queue="b", cpu="1")

    a2 = await live.until("a2", "Enqueued")
    b2 = await live.until("b2", "Enqueued")

    assert "team-a" in condition(a2, "QuotaReserved")["message"]
    assert "org" in condition(b2, "QuotaReserved")["message"]
    assert a2["status"].get("admissions", []) == []
    await live.quota("org", max={"cpu": "8"})
    running = await live.until("b2", "Running")
    assert running["status"]["quota"] == "team-b"
    assert (await live.unit("a2") or {})["status"]["phase"] == "Enqueued", "its own quota still stops it"
    await live.quota("team-a", parent="org", max={"cpu": "4"})
    await live.until("a2", "Running")


async def test_what_was_lent_comes_back_and_the_claim_is_seen(live: Live) -> None:
    await live.quota("lender", min={"cpu": "4"})
    await live.quota("borrower")
    await live.queue("mine", quota="lender")
    await live.queue("theirs", quota="borrower")
    await live.start()
    stops = {"sim.usher.dev/stops-in": "2s"}
    for i in range(4):
        await live.job(f"loan-{i}", queue="theirs", cpu="2", template_annotations=stops)
    for i in range(4):
        await live.until(f"loan-{i}", "Running")

    await live.job("owner", queue="mine", cpu="2", pods=2)

    claim = await until_unit(live, "owner", "has a claim", lambda unit: unit["status"].get("nomination"))
    assert claim["status"]["nomination"]["claimed"] is True
    assert await suspended(live, "owner"), "it waits until the pods are gone"
    await live.job("latecomer", queue="theirs", cpu="1")
    owner = await live.until("owner", "Running")
    assert granted(owner) == 2
    assert "nomination" not in owner["status"]
    phases = [(await live.unit(f"loan-{i}") or {})["status"]["phase"] for i in range(4)]
    assert phases == ["Running", "Running", "Enqueued", "Enqueued"], "the latest go first"
    evicted = condition(await live.unit("loan-3") or {}, "Evicted")
    assert (evicted["reason"], evicted["status"]) == ("Reclaimed", "True")
    assert "owner" in evicted["message"]
    late = await live.until("latecomer", "Enqueued")
    assert condition(late, "QuotaReserved")["status"] == "False", "room that was freed is kept for the claim"


async def test_a_quota_has_the_namespaces_it_selects_and_a_queue_of_its_name(live: Live) -> None:
    there = f"far-{live.namespace[-8:].strip('-')}"
    await live.admin("create", "namespace", there)
    for namespace in (live.namespace, there):
        await live.admin("label", "namespace", namespace, f"team={there}")
    try:
        await live.quota("org", max={"cpu": "8"})
        await live.quota("team", parent="org", max={"cpu": "3"}, namespaceSelector={"matchLabels": {"team": there}})
        await live.queue("all", namespace="usher-system")
        await live.start()
        assert (await until_queue(live, "team"))["spec"]["quota"] == "team"
        await live.job("here", queue="", labels={QUOTA: "team"}, cpu="2")
        await live.until("here", "Running")

        await live.job("far", namespace=there, queue="all", cpu="2")

        far = await live.until("far", "Enqueued", there)
        assert "quota team has 3, 2 in use" in condition(far, "QuotaReserved")["message"], "one purse for both"
        await live.admin("label", "namespace", there, "team-")
        ran = await live.until("far", "Running", there)
        assert ran["status"].get("quota") != "team"
        await live.admin("delete", "queuequota", "team")
        await live.kubectl("delete", "job", "here")
        await until_no_queue(live, "team")
    finally:
        await live.admin("delete", "namespace", there, "--wait=false")


WRONG: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "a": ({"parent": "b"}, "Cycle", "False", "its own ancestor"),
    "b": ({"parent": "a"}, "Cycle", "False", "its own ancestor"),
    "below": ({"parent": "a"}, "ParentInactive", "False", "a takes no part"),
    "lost": ({"parent": "nobody"}, "ParentMissing", "False", "nobody does not exist"),
    "narrow": ({"max": {"cpu": "2"}}, "MinsAboveMax", "True", "3"),
}
"""What each says, the reason and status of its condition, and a word of its message."""


async def test_what_is_wrong_with_a_tree_is_said_of_each_quota_and_the_rest_works(live: Live) -> None:
    for name, (spec, *_) in WRONG.items():
        await live.quota(name, **spec)
    await live.quota("wide", parent="narrow", min={"cpu": "3"})
    await live.queue("main", quota="wide")
    await live.start()
    await live.job("works", cpu="2")

    await live.until("works", "Running")

    for name, (_, reason, status, word) in WRONG.items():
        assert word in await until_told(live, "QueueQuota", name, reason)

        async def shown(name: str = name, want: tuple[str, str] = (reason, status)) -> bool:
            said = (await live.get("quota", name)).get("status", {}).get("conditions", ())
            return want in [(each["reason"], each["status"]) for each in said if each["type"] == "Active"]

        await live.wait(f"the condition of {name} says {reason}", shown)


async def test_a_quota_that_goes_with_units_in_it_loses_none(live: Live) -> None:
    await live.quota("team", max={"cpu": "3"})
    await live.queue(quota="team")
    await live.start("reports.resourceReportInterval=1s")
    await live.job("runs", cpu="3", labels={QUOTA: "team"})
    await live.job("waits", cpu="3", labels={QUOTA: "team"})
    await live.until("runs", "Running")
    await live.until("waits", "Enqueued")

    await live.admin("delete", "queuequota", "team")

    await until_unit(live, "waits", "says what it lacks", lambda unit: "team" in unit["status"]["message"])
    assert (await live.unit("runs") or {})["status"]["phase"] == "Running", "what runs goes on"
    await live.kubectl("delete", "job", "runs")
    waiting = await live.unit("waits")
    assert waiting is not None
    assert waiting["status"]["phase"] == "Enqueued"
    await live.quota("team", max={"cpu": "4"})
    await live.until("waits", "Running")
