"""YAML as Kubernetes reads it: a key that is given twice is an error, not the last of the two.

The loader of the configuration and the simulator's reader of manifests use it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from usher.core.amounts import quoted


class StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """For `yaml.load`; makes plain values only."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        if len(mapping) < len(node.value) and not any(key.tag.endswith(":merge") for key, _ in node.value):
            seen = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=deep)
                if key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {quoted(key)} is given twice", key_node.start_mark
                    )
                seen.add(key)
        return mapping


def described(error: yaml.YAMLError | ValueError | RecursionError) -> str:
    """What is wrong with a text that is not YAML, with the line where it is known."""
    if isinstance(error, yaml.MarkedYAMLError):
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        return f"{line}is not YAML: {error.problem or error.context}"
    return f"is not YAML: {error}"
