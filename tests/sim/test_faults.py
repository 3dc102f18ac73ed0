"""The engine under faults: a fixed corpus of seeds, and that the harness itself would notice."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from click.testing import CliRunner

from usher.core.commands import Admit, Command, Evict
from usher.core.engine import Engine
from usher.core.events import Event, Refused, UnitChanged, UnitFinished, UnitGone, UnitStopped
from usher.core.phases import Cause
from usher.sim.faults import checks
from usher.sim.faults.__main__ import main
from usher.sim.faults.scenario import run

CORPUS = 150
CHUNK = 10


@pytest.mark.parametrize("first", range(1, CORPUS, CHUNK))
def test_nothing_breaks_whatever_goes_wrong(first: int) -> None:
    found = [failure for seed in range(first, first + CHUNK) if (failure := run(seed)) is not None]

    assert not found, "\n".join(f"{failure.why}\n  replay: {failure.replay}" for failure in found)


def test_a_seed_is_the_same_course_every_time() -> None:
    first: list[str] = []
    second: list[str] = []

    run(5, first.append)
    run(5, second.append)

    assert first == second
    assert len(first) > 100


BROKEN: dict[str, Callable[[Event], Event | None]] = {
    "a refusal that is not heard": lambda event: None if isinstance(event, Refused) else event,
    "an end that is not heard": lambda event: None if isinstance(event, UnitFinished) else event,
    "a stop that is not heard": lambda event: None if isinstance(event, UnitStopped) else event,
    "a deletion that is not heard": lambda event: None if isinstance(event, UnitGone) else event,
    "a past that is not restored": lambda event: (
        replace(event, stored=None) if isinstance(event, UnitChanged) else event
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_engine_that_is_broken_would_be_noticed(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = Engine.handle

    def broken(engine: Engine, events: Sequence[Event], now_ms: int) -> list[Command]:
        return handle(engine, [heard for event in events if (heard := BROKEN[case](event)) is not None], now_ms)

    monkeypatch.setattr(Engine, "handle", broken)

    assert any(run(seed) is not None for seed in range(1, 40))


def test_an_engine_that_admits_without_room_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("usher.core.ledger.Ledger.blocked", lambda *_args, **_kwargs: None)

    assert any(run(seed) is not None for seed in range(1, 20))


def test_a_call_that_admits_and_evicts_one_unit_is_noticed() -> None:
    commands: list[Command] = [Evict("a/b", 1, Cause.RECLAIMED), Admit("a/b", 2, "q", ())]

    with pytest.raises(checks.BrokenError, match="a/b"):
        checks.admitted_or_evicted_once(commands)


def test_the_command_replays_a_seed_with_its_trace() -> None:
    done = CliRunner().invoke(main, ["--seed", "5"])

    assert "CRASH" in done.stdout
    assert "seed 5: " in done.stdout.splitlines()[-1]


def test_the_command_wants_to_know_which_seeds() -> None:
    assert CliRunner().invoke(main, []).exit_code == 2
