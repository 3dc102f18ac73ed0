"""The proxy that the tests of the client stand on: it must do to a request exactly what it was told, and record it."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientPayloadError, ClientSession, ClientTimeout, TCPConnector

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.testing import eventually
from usher.testing.proxy import CUT, LOSE_ANSWER, Answer, Hold, Passed, Proxy

GONE = (ClientConnectionError, ClientPayloadError)


@asynccontextmanager
async def through(proxy: Proxy, token: str = "") -> AsyncIterator[ClientSession]:
    """A bare session to the proxy: no retries and nothing clever."""
    config = json.loads(proxy.kubeconfig.read_text())
    tls = ssl.create_default_context(cafile=config["clusters"][0]["cluster"]["certificate-authority"])
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with ClientSession(
        proxy.url, connector=TCPConnector(ssl=tls), headers=headers, timeout=ClientTimeout(total=60)
    ) as session:
        yield session


def maps(kubectl: Kubectl, name: str = "") -> str:
    return f"/api/v1/namespaces/{kubectl.namespace}/configmaps" + (f"/{name}" if name else "")


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def names(kubectl: Kubectl) -> set[str]:
    listed = (await kubectl.get("configmaps"))["items"]
    return {item["metadata"]["name"] for item in listed} - {"kube-root-ca.crt"}


async def test_requests_pass_unchanged_and_are_recorded(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with Proxy.to(control_plane) as proxy, through(proxy) as session:
        async with session.post(maps(kubectl), json=config_map("a", x="1")) as made:
            assert made.status == 201
        async with session.get(maps(kubectl, "a") + "?pretty=false") as read:
            assert (await read.json())["data"] == {"x": "1"}
        async with session.get(maps(kubectl, "b")) as missing:
            assert (await missing.json())["reason"] == "NotFound"

        assert [(each.method, each.status, each.told) for each in proxy.seen] == [
            ("POST", 201, 201),
            ("GET", 200, 200),
            ("GET", 404, 404),
        ]
        assert proxy.writes[0].json == config_map("a", x="1")
        assert proxy.seen[1].query == "pretty=false"


async def test_kubectl_works_through_the_proxy(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with Proxy.to(control_plane) as proxy:
        inside = Kubectl(kubectl.program, proxy.kubeconfig, kubectl.namespace)
        await inside("create", "configmap", "a")

        assert await names(inside) == {"a"}
        assert proxy.count("POST", "/configmaps$", status=201) == 1


async def test_a_token_goes_on_without_the_admins_certificate(control_plane: Cluster, kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "nobody")
    token = (await kubectl("create", "token", "nobody")).strip()
    async with (
        Proxy.to(control_plane) as proxy,
        through(proxy, token) as session,
        session.get(maps(kubectl)) as answer,
    ):
        assert answer.status == 403
        assert f"system:serviceaccount:{kubectl.namespace}:nobody" in (await answer.json())["message"]


async def test_a_rule_acts_on_the_nth_request_that_matches_and_as_often_as_it_says(
    control_plane: Cluster, kubectl: Kubectl
) -> None:
    async with Proxy.to(control_plane) as proxy, through(proxy) as session:
        throttled = proxy.rule(Answer(429, retry_after=7), method="POST", path="/configmaps$", skip=1, times=2)
        statuses = []
        for name in "abcd":
            async with session.post(maps(kubectl), json=config_map(name)) as answer:
                statuses.append((answer.status, answer.headers.get("Retry-After")))

        assert statuses == [(201, None), (429, "7"), (429, "7"), (201, None)]
        assert throttled.spent
        assert [each.status for each in proxy.writes] == [201, None, None, 201]
        assert await names(kubectl) == {"a", "d"}


async def test_a_decider_is_asked_about_every_request(control_plane: Cluster, kubectl: Kubectl) -> None:
    def refuse_b(request: Passed) -> Answer | None:
        return Answer(503) if request.is_write and request.json["metadata"]["name"] == "b" else None

    async with Proxy.to(control_plane) as proxy, through(proxy) as session:
        proxy.decide(refuse_b)
        for name, want in (("a", 201), ("b", 503)):
            async with session.post(maps(kubectl), json=config_map(name)) as answer:
                assert answer.status == want
        proxy.behave()
        async with session.post(maps(kubectl), json=config_map("b")) as answer:
            assert answer.status == 201


@pytest.mark.parametrize(("fault", "arrives"), [(CUT, False), (LOSE_ANSWER, True)], ids=["cut", "lost answer"])
async def test_a_cut_request_has_no_answer_and_arrived_or_not_as_told(
    control_plane: Cluster, kubectl: Kubectl, fault: Any, arrives: bool
) -> None:
    async with Proxy.to(control_plane) as proxy, through(proxy) as session:
        proxy.rule(fault, method="POST", times=1)
        with pytest.raises(GONE):
            await session.post(maps(kubectl), json=config_map("a"))

        assert await names(kubectl) == ({"a"} if arrives else set())
        assert (proxy.writes[0].status, proxy.writes[0].told) == (201 if arrives else None, None)


async def test_a_held_request_arrives_after_its_sender_has_left(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with Proxy.to(control_plane) as proxy, through(proxy) as session:
        go_on = asyncio.Event()
        proxy.rule(Hold(go_on), method="POST")
        with pytest.raises(TimeoutError):
            await session.post(maps(kubectl), json=config_map("a"), timeout=ClientTimeout(total=0.2))
        assert await names(kubectl) == set()

        go_on.set()

        async def arrived() -> bool:
            return await names(kubectl) == {"a"}

        await eventually(arrived, why="the request that was under way arrives")


async def test_silence_holds_everything_until_the_proxy_speaks_again(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with Proxy.to(control_plane) as proxy, through(proxy) as session:
        proxy.silence()
        posting = asyncio.create_task(session.post(maps(kubectl), json=config_map("a")))

        async def taken() -> bool:
            return len(proxy.seen) == 1

        await eventually(taken)
        assert not posting.done()
        assert await names(kubectl) == set()
        proxy.speak()

        assert (await posting).status == 201


async def lines_of(session: ClientSession, path: str, into: list[dict[str, Any]]) -> None:
    async with session.get(path + "?watch=true") as answer:
        async for line in answer.content:
            into += [json.loads(line)]


async def test_a_watch_is_relayed_as_it_happens_and_ends_as_told(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with Proxy.to(control_plane) as proxy, through(proxy) as session:
        seen: list[dict[str, Any]] = []
        watching = asyncio.create_task(lines_of(session, maps(kubectl), seen))

        async def sees(name: str) -> bool:
            return any(event["object"]["metadata"]["name"] == name for event in seen)

        for name in ("a", "b"):
            await kubectl("create", "configmap", name)
            await eventually(lambda name=name: sees(name), why=f"{name} is seen while the watch goes on")  # type: ignore[misc]
        assert proxy.watching("/configmaps") == 1
        assert proxy.expire_watches("/configmaps") == 1
        await watching

        assert seen[-1]["type"] == "ERROR"
        assert (seen[-1]["object"]["code"], seen[-1]["object"]["reason"]) == (410, "Expired")
        assert proxy.watching() == 0


async def test_cutting_breaks_a_watch_in_the_middle(control_plane: Cluster, kubectl: Kubectl) -> None:
    async with Proxy.to(control_plane) as proxy, through(proxy) as session:
        watching = asyncio.create_task(lines_of(session, maps(kubectl), []))

        async def goes() -> bool:
            return proxy.watching() == 1

        await eventually(goes)
        assert proxy.cut() >= 1
        with pytest.raises(GONE):
            await watching


async def test_a_proxy_that_is_down_refuses_and_comes_back_on_its_port(
    control_plane: Cluster, kubectl: Kubectl
) -> None:
    async with Proxy.to(control_plane) as proxy, through(proxy) as session:
        await proxy.down()
        with pytest.raises(GONE):
            await session.get(maps(kubectl))
        await proxy.up()

        assert (await session.get(maps(kubectl))).status == 200
