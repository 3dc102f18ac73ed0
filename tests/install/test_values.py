"""What an installation may be told: every mistake with its path, and the same schema for Helm."""

from __future__ import annotations

from typing import Any

import pytest

from usher.install.values import Values, ValuesError, defaults, problems, read_values, schema
from usher.install.whole import objects
from usher.settings.loader import shown
from usher.settings.tree import Settings

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a value that does not exist": ({"replica": 2}, "replica: there is no such value; there are image, replicas"),
    "one inside another": ({"image": {"tga": "1"}}, "image.tga: there is no such value; there are repository, tag"),
    "a number as text": ({"replicas": "2"}, "replicas: '2' is no integer"),
    "a flag as a number": ({"replicas": True}, "replicas: True is no integer"),
    "a number out of range": ({"replicas": 10}, "replicas: 10 is not between 0 and 9"),
    "a tag with a space": ({"image": {"tag": "a b"}}, "image.tag: 'a b' does not match"),
    "a choice that there is not": ({"image": {"pullPolicy": "No"}}, "image.pullPolicy: 'No' is not one of Always"),
    "a list of the wrong things": ({"tolerations": ["x"]}, "tolerations[0]: 'x' is no object"),
    "a secret without a name": ({"image": {"pullSecrets": [{}]}}, "image.pullSecrets[0]: name is missing"),
    "a setting that does not exist": ({"config": {"egnine": {}}}, "config.egnine: there is no such value"),
    "a setting that cannot be": (
        {"config": {"engine": {"backoffBase": "2h"}}},
        "config.engine.backoffBase: is longer than backoffMax, 15m",
    ),
    "a kind of job that there is not": (
        {"config": {"jobs": {"kinds": ["frogs.batch"]}}},
        "config.jobs.kinds[0]: 'frogs.batch' is not one of jobs.batch",
    ),
    "a namespace other than its own": (
        {"config": {"systemNamespace": "elsewhere"}},
        "config.systemNamespace: it is usher-system, where Usher is installed",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_refused_with_its_path(case: str) -> None:
    given, want = WRONG[case]

    with pytest.raises(ValuesError) as caught:
        Values(given)

    assert want in str(caught.value)


def test_all_mistakes_are_said_at_once() -> None:
    with pytest.raises(ValuesError) as caught:
        Values({"replicas": -1, "image": {"tag": "?"}, "nothing": 1})

    assert len(caught.value.errors) == 3


def test_the_schema_takes_every_setting_as_it_is_shown() -> None:
    given = {**defaults(), "config": shown(Settings())}

    assert problems(given, schema(), "") == []


def test_files_are_laid_over_each_other_and_single_values_over_them() -> None:
    found = read_values(
        ["image: {repository: one, tag: '1'}\nreplicas: 3", "image: {tag: '2'}"],
        ["config.log.level=debug", "crds.adopt=true"],
        "batch",
    )

    assert found.image == "one:2"
    assert found.at("replicas") == 3
    assert found.at("crds.adopt") is True
    assert found.settings.log.level == "debug"
    assert found.settings.system_namespace == "batch"


def test_off_is_a_word_as_for_helm() -> None:
    found = read_values(["config: {admission: {mode: off}}"], ["config.log.level=error", "crds.adopt=false"], "a")

    assert found.settings.admission.mode == "off"
    assert found.at("crds.adopt") is False


@pytest.mark.parametrize(("files", "sets", "want"), [
    (["- a"], [], "the values are no map"),
    (["a: ["], [], "the values are no YAML"),
    ([], ["replicas"], "write it as image.tag=1.0"),
    ([], ["replicas=["], "the value is no YAML"),
])  # fmt: skip
def test_what_cannot_be_read_is_said(files: list[str], sets: list[str], want: str) -> None:
    with pytest.raises(ValuesError, match=want):
        read_values(files, sets, "usher-system")


def kinds(given: dict[str, Any]) -> set[str]:
    return {each["kind"] for each in objects(Values(given))}


@pytest.mark.parametrize(("value", "kind"), [
    ("podDisruptionBudget", "PodDisruptionBudget"),
    ("networkPolicy", "NetworkPolicy"),
    ("flowSchema", "FlowSchema"),
])  # fmt: skip
def test_what_is_turned_off_is_not_installed(value: str, kind: str) -> None:
    assert kind in kinds({})
    assert kinds({}) - kinds({value: {"enabled": False}}) == {kind}


def test_everything_is_ours_and_in_its_namespace() -> None:
    found = objects(Values({}, "batch"))
    named = [each["metadata"]["namespace"] for each in found if "namespace" in each["metadata"]]

    assert set(named) == {"batch"}
    assert len(named) > 5
    assert not [
        each["metadata"]["name"]
        for each in found
        if each["kind"] != "Namespace"
        and each["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") != "usher"
    ]


def test_other_settings_give_other_pods() -> None:
    def sum_of(given: dict[str, Any]) -> str:
        (deployment,) = [each for each in objects(Values(given)) if each["kind"] == "Deployment"]
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["usher.dev/settings-sum"])

    assert sum_of({}) == sum_of({"replicas": 3})
    assert sum_of({}) != sum_of({"config": {"log": {"level": "debug"}}})
