"""The Helm chart, made from the same parts: where a value goes there is a hole, which becomes a template expression.

A hole is a piece of text between two signs that nothing else has; objects are built with holes as with any other
values, written as YAML, and the holes replaced. A value that is only a hole becomes JSON of whatever the value is, one
inside other text becomes its text. `python -m usher.install` writes the chart; a test renders it with Helm and compares
it object by object with `usher install --print`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Final

import yaml

from usher import __version__
from usher.api.crd import crds
from usher.install.doors import POLICIES, WEBHOOK, Variant, templates
from usher.install.part import OLDEST, Part
from usher.install.texts import CHECKS, HEADER, HELPERS, IGNORED, NOTES, VALUES_HEADER
from usher.install.values import FIELDS, Field, Values, schema
from usher.install.whole import OUTSIDE, parts
from usher.settings.tree import Settings

FOLDER: Final = "deploy/helm/usher"
OPEN, CLOSE = "⟦", "⟧"
_HOLE: Final = re.compile(f"{OPEN}([^{CLOSE}]*){CLOSE}")


def hole(expression: str) -> str:
    """A place for what a template expression gives."""
    return f"{OPEN}{expression}{CLOSE}"


MANAGED: Final = hole('include "usher.managed" .')


class Holes(Values):
    """Values that are not known yet."""

    def __init__(self) -> None:
        super().__init__()
        self.namespace = hole(".Release.Namespace")
        self.version = hole(".Chart.AppVersion")

    def at(self, path: str) -> Any:
        assert isinstance(super().at(path), object)  # it exists
        return hole(f".Values.{path}")

    @property
    def image(self) -> str:
        return hole(".Values.image.repository") + ":" + hole(".Values.image.tag | default .Chart.AppVersion")

    @property
    def config_text(self) -> str:
        return hole('include "usher.config" .')

    @property
    def config_sum(self) -> str:
        return hole('include "usher.config" . | sha256sum')

    @property
    def settings(self) -> Settings:
        settings = super().settings
        return replace(
            settings,
            system_namespace=self.namespace,
            labels=replace(
                settings.labels,
                queue=(hole('include "usher.queueKeys" .'),),
                quota=(hole('include "usher.quotaKeys" .'),),
                elastic=(hole('include "usher.elasticKeys" .'),),
            ),
            admission=replace(
                settings.admission,
                service=self.webhook_service,
                account=self.account,
                operator_namespaces=(hole('include "usher.operators" .'),),
            ),
        )

    @property
    def metrics_port(self) -> Any:
        return hole(".Values.config.server.port")

    @property
    def webhook_port(self) -> Any:
        return hole('dig "admission" "port" 9443 .Values.config')

    @property
    def webhook_service(self) -> str:
        return hole('dig "admission" "service" "usher-webhook" .Values.config')

    @property
    def webhook_secret(self) -> str:
        return hole('dig "admission" "secret" "usher-webhook-tls" .Values.config')

    @property
    def account(self) -> str:
        return hole('dig "admission" "account" "usher" .Values.config')

    @property
    def lease_name(self) -> str:
        return hole('dig "election" "leaseName" "usher-manager" .Values.config')

    @property
    def lease_namespace(self) -> str:
        return hole('dig "election" "namespace" "" .Values.config | default .Release.Namespace')


def written() -> dict[str, str]:
    """Every file of the chart, by its path in the repository."""
    files = {
        "Chart.yaml": _chart(),
        "values.yaml": VALUES_HEADER + _values(FIELDS, ""),
        "values.schema.json": json.dumps(
            {"$schema": "http://json-schema.org/draft-07/schema#", **_with_globals(schema())}, indent=2
        )
        + "\n",
        ".helmignore": IGNORED,
        "templates/_helpers.tpl": _helpers(),
        "templates/checks.yaml": CHECKS,
        "templates/NOTES.txt": NOTES,
    }
    by_file: dict[str, list[Part]] = {}
    for part in parts(Holes(), _doors):
        if part.file != OUTSIDE:
            by_file.setdefault(part.file, []).append(part)
    for name, found in by_file.items():
        files[f"templates/{name}.yaml"] = HEADER + "".join(_template(part) for part in found)
    return {f"{FOLDER}/{name}": text for name, text in files.items()}


def _doors(values: Values) -> list[Part]:
    """The admission objects, in every variant."""
    without = values.settings
    managed = replace(without, managed_namespaces=(MANAGED,))
    variants = [
        Variant(managed if named else without, named, audit, by)
        for named, audit, by in product((False, True), (False, True), (POLICIES, WEBHOOK))
        if not (audit and by == WEBHOOK)
    ]
    return templates(variants)


def _spread(value: Any, key: str = "") -> Any:
    """The same, with whole lists and numbers where a hole stands for one of them."""
    if value == [MANAGED]:
        return hole('dig "managedNamespaces" (list) .Values.config')
    if key == "timeoutSeconds":
        return hole('dig "admission" "timeout" "5s" .Values.config | trimSuffix "s" | int')
    if isinstance(value, dict):
        return {name: _spread(each, name) for name, each in value.items()}
    return [_spread(each) for each in value] if isinstance(value, list) else value


def _template(part: Part) -> str:
    text = yaml.dump(_spread(part.object), Dumper=_Dumper, sort_keys=False, width=1_000_000, allow_unicode=True)
    assert "{{" not in text, f"{part.object['metadata']['name']} has what Helm takes for a template"
    filled = "\n".join(_filled(line) for line in text.splitlines())
    if part.when is None:
        return f"---\n{filled}\n"
    return f"{{{{- if {part.when.template} }}}}\n---\n{filled}\n{{{{- end }}}}\n"


def _filled(line: str) -> str:
    """A line of YAML with its holes replaced."""
    whole = re.fullmatch(rf"(\s*(?:- )*(?:[^\s:]+: )?){OPEN}([^{CLOSE}]*){CLOSE}", line)
    if whole:
        return f"{whole[1]}{{{{ {whole[2]} | toJson }}}}"
    return _HOLE.sub(lambda found: f"{{{{ {found[1]} }}}}", line)


class _Dumper(yaml.SafeDumper):
    """No anchors; quotes around text with holes in it, which may turn out to be anything."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    if OPEN not in value or _HOLE.fullmatch(value):
        style = None if OPEN not in value else ""
    else:
        style = "|" if '"' in value or "\n" in value else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _helpers() -> str:
    labels, admission = Settings().labels, Settings().admission
    lists = {
        "operators": ("admission", "operatorNamespaces", admission.operator_namespaces),
        "queueKeys": ("labels", "queue", labels.queue),
        "quotaKeys": ("labels", "quota", labels.quota),
        "elasticKeys": ("labels", "elastic", labels.elastic),
    }
    found = [
        _joined(name, f'dig "{group}" "{key}" ({_list(default)})') for name, (group, key, default) in lists.items()
    ]
    found.append(_joined("managed", 'dig "managedNamespaces" (list)'))
    kinds = [each["metadata"]["name"] for each in crds().values()]
    return HELPERS.replace("@LISTS@", "".join(found)).replace("list @KINDS@", _list(kinds))


