"""Writes what is made from the parts: `python -m usher.install` renews the Helm chart of a checkout.

Run by `make fix`; a test says when the files are out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from usher.install.chart import FOLDER, written


def main() -> None:
    """Write every file that differs, below the folder that is given or else the current one, and say which."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    files = written()
    for name, text in files.items():
        path = root / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            sys.stdout.write(f"{name} written\n")
    for path in (root / FOLDER / "templates").iterdir():
        if str(path.relative_to(root)) not in files:
            path.unlink()
            sys.stdout.write(f"{path.relative_to(root)} deleted\n")


if __name__ == "__main__":
    main()
