"""Which policies there are, by name.

The built-ins are listed here, one line each. Others come from Python entry points of the group `usher.plugins`: an
entry point names a class (or a function) that, called without arguments, gives one plug-in; what it can do is read off
its methods. They take part only where a configuration names them. A name stands for one thing: two plug-ins of one
name, or one that is named as a built-in, are an error, because the engine reports and disables plug-ins by name.
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

_MEMBERS: Final = {
    "queue": ("key", "blocks"),
    "share": ("split", "unmoved", "entitles", "claims_by_share"),
    "victim": ("key",),
    "mapping": ("map",),
    "filter": ("refuse",),
    "score": ("score",),
    "reserver": ("reserve", "unreserve", "resize"),
}
"""Kind to what a plug-in of it has besides a name."""


class PluginError(ValueError):
    """A plug-in that cannot be had; the message says which, and why."""


class UnknownPluginError(PluginError):
    """Nobody has that name; the message says what there is."""


def installed(points: Iterable[EntryPoint] | None = None) -> dict[str, dict[str, Any]]:
    """Kind to name to plug-in: what other packages bring. One plug-in may be of several kinds."""
    found: dict[str, dict[str, Any]] = {kind: {} for kind in _MEMBERS}
    taken = dict.fromkeys(_built_in_names(), "built in")
    for point in entry_points(group=GROUP) if points is None else points:
        called = f"plug-in {point.name} ({point.value})"
        try:
            plugin = point.load()()
            name, kinds = getattr(plugin, "name", None), _kinds_of(plugin)
        except Exception as error:
            raise PluginError(f"{called} cannot be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(name, str) or not name:
            raise PluginError(f"{called} has no name: give it an attribute `name`, a text that is not empty")
        if not kinds:
            raise PluginError(f"{called} is of no kind: {'; '.join(_shown_kinds())}")
        if name in taken:
            raise PluginError(f"{called} is named {name}, and that is {taken[name]}: give it another name")
        taken[name] = called
        for kind in kinds:
            found[kind][name] = plugin
    return found


def _built_in_names() -> list[str]:
    names = [policy.name for policy in QUEUE_POLICIES]
    names += [policy.name for policy in SHARE_POLICIES]
    names += [policy.name for policy in VICTIM_POLICIES]
    return [*names, *ALIASES]


def _kinds_of(plugin: object) -> list[str]:
    kinds = [kind for kind, members in _MEMBERS.items() if all(hasattr(plugin, member) for member in members)]
    return [kind for kind in kinds if kind != "victim" or "queue" not in kinds]  # both have a `key`; only one `blocks`


def _shown_kinds() -> list[str]:
    return [f"a {kind} plug-in has {', '.join(members)}" for kind, members in _MEMBERS.items()]


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
    return Plugins(
        queue_policies=_queue_policies(others["queue"]),
        share=_choose("share policy", share, {policy.name: policy for policy in SHARE_POLICIES} | others["share"]),
        share_fallback=Drf(),
        victims=_choose(
            "victim policy", victims, {policy.name: policy for policy in VICTIM_POLICIES} | others["victim"]
        ),
        mappings=tuple(_choose("mapping", name, others["mapping"]) for name in mappings),
        filters=tuple(_choose("filter", name, others["filter"]) for name in filters),
        scores=tuple(_choose("score", name, others["score"]) for name in scores),
        reservers=tuple(_choose("reserver", name, others["reserver"]) for name in reservers),
        trusted=frozenset(_built_in_names()),
    )


def queue_policies(points: Iterable[EntryPoint] | None = None) -> dict[str, QueuePolicy]:
    """What a Queue may name as its policy, aliases included."""
    return _queue_policies(installed(points)["queue"])


def _queue_policies(others: Mapping[str, QueuePolicy]) -> dict[str, QueuePolicy]:
    known = {policy.name: policy for policy in QUEUE_POLICIES} | dict(others)
    return known | {alias: known[name] for alias, name in ALIASES.items()}


def _choose(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise UnknownPluginError(f"there is no {kind} {name}; there is: {', '.join(sorted(known)) or 'none'}")
    return known[name]
