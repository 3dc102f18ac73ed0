"""Quantities are read and printed as Kubernetes does it; `quantities.json` holds what apimachinery v0.36.4 answers.

`parse`: text → [billionths, MilliValue, Value, String] or null where it is refused; a null inside is an int64 overflow.
`print`: [number, NewMilliQuantity, NewQuantity in decimal, NewQuantity in binary], each as String.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from usher.core import amounts
from usher.core.amounts import AMOUNT_MAX, AmountsError, QuantityError

KUBERNETES = json.loads(Path(__file__).with_name("quantities.json").read_text())
ACCEPTED = {text: row for text, row in KUBERNETES["parse"].items() if row is not None}
REFUSED = [text for text, row in KUBERNETES["parse"].items() if row is None]
NANOS_MAX = AMOUNT_MAX * 10**9


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_quantity_is_what_kubernetes_reads(text: str) -> None:
    nanos, milli, value, _ = ACCEPTED[text]
    assert amounts.parse_quantity(text) == max(-NANOS_MAX, min(NANOS_MAX, int(nanos)))
    if int(nanos) >= 0:
        assert amounts.amount("cpu", text) == (AMOUNT_MAX if milli is None else milli)
        assert amounts.amount("memory", text) == (AMOUNT_MAX if value is None else value)
    else:
        with pytest.raises(QuantityError, match="is negative"):
            amounts.amount("cpu", text)


@pytest.mark.parametrize("text", REFUSED)
def test_what_kubernetes_refuses_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        amounts.parse_quantity(text)


@pytest.mark.parametrize("row", KUBERNETES["print"], ids=lambda row: str(row[0]))
def test_an_amount_prints_as_kubernetes_prints_it(row: tuple[int, str, str, str]) -> None:
    number, milli, decimal, binary = row
    assert amounts.format_amount("cpu", number) == milli
    assert amounts.format_amount("nvidia.com/gpu", number) == decimal
    assert amounts.format_amount("memory", number) in {decimal, binary}


@pytest.mark.parametrize("text", [text for text, row in ACCEPTED.items() if row[3] == text and int(row[0]) >= 0])
def test_a_canonical_quantity_comes_back_as_it_was_or_equal(text: str) -> None:
    for resource in ("cpu", "memory", "pods"):
        value = amounts.amount(resource, text)
        assert amounts.amount(resource, amounts.format_amount(resource, value)) == value


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        ("memory", "18Gi"),
        ("memory", "10G"),
        ("memory", "1000Ki"),
        ("memory", "1T"),
        ("memory", "1025"),
        ("ephemeral-storage", "1536Mi"),
        ("storage", "7Ei"),
        ("hugepages-2Mi", "4Mi"),
        ("nvidia.com/gpu", "1k"),
        ("nvidia.com/gpu", "1024"),
        ("cpu", "1500m"),
        ("cpu", "2"),
        ("cpu", "2k"),
    ],
)
def test_bytes_keep_the_suffix_a_person_would_write(resource: str, text: str) -> None:
    assert amounts.format_amount(resource, amounts.amount(resource, text)) == text


def test_sums_beyond_int64_still_print() -> None:
    assert amounts.format_amount("memory", 3 * 10**21) == "3000E"
    assert amounts.format_amount("memory", 2**73) == "8192Ei"


@pytest.mark.parametrize(
    ("number", "nanos"),
    [
        (3, 3 * 10**9),
        (0, 0),
        (-2, -2 * 10**9),
        (1.5, 1500 * 10**6),
        (0.1, 10**8),
        (1e-7, 100),
        (1e22, NANOS_MAX),
        (10**30, NANOS_MAX),
        (-(10**30), -NANOS_MAX),
    ],
)
def test_numbers_are_read_as_their_text(number: float, nanos: int) -> None:
    assert amounts.parse_quantity(number) == nanos


@pytest.mark.parametrize("value", [True, False, None, float("nan"), float("inf"), [], {}, b"1"])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        amounts.parse_quantity(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["1e2147483647", "-1e2000000000", "1e-2147483647"])
def test_a_monstrous_exponent_costs_nothing(text: str) -> None:
    assert abs(amounts.parse_quantity(text)) in {1, NANOS_MAX}


def test_a_monstrous_text_is_refused_in_few_words() -> None:
    with pytest.raises(QuantityError, match="longer than 256") as caught:
        amounts.parse_quantity("9" * 100_000)
    assert len(str(caught.value)) < 200


def test_every_bad_field_is_named_at_once() -> None:
    given = {"cpu": "1K", "memory": "-1Gi", "example.com/gpu": True, "pods": "3", 7: "1"}
    want = (
        'spec.min.cpu: "1K" is not a quantity: no suffix "K"; there are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, '
        "and exponents such as e3",
        'spec.min.memory: "-1Gi" is negative',
        "spec.min[example.com/gpu]: true is not a quantity: write a number and perhaps a suffix, as in 500m or 2Gi",
        "spec.min: 7 is not the name of a resource",
    )
    with pytest.raises(AmountsError) as caught:
        amounts.parse_amounts(given, "spec.min")
    assert caught.value.errors == want

    errors = ["before"]
    assert amounts.parse_amounts(given, "spec.min", errors) == {"pods": 3}
    assert errors == ["before", *want]


@pytest.mark.parametrize("value", ["cpu=1", [], 3, False])
def test_a_resource_list_of_another_shape_is_refused(value: object) -> None:
    with pytest.raises(AmountsError, match=r"^spec\.max: .* is not a map of resources to quantities$"):
        amounts.parse_amounts(value, "spec.max")


def test_no_resource_list_is_an_empty_one() -> None:
    assert amounts.parse_amounts(None, "spec.max") == {}
    assert amounts.parse_amounts({}, "spec.max") == {}


def test_printing_sorts_and_keeps_zeros() -> None:
    printed = amounts.format_amounts({"memory": 2**31, "cpu": 0, "b": 2000, "a": 1})
    assert list(printed.items()) == [("a", "1"), ("b", "2k"), ("cpu", "0"), ("memory", "2Gi")]


RESOURCES = st.sampled_from(["cpu", "memory", "ephemeral-storage", "hugepages-1Gi", "nvidia.com/gpu", "pods"])
VALUES = st.one_of(
    st.integers(0, AMOUNT_MAX),
    st.builds(
        lambda number, base, steps: min(number * base**steps, AMOUNT_MAX),
        st.integers(0, 9999),
        st.sampled_from([10, 1024]),
        st.integers(0, 18),
    ),
)


@given(RESOURCES, VALUES)
def test_what_is_printed_reads_back_as_the_same_amount(resource: str, value: int) -> None:
    assert amounts.amount(resource, amounts.format_amount(resource, value)) == value


@given(RESOURCES, VALUES)
def test_what_is_printed_is_canonical(resource: str, value: int) -> None:
    printed = amounts.format_amount(resource, value)
    assert "." not in printed
    assert not printed.endswith("000")
    assert len(printed) <= len(str(value)) + 1


AMOUNTS = st.dictionaries(RESOURCES, st.integers(0, 10**15))


@given(AMOUNTS, AMOUNTS, st.integers(0, 1000))
def test_what_is_added_can_be_taken_again(before: dict[str, int], more: dict[str, int], count: int) -> None:
    total = dict(before)
    amounts.add(total, more, count)
    assert total == {name: before.get(name, 0) + more.get(name, 0) * count for name in {**before, **more}}
    amounts.subtract(total, amounts.scaled(more, count))
    assert {name: value for name, value in total.items() if value} == {n: v for n, v in before.items() if v}


@given(AMOUNTS, AMOUNTS)
def test_raising_gives_the_larger_of_each(one: dict[str, int], other: dict[str, int]) -> None:
    total = dict(one)
    amounts.raise_to(total, other)
    assert total == {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def test_a_signature_names_what_is_asked_for_in_order() -> None:
    assert amounts.signature({"memory": 1, "cpu": 5, "nvidia.com/gpu": 0}) == ("cpu", "memory")
    assert amounts.signature({}) == ()
