"""What can be asked of simulated nodes, and what is refused before anything starts."""

import pytest

from usher.devcluster import DevClusterError, Nodes


def test_nodes_offer_what_was_asked_for() -> None:
    made = Nodes(count=2, cpu="500m", memory="1.5Gi", gpus=4).objects()

    assert [node["metadata"]["name"] for node in made] == ["node-0", "node-1"]  # type: ignore[index]
    for node in made:
        status = node["status"]
        assert status["allocatable"] == status["capacity"]  # type: ignore[index]
        assert status["capacity"]["cpu"] == "500m"  # type: ignore[index]
        assert status["capacity"]["nvidia.com/gpu"] == "4"  # type: ignore[index]


def test_nodes_without_gpus_do_not_mention_them() -> None:
    (node,) = Nodes(count=1).objects()

    assert "nvidia.com/gpu" not in node["status"]["capacity"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"cpu": "eight"}, "cpu 'eight' is not a quantity"),
        ({"cpu": "-1"}, "cpu '-1' is not a quantity"),
        ({"memory": "32GB"}, "memory '32GB' is not a quantity"),
        ({"memory": ""}, "memory '' is not a quantity"),
        ({"count": -1}, "between 0 and 5000"),
        ({"count": 5001}, "between 0 and 5000"),
        ({"gpus": -1}, "cannot be negative"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], want: str) -> None:
    with pytest.raises(DevClusterError, match=want):
        Nodes(**given)  # type: ignore[arg-type]
