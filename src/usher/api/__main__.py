"""Writes what is made from the types: `python -m usher.api` renews deploy/crds and docs/api.md of a checkout.

Run by `make fix`; a test says when the files are out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from usher.api.files import written


def main() -> None:
    """Write every file that differs, below the folder that is given or else the current one, and say which."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for name, text in written((root / "docs" / "api.md").read_text()).items():
        path = root / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            sys.stdout.write(f"{name} written\n")


if __name__ == "__main__":
    main()
