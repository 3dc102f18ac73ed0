"""Which policies there are, by name.

The built-ins are listed here, one line each. Others come from Python entry points of the group `usher.plugins`: an
entry point names a class (or a function) that, called without arguments, gives one plug-in; what it can do is read off
its methods. They take part only where a configuration names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from usher.core.plugins import Plugins, QueuePolicy, VictimPolicy
from usher.core.share import SharePolicy
from usher.policies.queue import Fifo, Priority, PriorityBlocking
from usher.policies.share import Drf, Koordinator, NoShare, Proportion
from usher.policies.victim import LowestPriorityLatestStart

GROUP: Final = "usher.plugins"

QUEUE_POLICIES: Final[tuple[QueuePolicy, ...]] = (Fifo(), Priority(), PriorityBlocking())
SHARE_POLICIES: Final[tuple[SharePolicy, ...]] = (Drf(), Koordinator(), Proportion(), NoShare())
VICTIM_POLICIES: Final[tuple[VictimPolicy, ...]] = (LowestPriorityLatestStart(),)
ALIASES: Final = {"Block": "PriorityBlocking"}

_METHODS: Final = {
    "queue": ("key", "blocks"),
    "share": ("split", "unmoved"),
    "victim": ("key",),
    "mapping": ("map",),
    "filter": ("refuse",),
    "score": ("score",),
    "reserver": ("reserve", "unreserve", "resize"),
}


class PluginError(ValueError):
    """A plug-in that cannot be had; the message says which, and what there is."""


def installed(points: Iterable[EntryPoint] | None = None) -> dict[str, dict[str, Any]]:
    """Kind to name to plug-in: what other packages bring."""
    found: dict[str, dict[str, Any]] = {kind: {} for kind in _METHODS}
    for point in entry_points(group=GROUP) if points is None else points:
        try:
            plugin = point.load()()
        except Exception as error:
            raise PluginError(f"plug-in {point.name} ({point.value}) cannot be loaded: {error}") from error
        kinds = [kind for kind, methods in _METHODS.items() if all(hasattr(plugin, method) for method in methods)]
        if not kinds or not hasattr(plugin, "name"):
            raise PluginError(f"plug-in {point.name} ({point.value}) has no name, or the methods of no kind of plug-in")
        found[kinds[0]][plugin.name] = plugin
    return found


def plugins(
    share: str = "drf",
    victims: str = LowestPriorityLatestStart().name,
    *,
    mappings: Iterable[str] = (),
    filters: Iterable[str] = (),
    scores: Iterable[str] = (),
    reservers: Iterable[str] = (),
    points: Iterable[EntryPoint] | None = None,
) -> Plugins:
    """Everything pluggable, with these chosen by name."""
    others = installed(points)
    queues = {policy.name: policy for policy in QUEUE_POLICIES} | others["queue"]
    queues |= {alias: queues[name] for alias, name in ALIASES.items()}
    return Plugins(
        queue_policies=queues,
        share=_choose("share policy", share, {policy.name: policy for policy in SHARE_POLICIES} | others["share"]),
        share_fallback=Drf(),
        victims=_choose(
            "victim policy", victims, {policy.name: policy for policy in VICTIM_POLICIES} | others["victim"]
        ),
        mappings=tuple(_choose("mapping", name, others["mapping"]) for name in mappings),
        filters=tuple(_choose("filter", name, others["filter"]) for name in filters),
        scores=tuple(_choose("score", name, others["score"]) for name in scores),
        reservers=tuple(_choose("reserver", name, others["reserver"]) for name in reservers),
    )


def _choose(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise PluginError(f"there is no {kind} {name}; there is: {', '.join(sorted(known)) or 'none'}")
    return known[name]
