"""What is installed is what the code makes, and it is made from the settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from usher.settings.loader import load_text
from usher.settings.tree import Settings
from usher.webhooks import configurations, policies
from usher.webhooks.__main__ import written

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", written())
def test_the_files_in_deploy_are_what_the_code_makes(name: str) -> None:
    assert (ROOT / name).read_text() == written()[name], "run `make fix`"


def test_every_policy_has_a_binding_and_every_binding_a_policy() -> None:
    made = policies.objects(Settings())
    names = {each["metadata"]["name"] for each in made if each["kind"].endswith("Policy")}

    assert {each["spec"]["policyName"] for each in made if each["kind"].endswith("Binding")} == names


def test_aliases_of_the_queue_label_reach_policies_and_match_conditions() -> None:
    settings = load_text("labels: {queue: [example.com/q], quota: []}", "test")
    texts = [
        json.dumps(policies.objects(settings)),
        *(json.dumps(configurations.objects(settings, policies=way)) for way in (True, False)),
    ]

    assert all("example.com/q" in text and "kueue.x-k8s.io/queue-name" not in text for text in texts)


def test_namespaces_of_the_settings_are_managed_too() -> None:
    settings = load_text("managedNamespaces: [batch-a, batch-b]", "test")
    chosen = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["batch-a", "batch-b"]}
    bindings = [each for each in policies.objects(settings) if "matchResources" in each["spec"]]
    selectors = [each["spec"]["matchResources"]["namespaceSelector"] for each in bindings]
    entries = [
        each["namespaceSelector"]
        for made in configurations.objects(settings, policies=False)
        for each in made["webhooks"]
        if "namespaceSelector" in each
    ]

    assert {"matchExpressions": [chosen]} in selectors
    assert entries.count({"matchExpressions": [chosen]}) == 2


def test_in_audit_nothing_is_changed_and_nothing_is_refused() -> None:
    made = policies.objects(Settings(), audit=True)

    assert not [each for each in made if each["kind"].startswith("Mutating")]
    actions = {tuple(each["spec"]["validationActions"]) for each in made if each["kind"].endswith("Binding")}
    assert actions == {("Warn", "Audit")}


def test_with_policies_a_job_about_which_nobody_answers_is_accepted() -> None:
    def failing(*, with_policies: bool) -> dict[str, str]:
        made = configurations.objects(Settings(), policies=with_policies)
        return {each["name"]: each["failurePolicy"] for kind in made for each in kind["webhooks"]}

    assert failing(with_policies=True) == {
        "defaults.jobs.batch.usher.dev": "Ignore",
        "queued.jobs.batch.usher.dev": "Ignore",
        "units.usher.dev": "Ignore",
        "created.pods.usher.dev": "Fail",
        "queuequotas.usher.dev": "Fail",
    }
    assert set(failing(with_policies=False).values()) == {"Fail"}


def test_every_entry_matches_only_what_concerns_usher() -> None:
    """By conditions on the object, by a label of the namespace, or because the kind is ours."""
    for with_policies in (True, False):
        for made in configurations.objects(Settings(), policies=with_policies):
            for entry in made["webhooks"]:
                names = {each["name"] for each in entry["matchConditions"]}
                ours = all(rule["apiGroups"] == ["scheduling.x-k8s.io"] for rule in entry["rules"])
                narrow = names & {"queued", "opens-our-gate", "made-by-usher"} or "namespaceSelector" in entry or ours
                assert narrow, entry["name"]
                assert "not-by-usher" in names, entry["name"]


def test_nobody_is_asked_when_only_owners_and_finalizers_change() -> None:
    """Where changes are asked about at all; but for statuses, gates and ResourceQuotas, whose conditions say more."""
    for with_policies in (True, False):
        for made in configurations.objects(Settings(), policies=with_policies):
            for entry in made["webhooks"]:
                changed = any("UPDATE" in rule["operations"] for rule in entry["rules"])
                narrow = entry["name"].startswith(("started.", "statuses.", "gates.", "made."))
                names = {each["name"] for each in entry["matchConditions"]}
                assert "says-something-new" in names or narrow or not changed, entry["name"]
                assert "says-something-new" not in names or not narrow, "a status could be written by anybody"


def test_the_service_is_the_one_of_the_settings_and_a_url_takes_its_place() -> None:
    settings = load_text("systemNamespace: queues\nadmission: {service: doors, timeout: 7s}", "test")
    inside = configurations.objects(settings, policies=True)[0]["webhooks"][0]
    outside = configurations.objects(settings, policies=True, ca="Y2E=", url="https://127.0.0.1:1")[0]["webhooks"][0]

    assert inside["clientConfig"] == {
        "service": {"name": "doors", "namespace": "queues", "path": "/mutate", "port": 443}
    }
    assert inside["timeoutSeconds"] == 7
    assert outside["clientConfig"] == {"caBundle": "Y2E=", "url": "https://127.0.0.1:1/mutate"}
