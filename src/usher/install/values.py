"""What an installation can be told: the values of the Helm chart, which are those of `usher install` as well.

`FIELDS` is the one list: values.yaml with its comments and values.schema.json are made from it, and `read_values`
checks against it, so both ways refuse the same mistakes. `config` holds the manager's settings (docs/settings.md) and
is checked by their own loader. Objects ask `Values` for what they need; the chart gives them holes instead.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from usher import __version__
from usher.install.configschema import config_schema
from usher.settings.loader import SettingsError, load_text
from usher.settings.strictyaml import StrictLoader
from usher.settings.tree import Settings

Schema = dict[str, Any]
NAMESPACE: Final = "usher-system"


class ValuesError(ValueError):
    """The values cannot be used; `errors` has one line for each reason, with its path."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


@dataclass(frozen=True)
class Field:
    """One value: its default, what it means, and what it may be (JSON schema)."""

    default: Any
    about: str
    schema: Schema


Fields = Mapping[str, "Field | Fields"]

_FLAG: Final[Schema] = {"type": "boolean"}
_MAP: Final[Schema] = {"type": "object"}
_STRINGS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_MAPS: Final[Schema] = {"type": "array", "items": {"type": "object"}}

FIELDS: Final[dict[str, Any]] = {
    "image": {
        "repository": Field(
            "usher",
            "Where the image is, with its registry.",
            {"type": "string", "pattern": "^[a-z0-9][a-z0-9._/:-]*$"},
        ),
        "tag": Field(
            "",
            "Empty: the version of the chart.",
            {"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"},
        ),
        "pullPolicy": Field(
            "IfNotPresent", "Always, IfNotPresent or Never.", {"enum": ["Always", "IfNotPresent", "Never"]}
        ),
        "pullSecrets": Field(
            [],
            "Secrets for the registry, as in [{name: registry}].",
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}},
                    "additionalProperties": False,
                },
            },
        ),
    },
    "replicas": Field(
        2, "One leads, the others are warm and answer the webhook.", {"type": "integer", "minimum": 0, "maximum": 9}
    ),
    "resources": Field(
        {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "What each replica asks for; more where tens of thousands of jobs wait.",
        _MAP,
    ),
    "nodeSelector": Field({}, "Where the replicas may run.", _STRINGS),
    "tolerations": Field([], "Taints that they tolerate.", _MAPS),
    "affinity": Field(
        {}, "How they choose nodes. They keep to different nodes where they can, whatever is here.", _MAP
    ),
    "priorityClassName": Field(
        "", "As in system-cluster-critical: without Usher no job starts.", {"type": "string", "maxLength": 253}
    ),
    "config": Field(
        {
            "mode": "enforce",
            "server": {"address": "0.0.0.0", "port": 8080},  # noqa: S104 - in its own pod, behind a NetworkPolicy
            "log": {"format": "json"},
        },
        "The settings of the manager (docs/settings.md), `systemNamespace` apart: that is where it is installed.\n"
        "`mode: audit` decides and reports, and holds nothing.",
        config_schema(),
    ),
    "certificates": {
        "secret": Field(
            "usher-certificates",
            "A Secret of cert-manager's with tls.crt, tls.key and ca.crt. Where there is one, replicas have it in\n"
            "/etc/usher-certificates: set config.admission.certificateDir to that, and they serve it.",
            {"type": "string", "pattern": "^[a-z0-9][-a-z0-9.]*$", "maxLength": 253},
        )
    },
    "crds": {
        "install": Field(True, "Install and upgrade the kinds of Usher. They are kept when Usher goes.", _FLAG),
        "adopt": Field(
            False,
            "Take over definitions of the same name that are not Usher's (koord-queue has queues and queueunits).",
            _FLAG,
        ),
    },
    "podDisruptionBudget": {"enabled": Field(True, "At most one replica at a time is moved away.", _FLAG)},
    "networkPolicy": {
        "enabled": Field(True, "Only metrics and webhook can be reached.", _FLAG),
        "metricsFrom": Field(
            [], "Who may read the metrics, as peers of a NetworkPolicy (probes come anyway); empty: everybody.", _MAPS
        ),
    },
    "flowSchema": {
        "enabled": Field(True, "Requests of the manager do not wait behind those of tenants (API priority).", _FLAG)
    },
}


def defaults(fields: Mapping[str, Any] = FIELDS) -> dict[str, Any]:
    """What holds where nothing is said."""
    return {key: each.default if isinstance(each, Field) else defaults(each) for key, each in fields.items()}


