"""The cache, its deltas and their folding, without a server: what holds for every course of events."""

import random
from typing import Any

import pytest
from clients import ConfigMap, Mirror
from hypothesis import given
from hypothesis import strategies as st

from usher.kube import EventType, ObjectMeta, WatchEvent
from usher.kube.pacing import Backoff, Pacing
from usher.kube.store import Listing, Store
from usher.kube.subscription import Subscription

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(st.sampled_from(["put", "delete", "replace object", "relist", "take"]), NAMES), max_size=40)


class Server:
    """A server of three objects: every change is a new version."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, ConfigMap] = {}

    def put(self, name: str, *, anew: bool) -> WatchEvent[ConfigMap]:
        self.version += 1
        old = self.objects.get(name)
        uid = str(self.version) if anew or old is None else old.metadata.uid
        metadata = ObjectMeta(name=name, namespace="n", uid=uid, resource_version=str(self.version))
        self.objects[name] = ConfigMap(metadata=metadata, data={"owner": str(self.version % 2)})
        kind = EventType.ADDED if anew or old is None else EventType.MODIFIED
        return WatchEvent(kind, self.objects[name], str(self.version))

    def delete(self, name: str) -> WatchEvent[ConfigMap]:
        self.version += 1
        return WatchEvent(EventType.DELETED, self.objects.pop(name), str(self.version))

    def versions(self) -> dict[tuple[str, str], str]:
        return {("n", name): each.metadata.resource_version for name, each in self.objects.items()}


def made() -> Store[ConfigMap]:
    return Store(lambda each: each, {"owner": lambda each: [each.data["owner"]]})


@given(STEPS, st.randoms(use_true_random=False))
def test_deltas_lead_to_what_the_server_has_however_they_are_taken(steps: Any, chance: random.Random) -> None:
    server, store, subscription = Server(), made(), Subscription[ConfigMap]()
    at_once, in_batches = Mirror(), Mirror()
    for step, name in steps:
        deltas = []
        if step == "take":
            in_batches.take(subscription.take())
            continue
        if step == "relist":
            for other in "abc":  # unseen
                if chance.random() < 0.5:
                    server.put(other, anew=chance.random() < 0.5)
                elif other in server.objects:
                    server.delete(other)
            listing = Listing(store)
            for each in server.objects.values():
                listing.add(each)
            deltas = store.replace(listing, str(server.version))
        elif step == "delete":
            if name in server.objects:
                deltas = store.apply(server.delete(name))
        else:
            deltas = store.apply(server.put(name, anew=step == "replace object"))
        at_once.take(deltas)
        subscription.push(deltas)

        assert store.versions() == at_once.versions() == server.versions()
        assert len(subscription) <= 3
        for owner in "01":
            found = {each.metadata.name for each in store.by_index("owner", owner)}
            assert found == {name for name, each in server.objects.items() if each.data["owner"] == owner}
    in_batches.take(subscription.take())
    assert in_batches.versions() == server.versions()
    assert subscription.take() == []


def test_a_relist_keeps_the_objects_that_did_not_change() -> None:
    server, store = Server(), made()
    store.apply(server.put("a", anew=True))
    kept = store.get("a", "n")
    listing = Listing(store)
    again = server.objects["a"]
    listing.add(ConfigMap(metadata=again.metadata, data=dict(again.data)))

    assert store.replace(listing, "9") == []
    assert store.get("a", "n") is kept
    assert store.resource_version == "9"


def test_a_bookmark_moves_the_version_and_nothing_else() -> None:
    store = made()

    assert store.apply(WatchEvent(EventType.BOOKMARK, None, "17")) == []
    assert (store.resource_version, len(store)) == ("17", 0)


def test_waits_double_up_to_a_limit_and_chance_shortens_them_by_up_to_half() -> None:
    backoff = Backoff(Pacing(first_s=1.0, most_s=8.0, random=random.Random(7)))
    waits = [backoff.next_s() for _ in range(6)]

    for wait, most in zip(waits, [1, 2, 4, 8, 8, 8], strict=True):
        assert most / 2 <= wait <= most
    assert len(set(waits)) == 6
    assert backoff.next_s(at_least=60) == 60
    backoff.reset()
    assert backoff.next_s() <= 1.0


@pytest.mark.parametrize("seed", range(3))
def test_watches_last_between_one_and_two_times_what_is_said(seed: int) -> None:
    pacing = Pacing(watch_s=300, random=random.Random(seed))

    assert all(300 <= pacing.watch_timeout_s() <= 600 for _ in range(50))
