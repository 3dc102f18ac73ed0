"""Informers on the real control plane: every way a watch can end, each followed by a list that equals the cache."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import msgspec
import pytest
from clients import MAPS, QUICK, ConfigMap, Mirror, agrees, config_map, connected, following, watched

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.kube import Client
from usher.kube.errors import Gone, NotFound, Timeout
from usher.kube.informer import Informer
from usher.kube.store import Added, Changed, Deleted
from usher.testing import eventually
from usher.testing.proxy import Answer, Hold, Passed, Proxy


@dataclass
class Stage:
    """A namespace seen two ways: directly, and by an informer through a proxy."""

    namespace: str
    direct: Client
    proxied: Client
    proxy: Proxy
    informer: Informer[ConfigMap]
    mirror: Mirror

    async def create(self, name: str, **data: str) -> ConfigMap:
        return await self.direct.create(MAPS, config_map(name, **data), self.namespace)

    async def change(self, name: str, **data: str) -> ConfigMap:
        return await self.direct.patch(MAPS, name, self.namespace, {"data": data})

    async def delete(self, name: str) -> None:
        await self.direct.delete(MAPS, name, self.namespace)

    async def agree(self) -> None:
        """The cache and what the deltas add up to are what the server has."""
        listed = await agrees(self.direct, self.informer, self.namespace)
        assert self.mirror.versions() == listed
        await watched(self.proxy)  # so that nothing is half connected when the test ends

    def lists(self) -> int:
        """How often everything was asked for, one way or the other."""
        return sum(starts(request) for request in self.proxy.seen)


def starts(request: Passed) -> bool:
    """Whether it asks for everything; a read of one object only moves the server's cache on."""
    if "watch=true" in request.query:
        return "sendInitialEvents" in request.query
    return "limit=1" not in request.query.split("&")


@pytest.fixture
async def stage(control_plane: Cluster, kubectl: Kubectl) -> AsyncIterator[Stage]:
    assert kubectl.namespace
    async with (
        Proxy.to(control_plane) as proxy,
        connected(control_plane.kubeconfig) as direct,
        connected(proxy.kubeconfig) as proxied,
    ):
        informer, mirror = following(proxied, kubectl.namespace)
        yield Stage(kubectl.namespace, direct, proxied, proxy, informer, mirror)


async def test_it_starts_with_one_stream_and_follows(stage: Stage) -> None:
    await stage.create("before", x="1")
    async with stage.informer as informer:
        await informer.synced.wait()
        assert informer.store.get("before", stage.namespace).data == {"x": "1"}
        await stage.create("after")
        await stage.change("before", x="2")
        await stage.create("short-lived")
        await stage.delete("short-lived")
        await stage.agree()

    assert [request.query for request in stage.proxy.seen if not starts(request)] == []
    assert stage.lists() == 1
    before = stage.mirror.of("before")
    assert [type(delta) for delta in before] == [Added, Changed]
    assert (before[1].old.data, before[1].object.data) == ({"x": "1"}, {"x": "2"})
    assert [type(delta) for delta in stage.mirror.of("short-lived")] == [Added, Deleted]