def _joined(name: str, found: str) -> str:
    return f'{{{{- define "usher.{name}" -}}}}\n{{{{- join "\', \'" ({found} .Values.config) -}}}}\n{{{{- end }}}}\n'


def _list(values: Iterable[str]) -> str:
    return " ".join(["list", *(f'"{each}"' for each in values)])


def _chart() -> str:
    chart = {
        "apiVersion": "v2",
        "name": "usher",
        "description": "A fair job queue: jobs wait, start when their quota allows, and give back what was lent",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": f">={OLDEST[0]}.{OLDEST[1]}.0-0",
        "annotations": {"artifacthub.io/license": "Apache-2.0"},
    }
    return yaml.safe_dump(chart, sort_keys=False, width=120)


def _values(fields: Mapping[str, Any], indent: str) -> str:
    """The defaults, each with what it means."""
    lines: list[str] = []
    for key, each in fields.items():
        if isinstance(each, Field):
            lines += [f"{indent}# {line}" for line in each.about.splitlines()]
            text = yaml.safe_dump({key: each.default}, sort_keys=False, width=120, default_flow_style=False)
            lines += [f"{indent}{line}" for line in text.splitlines()]
        else:
            lines += [f"{indent}{key}:", _values(each, f"{indent}  ").rstrip("\n")]
        if not indent:
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _with_globals(found: dict[str, Any]) -> dict[str, Any]:
    """Helm puts `global` into the values of every chart."""
    return {**found, "properties": {**found["properties"], "global": {"type": "object"}}}
