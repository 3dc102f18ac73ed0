"""The admission objects of `usher.webhooks`, as parts of an installation.

They depend on the settings in ways that a template cannot compute (each list of labels is inside of expressions), so
the chart is given every variant of them, and each object goes with the condition under which it looks like that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from usher.install.part import LABELS, Object, Part, When
from usher.install.values import Values
from usher.settings.tree import Settings
from usher.webhooks import configurations, policies

FILE: Final = "doors"
POLICIES, WEBHOOK, OFF = "policies", "webhook", "off"


@dataclass(frozen=True)
class Variant:
    """One way in which the doors can be: by what they depend on, beside names and lists."""

    settings: Settings
    managed: bool
    audit: bool
    by: str
    """`policies`, `webhook` or `off`."""


def variant_of(values: Values) -> Variant:
    """The one that these values mean. An audit has what can warn: policies that validate, which every server takes."""
    settings, audit = values.settings, values.settings.mode == "audit"
    by = settings.admission.mode
    if by == "auto":
        by = POLICIES if values.policies else WEBHOOK
    if audit and by == WEBHOOK:
        by = POLICIES
    return Variant(settings, bool(settings.managed_namespaces), audit, by)


def doors(values: Values) -> list[Part]:
    """What these values mean; for the chart, every variant with its condition."""
    return [Part(FILE, each) for each in made(variant_of(values))]


def made(variant: Variant) -> list[Object]:
    """The objects of a variant. An audit asks nobody and changes nothing."""
    found: list[Object] = []
    if variant.by == POLICIES:
        found += policies.objects(variant.settings, audit=variant.audit)
    if variant.by != OFF and not variant.audit:
        found += configurations.objects(variant.settings, policies=variant.by == POLICIES, url=_url(variant.settings))
    return [{**each, "metadata": {**each["metadata"], "labels": dict(LABELS)}} for each in found]


def _url(settings: Settings) -> str:
    """Where a manager outside of the cluster is; it tells its port itself, if that is any. Empty: ask the Service."""
    host, port = settings.admission.host, settings.admission.port
    return f"https://{f'[{host}]' if ':' in host else host}:{port or 443}" if host else ""


AXES: Final[Mapping[str, Mapping[Any, str]]] = {
    "managed": {
        True: '(dig "managedNamespaces" (list) .Values.config)',
        False: '(not (dig "managedNamespaces" (list) .Values.config))',
    },
    "audit": {True: '(eq .Values.config.mode "audit")', False: '(ne .Values.config.mode "audit")'},
    "by": {by: f'(eq (include "usher.doors" .) "{by}")' for by in (POLICIES, WEBHOOK)},
}
"""By what variants differ, and how a template says so."""


def templates(variants: Sequence[Variant]) -> list[Part]:
    """Every object of every variant once, with the condition under which it is there and looks like that."""
    seen: dict[tuple[str, str, str], tuple[Object, list[Variant]]] = {}
    for variant in variants:
        for each in made(variant):
            key = (each["kind"], each["metadata"]["name"], json.dumps(each))
            seen.setdefault(key, (each, []))[1].append(variant)
    return [Part(FILE, each, _condition(where)) for each, where in seen.values()]


def _condition(where: Sequence[Variant]) -> When:
    """What these variants have in common, said by a template."""
    sides = {axis: {getattr(each, axis) for each in where} for axis in AXES}
    size = 1
    for found in sides.values():
        size *= len(found)
    assert size == len(where), "these variants have more to them than a condition per axis"
    terms = [AXES[axis][found.copy().pop()] for axis, found in sides.items() if len(found) == 1]
    if len(sides["by"]) > 1:
        terms.append(f'(ne (include "usher.doors" .) "{OFF}")')

    def unused(values: Values) -> bool:
        raise AssertionError("only for the chart")

    return When(unused, f"and {' '.join(terms)}" if len(terms) > 1 else terms[0])
