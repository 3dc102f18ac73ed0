"""A quota that says whose it is: others may not be charged to it, nor to what hangs below it."""

from __future__ import annotations

import pytest

from usher.core.ledger import Node
from usher.core.model import Quota
from usher.core.world import open_to


def chain(*quotas: Quota) -> Node:
    """The last of quotas that hang on each other."""
    node = Node(Quota("root"), None)
    for quota in quotas:
        node = Node(quota, node)
    return node


A, B = frozenset({"a"}), frozenset({"b"})
CASES = {
    "a quota that is nobody's": ((Quota("q"),), True),
    "a quota that only charges others by default": ((Quota("q", namespaces=B),), True),
    "one's own": ((Quota("q", namespaces=A, closed=True),), True),
    "somebody else's": ((Quota("q", namespaces=B, closed=True),), False),
    "one that selects nobody at present": ((Quota("q", closed=True),), False),
    "below one's own": ((Quota("p", namespaces=A, closed=True), Quota("q", "p")), True),
    "below somebody else's": ((Quota("p", namespaces=B, closed=True), Quota("q", "p")), False),
    "one's own below somebody else's": (
        (Quota("p", namespaces=B, closed=True), Quota("q", "p", namespaces=A, closed=True)),
        True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_nearest_quota_that_says_whose_it_is_decides(name: str) -> None:
    quotas, want = CASES[name]

    assert open_to(chain(*quotas), "a") is want
