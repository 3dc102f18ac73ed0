"""The built-in share policies: how a parent's amount becomes what each of its children deserves.

One module per policy; `parts` holds what they have in common. The contract is `usher.core.share.SharePolicy`.
"""

from usher.policies.share.drf import Drf
from usher.policies.share.koordinator import Koordinator
from usher.policies.share.none import NoShare
from usher.policies.share.proportion import Proportion

__all__ = ["Drf", "Koordinator", "NoShare", "Proportion"]
