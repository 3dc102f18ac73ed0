"""The labels and annotations that the simulator reads.

A job names its queue, quota, priority and preemptibility by any key of the tuples below, the first that is there;
a label goes before an annotation of the same key. The others have the prefix of the simulator and are annotations.
"""

from __future__ import annotations

from typing import Final

QUEUE_KEYS: Final = (
    "scheduling.x-k8s.io/queue-name",
    "koord-queue/queue-name",
    "kube-queue/queue-name",
    "kueue.x-k8s.io/queue-name",
)
QUOTA_KEYS: Final = ("scheduling.x-k8s.io/quota-name", "quota.scheduling.koordinator.sh/name")
QUEUE_JOB: Final = "scheduling.x-k8s.io/queue-job"
MANAGED: Final = "scheduling.x-k8s.io/managed"
"""On a namespace: every job in it is queued."""
PRIORITY_KEYS: Final = ("scheduling.x-k8s.io/priority",)
PREEMPTIBLE_KEYS: Final = ("scheduling.x-k8s.io/preemptible", "quota.scheduling.koordinator.sh/preemptible")
MIN_COUNT_KEYS: Final = ("scheduling.x-k8s.io/min-count", "kueue.x-k8s.io/job-min-parallelism")
ELASTIC_KEYS: Final = ("scheduling.x-k8s.io/elastic", "kueue.x-k8s.io/elastic-job")
MAX_EXECUTION_KEYS: Final = ("scheduling.x-k8s.io/max-exec-time-seconds", "kueue.x-k8s.io/max-exec-time-seconds")

ARRIVES: Final = "sim.usher.dev/arrives"
LEAVES: Final = "sim.usher.dev/leaves"
RUNS_FOR: Final = "sim.usher.dev/runs-for"
READY_AFTER: Final = "sim.usher.dev/ready-after"
FAILS: Final = "sim.usher.dev/fails"
ANSWERS: Final = "sim.usher.dev/answers"
ANSWERS_AFTER: Final = "sim.usher.dev/answers-after"

SIM_PREFIX: Final = "sim.usher.dev/"
SIM_KEYS: Final = frozenset({ARRIVES, LEAVES, RUNS_FOR, READY_AFTER, FAILS, ANSWERS, ANSWERS_AFTER})
