"""A quota that does not lend keeps its `min` for itself, even while it is idle."""

from __future__ import annotations

from usher.core.model import Queue, Quota
from usher.testing.builders import amounts, quota, tenant, unit
from usher.testing.harness import Harness


def keeper(least: int = 4, name: str = "k", parent: str = "") -> tuple[Queue, Quota]:
    return tenant(name, min={"cpu": least}, lends=False, parent=parent)


def play(*objects: Queue | Quota, cpu: int = 10) -> Harness:
    return Harness(*objects, cpu=cpu)


def test_nobody_else_uses_its_idle_min() -> None:
    it = play(*keeper(), *tenant("b"))
    it.submit(*(unit(f"b/{i}", cpu=1) for i in range(10)))

    assert len(it.running) == 6
    assert it.why("b/6") == "Guaranteed"
    assert it.deserved("k") == amounts(cpu=4), "its whole min counts as demand"


def test_its_min_is_there_at_once_when_it_wants_it() -> None:
    it = play(*keeper(), *tenant("b"))
    it.submit(*(unit(f"b/{i}", cpu=1) for i in range(10)))

    it.submit(unit("k/own", cpu=4))

    assert "k/own" in it.running
    assert it.evictions == []


def test_it_may_borrow_like_everybody_beyond_its_min() -> None:
    it = play(*keeper(), *tenant("b"))
    it.submit(unit("k/large", cpu=9))
    assert it.running == ["k/large"]


def test_what_it_uses_counts_towards_its_min() -> None:
    it = play(*keeper(), *tenant("b"))
    it.submit(unit("k/part", cpu=3))
    it.submit(*(unit(f"b/{i}", cpu=1) for i in range(10)))

    assert len(it.running) == 1 + 6, "one cpu of the min is still kept"


def test_its_min_is_kept_below_the_max_of_a_parent_too() -> None:
    it = play(quota("p", max={"cpu": 6}), *keeper(parent="p"), *tenant("b", parent="p"), *tenant("c"))
    it.submit(*(unit(f"b/{i}", cpu=1) for i in range(10)))
    assert len(it.running) == 2
    it.submit(*(unit(f"c/{i}", cpu=1) for i in range(10)))
    assert len(it.running) == 2 + 4


def test_a_claim_starts_although_another_quota_keeps_its_min() -> None:
    """The room kept for the claimant was counted against the claimant itself, so it never started."""
    it = play(*tenant("a"), *tenant("b"), *keeper(2))
    it.submit(*(unit(f"b/{i}", cpu=1) for i in range(8)))

    it.submit(unit("a/claims", cpu=4))

    assert "a/claims" in it.running
    assert len(it.evictions) == 4
    assert it.nominated == []


def test_nobody_is_evicted_for_room_that_would_be_kept_anyway() -> None:
    """Guarantees of 6 on 4 cpus: b deserves one, but what k gives up stays k's; b claimed it again and again."""
    it = play(*keeper(4), *tenant("b", min={"cpu": 2}), cpu=4)
    it.submit(*(unit(f"k/{i}", cpu=1) for i in range(4)))

    it.submit(unit("b/waits", cpu=1))

    assert it.evictions == []
    assert it.waiting == ["b/waits"]


def test_what_it_borrows_beyond_its_min_can_be_claimed() -> None:
    it = play(*keeper(4), *tenant("b"))
    it.submit(*(unit(f"k/{i}", cpu=1) for i in range(10)))

    it.submit(unit("b/claims", cpu=5))

    assert "b/claims" in it.running
    assert len([key for key in it.running if key.startswith("k/")]) == 5


def test_a_unit_that_does_not_fit_beside_idle_mins_is_never_head() -> None:
    """It can start only if somebody changes a quota, so it must not hold up its queue meanwhile."""
    it = play(*keeper(4), *tenant("b", "FIFO"))
    it.submit(unit("b/large", cpu=7))
    it.submit(unit("b/small", cpu=6))

    assert it.running == ["b/small"]
    assert it.why("b/large") == "NeverFits"
    assert "4 kept by quotas that do not lend" in it.text("b/large")
    it.apply(quota("k", min={"cpu": 3}, lends=False))
    it.finish("b/small")
    assert it.running == ["b/large"]


def test_its_own_large_unit_is_not_stopped_by_its_own_min() -> None:
    it = play(*keeper(4))
    it.submit(unit("k/large", cpu=10))
    assert it.running == ["k/large"]


def test_what_is_its_own_anyway_is_not_claimed_again() -> None:
    """k asks for 6, of which 4 are kept for it: one unit of 2 must go, not three."""
    it = play(*keeper(4), *tenant("b"), cpu=14)
    it.submit(*(unit(f"b/{i}", cpu=2) for i in range(5)))

    it.submit(unit("k/claims", cpu=6))

    assert "k/claims" in it.running
    assert len(it.evictions) == 1


def test_mins_that_exceed_the_capacity_leave_each_at_least_its_own_use() -> None:
    it = play(*keeper(4, "k"), *keeper(4, "m"), cpu=6)
    it.submit(unit("k/a", cpu=4))
    it.submit(unit("m/a", cpu=4))

    assert it.running == ["k/a"]
    assert it.evictions == []
    it.finish("k/a")
    assert it.running == ["m/a"]
