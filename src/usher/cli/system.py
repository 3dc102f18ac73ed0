"""Where Usher lives in the cluster: the namespace of shared queues, of the lease and of the settings; and these.

Commands are told by an environment variable, because most who use them may not look for it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from usher.api.names import SYSTEM_NAMESPACE
from usher.kube.errors import Forbidden, NotFound
from usher.kube.resource import untyped

if TYPE_CHECKING:
    from usher.cli.connecting import Session

VARIABLE: Final = "USHER_NAMESPACE"
CONFIG_MAPS: Final = untyped("", "v1", "configmaps", "ConfigMap", namespaced=True)
INSTALLED: Final = "usher-settings"
INSTALLED_FILE: Final = "settings.yaml"
"""Where `usher install` and the chart put the manager's settings."""


def system_namespace() -> str:
    """The namespace that was said, else the usual one."""
    return os.environ.get(VARIABLE) or SYSTEM_NAMESPACE


async def installed_settings(session: Session) -> str:
    """The manager's file of settings in the cluster; empty if there is none, or we may not look."""
    try:
        found = await session.client.get(CONFIG_MAPS, INSTALLED, system_namespace())
    except (NotFound, Forbidden):
        return ""
    return str((found.get("data") or {}).get(INSTALLED_FILE) or "")
