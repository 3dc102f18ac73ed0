"""A check around every plug-in that is not built in: an answer of the wrong kind is as good as none.

A wrapper asks the plug-in, looks at the answer and raises `WrongAnswerError`, upon which the guard disables the plug-in
and the built-in answer takes its place. The world wraps plug-ins once, when the engine is made; built-ins go unwrapped.
What a plug-in says about itself (`blocks`, `entitles`, …) is read then, too, and objected to when it is first asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from usher.core.amounts import Amounts
from usher.core.model import Unit
from usher.core.plugins import (
    Blocks,
    Candidate,
    Filter,
    Mapping_,
    Plugins,
    QueuePolicy,
    Score,
    VictimPolicy,
    WrongAnswerError,
)
from usher.core.share import SharePolicy, Sharer

T = TypeVar("T")

SHOWN_MAX = 60
"""How much of an answer is repeated in a message."""


def checked(plugins: Plugins) -> Plugins:
    """The same plug-ins, those that are not trusted with a check around them."""
    trusted = plugins.trusted
    policies = {
        name: policy if policy.name in trusted else CheckedQueuePolicy(policy)
        for name, policy in plugins.queue_policies.items()
    }
    share, victims = plugins.share, plugins.victims
    return replace(
        plugins,
        queue_policies=policies,
        share=share if share.name in trusted else CheckedSharePolicy(share),
        victims=victims if victims.name in trusted else CheckedVictimPolicy(victims),
        mappings=tuple(CheckedMapping(plugin) for plugin in plugins.mappings),
        filters=tuple(CheckedFilter(plugin) for plugin in plugins.filters),
        scores=tuple(CheckedScore(plugin) for plugin in plugins.scores),
    )


class _Keys:
    """Looks at the keys of one policy, which all have the length of the first."""

    __slots__ = ("width",)

    def __init__(self) -> None:
        self.width = -1

    def check(self, key: tuple[int, ...], unit: Unit) -> tuple[int, ...]:
        if not isinstance(key, tuple):
            raise WrongAnswerError(f"its key of {unit.key} is {shown(key)}, not a tuple")
        for part in key:
            if not isinstance(part, int):
                raise WrongAnswerError(f"its key of {unit.key} is {shown(key)}, and {shown(part)} is no whole number")
        if len(key) != self.width:
            if self.width >= 0:
                raise WrongAnswerError(
                    f"its key of {unit.key} is {shown(key)}, of length {len(key)}, and those before of {self.width}"
                )
            self.width = len(key)
        return key


class CheckedQueuePolicy:
    """A queue policy whose keys are tuples of whole numbers, all of one length."""

    __slots__ = ("_ask", "_keys", "_wrong", "blocks", "name")

    def __init__(self, policy: QueuePolicy) -> None:
        self.name = policy.name
        self._wrong: list[str] = []
        self.blocks = _read(policy, "blocks", Blocks, Blocks.NOBODY, self._wrong)
        self._ask = policy.key
        self._keys = _Keys()

    def key(self, unit: Unit) -> tuple[int, ...]:
        if self._wrong:
            raise WrongAnswerError(self._wrong[0])
        return self._keys.check(self._ask(unit), unit)

    @property
    def width(self) -> int:
        """How long its keys are; 0 before the first."""
        return max(0, self._keys.width)


class CheckedVictimPolicy:
    """A victim policy whose keys are tuples of whole numbers, all of one length."""

    __slots__ = ("_ask", "_keys", "name")

    def __init__(self, policy: VictimPolicy) -> None:
        self.name = policy.name
        self._ask = policy.key
        self._keys = _Keys()

    def key(self, candidate: Candidate) -> tuple[int, ...]:
        return self._keys.check(self._ask(candidate), candidate.unit)


class CheckedSharePolicy:
    """A share policy that gives everybody some of what is there, and nobody more than its `max`."""

    __slots__ = ("_policy", "_wrong", "claims_by_share", "entitles", "name")

    def __init__(self, policy: SharePolicy) -> None:
        self.name = policy.name
        self._policy = policy
        self._wrong: list[str] = []
        self.entitles = _read(policy, "entitles", bool, True, self._wrong)
        self.claims_by_share = _read(policy, "claims_by_share", bool, False, self._wrong)

    def split(self, amount: Amounts, sharers: Sequence[Sharer]) -> list[dict[str, int]]:
        if self._wrong:
            raise WrongAnswerError(self._wrong[0])
        answer: Any = self._policy.split(amount, sharers)
        if not isinstance(answer, list | tuple) or len(answer) != len(sharers):
            raise WrongAnswerError(f"its split among {len(sharers)} is {shown(answer)}, not a list with one for each")
        total: dict[str, int] = {}
        for sharer, deserved in zip(sharers, answer, strict=True):
            _check_deserved(sharer, deserved)
            for resource, quantity in deserved.items():
                total[resource] = total.get(resource, 0) + quantity
        for resource, quantity in total.items():
            if quantity > amount.get(resource, 0):
                raise WrongAnswerError(f"its split gives {quantity} {resource} of {amount.get(resource, 0)}")
        return [dict(deserved) for deserved in answer]

    def unmoved(self, before: Sharer, after: Sharer, deserved: Amounts) -> bool:
        answer = self._policy.unmoved(before, after, deserved)
        if not isinstance(answer, bool):
            raise WrongAnswerError(f"its unmoved of {after.name} is {shown(answer)}, not True or False")
        return answer


def _check_deserved(sharer: Sharer, deserved: Mapping[Any, Any]) -> None:
    if not isinstance(deserved, Mapping):
        raise WrongAnswerError(f"its split gives {sharer.name} {shown(deserved)}, not amounts by resource")
    for resource, quantity in deserved.items():
        if not isinstance(resource, str) or not isinstance(quantity, int) or quantity < 0:
            raise WrongAnswerError(f"its split gives {sharer.name} {shown(quantity)} {resource}, no whole amount")
        if quantity > sharer.max.get(resource, quantity):
            raise WrongAnswerError(
                f"its split gives {sharer.name} {quantity} {resource}, above its max {sharer.max[resource]}"
            )


class CheckedMapping:
    """A mapping that answers with two names, or None."""

    __slots__ = ("_ask", "name")

    def __init__(self, plugin: Mapping_) -> None:
        self.name = plugin.name
        self._ask = plugin.map

    def map(self, unit: Unit) -> tuple[str, str] | None:
        answer: Any = self._ask(unit)
        if answer is not None and not (isinstance(answer, tuple) and len(answer) == 2 and _texts(answer)):
            raise WrongAnswerError(f"its answer for {unit.key} is {shown(answer)}, not a queue and a quota, or None")
        return answer


def _texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


class CheckedFilter:
    """A filter that answers with a text."""

    __slots__ = ("_ask", "name")

    def __init__(self, plugin: Filter) -> None:
        self.name = plugin.name
        self._ask = plugin.refuse

    def refuse(self, unit: Unit, ask: Amounts) -> str:
        answer = self._ask(unit, ask)
        if not isinstance(answer, str):
            raise WrongAnswerError(f"its answer for {unit.key} is {shown(answer)}, not a text")
        return answer


class CheckedScore:
    """A score that is a whole number."""

    __slots__ = ("_ask", "name")

    def __init__(self, plugin: Score) -> None:
        self.name = plugin.name
        self._ask = plugin.score

    def score(self, unit: Unit) -> int:
        answer = self._ask(unit)
        if not isinstance(answer, int):
            raise WrongAnswerError(f"its score of {unit.key} is {shown(answer)}, not a whole number")
        return answer


def shown(answer: object) -> str:
    """An answer in a message."""
    text = repr(answer)
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 1]}…"


def _read(plugin: object, member: str, kind: type[T], otherwise: T, wrong: list[str]) -> T:
    """What a plug-in says about itself; `otherwise` if that is of another kind, which is then in `wrong`."""
    try:
        value = getattr(plugin, member)
    except Exception as error:
        wrong.append(f"its {member} raised {type(error).__name__}: {error}")
        return otherwise
    if not isinstance(value, kind):
        wrong.append(f"its {member} is {shown(value)}, not of {kind.__name__}")
        return otherwise
    return value
