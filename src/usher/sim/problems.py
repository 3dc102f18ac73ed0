"""What is wrong with the input: every error with its file, object and field, gathered before anything is simulated.

Readers add to a `Problems`; the loader raises `BadInput` once, at the end, with all of them. The command line prints
the lines and exits with code 2.
"""

from __future__ import annotations

from collections.abc import Iterable


class BadInputError(Exception):
    """The input cannot be simulated; `errors` has one line for each reason."""

    def __init__(self, errors: Iterable[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


class Problems:
    """Errors, which stop the simulation, and notes, which do not."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.notes: list[str] = []

    def extend(self, where: str, errors: Iterable[str]) -> None:
        """Add errors that begin with a field's path to where their object is."""
        self.errors.extend(f"{where}: {error}" for error in errors)

    def stop_if_any(self) -> None:
        """Raise everything that was found."""
        if self.errors:
            raise BadInputError(self.errors)
