"""One scenario, one or several runs: each with its share policy and settings, on an engine of its own.

Called by the command line; the progress is for people who wait.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from usher.core.engine import Engine
from usher.core.invariants import violations
from usher.core.model import Settings
from usher.policies.registry import PluginError, UnknownPluginError, plugins
from usher.sim.cluster import Limits, Simulation
from usher.sim.outcome import Outcome, outcome
from usher.sim.problems import BadInputError
from usher.sim.scenario import Scenario

Progress = Callable[[str, int, int, int], None]
"""Told the run's name, how much of the scenario has happened, how much there is, and the virtual time."""


def run_all(
    scenario: Scenario,
    shares: Sequence[str],
    settings: Sequence[tuple[Mapping[str, str], Settings]],
    limits: Limits,
    progress: Progress | None = None,
    checked: bool = False,
) -> list[Outcome]:
    """Every share policy with every setting.

    Raises BadInputError if there is no such policy, or a plug-in cannot be loaded.
    `checked`: the engine's invariants are looked at after every instant, which is slow.
    """
    found = []
    for share in shares:
        for chosen, setting in settings:
            found.append(_run(scenario, share, chosen, setting, limits, progress, checked))
    return found


def _run(
    scenario: Scenario,
    share: str,
    chosen: Mapping[str, str],
    setting: Settings,
    limits: Limits,
    progress: Progress | None,
    checked: bool,
) -> Outcome:
    try:
        engine = Engine(setting, plugins(share=share))
    except UnknownPluginError as error:
        raise BadInputError([f"--share: {error}"]) from None
    except PluginError as error:
        raise BadInputError([str(error)]) from None
    total = 2 * len(scenario.works) + len(scenario.happenings)
    told = None if progress is None else (lambda moved, now: progress(share, moved, total, now))
    simulation = Simulation(scenario, engine, limits, told, (lambda: violations(engine)) if checked else None)
    with _no_needless_collections():
        simulation.run()
    return outcome(simulation, share, chosen)


@contextmanager
def _no_needless_collections() -> Iterator[None]:
    """A run makes millions of small values and no cycles worth looking for every few thousand of them."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(200_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
