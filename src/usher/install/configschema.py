"""The JSON schema of the manager's settings, for the chart's `config`: which keys there are and of which type.

Coarser than the loader of the settings, which has the last word, in `usher install` and when the manager starts: a
schema cannot say why two values do not go together. Helm refuses a misspelt key by it, though.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from usher.jobkinds.registry import BUILT_IN
from usher.settings.loader import value_of
from usher.settings.tree import Jobs, Settings
from usher.settings.values import key_of
from usher.webhooks.policies import name_of


def config_schema(kind: Any = Settings) -> dict[str, Any]:
    """Of all settings, or of a group of them."""
    properties: dict[str, Any] = {}
    for each in fields(kind):
        value = value_of(each)
        if value is None:
            properties[key_of(each.name)] = config_schema(each.default_factory)
        else:
            shown = _typed(value.called, value.show(each.default))
            if (kind, each.name) == (Jobs, "kinds"):  # which the settings do not know, being below the kinds
                shown["items"] = {"enum": [name_of(known) for known in BUILT_IN]}
            properties[key_of(each.name)] = {**shown, "description": each.metadata["about"]}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _typed(called: str, default: Any) -> dict[str, Any]:
    choices = re.findall(r"`([^`]*)`", called)
    if isinstance(default, list):
        return {"type": "array", "items": {"enum": choices} if choices else {"type": "string"}}
    if choices:
        return {"enum": choices}
    if isinstance(default, bool):
        return {"type": "boolean"}
    if isinstance(default, int):
        return {"type": "integer"}
    return {"type": ["string", "number"]} if called == "number" else {"type": "string"}
