"""The client's verbs and errors on the real API server: what is sent, what comes back, and that it is sent once."""

import ast
import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from clients import MAPS, ConfigMap, config_map, connected

import usher.kube
from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.kube import Client, EventType, KubeError, Object, PatchKind, Propagation, Resource, Retry, untyped
from usher.kube import errors as failed
from usher.testing import eventually
from usher.testing.proxy import CUT, LOSE_ANSWER, Answer, Hold, Proxy

PODS = untyped("", "v1", "pods", "Pod", namespaced=True)
NODES = Resource("", "v1", "nodes", "Node", False, Object)
JOBS = untyped("batch", "v1", "jobs", "Job", namespaced=True)


@pytest.fixture
async def client(control_plane: Cluster) -> AsyncIterator[Client]:
    async with connected(control_plane.kubeconfig) as client:
        yield client


@pytest.fixture
def here(kubectl: Kubectl) -> str:
    assert kubectl.namespace
    return kubectl.namespace


def job(name: str) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    spec = {"suspend": True, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def test_objects_are_created_read_changed_and_deleted(client: Client, here: str) -> None:
    made = await client.create(MAPS, ConfigMap(metadata=usher.kube.ObjectMeta(name="a"), data={"x": "1"}), here)
    assert (made.metadata.name, made.metadata.namespace, made.data) == ("a", here, {"x": "1"})
    assert await client.get(MAPS, "a", here) == made

    changed = await client.patch(MAPS, "a", here, {"data": {"y": "2"}})
    assert changed.data == {"x": "1", "y": "2"}
    body = b'[{"op":"remove","path":"/data/x"}]'
    assert (await client.patch(MAPS, "a", here, body, kind=PatchKind.JSON)).data == {"y": "2"}

    await client.delete(MAPS, "a", here)
    with pytest.raises(failed.NotFound, match='configmaps "a" not found'):
        await client.get(MAPS, "a", here)


async def test_a_strategic_patch_merges_lists_by_their_keys(client: Client, here: str) -> None:
    template = untyped("", "v1", "podtemplates", "PodTemplate", namespaced=True)
    pod = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    await client.create(template, {"metadata": {"name": "t"}, "template": pod}, here)
    patch = {"template": {"spec": {"containers": [{"name": "d", "image": "i"}]}}}
    patched = await client.patch(template, "t", here, patch, kind=PatchKind.STRATEGIC)

    assert {each["name"] for each in patched["template"]["spec"]["containers"]} == {"c", "d"}


async def test_a_subresource_is_written_apart(client: Client, here: str) -> None:
    made = await client.create(JOBS, job("j"), here)
    status = {"status": {"active": 0, "failed": 2}, "spec": {"parallelism": 7}}
    answer = await client.patch(JOBS, "j", here, status, subresource="status")

    assert answer["status"]["failed"] == 2
    assert answer["spec"] == made["spec"], "only the status was taken"
    assert (await client.get(JOBS, "j", here, subresource="status"))["status"]["failed"] == 2


async def test_two_managers_apply_their_own_fields(client: Client, here: str) -> None:
    def body(**data: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}

    await client.apply(MAPS, "a", here, body(x="1"))
    both = await client.apply(MAPS, "a", here, body(y="1"), field_manager="other")
    assert both.data == {"x": "1", "y": "1"}
    with pytest.raises(failed.Conflict, match='conflict with "tests"') as raised:
        await client.apply(MAPS, "a", here, body(x="2"), field_manager="other")
    assert [(cause.reason, cause.field) for cause in raised.value.causes] == [("FieldManagerConflict", ".data.x")]
    forced = await client.apply(MAPS, "a", here, body(x="2"), field_manager="other", force=True)

    assert forced.data == {"x": "2"}, "y was no longer wanted by its manager"
    raw = await client.get(MAPS.typed(dict[str, Any]), "a", here)
    assert {each["manager"] for each in raw["metadata"]["managedFields"]} == {"other"}


async def test_our_name_stands_beside_what_we_write(client: Client, here: str) -> None:
    made = await client.create(MAPS.typed(dict[str, Any]), config_map("a", x="1"), here)

    assert [each["manager"] for each in made["metadata"]["managedFields"]] == ["tests"]


async def test_a_dry_run_changes_nothing(client: Client, here: str) -> None:
    assert (await client.create(MAPS, config_map("a", x="1"), here, dry_run=True)).data == {"x": "1"}
    with pytest.raises(failed.NotFound):
        await client.get(MAPS, "a", here)
    await client.create(MAPS, config_map("a", x="1"), here)
    assert (await client.patch(MAPS, "a", here, {"data": {"x": "2"}}, dry_run=True)).data == {"x": "2"}
    await client.delete(MAPS, "a", here, dry_run=True)

    assert (await client.get(MAPS, "a", here)).data == {"x": "1"}


async def test_what_has_changed_since_it_was_read_is_not_overwritten_or_deleted(client: Client, here: str) -> None:
    read = await client.create(MAPS, config_map("a", x="1"), here)
    now = await client.patch(MAPS, "a", here, {"data": {"x": "2"}})
    old = {**config_map("a", x="3"), "metadata": {"name": "a", "resourceVersion": read.metadata.resource_version}}
    with pytest.raises(failed.Conflict) as raised:
        await client.replace(MAPS, "a", here, old)
    assert raised.value.retry is Retry.AFRESH
    with pytest.raises(failed.Conflict):
        await client.delete(MAPS, "a", here, resource_version=read.metadata.resource_version)
    with pytest.raises(failed.Conflict):
        await client.delete(MAPS, "a", here, uid="another")
    assert await client.get(MAPS, "a", here) == now

    new = {**old, "metadata": {"name": "a", "resourceVersion": now.metadata.resource_version}}
    assert (await client.replace(MAPS, "a", here, new)).data == {"x": "3"}
    await client.delete(MAPS, "a", here, uid=now.metadata.uid)


async def test_what_an_object_owns_can_outlive_it(client: Client, here: str) -> None:
    owner = await client.create(MAPS, config_map("owner"), here)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    owned = config_map("owned")
    owned["metadata"]["ownerReferences"] = [reference]
    await client.create(MAPS, owned, here)
    await client.delete(MAPS, "owner", here, propagation=Propagation.ORPHAN, grace_seconds=0)

    async def orphaned() -> bool:
        left = {each["metadata"]["name"]: each["metadata"] for each in (await client.list(untyped_maps, here)).items}
        return "owner" not in left and "ownerReferences" not in left["owned"]

    untyped_maps = MAPS.typed(dict[str, Any])
    await eventually(orphaned, why="the owner is gone and what it owned is its own")


async def test_lists_are_filtered_and_paged(client: Client, here: str) -> None:
    for number in range(5):
        await client.create(MAPS, config_map(f"n{number}"), here)
    page = await client.list(MAPS, here, label_selector="made-by=test", limit=2)
    assert ([each.metadata.name for each in page.items], page.remaining) == (["n0", "n1"], None)
    rest = await client.list(MAPS, here, label_selector="made-by=test", limit=9, continue_token=page.continue_token)
    assert [each.metadata.name for each in rest.items] == ["n2", "n3", "n4"]
    assert rest.resource_version == page.resource_version, "both are of one moment"
    one = await client.list(MAPS, here, field_selector="metadata.name=n3")
    assert [each.metadata.name for each in one.items] == ["n3"]
    assert len((await client.list(MAPS)).items) > 6, "of all namespaces"
    sizes = [len(page.items) async for page in client.pages(MAPS, here, limit=4)]

    assert sizes == [4, 2]


async def test_kinds_outside_namespaces_have_none(client: Client) -> None:
    nodes = await client.list(NODES)
    name = nodes.items[0].metadata.name

    assert (await client.get(NODES, name)).metadata.uid == nodes.items[0].metadata.uid
    with pytest.raises(ValueError, match="Node is not in a namespace, but default was given"):
        await client.get(NODES, name, "default")
    with pytest.raises(ValueError, match="ConfigMap a is in a namespace: say which"):
        await client.get(MAPS, "a")
    with pytest.raises(ValueError, match="ConfigMap is in a namespace: say which"):
        await client.create(MAPS, config_map("a"))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a%2Fb"])
def test_a_name_that_would_leave_its_place_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of an object"):
        MAPS.path("default", name)
    with pytest.raises(ValueError, match="cannot be the name of an object"):
        MAPS.path(name)


def test_paths_are_those_of_the_api() -> None:
    assert MAPS.path() == "/api/v1/configmaps"
    assert JOBS.path("n", "j", "status") == "/apis/batch/v1/namespaces/n/jobs/j/status"
    roles = untyped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
    assert roles.path(None, "system:node") == "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node"
    assert MAPS.path("n", "ü?#") == "/api/v1/namespaces/n/configmaps/%C3%BC%3F%23"


async def test_anything_else_can_be_asked_for(client: Client, here: str) -> None:
    assert json.loads(await client.raw("GET", "/version"))["minor"] == "36"
    await client.create(MAPS, config_map("a"), here)
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    answer = json.loads(await client.raw("GET", MAPS.path(here), accept=table))

    assert answer["kind"] == "Table"


async def test_a_watch_says_what_happens_until_it_ends(client: Client, here: str) -> None:
    before = await client.list(MAPS, here)
    await client.create(MAPS, config_map("a", x="1"), here)
    await client.patch(MAPS, "a", here, {"data": {"x": "2"}})
    await client.delete(MAPS, "a", here)
    watch = client.watch(MAPS, here, resource_version=before.resource_version, timeout_s=1)
    events = [event async for event in watch]

    kinds = [event.type for event in events if event.type is not EventType.BOOKMARK]
    assert kinds == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]
    assert [event.object.data["x"] for event in events if event.object] == ["1", "2", "2"]
    assert all(event.object is None for event in events if event.type is EventType.BOOKMARK)


