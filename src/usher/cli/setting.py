"""`usher set`: change what a queue is: its weight, priority, policy and the like.

Values are checked by the API server, by the rules of the kind; here only names and numbers are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from usher.cli.changing import changing, patch_queue, queue_named, say
from usher.cli.completing import complete_queues
from usher.cli.connecting import Connection, Session, connected, run
from usher.cli.kinds import QUEUES, kind_and_names
from usher.cli.printing import text
from usher.cli.units import at

FIELDS: Final[Mapping[str, tuple[str, type]]] = {
    "weight": ("weight", int),
    "priority": ("priority", int),
    "policy": ("queuePolicy", str),
    "quota": ("quota", str),
    "max-units": ("maxUnits", int),
    "max-priority": ("maxPriority", int),
    "reserve-after": ("reserveAfter", str),
}
"""What can be set: the field, and what its value is."""


@click.command("set")
@click.argument("what", nargs=-1, required=True, metavar="queue NAME KEY=VALUE...", shell_complete=complete_queues)
@changing
@connected
def set_(connection: Connection, what: tuple[str, ...], dry_run: str, output: str | None) -> None:
    """Change a queue. KEY is weight, priority, policy, quota, max-units, max-priority or reserve-after.

    \b
    usher set queue main weight=3 policy=FIFO
    usher set queue main max-units=      (without a value: unset)
    """
    words = [word for word in what if "=" not in word]
    spec = parsed([word for word in what if "=" in word])
    if not words:
        raise click.UsageError("Name a queue, as in: usher set queue main weight=3")
    kind, names = kind_and_names(words, (QUEUES,))
    if len(names) != 1:
        raise click.UsageError("Name one queue, as in: usher set queue main weight=3")
    del kind
    run(connection, lambda session: _set(session, names[0], spec, dry_run, output))


def parsed(pairs: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE as fields of a Queue's spec; nothing after the sign unsets the field."""
    if not pairs:
        raise click.UsageError(f"Say what to change, as in weight=3. There is: {', '.join(FIELDS)}.")
    spec: dict[str, Any] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key not in FIELDS:
            raise click.UsageError(f"A queue has no {key!r} to set. There is: {', '.join(FIELDS)}.")
        field, kind = FIELDS[key]
        if field in spec:
            raise click.UsageError(f"{key} is given twice.")
        try:
            spec[field] = kind(value) if value else None
        except ValueError:
            raise click.UsageError(f"{key} must be a whole number, not {value!r}.") from None
    return spec


async def _set(session: Session, name: str, spec: dict[str, Any], dry_run: str, output: str | None) -> None:
    queue = await queue_named(session, name)
    changed = await patch_queue(session, queue, spec, dry_run)
    words = [
        f"{key} {text(before)} → {text(after)}"
        for key, (field, _) in FIELDS.items()
        if field in spec and (before := at(queue, f"spec.{field}")) != (after := at(changed, f"spec.{field}"))
    ]
    say(changed, output, f"queue {name} changed: {', '.join(words)}" if words else f"queue {name} unchanged", dry_run)
