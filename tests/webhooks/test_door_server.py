"""The review server over real TLS: proper answers to whatever is sent; certificates changed while it runs."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import io
import json
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from doorcases import MAIN, TENANT, job
from doorworld import TERMS, World
from hypothesis import given, settings
from hypothesis import strategies as st

from usher.server.listening import CannotListenError
from usher.webhooks import certificates
from usher.webhooks.certificates import Bundle, Due, Lifetimes
from usher.webhooks.review import Allowed, Asked, BadReviewError, Refused, Verdict, answer, read
from usher.webhooks.rules import Rules
from usher.webhooks.server import BODY_MAX, ReviewServer

DAY = dt.timedelta(days=1)
LIVES = Lifetimes(90 * DAY, 3650 * DAY, 30 * DAY)
NOW = dt.datetime.now(dt.UTC)
HOSTS = ("localhost", "127.0.0.1")
RULES = Rules(TERMS, World())
PATIENCE_S = 10.0


def bundle(previous: Bundle | None = None, what: Due = Due.AUTHORITY) -> Bundle:
    return certificates.renewed(previous, what, HOSTS, LIVES, NOW)


def review(**request: Any) -> dict[str, Any]:
    asked = {
        "uid": "u-1",
        "operation": "CREATE",
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "namespace": "team",
        "userInfo": {"username": TENANT, "groups": ["system:authenticated"]},
        "object": job(MAIN),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**asked, **request}}


class Asking:
    """A client of the server that trusts one bundle."""

    def __init__(self, server: ReviewServer, session: aiohttp.ClientSession, trust: ssl.SSLContext) -> None:
        self._server, self._session, self.trust = server, session, trust

    async def post(self, path: str, body: bytes, kind: str = "application/json") -> tuple[int, bytes]:
        url = f"https://127.0.0.1:{self._server.port}{path}"
        async with self._session.post(
            url, data=io.BytesIO(body), headers={"Content-Type": kind}, ssl=self.trust
        ) as response:
            return response.status, await response.read()

    async def ask(self, path: str, said: dict[str, Any]) -> dict[str, Any]:
        status, body = await self.post(path, json.dumps(said).encode())
        assert status == 200, body
        found: dict[str, Any] = json.loads(body)
        return found


@asynccontextmanager
async def serving(
    rules: Any = RULES, keys: Bundle | None = None
) -> AsyncIterator[tuple[Asking, ssl.SSLContext, ReviewServer]]:
    keys = keys or bundle()
    context = certificates.context()
    certificates.load(context, keys)
    trust = ssl.create_default_context(cadata=keys.authorities.decode())
    async with ReviewServer(rules, context, "127.0.0.1", 0) as server, aiohttp.ClientSession() as session:
        yield Asking(server, session, trust), context, server


async def test_a_review_is_answered_with_its_uid_and_a_patch() -> None:
    async with serving() as (asking, _, _):
        answered = await asking.ask("/mutate", review())

    assert (answered["apiVersion"], answered["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answered["response"]
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u-1", True, "JSONPatch")
    patch = json.loads(base64.b64decode(response["patch"]))
    assert {"op": "add", "path": "/spec/suspend", "value": True} in patch


async def test_a_refusal_says_what_to_do() -> None:
    async with serving() as (asking, _, _):
        response = (await asking.ask("/validate", review()))["response"]

    assert (response["allowed"], response["status"]["code"]) == (False, 403)
    assert "leave spec.suspend out" in response["status"]["message"]


async def test_the_path_says_whether_the_namespace_is_managed() -> None:
    pod = review(resource={"group": "", "version": "v1", "resource": "pods"}, namespace="new", object={})
    async with serving() as (asking, _, _):
        assert (await asking.ask("/validate", pod))["response"]["allowed"] is True
        assert (await asking.ask("/validate/managed", pod))["response"]["allowed"] is False


class Handshake:
    """A TLS client by hand, whose last words in the handshake are sent when the test says so."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = trust.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    async def begin(self, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        while not self._done():
            self._writer.write(self._outgoing.read())
            self._incoming.write(await self._reader.read(2**16))

    def _done(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    async def end(self) -> None:
        """Send the rest, and wait until the server hangs up."""
        self._writer.write(self._outgoing.read())
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE_S):
                await self._reader.read()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