async def test_a_watch_from_a_version_that_never_was_is_refused_at_its_first_step(client: Client, here: str) -> None:
    watch = client.watch(MAPS, here, resource_version="not a version", timeout_s=1)
    with pytest.raises(failed.ServerError, match='resourceVersion: Invalid value: "not a version"'):
        await anext(watch)


async def test_an_object_of_a_megabyte_passes_in_one_event(client: Client, here: str) -> None:
    big = "x" * 1_000_000
    await client.create(MAPS, config_map("big", x=big), here)
    async with client.watch(MAPS, here, send_initial_events=True) as watch:
        events = []
        async for event in watch:
            events.append(event)
            if event.initial_end:
                break

    sizes = {event.object.metadata.name: len(event.object.data.get("x", "")) for event in events if event.object}
    assert sizes["big"] == 1_000_000
    assert events[-1].type is EventType.BOOKMARK


async def test_an_error_in_the_stream_comes_after_the_events_before_it(control_plane: Cluster, here: str) -> None:
    async with Proxy.to(control_plane) as proxy, connected(proxy.kubeconfig) as client:
        seen = []

        async def follow() -> None:
            async with client.watch(MAPS, here, send_initial_events=True) as watch:
                async for event in watch:
                    seen.append(event.type)
                    if event.initial_end:
                        proxy.expire_watches()

        with pytest.raises(failed.Gone) as raised:
            await follow()

    assert seen == [EventType.ADDED, EventType.BOOKMARK]
    assert (raised.value.status, raised.value.reason) == (410, "Expired")


