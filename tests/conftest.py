"""In which order and where the tests run when several processes do it.

Those that need a control plane of their own come first, because they take longest. Those that install into one stay
with one process: every control plane more is work for the same machine, also while it is idle.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["usher.testing.plugin"]

CLUSTERS = ("bare_cluster", "live_cluster")
TOGETHER = ("tests/install/", "tests/sim/test_sim_week.py")
"""Paths whose tests share what takes long to make."""


class Scheduling(LoadScopeScheduling):
    """Whoever has nothing left to do gets the next test, or the next that belong together."""

    def _split_scope(self, nodeid: str) -> str:
        return next((each for each in TOGETHER if nodeid.startswith(each)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    needed = getattr(item, "fixturenames", ())
    return next((place for place, each in enumerate(CLUSTERS) if each in needed), len(CLUSTERS))
