"""Writes what is made from the default settings: `python -m usher.webhooks` renews deploy/admission*.yaml.

Run by `make fix`; a test says when the files are out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from usher.settings.tree import Settings
from usher.webhooks import configurations, policies

HEADER: Final = (
    "# Written by `python -m usher.webhooks` from the default settings; edit src/usher/webhooks and run `make fix`.\n"
)


def written() -> dict[str, str]:
    """Path to text."""
    settings = Settings()
    return {
        "deploy/admission-policies.yaml": _yaml(
            "Admission policies: what holds while Usher is down. For Kubernetes 1.36 and later.",
            policies.objects(settings),
        ),
        "deploy/admission-webhooks.yaml": _yaml(
            "What Usher is asked besides the policies.", configurations.objects(settings, policies=True)
        ),
        "deploy/admission-webhooks-only.yaml": _yaml(
            "What Usher is asked where there are no policies: everything.",
            configurations.objects(settings, policies=False),
        ),
    }


def main() -> None:
    """Write every file that differs, below the folder that is given or else the current one, and say which."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for name, text in written().items():
        path = root / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            sys.stdout.write(f"{name} written\n")


class _Dumper(yaml.SafeDumper):
    """Writes lists as people do, and no anchors."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml(about: str, objects: list[dict[str, Any]]) -> str:
    dumped = yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return f"{HEADER}# {about}\n{dumped}"


if __name__ == "__main__":
    main()