async def test_refusals_of_the_server_have_their_own_kinds(client: Client, here: str) -> None:
    await client.create(MAPS, config_map("a"), here)
    with pytest.raises(failed.AlreadyExists) as exists:
        await client.create(MAPS, config_map("a"), here)
    assert (exists.value.status, exists.value.retry) == (409, Retry.NO)
    with pytest.raises(failed.Invalid) as invalid:
        await client.create(MAPS, config_map("Not A Name"), here)
    assert [cause.field for cause in invalid.value.causes] == ["metadata.name"]
    with pytest.raises(failed.BadRequest):
        await client.patch(MAPS, "a", here, b"{not json")
    namespaces = untyped("", "v1", "namespaces", "Namespace", namespaced=False)
    await client.create(namespaces, {"metadata": {"name": f"{here}-x", "finalizers": ["tests.usher.dev/x"]}})
    await client.delete(namespaces, f"{here}-x")
    with pytest.raises(failed.Forbidden, match="unable to create new content in namespace"):
        await client.create(MAPS, config_map("late"), f"{here}-x")
    await client.patch(namespaces, f"{here}-x", None, {"metadata": {"finalizers": None}})
    with pytest.raises(failed.NotFound):
        await client.list(untyped("no.such.group", "v1", "things", "Thing", namespaced=False))


class Strange(Object, frozen=True, kw_only=True):
    """No object of the API is like this."""

    metadata: int


async def test_an_object_that_is_not_of_its_type_is_named(client: Client, here: str) -> None:
    await client.create(MAPS, config_map("a"), here)
    with pytest.raises(failed.Undecodable, match=rf"^{here}/a: Expected `int`"):
        await client.get(MAPS.typed(Strange), "a", here)


