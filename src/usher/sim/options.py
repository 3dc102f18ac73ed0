"""The engine's settings from `--set key=value`: names as in the configuration, values as people write them.

Several values with commas are several runs to compare (`--set protectedTime=0s,5m`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any, Final

from usher.core.amounts import quoted
from usher.core.durations import DurationError, parse_ms
from usher.core.model import Settings
from usher.policies.registry import ALIASES
from usher.sim.problems import BadInputError
from usher.sim.queues import policy_names

RUNS_MAX: Final = 12
"""More runs than this are no comparison."""


def _oversell(text: str) -> tuple[int, int]:
    try:
        rate = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{quoted(text)} is not a number, as in 1.2") from None
    if not 0 < rate <= 1000:
        raise ValueError(f"{quoted(text)} is not between 0 and 1000")
    return rate.numerator, rate.denominator


def _policy(text: str) -> str:
    known = policy_names()
    if text not in known:
        raise ValueError(f"{quoted(text)} is not one of {', '.join(known)}")
    return ALIASES.get(text, text)


KEYS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "oversell": ("oversell", _oversell),
    "reserveAfter": ("reserve_after_ms", parse_ms),
    "protectedTime": ("protected_ms", parse_ms),
    "startTimeout": ("start_timeout_ms", parse_ms),
    "recoveryTimeout": ("recovery_timeout_ms", parse_ms),
    "checkTimeout": ("check_timeout_ms", parse_ms),
    "backoffBase": ("backoff_base_ms", parse_ms),
    "backoffMax": ("backoff_max_ms", parse_ms),
    "defaultPolicy": ("default_policy", _policy),
}
"""Key to the field of Settings and how its value is read."""


def settings_of(texts: Sequence[str]) -> list[tuple[dict[str, str], Settings]]:
    """Each combination of the given values, with the settings it makes; raises BadInputError with every error."""
    errors: list[str] = []
    choices: dict[str, list[str]] = {}
    for text in texts:
        key, sign, values = (part.strip() for part in text.partition("="))
        if not sign:
            errors.append(f"--set: {quoted(text)} is not key=value; the keys are {', '.join(KEYS)}")
        elif key not in KEYS:
            errors.append(f"--set: no setting {quoted(key)}; there are {', '.join(KEYS)}")
        elif key in choices:
            errors.append(f"--set: {key} is there twice; compare values with commas: {key}=a,b")
        else:
            choices[key] = [value.strip() for value in values.split(",")]
            errors.extend(f"--set: {key}: {why}" for why in _wrong(key, choices[key]))
    if errors:
        raise BadInputError(errors)
    runs = [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]
    return [(run, _settings(run)) for run in runs]


def _wrong(key: str, values: Sequence[str]) -> list[str]:
    found = []
    for value in values:
        try:
            KEYS[key][1](value)
        except (DurationError, ValueError) as error:
            found.append(str(error))
    return found


def _settings(chosen: Mapping[str, str]) -> Settings:
    fields = {KEYS[key][0]: KEYS[key][1](value) for key, value in chosen.items()}
    return replace(Settings(), **fields)