class Values:
    """The values of one installation, checked; `at` gives one by its path."""

    def __init__(
        self, given: Mapping[str, Any] | None = None, namespace: str = NAMESPACE, *, policies: bool = True
    ) -> None:
        """`policies`: whether the server has admission policies of both kinds, as 1.36 has."""
        self.namespace = namespace
        self.version = __version__
        self.policies = policies
        self.everything = merged(defaults(), given or {})
        errors = [*problems(self.everything, schema(), ""), *self._namespace_problem()]
        self.config = {**self.everything["config"], "systemNamespace": namespace} if not errors else {}
        try:
            self._settings = load_text(yaml.safe_dump(self.config), "values")
        except SettingsError as error:
            errors += [each.replace("values: ", "config.", 1) for each in error.errors]
        if errors:
            raise ValuesError(errors)

    def at(self, path: str) -> Any:
        """One value."""
        found: Any = self.everything
        for key in path.split("."):
            found = found[key]
        return found

    @property
    def settings(self) -> Settings:
        """What the manager will run with."""
        return self._settings

    @property
    def image(self) -> str:
        return f"{self.at('image.repository')}:{self.at('image.tag') or self.version}"

    @property
    def config_text(self) -> str:
        """The settings file."""
        return yaml.safe_dump(self.config, sort_keys=True, default_flow_style=False)

    @property
    def config_sum(self) -> str:
        """Changes with the settings, so that pods are made anew."""
        return hashlib.sha256(self.config_text.encode()).hexdigest()

    @property
    def metrics_port(self) -> Any:
        return self.settings.server.port

    @property
    def webhook_port(self) -> Any:
        return self.settings.admission.port

    @property
    def webhook_service(self) -> str:
        return self.settings.admission.service

    @property
    def webhook_secret(self) -> str:
        return self.settings.admission.secret

    @property
    def account(self) -> str:
        """The service account of the replicas."""
        return self.settings.admission.account

    @property
    def lease_name(self) -> str:
        return self.settings.election.lease_name

    @property
    def lease_namespace(self) -> str:
        return self.settings.lease_namespace

    def _namespace_problem(self) -> list[str]:
        config = self.everything.get("config")
        said = config.get("systemNamespace", self.namespace) if isinstance(config, Mapping) else self.namespace
        if said == self.namespace:
            return []
        return [f"config.systemNamespace: it is {self.namespace}, where Usher is installed: say another with -n"]


class _Loader(StrictLoader):
    """As Helm reads values: only true and false are flags, and `off` is a word."""

    yaml_implicit_resolvers = {  # noqa: RUF012  (as the base class has it)
        first: [(tag, form) for tag, form in known if not tag.endswith(":bool") or first in "tTfF"]
        for first, known in StrictLoader.yaml_implicit_resolvers.items()
    }


def read_values(files: Sequence[str], overrides: Sequence[str], namespace: str, *, policies: bool = True) -> Values:
    """Values from texts of YAML, later ones over earlier ones, and `path=value` texts over all; raises ValuesError."""
    given: dict[str, Any] = {}
    for text in files:
        try:
            decoded = yaml.load(text, Loader=_Loader)  # noqa: S506  (a safe loader of ours)
        except yaml.YAMLError as error:
            raise ValuesError([f"the values are no YAML: {error}"]) from None
        if decoded is not None and not isinstance(decoded, dict):
            raise ValuesError(["the values are no map"])
        given = merged(given, decoded or {})
    for text in overrides:
        path, sign, value = text.partition("=")
        if not sign or not path:
            raise ValuesError([f"--set {text}: write it as image.tag=1.0"])
        try:
            inner: Any = yaml.load(value, Loader=_Loader)  # noqa: S506  (a safe loader of ours)
        except yaml.YAMLError:
            raise ValuesError([f"--set {text}: the value is no YAML"]) from None
        for key in reversed(path.split(".")):
            inner = {key: inner}
        given = merged(given, inner)
    return Values(given, namespace, policies=policies)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Maps are laid over each other, everything else is replaced: as Helm does it."""
    found = dict(base)
    for key, value in over.items():
        before = found.get(key)
        found[key] = merged(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return found


def schema(fields: Mapping[str, Any] = FIELDS) -> Schema:
    """The JSON schema of all values."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {**each.schema, "description": each.about.replace("\n", " ")}
            if isinstance(each, Field)
            else schema(each)
            for key, each in fields.items()
        },
    }


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def problems(value: Any, wanted: Schema, path: str) -> list[str]:
    """What a JSON schema (as much of it as is used here) has against a value."""
    kinds = wanted.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        return [f"{path}: {value!r} is no {' or '.join(kinds)}"]
    if "enum" in wanted and value not in wanted["enum"]:
        return [f"{path}: {value!r} is not one of {', '.join(wanted['enum'])}"]
    found: list[str] = []
    if "pattern" in wanted and not re.search(wanted["pattern"], value):
        found.append(f"{path}: {value!r} does not match {wanted['pattern']}")
    if "maxLength" in wanted and len(value) > wanted["maxLength"]:
        found.append(f"{path}: it is longer than {wanted['maxLength']}")
    if "minimum" in wanted and not wanted["minimum"] <= value <= wanted["maximum"]:
        found.append(f"{path}: {value} is not between {wanted['minimum']} and {wanted['maximum']}")
    if isinstance(value, list):
        for number, each in enumerate(value):
            found += problems(each, wanted.get("items", {}), f"{path}[{number}]")
    elif isinstance(value, dict):
        found += _inside(value, wanted, path)
    return found


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _inside(value: Mapping[str, Any], wanted: Schema, path: str) -> list[str]:
    known, other = wanted.get("properties", {}), wanted.get("additionalProperties", {})
    found = [f"{path}: {key} is missing" for key in wanted.get("required", ()) if key not in value]
    for key, each in value.items():
        place = f"{path}.{key}" if path else str(key)
        if key in known:
            found += problems(each, known[key], place)
        elif other is False:
            found.append(f"{place}: there is no such value; there are {', '.join(known)}")
        else:
            found += problems(each, other, place)
    return found
