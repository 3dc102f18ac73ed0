"""Small manifests as text, and running them: what the tests of the simulator share."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from usher.cli.main import usher

OURS = "scheduling.x-k8s.io/v1alpha1"


def queue(name: str = "q", namespace: str = "default", at: str = "0s", **spec: Any) -> dict[str, Any]:
    return _object(OURS, "Queue", name, namespace, at, spec)


def quota(name: str, at: str = "0s", **spec: Any) -> dict[str, Any]:
    return _object(OURS, "QueueQuota", name, "", at, spec)


def job(
    name: str,
    cpu: str = "1",
    namespace: str = "default",
    at: str = "0s",
    runs: str = "1m",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Job of queue q, unless its labels say otherwise."""
    made = _object("batch/v1", "Job", name, namespace, at, spec)
    made["metadata"]["labels"] = {"scheduling.x-k8s.io/queue-name": "q"} if labels is None else labels
    made["metadata"]["annotations"] |= {"sim.usher.dev/runs-for": runs, **(annotations or {})}
    spec.setdefault("template", {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
    return made


def unit(name: str, namespace: str = "default", at: str = "0s", runs: str = "1m", **spec: Any) -> dict[str, Any]:
    made = _object(OURS, "QueueUnit", name, namespace, at, spec)
    made["metadata"]["annotations"]["sim.usher.dev/runs-for"] = runs
    return made


def node(name: str = "n", at: str = "0s", **allocatable: str) -> dict[str, Any]:
    made = _object("v1", "Node", name, "", at, {})
    return made | {"status": {"allocatable": allocatable}}


def write(folder: Path, *objects: dict[str, Any], name: str = "world.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(objects)}))
    return path


def simulate(*arguments: object) -> Result:
    """`usher simulate` with these arguments."""
    return CliRunner().invoke(usher, ["simulate", *map(str, arguments)])


def report(*arguments: object) -> dict[str, Any]:
    """The JSON of a run that must succeed."""
    done = simulate(*arguments, "-o", "json", "--check")
    assert done.exit_code == 0, done.stderr
    decoded: dict[str, Any] = json.loads(done.stdout)
    return decoded


def units(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in run["units"]}


def quotas(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in run["quotas"]}


def _object(version: str, kind: str, name: str, namespace: str, at: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "annotations": {"sim.usher.dev/arrives": at}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
