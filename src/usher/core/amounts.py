"""Resource amounts: whole numbers per resource, read and printed as Kubernetes reads and prints quantities.

An amount is millicores for cpu and base units (bytes, devices) for everything else. A quantity is read as
`resource.Quantity` of apimachinery reads it: exact, rounded up to a billionth, never through a float; it becomes an
amount by rounding up (`MilliValue` for cpu, `Value` for the rest). One difference: where their int64 overflows (and
then reads 0 or wraps), ours stops at `AMOUNT_MAX`.

Everybody who meets a quantity in an object calls `parse_amounts`, which names the field of each bad one. The engine
adds and subtracts plain dicts in place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

Amounts = Mapping[str, int]
"""Resource name to a whole number: millicores for cpu, base units for everything else."""

Signature = tuple[str, ...]
"""The resources that a unit asks for (more than zero), sorted by name."""

AMOUNT_MAX: Final = 2**63 - 1
"""The largest amount one quantity stands for, as in Kubernetes; sums may exceed it."""

QUANTITY_LENGTH_MAX: Final = 256
"""A longer text is refused; Kubernetes has no limit, but nobody means such a number."""

_NANO: Final = 10**9
_CACHED_QUANTITIES: Final = 8192
_SCANNER: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL_PRINTED: Final = ("m", "", "k", "M", "G", "T", "P", "E")
_BINARY_PRINTED: Final = ("", *_BINARY)
_HINT: Final = "write a number and perhaps a suffix, as in 500m or 2Gi"


class QuantityError(ValueError):
    """One text that is not a quantity, or not one that may stand here; the message says why."""


class AmountsError(ValueError):
    """Everything that is wrong in one object; each of `errors` begins with the path of its field."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = tuple(errors)


def parse_quantity(text: str | int | float) -> int:
    """The quantity in billionths (nano), rounded up away from zero; raises QuantityError."""
    if isinstance(text, str):
        return _parse_text(text)
    if isinstance(text, int) and not isinstance(text, bool):
        return max(-AMOUNT_MAX, min(AMOUNT_MAX, text)) * _NANO
    if isinstance(text, float):
        return _parse_text(repr(text))
    raise QuantityError(f"{quoted(text)} is not a quantity: {_HINT}")


def amount(resource: str, text: str | int | float) -> int:
    """What a request, limit or capacity of this resource is, rounded up; raises QuantityError, also if negative."""
    return amount_of_thousandths(resource, thousandths(text))


def thousandths(text: str | int | float) -> int:
    """The quantity in thousandths, rounded up (as the API server stores it); raises QuantityError, also if negative."""
    if isinstance(text, str):
        return _thousandths_of_text(text)
    return _thousandths_of_nanos(parse_quantity(text), text)


