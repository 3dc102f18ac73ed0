"""The parts of the writer that need no server: whether an object shows a write, and the order of what waits."""

from typing import Any, cast

import pytest
from clients import MAPS
from hypothesis import given
from hypothesis import strategies as st

from usher.kube import Client, PatchKind
from usher.kube.writer_delivery import Delivery, contains, payload
from usher.kube.writer_queue import Entry, Lane, Queue
from usher.kube.writes import Urgency, Verb, Write

SHOWN: dict[str, tuple[Any, Any, bool, bool]] = {
    # what: (the object, the body, whether lists merge, whether it is shown)
    "a field that is as it was sent": ({"a": 1, "b": 2}, {"a": 1}, False, True),
    "a field that is not": ({"a": 2}, {"a": 1}, False, False),
    "a field that is missing": ({}, {"a": 1}, False, False),
    "a field that was removed": ({"b": 1}, {"a": None}, False, True),
    "a field that was to be removed": ({"a": 1}, {"a": None}, False, False),
    "an empty map that the server leaves out": ({}, {"labels": {}}, False, True),
    "a map whose fields were all removed": ({}, {"labels": {"a": None}}, False, True),
    "a map that is missing": ({}, {"labels": {"a": "b"}}, False, False),
    "a list that is equal": ({"l": [1, 2]}, {"l": [1, 2]}, False, True),
    "a list with more in it": ({"l": [1, 2, 3]}, {"l": [1, 2]}, False, False),
    "a list that merges, with more in it": ({"l": [{"n": 1, "x": 0}, {"n": 2}]}, {"l": [{"n": 2}]}, True, True),
    "a list that merges, without it": ({"l": [{"n": 1}]}, {"l": [{"n": 2}]}, True, False),
    "items with defaults of the server": ({"l": [{"n": 1, "d": "x"}]}, {"l": [{"n": 1}]}, False, True),
    "an owner of another uid": ({"o": [{"uid": "1"}]}, {"o": [{"uid": "2"}]}, False, False),
}


@pytest.mark.parametrize(("seen", "sent", "merge", "want"), SHOWN.values(), ids=SHOWN.keys())
def test_an_object_shows_whether_a_write_happened(seen: Any, sent: Any, merge: bool, want: bool) -> None:
    assert contains(seen, sent, lists_merge=merge) is want


def test_the_guard_is_put_where_the_server_checks_it() -> None:
    given_ = {"resource": MAPS, "name": "a", "namespace": "b", "guard": "7", "uid": "u"}
    merge = payload(Write(**given_, verb=Verb.PATCH, body={"metadata": {"labels": {"x": "y"}}}))
    operations = payload(Write(**given_, verb=Verb.PATCH, patch=PatchKind.JSON, body=[{"op": "remove", "path": "/d"}]))

    assert merge == b'{"metadata":{"labels":{"x":"y"},"resourceVersion":"7","uid":"u"}}'
    assert operations is not None
    assert b'{"op":"replace","path":"/metadata/resourceVersion","value":"7"}' in operations


def entry(number: int, name: str, urgency: Urgency, kind: str | None) -> Entry:
    write = Write(resource=MAPS, verb=Verb.PATCH, name=name, namespace="n", body={}, urgency=urgency, coalesce=kind)
    delivery: Delivery[Any] = Delivery(cast(Client, None), write)  # nothing is sent here
    return Entry(delivery, number, lambda outcome: None, lambda error: None, 0.0)


def test_what_nobody_waits_for_stays_while_it_may_not_go() -> None:
    queue = Queue()
    queue.add(entry(1, "a", Urgency.SPARE, None))
    assert queue.take(spare=False) is None
    queue.add(entry(2, "b", Urgency.COSMETIC, None))
    queue.add(entry(3, "c", Urgency.SPARE, None))
    queue.add(entry(4, "c", Urgency.URGENT, None))

    taken = [lane.key[-1] for _ in range(2) if (lane := queue.take(spare=False)) is not None]

    assert taken == ["c", "b"], "a write that somebody waits for lends its urgency to the one before it"
    assert queue.take(spare=False) is None
    last = queue.take()
    assert last is not None
    assert (last.key[-1], last.spare) == ("a", True)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"), st.sampled_from("abc"), st.sampled_from(Urgency), st.sampled_from([None, "status", "spec"])
        ),
        st.tuples(st.just("take")),
        st.tuples(st.just("finish"), st.integers(0, 9)),
        st.tuples(st.just("rest"), st.integers(0, 9)),
        st.tuples(st.just("room"), st.sampled_from(Urgency)),
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_happens_the_queue_keeps_order_and_loses_nothing(steps: list[tuple[Any, ...]]) -> None:
    queue = Queue()
    waiting: dict[str, list[Entry]] = {name: [] for name in "abc"}  # by object, in order, what should be there
    busy: list[Lane] = []
    begun: set[Entry] = set()
    for number, step in enumerate(steps):
        match step:
            case ("add", name, urgency, kind):
                new = entry(number, name, urgency, kind)
                last = waiting[name][-1] if waiting[name] else None
                replaced = queue.add(new)
                if last is not None and kind is not None and last.write.coalesce == kind and last not in begun:
                    assert replaced is last
                    waiting[name].remove(last)
                else:
                    assert replaced is None
                waiting[name].append(new)
            case ("take",):
                free = [w for name, w in waiting.items() if w and all(lane.key[3] != name for lane in busy)]
                lane = queue.take()
                if not free:
                    assert lane is None
                    continue
                assert lane is not None
                best = min(free, key=lambda w: (min(e.write.urgency for e in w), w[0].number))
                assert lane.entries[0] is best[0]
                busy.append(lane)
                begun.add(best[0])
            case ("finish", place) if busy:
                lane = busy.pop(place % len(busy))
                assert queue.finished(lane) is waiting[lane.key[3]].pop(0)
            case ("rest", place) if busy:
                queue.rested(busy.pop(place % len(busy)))
            case ("room", urgency):
                last_ones = [w[-1] for w in waiting.values() if w and w[-1] not in begun]
                worse = [e for e in last_ones if e.write.urgency > urgency]
                dropped = queue.make_room_for(urgency)
                if dropped is None:
                    assert not worse
                    continue
                assert dropped in worse
                assert dropped.write.urgency == max(e.write.urgency for e in worse)
                waiting[dropped.write.name].remove(dropped)
        assert sorted(e.number for e in queue.entries()) == sorted(e.number for w in waiting.values() for e in w)
        expected = [0] * len(Urgency)
        for w in waiting.values():
            for e in w:
                expected[e.write.urgency] += e not in begun
        assert queue.waiting == expected
        assert queue.idle == (not any(waiting.values()))