ANSWERS: dict[str, tuple[Answer, type[KubeError], Retry, float | None]] = {
    "throttled": (Answer(429, retry_after=7), failed.Throttled, Retry.LATER, 7.0),
    "failing": (Answer(500), failed.ServerError, Retry.UNKNOWN, None),
    "bad gateway": (Answer(502), failed.ServerError, Retry.UNKNOWN, None),
    "unavailable": (Answer(503, retry_after=1), failed.Unavailable, Retry.UNKNOWN, 1.0),
    "timed out": (Answer(504), failed.Timeout, Retry.UNKNOWN, None),
    "an etcd that is slow": (Answer(500, "ServerTimeout"), failed.Timeout, Retry.UNKNOWN, None),
    "gone": (Answer(410), failed.Gone, Retry.AFRESH, None),
    "a teapot": (Answer(418), failed.BadRequest, Retry.NO, None),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_a_server_in_trouble_is_reported_once_with_what_may_be_done(
    control_plane: Cluster, here: str, case: str
) -> None:
    answer, kind, retry, after = ANSWERS[case]
    async with Proxy.to(control_plane) as proxy, connected(proxy.kubeconfig) as client:
        proxy.rule(answer)
        with pytest.raises(KubeError) as raised:
            await client.create(MAPS, config_map("a"), here)

        error = raised.value
        assert (type(error), error.status, error.retry, error.retry_after_s) == (kind, answer.status, retry, after)
        assert error.message == "said the proxy"
        assert len(proxy.seen) == 1


WRITES = {
    "POST": lambda client, here: client.create(MAPS, config_map("a"), here),
    "PUT": lambda client, here: client.replace(MAPS, "b", here, config_map("b", x="1")),
    "PATCH": lambda client, here: client.patch(MAPS, "b", here, {"data": {"x": "1"}}),
    "DELETE": lambda client, here: client.delete(MAPS, "b", here),
}


@pytest.mark.parametrize("method", WRITES)
async def test_a_write_whose_answer_is_lost_is_not_sent_again(control_plane: Cluster, here: str, method: str) -> None:
    async with Proxy.to(control_plane) as proxy, connected(proxy.kubeconfig) as client:
        await client.create(MAPS, config_map("b"), here)  # so that a connection is there, and reused
        proxy.rule(LOSE_ANSWER, method=method)
        with pytest.raises(failed.ConnectionLost) as raised:
            await WRITES[method](client, here)

        assert raised.value.sent
        assert raised.value.retry is Retry.UNKNOWN
        lost = [request for request in proxy.seen if request.fault == LOSE_ANSWER]
        assert [(request.method, request.status) for request in lost] == [(method, 201 if method == "POST" else 200)]


async def test_a_read_on_a_connection_that_broke_is_repeated_once(control_plane: Cluster, here: str) -> None:
    async with Proxy.to(control_plane) as proxy, connected(proxy.kubeconfig) as client:
        await client.create(MAPS, config_map("a"), here)
        proxy.rule(CUT, method="GET", times=1)
        assert (await client.get(MAPS, "a", here)).metadata.name == "a"
        proxy.rule(CUT, method="GET", times=2)
        with pytest.raises(failed.ConnectionLost):
            await client.get(MAPS, "a", here)

        assert proxy.count("GET") == 4


async def test_a_server_that_is_not_there_certainly_did_nothing(control_plane: Cluster, here: str) -> None:
    async with Proxy.to(control_plane) as proxy, connected(proxy.kubeconfig) as client:
        await proxy.down()
        with pytest.raises(failed.ConnectionLost) as raised:
            await client.create(MAPS, config_map("a"), here)

        assert not raised.value.sent
        assert raised.value.retry is Retry.LATER


async def test_a_server_that_does_not_answer_in_time_may_have_done_it(control_plane: Cluster, here: str) -> None:
    async with Proxy.to(control_plane) as proxy, connected(proxy.kubeconfig, timeout_s=0.5) as client:
        late = asyncio.Event()
        proxy.rule(Hold(late), method="POST", times=1)
        with pytest.raises(failed.Timeout, match=r"POST .*/configmaps.*: no answer in time") as raised:
            await client.create(MAPS, config_map("a"), here)
        late.set()

        assert raised.value.retry is Retry.UNKNOWN


async def test_an_answer_that_is_no_status_is_shown_as_it_is() -> None:
    error = failed.from_answer(502, b"<html>bad gateway</html>")
    assert (type(error), str(error)) == (failed.ServerError, "<html>bad gateway</html>")
    assert str(failed.from_answer(503, b"")) == "the server answered 503 without saying why"
    assert failed.from_answer(429, b"{}", "3").retry_after_s == 3.0


def test_only_the_transport_knows_the_http_library() -> None:
    home = Path(usher.kube.__file__).parent
    users = set()
    for path in home.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] in ("aiohttp", "yarl", "multidict") for name in names):
                users.add(path.name)

    assert users == {"transport.py"}
