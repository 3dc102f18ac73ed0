"""Elastic and fixed units of random tenants: whoever is within his share gets it from those above theirs."""

from __future__ import annotations

from random import Random

import pytest

from usher.core.model import PodSet, Unit
from usher.testing.builders import tenant
from usher.testing.harness import Harness

CPU = 8_000
SEEDS = 60


def some(random: Random, name: str, number: int) -> Unit:
    """A unit that could use much, or a small one of a fixed size."""
    elastic = random.random() < 0.6
    count = random.randint(1, 90) if elastic else random.randint(1, 4)
    pods = PodSet("main", count, {"cpu": random.choice((100, 250, 500))}, min_count=1 if elastic else None)
    return Unit(name, f"u{number}", (pods,), queue=name, elastic=elastic)


class Tenants:
    """What is there, and what each has."""

    def __init__(self, random: Random) -> None:
        self.names = "abcd"[: random.randint(2, 4)]
        parts = [part for name in self.names for part in tenant(name, weight=random.choice((1, 1, 2, 3)))]
        share = random.choice(("drf", "drf", "koordinator", "proportion"))
        self.play = Harness(*parts, share=share, cpu=CPU // 1000)
        self.units: dict[str, Unit] = {}

    def step(self, random: Random, number: int) -> None:
        """Some come, or one ends."""
        if random.random() < 0.7 or not self.units:
            new = [some(random, random.choice(self.names), 3 * number + i) for i in range(random.randint(1, 3))]
            self.units |= {unit.key: unit for unit in new}
            self.play.submit(*new)
        elif (key := random.choice(sorted(self.units))) in self.play.running:
            self.play.finish(key)
            del self.units[key]

    def pods(self, key: str) -> int:
        view = self.play.engine.unit(key)
        return 0 if view is None else sum(grant.count for grant in view.grants)

    def given(self, name: str) -> int:
        """What a tenant could give by shrinking: all that is above his share, but for one part that may not fit."""
        view = next(view for view in self.play.engine.quotas() if view.name == name)
        above = view.used.get("cpu", 0) - view.deserved.get("cpu", 0)
        parts = [
            (self.pods(key) - 1, unit.pod_sets[0].request["cpu"])
            for key, unit in self.units.items()
            if unit.namespace == name and unit.elastic and self.pods(key) > 1
        ]
        if not parts:
            return 0
        most = sum(count * each for count, each in parts)
        return max(0, above - min(each for _, each in parts) + 1) if above < most else most

    def denied(self) -> list[str]:
        """Those that are within their share, and could have more if others shrank."""
        quotas = {view.name: view for view in self.play.engine.quotas()}
        spoken = {name: quotas[name].used.get("cpu", 0) + quotas[name].preempting.get("cpu", 0) for name in self.names}
        free = CPU - sum(spoken.values())
        found = []
        for key, unit in self.units.items():
            (pods,) = unit.pod_sets
            ask = pods.request["cpu"] * (1 if unit.elastic else pods.count)
            wants = self.pods(key) < pods.count
            if wants and spoken[unit.namespace] + ask <= quotas[unit.namespace].deserved.get("cpu", 0):
                others = sum(self.given(name) for name in self.names if name != unit.namespace)
                if others and others + free >= ask:
                    found.append(key)
        return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nobody_is_denied_what_others_would_have_to_give(seed: int) -> None:
    random = Random(seed)
    tenants = Tenants(random)
    for number in range(random.randint(3, 12)):
        tenants.step(random, number)
        assert tenants.denied() == []
