"""What the API server would hold of each unit: written by commands, read by an engine that starts anew."""

from __future__ import annotations

from dataclasses import replace

from usher.core import commands as c
from usher.core import events as e
from usher.core.model import CheckState, Stored, Unit
from usher.core.phases import FINISHED, HOLDING, Phase


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
                self._change(key, checks={**self.past[key].checks, check: state})
            case e.UnitReady(key) if key in self.past:
                self.past[key] = replace(self.past[key], has_run=True)
            case _:
                pass

    def carry_out(self, command: c.Command, now_ms: int) -> None:
        match command:
            case c.Admit() | c.Reserve():
                phase = Phase.DEQUEUED if isinstance(command, c.Admit) else Phase.RESERVED
                self._change(
                    command.key,
                    phase=phase,
                    grants=command.grants,
                    quota=command.quota,
                    generation=command.generation,
                    admitted_ms=now_ms,
                    nomination=None,
                    evicting="",
                )
                if isinstance(command, c.Reserve):
                    self._change(command.key, checks=dict.fromkeys(command.checks, CheckState.PENDING))
            case c.Grow(key, _, grants):
                self._change(key, grants=grants)
            case c.Evict(key, _, cause):
                self._change(key, evicting=cause.value)
            case c.Nominate(key, nomination):
                self._change(key, nomination=nomination)
            case c.SetPhase(key, phase, _, retries, requeue_at_ms, inactive):
                self._change(key, phase=phase, retries=retries, requeue_at_ms=requeue_at_ms, inactive=inactive)
                if phase not in HOLDING and key in self.past:
                    before = self.past[key]
                    ran_ms = now_ms - before.admitted_ms if before.grants else 0
                    self._change(
                        key,
                        grants=(),
                        checks={},
                        evicting="",
                        generation=before.generation + 1,
                        evictions=before.evictions + bool(before.evicting),
                        ran_ms=before.ran_ms + ran_ms,
                    )
            case _:
                pass

    def _change(self, key: str, **fields: object) -> None:
        if key in self.specs:
            self.past[key] = replace(self.past.get(key, Stored()), **fields)  # type: ignore[arg-type]
