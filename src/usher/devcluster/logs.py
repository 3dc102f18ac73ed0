"""The end of a log, for messages that say why something stopped."""

from pathlib import Path

LINES = 15


def tail(log: Path, lines: int = LINES) -> str:
    """The last lines of a log, or a word that there are none."""
    try:
        text = log.read_text(errors="replace").strip()
    except OSError:
        text = ""
    return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"
