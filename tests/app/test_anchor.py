"""What an administrator installs is what the code makes."""

from pathlib import Path

import yaml

from usher.app.fence import lease_anchor

MANIFEST = Path(__file__).parents[2] / "deploy" / "anchor.yaml"


def test_the_anchor_in_deploy_is_the_one_the_fence_needs() -> None:
    assert tuple(yaml.safe_load_all(MANIFEST.read_text())) == lease_anchor()
