"""Where Usher lives in the cluster, the namespace of shared queues, of the lease and of the settings; and these.

Commands are told by an environment variable, because most who use them may not look for it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from usher.api.names import SYSTEM_NAMESPACE
from usher.install.settled import installed_text
from usher.kube.errors import Forbidden

if TYPE_CHECKING:
    from usher.cli.connecting import Session

VARIABLE: Final = "USHER_NAMESPACE"


def system_namespace() -> str:
    """The namespace that was said, else the usual one."""
    return os.environ.get(VARIABLE) or SYSTEM_NAMESPACE


async def installed_settings(session: Session) -> str:
    """The manager's file of settings in the cluster; empty if there is none, or we may not look."""
    try:
        return await installed_text(session.client, system_namespace())
    except Forbidden:
        return ""