def amount_of_thousandths(resource: str, value: int) -> int:
    """What thousandths of a unit of this resource are as an amount, rounded up."""
    return min(value if resource == "cpu" else -(-value // 1000), AMOUNT_MAX)


def parse_amounts(quantities: object, path: str, errors: list[str] | None = None) -> dict[str, int]:
    """A decoded resource list (nothing, too, is a list) as amounts.

    Every bad entry gives one text that begins with its field's path. They are added to `errors` if it is given, and
    the entries that are good are returned; else AmountsError is raised with all of them.
    """
    read = parse_thousandths(quantities, path, errors)
    return {resource: amount_of_thousandths(resource, value) for resource, value in read.items()}


def parse_thousandths(quantities: object, path: str, errors: list[str] | None = None) -> dict[str, int]:
    """As `parse_amounts`, but in thousandths of every resource: what has to be added up before it is rounded."""
    found: list[str] = []
    read: dict[str, int] = {}
    if isinstance(quantities, Mapping):
        for resource, text in quantities.items():
            if not isinstance(resource, str) or not resource:
                found.append(f"{path}: {quoted(resource)} is not the name of a resource")
                continue
            try:
                read[resource] = thousandths(text)
            except QuantityError as error:
                found.append(f"{field_path(path, resource)}: {error}")
    elif quantities is not None:
        found.append(f"{path}: {quoted(quantities)} is not a map of resources to quantities")
    report(found, errors)
    return read


def field_path(path: str, key: str) -> str:
    """The path of a key below `path`: `spec.min.cpu`, but `spec.min[example.com/gpu]`."""
    return f"{path}[{key}]" if "." in key or "/" in key else f"{path}.{key}"


def report(found: list[str], errors: list[str] | None) -> None:
    """Hand what was found to the caller's collector; without one, raise it."""
    if errors is not None:
        errors.extend(found)
    elif found:
        raise AmountsError(found)


def quoted(value: object) -> str:
    """A value as an error shows it: as in JSON, cut if it is long."""
    text = json.dumps(value, default=str, skipkeys=True, ensure_ascii=False)
    return text if len(text) <= 64 else f"{text[:60]}…"


def format_amount(resource: str, value: int) -> str:
    """The canonical quantity: no fraction, the largest suffix that is exact.

    Bytes take the binary or the decimal suffix, whichever leaves the smaller number (`18Gi`, `10G`).
    """
    number, steps = _reduced(value, 1000)
    if resource == "cpu":
        return f"{number}{_DECIMAL_PRINTED[steps]}" if value else "0"
    if _counts_bytes(resource):
        binary_number, binary_steps = _reduced(value, 1024)
        if abs(binary_number) < abs(number):
            return f"{binary_number}{_BINARY_PRINTED[binary_steps]}"
    return f"{number}{_DECIMAL_PRINTED[steps + 1]}"


def format_amounts(amounts: Amounts) -> dict[str, str]:
    """Every amount as its canonical quantity, sorted by name, zeros included."""
    return {resource: format_amount(resource, amounts[resource]) for resource in sorted(amounts)}


def add(total: dict[str, int], amounts: Amounts, count: int = 1) -> None:
    """Add `count` times `amounts` to `total`, in place."""
    for resource, value in amounts.items():
        total[resource] = total.get(resource, 0) + value * count


def subtract(total: dict[str, int], amounts: Amounts, count: int = 1) -> None:
    """Take `count` times `amounts` from `total`, in place; what falls below zero or to zero stays visible."""
    for resource, value in amounts.items():
        total[resource] = total.get(resource, 0) - value * count


def raise_to(total: dict[str, int], amounts: Amounts) -> None:
    """Make `total` at least `amounts` in every resource that `amounts` names, in place."""
    for resource, value in amounts.items():
        if value > total.get(resource, -1):
            total[resource] = value


def scaled(amounts: Amounts, count: int) -> dict[str, int]:
    """`count` times `amounts`, as a new dict."""
    return {resource: value * count for resource, value in amounts.items()}


def signature(amounts: Amounts) -> Signature:
    """The resources of which there is more than zero, sorted by name."""
    return tuple(sorted([resource for resource, value in amounts.items() if value > 0]))


@lru_cache(maxsize=_CACHED_QUANTITIES)
def _parse_text(text: str) -> int:
    if len(text) > QUANTITY_LENGTH_MAX:
        raise QuantityError(f"{quoted(text)} is not a quantity: it is longer than {QUANTITY_LENGTH_MAX} characters")
    scanned = _SCANNER.fullmatch(text)
    if not text or scanned is None:
        raise QuantityError(f"{quoted(text)} is not a quantity: {_HINT}")
    sign, whole, fraction, suffix = scanned.groups(default="")
    exponent, twos = _interpret(text, suffix)
    if not whole and not fraction:
        # Kubernetes takes a bare sign, dot or suffix for zero, but for the smallest and largest suffixes.
        if exponent < -9 or twos > 40:
            raise QuantityError(f"{quoted(text)} is not a quantity: it has no digits")
        return 0
    nanos = _shifted(int(whole + fraction) << twos, exponent - len(fraction) + 9)
    nanos = min(nanos, AMOUNT_MAX * _NANO)
    return -nanos if sign == "-" else nanos


def _interpret(text: str, suffix: str) -> tuple[int, int]:
    """The power of ten and the power of two that a suffix stands for; one of them is 0."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0
    if suffix in _BINARY:
        return 0, _BINARY[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None or abs(int(exponent[1])) >= 2**31:
        raise QuantityError(
            f"{quoted(text)} is not a quantity: no suffix {quoted(suffix)}; there are n u m k M G T P E, "
            "Ki Mi Gi Ti Pi Ei, and exponents such as e3"
        )
    return int(exponent[1]), 0


def _shifted(number: int, places: int) -> int:
    """`number` × 10^`places`, rounded up; exact below the cap, and never larger than needed to see what it is."""
    if number == 0:
        return 0
    power: int = 10 ** min(abs(places), 2 * QUANTITY_LENGTH_MAX)
    return number * power if places >= 0 else -(-number // power)


@lru_cache(maxsize=_CACHED_QUANTITIES)
def _thousandths_of_text(text: str) -> int:
    return _thousandths_of_nanos(_parse_text(text), text)


def _thousandths_of_nanos(nanos: int, text: str | int | float) -> int:
    if nanos < 0:
        raise QuantityError(f"{quoted(text)} is negative")
    return -(-nanos // 10**6)


def _reduced(value: int, base: int) -> tuple[int, int]:
    """`value` with as many factors `base` taken out as there are suffixes, and how many those were."""
    steps = 0
    while value and value % base == 0 and steps < 6:
        value //= base
        steps += 1
    return value, steps


def _counts_bytes(resource: str) -> bool:
    return resource in {"memory", "ephemeral-storage", "storage"} or resource.startswith("hugepages-")
