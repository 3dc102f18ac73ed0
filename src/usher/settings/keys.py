"""The labels and annotations that are read where the configuration does not say otherwise, ours first.

The same as in `usher.api.names`: packages of one layer do not import each other, so a test holds them together.
"""

from __future__ import annotations

from typing import Final

QUEUE: Final = (
    "scheduling.x-k8s.io/queue-name",
    "koord-queue/queue-name",
    "kube-queue/queue-name",
    "kueue.x-k8s.io/queue-name",
)
QUOTA: Final = ("scheduling.x-k8s.io/quota-name", "quota.scheduling.koordinator.sh/name")
PRIORITY: Final = ("scheduling.x-k8s.io/priority",)
PREEMPTIBLE: Final = ("scheduling.x-k8s.io/preemptible", "quota.scheduling.koordinator.sh/preemptible")
MIN_COUNT: Final = ("scheduling.x-k8s.io/min-count", "kueue.x-k8s.io/job-min-parallelism")
ELASTIC: Final = ("scheduling.x-k8s.io/elastic", "kueue.x-k8s.io/elastic-job")
MAX_EXECUTION_TIME: Final = ("scheduling.x-k8s.io/max-exec-time-seconds", "kueue.x-k8s.io/max-exec-time-seconds")
