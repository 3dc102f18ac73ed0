"""A short busy day in a real engine: what every plug-in must live through.

The harness checks the engine's invariants after every call, so a plug-in that confuses the engine fails here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NoReturn, TypeVar

from usher.core.model import Unit
from usher.core.phases import FINISHED
from usher.core.plugins import Plugins
from usher.testing.builders import pods, queue, quota, tenant, unit
from usher.testing.harness import Harness

T = TypeVar("T")

STEPS_MAX = 200
"""A day that goes on longer will never end."""


def a_day(plugins: Plugins, *more: Unit, policy: str = "Priority", restart: Plugins | None = None) -> Harness:
    """Two teams and a guest on 10 cpus: lending, taking back, gangs, elastic units, perhaps a restart with these."""
    play = Harness(
        quota("teams"),
        *tenant("red", policy, parent="teams", min={"cpu": 2}, preempts=True),
        *tenant("blue", policy, parent="teams", weight=2),
        queue("usher-system/all", policy, shared=True),
        quota("guest", max={"cpu": 6}, namespaces=["guest"]),
        cpu=10,
        memory="100Gi",
        plugins=plugins,
    )
    play.submit(unit("blue/stretch", count=2, least=1, elastic=True, cpu=1, priority=9))
    play.submit(*(unit(f"blue/{n}", cpu=1, memory="1Gi", priority=n % 3) for n in range(12)))
    play.advance(60)
    play.apply(unit("blue/stretch", count=1, elastic=True, cpu=1, priority=9))
    play.submit(*(unit(f"red/{n}", cpu=2, priority=-n) for n in range(4)))
    play.submit(unit("red/gang", priority=7, pods=(pods("driver", 1, cpu=1), pods("worker", 2, cpu=1))))
    play.submit(unit("guest/elastic", queue="all", count=4, least=1, elastic=True, cpu=1))
    play.submit(unit("guest/nothing", queue="all", count=0, cpu=1), unit("guest/never", queue="all", cpu=7), *more)
    play.advance(60)
    play.finish(*play.running[:3])
    play.capacity(cpu=8, memory="100Gi")
    play.submit(unit("blue/late", cpu=3, memory="50Gi"), unit("red/free", count=2))
    if restart is not None:
        assert play.engine.problems() == []
        play.restart(restart)
    play.advance(900)
    return play


def to_the_end(play: Harness) -> Harness:
    """Finish what runs until nothing does."""
    for _ in range(STEPS_MAX):
        if not play.running:
            return play
        play.finish(play.running[0])
        play.advance(1)
    raise AssertionError(f"after {STEPS_MAX} units have finished, there still are {play.running}")


def unfinished(play: Harness) -> list[str]:
    return sorted(key for key, each in play.engine.world.units.items() if each.phase not in FINISHED)


class Failing:
    """A plug-in of which one method raises; everything else is as it was."""

    def __init__(self, plugin: Any, method: str) -> None:
        self.plugin = plugin
        self.method = method
        self.raised = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.plugin, name)
        return self._raise if name == self.method else found

    def _raise(self, *args: Any) -> NoReturn:
        self.raised = True
        raise RuntimeError("out of order")


class Conformance(ABC, Generic[T]):
    """What holds for plug-ins of every kind."""

    METHODS: tuple[str, ...] = ()
    """What the engine calls."""
    examples: Sequence[Unit] = ()
    """Units that mean something to this plug-in (by their labels, say); they are tried besides the suite's own."""

    @abstractmethod
    def make(self) -> T:
        """A new plug-in; the author of the plug-in says how."""

    @abstractmethod
    def chosen(self, plugin: Any) -> Plugins:
        """An engine's plug-ins with this one among them; each kind's suite says how."""

    def unused(self) -> tuple[str, ...]:
        """Methods that the engine need not call on a short day."""
        return ()

    def day(self, plugin: Any, restart: bool = True) -> Harness:
        again = self.chosen(self.make()) if restart else None
        return a_day(self.chosen(plugin), *self.examples, restart=again)

    def must_end(self, play: Harness) -> None:
        """Everything ends, but what asks for more than there is."""
        left = set(unfinished(play)) - {unit.key for unit in self.examples}
        assert left == {"guest/never"}, f"units never started: {left - {'guest/never'}}"

    def test_it_has_a_name_that_can_be_chosen(self) -> None:
        name = self.make().name  # type: ignore[attr-defined]

        assert isinstance(name, str), f"a name is a text, not {name!r}"
        assert name == name.strip() != "", f"{name!r} cannot be chosen in a configuration"
        assert "," not in name, f"{name!r}: a comma separates names"
        assert self.make().name == name, "it is named otherwise the next time"  # type: ignore[attr-defined]

    def test_a_real_engine_works_with_it_and_never_sees_it_raise(self) -> None:
        play = self.day(self.make())

        to_the_end(play)

        assert play.engine.problems() == []
        self.must_end(play)

    def test_an_engine_names_it_when_it_raises_and_goes_on(self) -> None:
        for method in self.METHODS:
            failing = Failing(self.make(), method)
            play = to_the_end(self.day(failing, restart=False))

            self.must_end(play)
            if failing.raised:
                name = failing.plugin.name
                assert play.engine.problems() == [f"plug-in {name} is disabled: it raised RuntimeError: out of order"]
            else:
                assert method in self.unused(), f"the engine never called {method}"
