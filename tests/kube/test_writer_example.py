"""The example of the writer, the election and events in the docs, run as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


async def test_the_example_of_the_writer_runs_as_it_stands(
    control_plane: Cluster, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    example = next(each for each in re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL) if "main()" in each)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, str(PAGE), "exec"), names)
    await names["main"](str(control_plane.kubeconfig), kubectl.namespace)

    assert capsys.readouterr().out.splitlines() == [
        "it is blue in epoch 1",
        "not green because it has changed",
    ]
    assert (await kubectl.get("configmap", "paint"))["data"] == {"colour": "blue"}
    events = (await kubectl.get("events"))["items"]
    assert [(event["reason"], event["message"]) for event in events] == [("Painted", "It is blue now.")]
    assert "holderIdentity" not in (await kubectl.get("lease", "example"))["spec"]
