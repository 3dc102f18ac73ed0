"""What the loop counts."""

from __future__ import annotations

import pytest

from usher.runtime.lag import watch_lag
from usher.runtime.numbers import SIZES, Histogram, Numbers


@pytest.mark.parametrize(("value", "bucket"), [(0, 0), (1, 0), (1.5, 1), (2, 1), (10_000, 12), (10_001, 13)])
def test_an_observation_counts_in_the_first_bucket_that_is_large_enough(value: float, bucket: int) -> None:
    histogram = Histogram(SIZES)
    histogram.observe(value)

    assert [i for i, count in enumerate(histogram.counts) if count] == [bucket]
    assert (histogram.count, histogram.total) == (1, value)


def test_what_happened_is_counted_by_queue() -> None:
    numbers = Numbers()
    numbers.admitted("ns/a", 2_000)
    numbers.admitted("ns/a", 4_000)
    numbers.admitted("ns/b", 0)
    numbers.evicted("ns/a", "Reclaimed")
    numbers.ended("ns/b", "Succeed")
    numbers.started("ns/b", 1_500)
    numbers.decided(0.01, 7, {"Admit": 2, "Evict": 1})
    numbers.decided(0.02, 1, {"Admit": 1})
    numbers.requested("PATCH", "queueunits/status", 200, 0.003)

    assert numbers.admissions == {"ns/a": 2, "ns/b": 1}
    assert (numbers.waits["ns/a"].count, numbers.waits["ns/a"].total) == (2, 6.0)
    assert numbers.evictions == {("ns/a", "Reclaimed"): 1}
    assert numbers.finished == {("ns/b", "Succeed"): 1}
    assert numbers.starts["ns/b"].total == 1.5
    assert (numbers.decisions.count, numbers.batches.total) == (2, 8)
    assert numbers.commands == {"Admit": 3, "Evict": 1}
    assert numbers.requests == {("PATCH", "queueunits/status", 200): 1}


def test_a_queue_that_is_gone_leaves_nothing_behind() -> None:
    numbers = Numbers()
    for queue in ("ns/a", "ns/b"):
        numbers.admitted(queue, 1)
        numbers.started(queue, 1)
        numbers.evicted(queue, "Reclaimed")
        numbers.ended(queue, "Failed")
    numbers.forget_queue("ns/a")
    numbers.forget_queue("ns/never")

    assert list(numbers.admissions) == list(numbers.waits) == list(numbers.starts) == ["ns/b"]
    assert [queue for queue, _ in [*numbers.evictions, *numbers.finished]] == ["ns/b", "ns/b"]


async def test_lag_is_how_much_later_than_asked_the_loop_came_back() -> None:
    numbers, now, late = Numbers(), 0.0, [0.0, 0.25, 0.0]

    async def sleep(seconds: float) -> None:
        nonlocal now
        if not late:
            raise RuntimeError("enough")
        now += seconds + late.pop(0)

    with pytest.raises(RuntimeError, match="enough"):
        await watch_lag(numbers, 0.5, clock=lambda: now, sleep=sleep)

    assert (numbers.lag.count, numbers.lag.total, numbers.lag_last) == (3, 0.25, 0.0)
