"""The files that are made from our types, as text: the CRDs and the reference of our kinds in the docs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import yaml

from usher.api.crd import crds, root_schema
from usher.api.kinds import KINDS, Kind
from usher.api.schema import Schema

HEADER: Final = "# Written by `python -m usher.api` from the types in src/usher/api; edit those and run `make fix`.\n"
BEGIN: Final = "<!-- reference: written by `python -m usher.api` from the types in src/usher/api -->"
END: Final = "<!-- reference: end -->"

STANDARD: Final = {
    "conditions": "list of conditions",
    "consumerRef": "object reference",
    "labelSelector": "label selector",
    "namespaceSelector": "label selector",
    "template": "pod template",
}
"""Fields that are as everywhere in Kubernetes: the reference does not go into them."""


def written(page: str) -> dict[str, str]:
    """Path to text; `page` is docs/api.md as it is, of which the reference is renewed."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    files = {f"deploy/crds/{plural}.yaml": HEADER + _yaml(body) for plural, body in crds().items()}
    return files | {"docs/api.md": f"{before}{BEGIN}\n\n{reference()}\n{END}{after}"}


def reference() -> str:
    """Every field of every kind, as tables."""
    return "\n".join(_kind(kind) for kind in KINDS.values())


def _kind(kind: Kind) -> str:
    schema = root_schema(kind)
    scope = "namespaced" if kind.namespaced else "cluster-wide"
    short = ", ".join(f"`{each}`" for each in kind.short)
    lines = [f"### {kind.kind}", "", f"`{kind.plural}` ({short}), {scope}. {schema['description']}", ""]
    for part in ("spec", "status"):
        lines += [f"| {part} | type | |", "|---|---|---|", *_rows(schema["properties"][part], ""), ""]
    lines += ["What the server says to what breaks a rule:", ""]
    lines += [f"- {message}" for message in dict.fromkeys(messages(schema))]
    return "\n".join([*lines, ""])


def _rows(schema: Schema, prefix: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        notes = [field.get("description", "")]
        if "default" in field and field["default"] != {}:
            notes.append(f"Default `{json.dumps(field['default']).strip(chr(34))}`.")
        if name in schema.get("required", ()):
            notes.append("Required.")
        yield f"| `{prefix}{name}` | {STANDARD.get(name) or _type(field)} | {' '.join(notes)} |"
        if name not in STANDARD:
            yield from _rows(*_inside(field, f"{prefix}{name}"))


def _inside(field: Schema, path: str) -> tuple[Schema, str]:
    """The object that a field is made of, through lists and maps, and the beginning of the paths in it."""
    if "items" in field:
        return _inside(field["items"], f"{path}[]")
    if "additionalProperties" in field:
        return _inside(field["additionalProperties"], f"{path}.*")
    return field, f"{path}."


def _type(field: Schema) -> str:
    if "items" in field:
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    return "time" if field.get("format") == "date-time" else str(field["type"])


def messages(schema: Any) -> Iterator[str]:
    """What every rule of a schema says, as it comes."""
    if isinstance(schema, dict):
        yield from (each["message"] for each in schema.get("x-kubernetes-validations", ()))
        for value in schema.values():
            yield from messages(value)


class _Dumper(yaml.SafeDumper):
    """Writes lists as people do, and no anchors: the same rule may stand in many places."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml(body: dict[str, Any]) -> str:
    return yaml.dump(body, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
