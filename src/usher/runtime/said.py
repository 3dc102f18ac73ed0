"""What a job says by labels and annotations; what cannot be read is remembered as a problem and left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from usher.jobkinds.base import Job

INT_MAX: Final = 2**31 - 1
"""Of the numbers that Kubernetes has in such places."""


class Said:
    """Of each list of keys, the first that is there counts."""

    def __init__(self, job: Job) -> None:
        self._labels, self._annotations = job.labels, job.annotations
        self._problems: list[str] = []

    def first(self, keys: Sequence[str]) -> str:
        return next((found for key in keys if (found := self._labels.get(key) or self._annotations.get(key))), "")

    def number(self, keys: Sequence[str], low: int = 0) -> int | None:
        text = self.first(keys)
        if not text:
            return None
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= INT_MAX:
            self._problems.append(f"{keys[0]}: {text!r} is not a whole number from {low} to {INT_MAX}")
            return None
        return number

    def flag(self, keys: Sequence[str], default: bool) -> bool:
        text = self.first(keys)
        if text not in ("", "true", "false"):
            self._problems.append(f"{keys[0]}: {text!r} is neither true nor false")
        return default if text not in ("true", "false") else text == "true"

    def problem(self) -> str:
        return "; ".join(self._problems)
