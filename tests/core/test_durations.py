"""Durations as people write them."""

import pytest

from usher.core.durations import DurationError, exact_text, format_ms, parse_ms


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("500ms", 500),
        ("1.5h", 5_400_000),
        ("2m0.25s", 120_250),
        ("1d", 86_400_000),
        ("10", 10_000),
        ("0.5", 500),
        (10, 10_000),
        (0.1, 100),
        ("0", 0),
        ("1us", 1),
        (" 3s ", 3_000),
    ],
)
def test_a_duration_becomes_whole_milliseconds(given: object, want: int) -> None:
    assert parse_ms(given) == want


@pytest.mark.parametrize("given", ["", "soon", "5 m", "-3s", "10x", "s", "1h-3m", None, True, [], "200000d", "1e9s"])
def test_what_is_not_a_duration_is_refused_with_what_it_said(given: object) -> None:
    with pytest.raises(DurationError):
        parse_ms(given)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (0, "0s"),
        (250, "250ms"),
        (1_000, "1s"),
        (7_321, "7.3s"),
        (90_000, "1m30s"),
        (7_500_000, "2h5m"),
        (90_000_000, "1d1h"),
    ],
)
def test_a_duration_is_printed_for_people(given: int, want: str) -> None:
    assert format_ms(given) == want


@pytest.mark.parametrize("given", [5, "5", 0.5, "1.5", " 10 "])
def test_where_a_unit_is_needed_a_plain_number_is_refused(given: object) -> None:
    with pytest.raises(DurationError, match="has no unit: write"):
        parse_ms(given, plain=False)


@pytest.mark.parametrize("given", [0, "0", "0s", 0.0])
def test_zero_needs_no_unit(given: object) -> None:
    assert parse_ms(given, plain=False) == 0


@pytest.mark.parametrize(
    ("given", "want"), [(0, "0s"), (90_000, "1m30s"), (1_500, "1s500ms"), (90_061_001, "1d1h1m1s1ms"), (600_000, "10m")]
)
def test_a_duration_is_printed_exactly(given: int, want: str) -> None:
    assert exact_text(given) == want
    assert parse_ms(want) == given
