"""Where files go that are not in the repository: one rule for caches, one for named clusters.

Built parts live in a cache (`USHER_CACHE`, else `$XDG_CACHE_HOME/usher`, else `~/.cache/usher`): deleting it costs only
time. Named clusters live in `USHER_STATE`, else `$XDG_STATE_HOME/usher`, else `~/.local/state/usher`. These
variables are read here and nowhere else.
"""

import os
from pathlib import Path


def cache_dir() -> Path:
    """The directory for what can be built or downloaded again."""
    return _place("USHER_CACHE", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """The directory for what belongs to running clusters."""
    return _place("USHER_STATE", "XDG_STATE_HOME", ".local/state")


def _place(own: str, xdg: str, fallback: str) -> Path:
    if value := os.environ.get(own):
        return Path(value).expanduser().absolute()
    if value := os.environ.get(xdg):
        return Path(value).expanduser().absolute() / "usher"
    return Path.home() / fallback / "usher"
