"""The webhook configurations: when the API server asks Usher, and what happens when nobody answers.

Two sets. Where policies decide (`policies=True`), Usher is asked for defaults and for what needs a second object; a job
about which nobody can be asked is accepted, because the policies hold it and the engine looks again. Without policies
Usher is asked for everything and what nobody answers for is refused. Either way only objects that concern Usher match,
by the new object or the old one, so nothing else in the cluster waits for Usher.

`usher install` and the chart apply them. The running manager fills in `caBundle` and, outside of a cluster, the URL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from usher.api.names import GROUP, VERSION
from usher.jobkinds.base import JobKind
from usher.runtime.marks import GATE, UNIT_ANNOTATION
from usher.settings.tree import Settings
from usher.webhooks import cel
from usher.webhooks.policies import API_VERSION, Object, name_of
from usher.webhooks.policies_resourcequota import OPERATIONS, conditions
from usher.webhooks.terms import MANAGED, Terms, terms_of

NAME: Final = "usher"
"""Of both configurations."""
MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate"
IN_MANAGED: Final = "/managed"
"""Ends the paths that are asked only about managed namespaces: the API server knows of a new label before we do."""
PORT: Final = 443
"""Of the Service."""


def objects(settings: Settings, *, policies: bool, ca: str = "", url: str = "") -> list[Object]:
    """Both configurations; `policies`: those of `usher.webhooks.policies` are there, so Usher is asked for the rest.

    `ca` is the caBundle (base64 of PEM), which the running manager keeps right: leave it out. `url` is where the API
    server finds a manager outside of its cluster, as in https://127.0.0.1:9443; else it is asked through the Service.
    """
    terms = terms_of(settings)
    made = _Entries(settings, terms, policies, ca, url)
    mutating, validating = made.mutating(), made.validating()
    return [
        {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": NAME}, "webhooks": entries}
        for kind, entries in (
            ("MutatingWebhookConfiguration", mutating),
            ("ValidatingWebhookConfiguration", validating),
        )
    ]


class _Entries:
    def __init__(self, settings: Settings, terms: Terms, policies: bool, ca: str, url: str) -> None:
        self._settings, self._terms, self._policies, self._ca, self._url = settings, terms, policies, ca, url
        self._named = [
            {"name": "queued", "expression": cel.concerns(terms)},
            {"name": "not-by-usher", "expression": cel.not_usher(terms)},
            {"name": "not-of-a-queued-job", "expression": cel.not_owned(terms)},
        ]
        said = cel.is_new_in("spec", "metadata.labels", "metadata.annotations")
        self._queued = [*self._named, {"name": "says-something-new", "expression": said}]
        self._in_managed = [
            {"name": "not-a-system-namespace", "expression": cel.not_exempt(terms)},
            {"name": "not-by-usher", "expression": cel.not_usher(terms)},
        ]

    def mutating(self) -> list[Object]:
        entries: list[Object] = []
        operations = ("CREATE",) if self._policies else ("CREATE", "UPDATE")
        for kind in self._terms.kinds:
            rules = [_rule(kind.group, kind.version, kind.plural, *operations)]
            name = f"{name_of(kind)}.usher.dev"
            entries.append(self._entry(MUTATE, f"defaults.{name}", rules, self._queued, must=not self._policies))
            if not self._policies:
                entries += self._managed(MUTATE, f"managed.{name}", [self._created(kind)], self._named[2:])
                starts = {"name": "starts-what-is-not-queued", "expression": cel.started_unqueued(self._terms)}
                changes = [_rule(kind.group, kind.version, kind.plural, "UPDATE")]
                entries.append(self._by_label(MUTATE, f"started.{name}", changes, [*self._named[2:], starts]))
        return entries

    def validating(self) -> list[Object]:
        entries: list[Object] = []
        for kind in self._terms.kinds:
            rules = [_rule(kind.group, kind.version, kind.plural, "CREATE", "UPDATE")]
            name = f"{name_of(kind)}.usher.dev"
            entries.append(self._entry(VALIDATE, f"queued.{name}", rules, self._queued, must=not self._policies))
        ordinary = [{"name": "ordinary-pod", "expression": cel.ordinary_pod(UNIT_ANNOTATION)}]
        entries += self._managed(VALIDATE, "created.pods.usher.dev", [_rule("", "v1", "pods", "CREATE")], ordinary)
        others = self._named[1:2]
        asked = [*others, {"name": "says-something-new", "expression": cel.is_new_in("spec")}]
        quotas = [_rule(GROUP, VERSION, "queuequotas", "CREATE", "UPDATE")]
        entries.append(self._entry(VALIDATE, "queuequotas.usher.dev", quotas, asked, must=True))
        ours = [_rule(GROUP, VERSION, "queueunits", "CREATE", "UPDATE")]
        ours += [_rule(GROUP, VERSION, "queuejobs", "CREATE", "UPDATE")]
        entries.append(self._entry(VALIDATE, "units.usher.dev", ours, asked, must=not self._policies))
        return entries if self._policies else [*entries, *self._instead_of_policies(others)]

    def _instead_of_policies(self, others: list[Object]) -> list[Object]:
        def gated(which: str) -> str:
            return f"(has({which}.spec.schedulingGates) && {which}.spec.schedulingGates.exists(g, g.name == '{GATE}'))"

        opened = {"name": "opens-our-gate", "expression": f"{gated('oldObject')} && !{gated('object')}"}
        plurals = ("queueunits", "queues", "queuequotas", "queuejobs")
        statuses = [_rule(GROUP, VERSION, f"{plural}/status", "UPDATE") for plural in plurals]
        pods = [_rule("", "v1", "pods", "UPDATE")]
        made = [_rule("", "v1", "resourcequotas", *OPERATIONS)]
        return [
            self._entry(VALIDATE, "gates.pods.usher.dev", pods, [opened, *others], must=True),
            self._entry(VALIDATE, "statuses.usher.dev", statuses, others, must=True),
            self._entry(VALIDATE, "made.resourcequotas.usher.dev", made, conditions(self._terms), must=True),
        ]

    def _created(self, kind: JobKind) -> Object:
        return _rule(kind.group, kind.version, kind.plural, "CREATE")

    def _managed(self, path: str, name: str, rules: list[Object], conditions: list[Object]) -> list[Object]:
        """The same for namespaces with the label and for those that the settings name."""
        found = [self._by_label(path, name, rules, conditions)]
        conditions, path = [*self._in_managed, *conditions], f"{path}{IN_MANAGED}"
        if self._terms.managed_namespaces:
            names = {
                "matchExpressions": [
                    {
                        "key": "kubernetes.io/metadata.name",
                        "operator": "In",
                        "values": list(self._terms.managed_namespaces),
                    }
                ]
            }
            found.append(self._entry(path, f"by-name.{name}", rules, conditions, must=True, namespaces=names))
        return found

    def _by_label(self, path: str, name: str, rules: list[Object], conditions: list[Object]) -> Object:
        """For namespaces with the label."""
        conditions, labelled = [*self._in_managed, *conditions], {"matchLabels": {MANAGED: "true"}}
        return self._entry(f"{path}{IN_MANAGED}", name, rules, conditions, must=True, namespaces=labelled)

    def _entry(
        self,
        path: str,
        name: str,
        rules: Sequence[Object],
        conditions: Sequence[Object],
        *,
        must: bool,
        namespaces: Object | None = None,
    ) -> Object:
        """One webhook; `must`: without an answer the request is refused."""
        admission = self._settings.admission
        client: dict[str, Any] = {"caBundle": self._ca} if self._ca else {}
        if self._url:
            client["url"] = f"{self._url}{path}"
        else:
            namespace = self._settings.system_namespace
            client["service"] = {"name": admission.service, "namespace": namespace, "path": path, "port": PORT}
        entry: Object = {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "failurePolicy": "Fail" if must else "Ignore",
            "matchConditions": list(conditions),
            "matchPolicy": "Equivalent",
            "rules": list(rules),
            "sideEffects": "None",
            "timeoutSeconds": admission.timeout_ms // 1000,
        }
        if namespaces is not None:
            entry["namespaceSelector"] = namespaces
        return entry


def _rule(group: str, version: str, plural: str, *operations: str) -> Object:
    scope = "*" if plural.startswith("queuequotas") else "Namespaced"
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": [plural],
        "scope": scope,
    }
