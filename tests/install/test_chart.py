"""The chart: what is checked in is what is made, and real Helm renders from it what `usher install` applies."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_values import WRONG

from usher.install.chart import FOLDER, written
from usher.install.values import Values
from usher.install.whole import objects

ROOT = Path(__file__).parents[2]
POLICIES = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"

CASES: dict[str, tuple[dict[str, Any], str, bool]] = {
    "nothing is said": ({}, "usher-system", True),
    "the server has no policies": ({}, "usher-system", False),
    "everything about the replicas is said": (
        {
            "image": {"repository": "registry.example:5000/a/usher", "tag": "2.0", "pullPolicy": "Always"},
            "replicas": 3,
            "resources": {"limits": {"cpu": "2"}},
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "system-cluster-critical",
            "certificates": {"secret": "mine"},
            "networkPolicy": {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]},
        },
        "batch",
        True,
    ),
    "what can be turned off is off": (
        {
            "crds": {"install": False},
            "podDisruptionBudget": {"enabled": False},
            "networkPolicy": {"enabled": False},
            "flowSchema": {"enabled": False},
            "config": {"admission": {"mode": "off"}},
        },
        "usher-system",
        True,
    ),
    "settings change the doors": (
        {
            "config": {
                "labels": {"queue": ["example.com/queue"], "quota": ["a/b", "c"]},
                "managedNamespaces": ["red", "blue"],
                "server": {"port": 9000},
                "election": {"leaseName": "leader", "namespace": "elsewhere"},
                "admission": {
                    "account": "manager",
                    "operatorNamespaces": ["kube-system", "jobset-system"],
                    "service": "doors",
                    "timeout": "9s",
                    "secret": "tls",
                    "port": 1234,
                },
            }
        },
        "a1",
        True,
    ),
    "settings change the webhook": (
        {"config": {"admission": {"mode": "webhook"}, "managedNamespaces": ["red"]}},
        "usher-system",
        True,
    ),
    "an audit": ({"config": {"mode": "audit"}}, "usher-system", True),
    "an audit without policies": ({"config": {"mode": "audit"}}, "usher-system", False),
    "an audit of managed namespaces": ({"config": {"mode": "audit", "managedNamespaces": ["x"]}}, "n", True),
}


def test_the_files_are_those_that_the_parts_make() -> None:
    made = written()
    stale = [name for name, text in made.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != text]

    assert not stale, "run `make fix` (or python -m usher.install)"
    there = {str(path.relative_to(ROOT)) for path in (ROOT / FOLDER).rglob("*") if path.is_file()}
    assert there == set(made)


def rendered(helm: str, given: dict[str, Any], namespace: str, policies: bool, tmp_path: Path) -> Any:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(given))
    flags = ["--kube-version", "1.36.4", *(["--api-versions", POLICIES] if policies else [])]
    command = [helm, "template", "usher", str(ROOT / FOLDER), "-n", namespace, "-f", str(file), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def by_key(found: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Objects by what they are; settings as what they mean, because their text and its sum may differ."""
    keyed = {}
    for each in found:
        meta = each["metadata"]
        if each["kind"] == "ConfigMap":
            each = {**each, "data": {key: yaml.safe_load(text) for key, text in each["data"].items()}}
        if each["kind"] == "Deployment":
            sums = each["spec"]["template"]["metadata"]["annotations"]
            assert len(sums["usher.dev/settings-sum"]) == 64
            sums["usher.dev/settings-sum"] = ""
        keyed[(each["kind"], meta.get("namespace", ""), meta["name"])] = each
    assert len(keyed) == len(found)
    return keyed


@pytest.mark.parametrize("case", CASES)
def test_helm_renders_what_usher_would_install(case: str, helm: str, tmp_path: Path) -> None:
    given, namespace, policies = CASES[case]

    done = rendered(helm, given, namespace, policies, tmp_path)
    assert done.returncode == 0, done.stderr
    found = by_key([each for each in yaml.safe_load_all(done.stdout) if each is not None])

    wanted = objects(Values(given, namespace, policies=policies))
    assert found == by_key([each for each in wanted if each["kind"] != "Namespace"])


@pytest.mark.parametrize("case", [case for case in WRONG if case != "a setting that cannot be"])
def test_helm_refuses_the_same_mistakes(case: str, helm: str, tmp_path: Path) -> None:
    given, _ = WRONG[case]

    done = rendered(helm, given, "usher-system", True, tmp_path)

    assert done.returncode != 0
    key = next(iter(given))
    assert key in done.stderr


def test_an_older_kubernetes_is_refused(helm: str) -> None:
    command = [helm, "template", "usher", str(ROOT / FOLDER), "--kube-version", "1.33.9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert "requires kubeVersion: >=1.34.0-0" in done.stderr


def test_helm_lint_finds_nothing(helm: str) -> None:
    done = subprocess.run([helm, "lint", "--strict", str(ROOT / FOLDER)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
