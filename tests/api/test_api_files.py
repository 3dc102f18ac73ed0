"""What is generated from the types: the checked-in files, their texts, and schemas that take what the types hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structural import problems, structs

from usher.api.codec import as_dict
from usher.api.crd import crds, root_schema
from usher.api.files import written
from usher.api.kinds import KINDS

SCHEMAS = {name: root_schema(kind) for name, kind in KINDS.items()}
ROOT = Path(__file__).parents[2]


def test_the_files_are_those_that_the_types_make() -> None:
    made = written((ROOT / "docs" / "api.md").read_text())
    stale = [name for name, text in made.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != text]

    assert not stale, "run `make fix` (or python -m usher.api)"
    assert {f"deploy/crds/{path.name}" for path in (ROOT / "deploy" / "crds").iterdir()} == set(made) - {"docs/api.md"}


@pytest.mark.parametrize("plural", crds())
def test_the_yaml_says_what_was_meant(plural: str) -> None:
    assert yaml.safe_load((ROOT / "deploy" / "crds" / f"{plural}.yaml").read_text()) == crds()[plural]


def fields(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    """Every field below a schema with its path."""
    found = []
    for name, inside in schema.get("properties", {}).items():
        if path or name not in ("apiVersion", "kind", "metadata"):
            found += [(f"{path}.{name}", inside), *fields(inside, f"{path}.{name}")]
    for below in ("items", "additionalProperties"):
        if isinstance(schema.get(below), dict):
            found += fields(schema[below], path)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_what_it_is_for(kind: str) -> None:
    known = fields(root_schema(KINDS[kind]), "")

    assert len(known) > 5
    assert not [path for path, schema in known if len(schema.get("description", "")) < 5]
    assert not [path for path, schema in known if not schema["description"].endswith(".")]


@pytest.mark.parametrize("kind", KINDS)
def test_lists_say_how_they_are_merged_and_have_a_limit(kind: str) -> None:
    lists = [(path, schema) for path, schema in fields(root_schema(KINDS[kind]), "") if schema.get("type") == "array"]
    ours = [(path, schema) for path, schema in lists if ".template." not in path]

    assert not [path for path, schema in ours if "x-kubernetes-list-type" not in schema]
    assert not [path for path, schema in ours if "maxItems" not in schema]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_whatever_the_types_can_hold_fits_the_schema(kind: str, data: st.DataObject) -> None:
    body = as_dict(data.draw(structs(KINDS[kind].type)))

    assert not list(problems(SCHEMAS[kind], body))


def test_the_checker_of_schemas_sees_what_is_wrong() -> None:
    schema = root_schema(KINDS["QueueUnit"])
    body = {
        "metadata": {"name": "u"},
        "spec": {"podSets": [{"count": -1, "colour": "red"}, {"name": "main"}], "queue": 3, "request": {"cpu": 1.5}},
        "status": {"phase": "Gone", "admissions": [{}]},
    }

    assert [each.split(":")[0] for each in problems(schema, body)] == [
        ".spec.podSets",
        ".spec.podSets[0].count",
        ".spec.podSets[0].colour",
        ".spec.queue",
        ".spec.request.cpu",
        ".status.phase",
        ".status.admissions[0].name",
    ]
