"""Names that are part of our interface: the group, the labels, the condition types.

A job names its queue, quota, priority and preemptibility by labels or annotations. Each tuple below holds the keys
that are read, ours first; the first that is there counts. The aliases are what users of other systems already have on
their jobs; which of them are read is a setting whose default is this.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "scheduling.x-k8s.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

SYSTEM_NAMESPACE: Final = "usher-system"
"""Queues here are shared, and open to the namespaces they select."""

CATEGORY: Final = "usher"
"""`kubectl get usher` lists all our kinds."""

DEFAULT_POD_SET: Final = "main"

QUEUE_NAME: Final = f"{GROUP}/queue-name"
QUOTA_NAME: Final = f"{GROUP}/quota-name"
PRIORITY: Final = f"{GROUP}/priority"
PREEMPTIBLE: Final = f"{GROUP}/preemptible"
MIN_COUNT: Final = f"{GROUP}/min-count"
ELASTIC: Final = f"{GROUP}/elastic"
MAX_EXECUTION_TIME: Final = f"{GROUP}/max-exec-time-seconds"
QUEUE_JOB: Final = f"{GROUP}/queue-job"
"""On a job that draws on the allocation of a QueueJob: its name."""
MANAGED: Final = f"{GROUP}/managed"
"""`true` on a namespace: every job that is created in it is queued. The doors put it on those jobs, too."""
PAUSED: Final = f"{GROUP}/paused"
"""On a job that its owner suspended while it ran: `true`, and `false` once he wants it to be queued again. The doors
write it; who has none unsuspends the job."""

QUEUE_KEYS: Final = (QUEUE_NAME, "koord-queue/queue-name", "kube-queue/queue-name", "kueue.x-k8s.io/queue-name")
QUOTA_KEYS: Final = (QUOTA_NAME, "quota.scheduling.koordinator.sh/name")
PRIORITY_KEYS: Final = (PRIORITY,)
PREEMPTIBLE_KEYS: Final = (PREEMPTIBLE, "quota.scheduling.koordinator.sh/preemptible")
MIN_COUNT_KEYS: Final = (MIN_COUNT, "kueue.x-k8s.io/job-min-parallelism")
ELASTIC_KEYS: Final = (ELASTIC, "kueue.x-k8s.io/elastic-job")
MAX_EXECUTION_TIME_KEYS: Final = (MAX_EXECUTION_TIME, "kueue.x-k8s.io/max-exec-time-seconds")

QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
PODS_READY: Final = "PodsReady"
EVICTED: Final = "Evicted"
FINISHED: Final = "Finished"
SHRINKING: Final = "Shrinking"
"""Of QueueJobs: something of what is allocated must be given back."""
ACTIVE: Final = "Active"
"""Of Queues, QueueQuotas and AdmissionChecks: it takes part, or the message says what it lacks."""