async def test_a_handshake_that_ends_after_the_server_has_stopped_leaves_no_connection() -> None:
    async with serving() as (asking, _, server):
        handshake = Handshake(asking.trust)
        await handshake.begin(server.port)
        try:
            await server.stop()
            await handshake.end()
        finally:
            await handshake.close()


async def test_an_old_review_is_answered_in_its_own_version() -> None:
    old = {**review(), "apiVersion": "admission.k8s.io/v1beta1"}
    async with serving() as (asking, _, _):
        answered = await asking.ask("/mutate", old)

    assert answered["apiVersion"] == "admission.k8s.io/v1beta1"
    assert answered["response"]["allowed"] is True


BAD: dict[str, tuple[bytes, str, int]] = {
    "nothing": (b"", "application/json", 400),
    "not JSON": (b"{", "application/json", 400),
    "not UTF-8": (b'{"kind":"\xff"}', "application/json", 400),
    "a list": (b"[]", "application/json", 400),
    "no request": (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "application/json", 400),
    "a request without a uid": (
        json.dumps({**review(), "request": {"operation": "CREATE"}}).encode(), "application/json", 400,
    ),
    "a version of the future": (
        json.dumps({**review(), "apiVersion": "admission.k8s.io/v9"}).encode(), "application/json", 400,
    ),
    "another kind": (json.dumps({**review(), "kind": "Pod"}).encode(), "application/json", 400),
    "an object that is a list": (json.dumps(review(object=[1])).encode(), "application/json", 400),
    "a form": (b"a=b", "application/x-www-form-urlencoded", 415),
    "very deep": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "application/json", 400),
    "too large": (b" " * (BODY_MAX + 1), "application/json", 413),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
async def test_what_is_no_review_gets_a_status_and_the_next_one_an_answer(name: str) -> None:
    body, kind, want = BAD[name]
    async with serving() as (asking, _, _):
        assert (await asking.post("/validate", body, kind))[0] == want
        assert (await asking.ask("/mutate", review()))["response"]["allowed"] is True
        assert (await asking.post("/elsewhere", b"{}"))[0] == 404


async def test_a_huge_object_is_answered() -> None:
    notes = {f"note-{i}": "x" * 1000 for i in range(3000)}
    huge = review(object=job(MAIN, meta={"annotations": notes}))
    async with serving() as (asking, _, _):
        assert (await asking.ask("/mutate", huge))["response"]["allowed"] is True


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": []},
        {"metadata": {"labels": ["x"]}},
        {"metadata": {"labels": {"scheduling.x-k8s.io/queue-name": 7}}},
        {"metadata": {"labels": MAIN, "ownerReferences": "x"}},
        {"metadata": {"labels": MAIN}, "spec": 3},
        {"metadata": {"labels": MAIN}, "spec": {"suspend": True, "template": {"spec": []}}},
        {"metadata": {"labels": {**MAIN, "scheduling.x-k8s.io/priority": "1"}}, "spec": {"suspend": True}},
    ],
)
async def test_an_object_that_is_not_of_its_type_gets_an_answer(wrong: dict[str, Any]) -> None:
    async with serving() as (asking, _, _):
        for path in ("/mutate", "/validate"):
            assert "allowed" in (await asking.ask(path, review(object=wrong)))["response"]


