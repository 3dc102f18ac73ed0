"""What the API server would hold of each unit: written by commands, read by an engine that starts anew."""

from __future__ import annotations

from dataclasses import replace

from usher.core import commands as c
from usher.core import events as e
from usher.core.model import Stored, Unit
from usher.core.phases import FINISHED
from usher.core.written import written


class Store:
    """Units and their past, as objects."""

    def __init__(self) -> None:
        self.specs: dict[str, Unit] = {}
        self.past: dict[str, Stored] = {}

    def forget(self, key: str) -> None:
        self.specs.pop(key, None)
        self.past.pop(key, None)

    def units(self) -> list[e.UnitChanged]:
        """What an engine that starts is told."""
        return [
            e.UnitChanged(spec, self.past[key])
            for key, spec in sorted(self.specs.items())
            if key in self.past and self.past[key].phase not in FINISHED
        ] + [e.UnitChanged(spec) for key, spec in sorted(self.specs.items()) if key not in self.past]

    def observe(self, event: e.Event) -> None:
        """What the cluster itself changes."""
        match event:
            case e.UnitChanged(spec):
                self.specs[spec.key] = spec
            case e.UnitGone(key):
                self.forget(key)
            case e.UnitShrunk(key, _, grants) if key in self.past and self.past[key].grants:
                self.past[key] = replace(self.past[key], grants=grants)
            case e.CheckAnswered(key, check, state) if key in self.past and check in self.past[key].checks:
                self.past[key] = replace(self.past[key], checks={**self.past[key].checks, check: state})
            case e.UnitReady(key) if key in self.past:
                self.past[key] = replace(self.past[key], has_run=True)
            case _:
                pass

    def carry_out(self, command: c.Command, now_ms: int) -> None:
        if not isinstance(command, c.WakeAt) and command.key in self.specs:
            self.past[command.key] = written(self.past.get(command.key, Stored()), command, now_ms)
