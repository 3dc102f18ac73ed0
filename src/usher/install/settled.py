"""The settings with which Usher is installed in a cluster: where they are, and reading them as text.

Nothing heavy is imported here, because commands that must be quick look there, too.
"""

from __future__ import annotations

from typing import Final

from usher.kube.client import Client
from usher.kube.errors import NotFound
from usher.kube.resource import untyped

CONFIG_MAPS: Final = untyped("", "v1", "configmaps", "ConfigMap", namespaced=True)
SETTINGS: Final = "usher-settings"
SETTINGS_FILE: Final = "settings.yaml"


async def installed_text(client: Client, namespace: str) -> str:
    """The manager's file of settings; empty if there is none."""
    try:
        found = await client.get(CONFIG_MAPS, SETTINGS, namespace)
    except NotFound:
        return ""
    return str((found.get("data") or {}).get(SETTINGS_FILE) or "")
