"""The example in the docs, run as it stands there on the real control plane."""

import re
from pathlib import Path
from typing import Any

import pytest
from clients import MAPS, connected

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.kube.errors import NotFound

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


async def test_the_example_in_the_docs_runs_as_it_stands(
    control_plane: Cluster, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, str(PAGE), "exec"), names)
    await names["main"](str(control_plane.kubeconfig), kubectl.namespace)

    printed = capsys.readouterr().out.splitlines()
    assert printed[-1].endswith("{'colour': 'blue'}")
    assert printed[0].split()[0] == "Added"
    async with connected(control_plane.kubeconfig) as client:
        with pytest.raises(NotFound):
            await client.get(MAPS, "paint", kubectl.namespace)
