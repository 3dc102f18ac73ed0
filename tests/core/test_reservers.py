"""Books next to the ledger: of each holding one reserve, its resizes, one unreserve, whatever happens."""

from __future__ import annotations

from dataclasses import replace

from usher.core import events as e
from usher.core.amounts import Amounts
from usher.core.model import Grant, Stored, Unit
from usher.core.phases import Phase
from usher.core.plugins import Plugins
from usher.policies.registry import plugins
from usher.testing.builders import tenant, unit
from usher.testing.conformance import ReserverConformance
from usher.testing.conformance.day import a_day, to_the_end
from usher.testing.harness import Harness


class Ledger:
    """Reserves for itself, and insists on being told everything once."""

    name = "ledger"

    def __init__(self) -> None:
        self.held: dict[str, Amounts] = {}
        self.log: list[tuple[str, str]] = []

    def reserve(self, unit: Unit, amounts: Amounts) -> None:
        assert unit.key not in self.held, f"{unit.key} is reserved twice"
        self.held[unit.key] = dict(amounts)
        self.log.append(("reserve", unit.key))

    def resize(self, unit: Unit, old: Amounts, new: Amounts) -> None:
        assert self.held[unit.key] == old, f"{unit.key}: {self.held[unit.key]}, not {old}"
        self.held[unit.key] = dict(new)
        self.log.append(("resize", unit.key))

    def unreserve(self, unit: Unit, amounts: Amounts) -> None:
        assert self.held.pop(unit.key) == amounts
        self.log.append(("unreserve", unit.key))

    def agrees(self, play: Harness) -> None:
        assert play.engine.problems() == []
        assert self.held == {key: each.charged for key, each in play.engine.world.units.items() if each.grants}


class TestLedger(ReserverConformance):
    def make(self) -> Ledger:
        return Ledger()


def kept(books: Ledger) -> Plugins:
    return replace(plugins(points=()), reservers=(books,))


def test_a_holding_is_reserved_resized_and_given_back() -> None:
    books = Ledger()
    play = Harness(*tenant("a"), cpu=4, plugins=kept(books))
    play.submit(unit("a/now", cpu=3), unit("a/grows", count=3, least=1, elastic=True, cpu=1))
    play.finish("a/now")
    play.finish("a/grows")

    assert [what for what, key in books.log if key == "a/grows"] == ["reserve", "resize", "unreserve"]
    books.agrees(play)


def test_a_unit_that_starts_with_nothing_is_reserved_once_and_then_grows() -> None:
    books = Ledger()
    play = Harness(*tenant("a"), cpu=4, plugins=kept(books))
    play.submit(unit("a/now", cpu=4))
    play.submit(unit("a/e", count=2, least=0, elastic=True, cpu=1))
    assert books.held["a/e"] == {}
    play.finish("a/now")
    assert books.held["a/e"] == {"cpu": 2000}
    play.finish("a/e")

    assert [what for what, key in books.log if key == "a/e"] == ["reserve", "resize", "unreserve"]
    books.agrees(play)


def test_after_a_restart_new_books_have_what_is_held() -> None:
    play = Harness(*tenant("a"), cpu=4, plugins=kept(Ledger()))
    play.submit(unit("a/now", cpu=3), unit("a/waits", cpu=3))
    books = Ledger()
    play.restart(kept(books))

    assert books.log == [("reserve", "a/now")]
    books.agrees(play)
    play.finish("a/now")
    assert books.log == [("reserve", "a/now"), ("unreserve", "a/now"), ("reserve", "a/waits")]
    books.agrees(play)


def test_a_new_tree_is_no_news_to_the_books() -> None:
    books = Ledger()
    play = Harness(*tenant("a"), cpu=4, plugins=kept(books))
    play.submit(unit("a/now", cpu=3))
    play.apply(*tenant("b"))
    play.capacity(cpu=9)

    assert books.log == [("reserve", "a/now")]
    books.agrees(play)


def test_what_is_gone_before_it_got_its_place_again_is_given_back() -> None:
    books = Ledger()
    play = Harness(*tenant("a"), cpu=4, plugins=kept(books))
    spec = replace(unit("a/x", cpu=1), queue="a", created_ms=1, seq=1)
    stored = Stored(phase=Phase.RUNNING, quota="a", grants=(Grant("main", 1),), generation=1)
    play.send(e.UnitChanged(spec, stored), e.UnitGone("a/x"))

    assert books.log == [("reserve", "a/x"), ("unreserve", "a/x")]
    books.agrees(play)


def test_on_a_busy_day_with_a_restart_the_books_balance() -> None:
    before, after = Ledger(), Ledger()
    play = a_day(kept(before), restart=kept(after))
    after.agrees(play)
    to_the_end(play)

    after.agrees(play)
    assert after.held == {}
    assert {what for what, _ in [*before.log, *after.log]} == {"reserve", "resize", "unreserve"}