async def test_a_server_without_watch_list_is_listed_in_pages(stage: Stage) -> None:
    for number in range(7):
        await stage.create(f"n{number}")
    refusal = Answer(422, "Invalid", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch")
    stage.proxy.rule(refusal, when=lambda request: "sendInitialEvents" in request.query)
    stage.informer, stage.mirror = following(stage.proxied, stage.namespace, page=3)

    async with stage.informer as informer:
        await informer.synced.wait()
        await stage.create("after")
        await stage.agree()
        assert sum("limit=3" in request.query for request in stage.proxy.seen) == 3
        stage.proxy.expire_watches()
        await stage.create("later")
        await stage.agree()

    assert sum("sendInitialEvents" in request.query for request in stage.proxy.seen) == 1, "it asks once"


async def test_a_cut_watch_is_taken_up_where_it_was(stage: Stage) -> None:
    async with stage.informer as informer:
        await informer.synced.wait()
        await stage.create("a")
        await stage.agree()
        for name in ("b", "c", "d"):
            await watched(stage.proxy)
            assert stage.proxy.cut() > 0
            await stage.create(name)
            await stage.agree()

    assert stage.lists() == 1, "nothing was listed again"


async def test_a_watch_that_the_server_ends_is_taken_up_at_once(stage: Stage) -> None:
    async with stage.informer as informer:
        await informer.synced.wait()
        await stage.create("a")
        await stage.agree()
        stage.proxy.end_watches()
        await stage.create("b")
        await stage.agree()

        assert informer.problem is None
    assert stage.lists() == 1


async def test_what_happened_while_disconnected_arrives_without_a_list(stage: Stage) -> None:
    for name in ("stays", "goes", "changes", "replaced"):
        await stage.create(name)
    async with stage.informer as informer:
        await informer.synced.wait()
        await stage.proxy.down()
        await stage.delete("goes")
        await stage.change("changes", x="1")
        await stage.delete("replaced")
        await stage.create("replaced", x="new")

        async def noticed() -> bool:
            return informer.problem is not None

        await eventually(noticed)
        await stage.proxy.up()
        await stage.agree()

    assert stage.lists() == 1
    assert [type(delta) for delta in stage.mirror.of("replaced")] == [Added, Deleted, Added]
    assert [type(delta) for delta in stage.mirror.of("goes")] == [Added, Deleted]
    assert [type(delta) for delta in stage.mirror.of("stays")] == [Added]


@pytest.mark.parametrize("where", ["in the answer", "in the stream"])
async def test_after_410_the_list_gives_what_was_missed_and_nothing_twice(stage: Stage, where: str) -> None:
    for name in ("stays", "goes", "changes", "replaced"):
        await stage.create(name, x="old")
    async with stage.informer as informer:
        await informer.synced.wait()
        await watched(stage.proxy)
        again = asyncio.Event()
        stage.proxy.rule(Hold(again), when=starts)  # the list that follows waits until everything has happened
        if where == "in the answer":
            stage.proxy.rule(Answer(410, "Expired", "too old resource version"), watch=True, times=1)
            stage.proxy.cut()
        else:
            stage.proxy.expire_watches()

        async def listing() -> bool:
            return stage.lists() == 2

        await eventually(listing, why="everything is asked for again")
        assert isinstance(informer.problem, Gone)
        await stage.delete("goes")
        await stage.change("changes", x="new")
        await stage.delete("replaced")
        await stage.create("replaced", x="new")
        await stage.create("comes")
        again.set()
        await stage.agree()

    assert stage.lists() == 2
    assert [type(delta) for delta in stage.mirror.of("stays")] == [Added], "not delivered again"
    gone, replaced = stage.mirror.of("goes"), stage.mirror.of("replaced")
    assert gone[1] == Deleted((stage.namespace, "goes"), gone[0].object, missed=True)
    assert [type(delta) for delta in replaced] == [Added, Deleted, Added]
    assert [delta.object.data["x"] for delta in replaced] == ["old", "old", "new"]
    assert [type(delta) for delta in stage.mirror.of("changes")] == [Added, Changed]


async def test_a_watch_that_falls_silent_is_given_up(stage: Stage) -> None:
    pacing = replace(QUICK, silence_s=0.4, start_silence_s=30)
    stage.informer, stage.mirror = following(stage.proxied, stage.namespace, pacing=pacing)
    problems = []
    stage.informer._on_problem = problems.append
    async with stage.informer as informer:
        await informer.synced.wait()
        await watched(stage.proxy)
        stage.proxy.silence()
        await stage.create("unheard")
        before = len(stage.proxy.seen)

        async def tried_again() -> bool:
            return len(stage.proxy.seen) > before

        await eventually(tried_again, why="the informer makes a new watch")
        assert ("unheard", stage.namespace) not in informer.store
        stage.proxy.speak()
        await stage.agree()

    assert any(isinstance(problem, Timeout) and "nothing was heard" in str(problem) for problem in problems)
    assert stage.lists() == 1


async def test_a_server_that_throttles_is_left_alone_for_as_long_as_it_asks(stage: Stage) -> None:
    stage.proxy.rule(Answer(429, retry_after=1), method="GET", times=1)
    began = asyncio.get_running_loop().time()
    async with stage.informer as informer:
        await informer.synced.wait()
        await stage.agree()

    assert asyncio.get_running_loop().time() - began >= 1.0
    assert [request.told for request in stage.proxy.seen] == [429, 200]


async def test_a_kind_that_comes_later_is_followed_once_it_is_there(stage: Stage, kubectl: Kubectl) -> None:
    plural = f"laters{stage.namespace[-6:]}"
    resource = replace(MAPS, group="tests.usher.dev", plural=plural, kind="Later")
    informer: Informer[ConfigMap] = Informer(stage.direct, resource, stage.namespace, pacing=QUICK)
    async with informer:

        async def missing() -> bool:
            return isinstance(informer.problem, NotFound)

        await eventually(missing, why="the kind is missed")
        assert not informer.synced.is_set()
        names = {"plural": plural, "kind": "Later", "singular": "later"}
        schema = {"openAPIV3Schema": {"type": "object"}}
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.tests.usher.dev"},
            "spec": {
                "group": "tests.usher.dev",
                "scope": "Namespaced",
                "names": names,
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
        await kubectl.apply(crd)
        async with asyncio.timeout(60):
            await informer.synced.wait()
        assert informer.problem is None
    await kubectl("delete", "crd", f"{plural}.tests.usher.dev", "--wait=false")


async def test_objects_that_are_not_of_their_type_are_named_and_the_rest_goes_on(stage: Stage) -> None:
    class Strict(ConfigMap, frozen=True, kw_only=True):
        data: dict[str, int] = msgspec.field(default_factory=dict)  # no config map with data is of this type

    await stage.create("ill", x="word")
    await stage.create("turns-ill")
    for watch_list in (True, False):
        informer: Informer[Strict] = Informer(
            stage.direct, MAPS.typed(Strict), stage.namespace,
            label_selector="made-by", pacing=QUICK, watch_list=watch_list,
        )  # fmt: skip
        async with informer:
            await informer.synced.wait()
            assert set(informer.store.rejected) == {(stage.namespace, "ill")}
            assert "Expected `int`, got `str`" in informer.store.rejected[stage.namespace, "ill"]
            await stage.change("turns-ill", x="word")

            async def noticed(informer: Informer[Strict] = informer) -> bool:
                return (stage.namespace, "turns-ill") in informer.store.rejected

            await eventually(noticed)
            assert informer.store.get("turns-ill", stage.namespace).data == {}, "its last good state stays"
            await stage.delete("turns-ill")

            async def gone(informer: Informer[Strict] = informer) -> bool:
                return not len(informer.store) and set(informer.store.rejected) == {(stage.namespace, "ill")}

            await eventually(gone)
            await stage.create("turns-ill")


async def test_indexes_follow_and_only_what_was_transformed_stays(stage: Stage) -> None:
    await stage.create("a", owner="x")
    await stage.create("b", owner="x")
    informer: Informer[tuple[str, str]] = Informer(
        stage.direct,
        MAPS,
        stage.namespace,
        label_selector="made-by=test",
        transform=lambda each: (each.metadata.name, each.data.get("owner", "")),
        indexers={"owner": lambda kept: [kept[1]]},
        pacing=QUICK,
    )
    async with informer:
        await informer.synced.wait()
        assert sorted(informer.store.by_index("owner", "x")) == [("a", "x"), ("b", "x")]
        await stage.change("a", owner="y")
        await stage.delete("b")

        async def moved() -> bool:
            return not informer.store.by_index("owner", "x") and informer.store.by_index("owner", "y") == [("a", "y")]

        await eventually(moved)
        assert informer.store.list() == [("a", "y")]


async def test_a_version_read_elsewhere_is_reached_although_nothing_changes_here(stage: Stage) -> None:
    async with stage.informer as informer:
        await informer.synced.wait()
        await watched(stage.proxy)
        elsewhere = await stage.direct.create(MAPS, config_map(f"{stage.namespace}-x"), "default")
        read = await stage.direct.list(MAPS, "default", limit=1)
        assert int(read.resource_version) >= int(elsewhere.metadata.resource_version)

        async with asyncio.timeout(30):  # bookmarks come once a minute unless provoked
            await informer.reached(read.resource_version)

        assert int(informer.store.resource_version) >= int(read.resource_version)
        await stage.create("a")
        await stage.agree()
    await stage.direct.delete(MAPS, f"{stage.namespace}-x", "default")
    assert stage.lists() == 1


async def test_two_subscribers_get_everything_each_at_their_own_pace(stage: Stage) -> None:
    await stage.create("a")
    async with stage.informer as informer:
        await informer.synced.wait()
        quick, slow = Mirror(), Mirror()
        first, second = informer.subscribe(), informer.subscribe()
        quick.take(await first.batch())
        for number in range(20):
            await stage.change("a", x=str(number))
        await stage.create("short-lived")
        await stage.delete("short-lived")
        await stage.create("b")
        await stage.agree()
        while quick.versions() != informer.store.versions():
            quick.take(await first.batch())
        slow.take(second.take())

        assert slow.versions() == informer.store.versions()
        assert [type(delta) for delta in slow.of("a")] == [Added], "what waits is folded"
        assert slow.of("short-lived") == []
        assert quick.objects[stage.namespace, "a"].data == {"x": "19"}


async def test_a_type_that_does_not_fit_is_raised_not_swallowed(stage: Stage) -> None:
    class Nameless(ConfigMap, frozen=True, kw_only=True):
        metadata: dict[str, object]

    await stage.create("a")
    informer: Informer[Nameless] = Informer(stage.direct, MAPS.typed(Nameless), stage.namespace)
    with pytest.raises(ExceptionGroup) as raised:
        async with informer:
            await informer.synced.wait()

    assert raised.group_contains(AttributeError)


async def test_leaving_an_informer_ends_its_watch(stage: Stage) -> None:
    async with stage.informer as informer:
        await informer.synced.wait()
        await watched(stage.proxy)
    await watched(stage.proxy, 0)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stage.informer.synced.wait(), 0)
    assert informer.store.get("kube-root-ca.crt", stage.namespace) is not None
