"""Taking up a unit where an earlier engine left it: everything is read from its stored past.

What is written counts, not what was meant: quota that was reserved is charged again whatever the limits say now, and
whatever was under way when the earlier engine stopped is told once more. A status that somebody edited into something
impossible is repaired to the nearest possible one.
"""

from __future__ import annotations

from usher.core.commands import Evict, Nominate
from usher.core.lifecycle import Lifecycle
from usher.core.model import CheckState, Stored
from usher.core.phases import FINISHED, HOLDING, TRANSITIONS, Cause, Phase
from usher.core.state import UnitState, granted_amounts
from usher.core.world import World


def restore(world: World, lifecycle: Lifecycle, unit: UnitState, stored: Stored) -> None:
    """Give a new unit its past; if it holds something, the tree is laid anew before anything is decided."""
    unit.phase = unit.before_phase = stored.phase
    unit.generation = stored.generation
    unit.evictions, unit.retries, unit.ran_ms = stored.evictions, stored.retries, stored.ran_ms
    unit.inactive, unit.has_run = stored.inactive, stored.has_run
    unit.claims = not stored.retries
    unit.admitted_ms = stored.admitted_ms
    if stored.phase in FINISHED:
        return
    if stored.phase is Phase.TIMEOUT_BACKOFF:
        unit.not_before_ms = stored.requeue_at_ms
        world.remind(stored.requeue_at_ms, "backoff", unit.key, unit.generation)
    if stored.overtaken_ms >= 0:
        unit.overtaken_ms = stored.overtaken_ms
        world.restored.append(unit)
    if stored.grants:
        _hold(world, lifecycle, unit, stored)
    elif stored.phase in HOLDING:
        unit.phase = unit.before_phase = Phase.ENQUEUED
    if stored.nomination is not None:
        if stored.grants:
            world.stale_nominations.append(unit.key)
        else:
            world.nominated[unit.key] = unit
            unit.nomination = stored.nomination
    if stored.grants or stored.nomination is not None:
        world.relay = True


def _hold(world: World, lifecycle: Lifecycle, unit: UnitState, stored: Stored) -> None:
    settings = world.settings
    unit.grants, unit.charged_to = stored.grants, stored.quota
    unit.charged = granted_amounts(unit.spec, stored.grants)
    unit.checks = dict(stored.checks)
    unit.protected_ms = max(stored.protected_ms, stored.admitted_ms + settings.protected_ms)
    if stored.phase not in HOLDING:
        unit.phase = Phase.DEQUEUED
    if stored.evicting:
        unit.evicting = _cause(unit.phase, stored.evicting)
        unit.leaving = dict(unit.charged)
    elif unit.phase is Phase.RESERVED and settings.check_timeout_ms:
        world.remind(stored.admitted_ms + settings.check_timeout_ms, "check", unit.key, unit.generation)
    elif unit.phase is Phase.DEQUEUED and settings.start_timeout_ms:
        world.remind(stored.admitted_ms + settings.start_timeout_ms, "start", unit.key, unit.generation)
    if unit.phase is not Phase.RESERVED:
        lifecycle.time_execution(unit)
    if stored.overtaken_ms < 0:
        world.restored.append(unit)
    world.books.reserve(unit.spec, unit.charged)


def _cause(phase: Phase, name: str) -> Cause:
    """The stored cause, or where it cannot be one of this phase, that it was taken back."""
    known = {cause.value: cause for cause in Cause if (phase, cause) in TRANSITIONS}
    return known.get(name, Cause.RECLAIMED)


def go_on(world: World, lifecycle: Lifecycle) -> None:
    """Once every restored unit has its place: say again what was under way."""
    for key in world.stale_nominations:
        world.out.append(Nominate(key, None))
    world.stale_nominations.clear()
    for unit in world.restored:
        if world.units.get(unit.key) is not unit:
            continue
        if unit.overtaken_ms >= 0 and (delay_ms := world.reserve_after_ms(unit)) > 0:
            world.remind(unit.overtaken_ms + delay_ms, "overtaken", unit.key)
        if not unit.grants:
            continue
        if unit.evicting is not None:
            world.out.append(Evict(unit.key, unit.generation, unit.evicting))
        elif unit.phase is Phase.RESERVED:
            _check_again(world, lifecycle, unit)
    world.restored.clear()


def _check_again(world: World, lifecycle: Lifecycle, unit: UnitState) -> None:
    """Checks may have spoken while nobody listened."""
    states = set(unit.checks.values())
    if CheckState.REJECTED in states:
        lifecycle.evict(unit, Cause.CHECK_REJECTED)
    elif CheckState.RETRY in states:
        lifecycle.evict(unit, Cause.CHECK_RETRY)
    else:
        world.cleared[unit.key] = unit
