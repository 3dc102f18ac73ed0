"""Where Usher lives in the cluster: the namespace of shared queues, of the lease and of the installed settings.

Commands are told by an environment variable, because most who use them may not look for it.
"""

from __future__ import annotations

import os
from typing import Final

from usher.api.names import SYSTEM_NAMESPACE

VARIABLE: Final = "USHER_NAMESPACE"


def system_namespace() -> str:
    """The namespace that was said, else the usual one."""
    return os.environ.get(VARIABLE) or SYSTEM_NAMESPACE
