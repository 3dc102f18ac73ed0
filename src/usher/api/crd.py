"""CustomResourceDefinitions of our kinds, made from their structs and facts; `python -m usher.api` writes them."""

from __future__ import annotations

from typing import Any, Final

from usher.api.kinds import KINDS, Column, Kind
from usher.api.names import CATEGORY
from usher.api.schema import Schema, struct_schema

KIND_TEXT: Final = "The kind of this object."


def root_schema(kind: Kind) -> Schema:
    """The schema of a whole object."""
    schema = struct_schema(kind.type)
    properties = schema["properties"]
    for name, text in (("apiVersion", "The version of the schema of this object."), ("kind", KIND_TEXT)):
        properties[name] = {"description": text, "type": "string"}
    properties["metadata"] = {"type": "object", "properties": {"name": {"type": "string"}}}
    return schema


def crd(kind: Kind) -> dict[str, Any]:
    """The definition of a kind as an object of the API server."""
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root_schema(kind)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(each) for each in kind.columns],
    }
    if kind.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.selectable]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name, "labels": {"app.kubernetes.io/part-of": "usher"}},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short),
                "categories": [CATEGORY],
            },
            "versions": [version],
        },
    }


def crds() -> dict[str, dict[str, Any]]:
    """All of them, by the plural name of the kind."""
    return {kind.plural: crd(kind) for kind in KINDS.values()}


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.about:
        shown["description"] = column.about
    if column.wide:
        shown["priority"] = 1
    return shown