async def test_a_rule_that_fails_is_answered_with_500_and_the_next_one_works(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        def mutate(self, asked: Asked) -> Verdict:
            raise RuntimeError("a bug")

        def validate(self, asked: Asked) -> Verdict:
            return Refused("no")

    async with serving(Failing()) as (asking, _, _):
        status, body = await asking.post("/mutate", json.dumps(review()).encode())
        assert (status, b"a bug" in body) == (500, False)
        assert (await asking.ask("/validate", review()))["response"]["allowed"] is False
    assert "a bug" in caplog.text


async def test_a_new_certificate_is_used_without_a_restart_and_without_a_failed_request() -> None:
    first = bundle()
    second = bundle(first, Due.CERTIFICATE)
    third = bundle(second)
    done = asyncio.Event()
    served = set[str]()
    trust = ssl.create_default_context(cadata=third.authorities.decode())  # old and new authority

    async def look(server: ReviewServer) -> None:
        """Every request is a new handshake."""
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            asking = Asking(server, session, trust)
            while not done.is_set():
                assert (await asking.ask("/mutate", review()))["response"]["allowed"] is True
                served.add(await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", server.port)))

    async with serving(keys=first) as (_, context, server):
        work = [asyncio.ensure_future(look(server)) for _ in range(4)]
        for i, each in enumerate((first, second, third), 1):
            certificates.load(context, each)
            while len(served) < i:
                finished, _ = await asyncio.wait(work, timeout=0.01)
                assert not [task.exception() for task in finished]
        done.set()
        await asyncio.gather(*work)
    assert len(served) == 3


def test_a_certificate_whose_key_does_not_fit_changes_nothing() -> None:
    good, other = bundle(), bundle()
    context = certificates.context()
    certificates.load(context, good)

    with pytest.raises(ssl.SSLError):
        certificates.load(context, Bundle(good.authorities, good.authority_key, good.certificate, other.key))


# -- fuzz -------------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
KEYS = st.sampled_from(["metadata", "spec", "status", "labels", "annotations", "suspend", "template", "parallelism"])
OBJECTS = st.recursive(
    VALUES, lambda inner: st.dictionaries(KEYS | st.text(max_size=8), inner, max_size=6), max_leaves=30
)
RESOURCES = st.sampled_from(
    [("batch", "jobs"), ("", "pods"), ("scheduling.x-k8s.io", "queuequotas"), ("scheduling.x-k8s.io", "queueunits"),
     ("scheduling.x-k8s.io", "queuejobs"), ("apps", "deployments")]
)  # fmt: skip
QUEUED = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"labels": st.just(MAIN)}, optional={"annotations": VALUES}), "spec": OBJECTS}
)


@given(
    path=st.sampled_from(["mutate", "validate"]),
    resource=RESOURCES,
    subresource=st.sampled_from(["", "status"]),
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", "?"]),
    new=OBJECTS | QUEUED,
    old=OBJECTS | QUEUED,
    more=st.dictionaries(st.text(max_size=8), VALUES, max_size=3),
)
@settings(max_examples=200, deadline=None)
def test_whatever_object_comes_there_is_an_answer(
    path: str, resource: tuple[str, str], subresource: str, operation: str, new: Any, old: Any, more: Any
) -> None:
    group, plural = resource
    said = review(
        **{**more, "uid": "u", "operation": operation, "resource": {"group": group, "resource": plural}},
        subResource=subresource, object=new, oldObject=old,
    )  # fmt: skip
    said["request"]["userInfo"], said["request"]["namespace"] = {"username": "x"}, "team"
    try:
        question = read(json.dumps(said).encode())
    except BadReviewError:
        assert not (new is None or isinstance(new, dict)) or not (old is None or isinstance(old, dict)) or more
        return
    verdict = (RULES.mutate if path == "mutate" else RULES.validate)(question.asked)
    assert isinstance(verdict, Allowed | Refused)
    assert msgspec.json.decode(answer(question, verdict))["response"]["uid"] == "u"


@given(st.binary(max_size=300) | VALUES.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=150, deadline=None)
def test_whatever_bytes_come_they_are_a_review_or_are_refused_as_one(body: bytes) -> None:
    with pytest.raises(BadReviewError):
        read(body)


async def test_reviews_that_were_damaged_on_the_way_are_answered_by_the_server() -> None:
    chance = random.Random(7)
    whole = json.dumps(review()).encode()
    statuses = set[int]()
    async with serving() as (asking, _, _):
        for _ in range(400):
            body = bytearray(whole)
            for _ in range(chance.randint(1, 6)):
                at = chance.randrange(len(body))
                match chance.randrange(3):
                    case 0:
                        body[at] = chance.randrange(256)
                    case 1:
                        del body[at : at + chance.randint(1, 40)]
                    case _:
                        body[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 8)))
            statuses.add((await asking.post(chance.choice(["/mutate", "/validate"]), bytes(body)))[0])
        assert (await asking.ask("/mutate", review()))["response"]["allowed"] is True
    assert statuses == {200, 400}


async def test_an_address_that_is_taken_is_an_error_for_people() -> None:
    async with serving() as (_, _, first):
        second = ReviewServer(RULES, certificates.context(), "127.0.0.1", first.port)
        with pytest.raises(CannotListenError, match=f"cannot listen for reviews on https://127.0.0.1:{first.port}: "):
            await second.start()
        assert not second.listening
