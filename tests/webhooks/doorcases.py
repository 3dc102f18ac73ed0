"""The table of what happens at the doors: by Python rules, by policies and by the webhook alike.

Namespaces are named by role: `team` has the queues main and second (main caps priorities at 100), `other` has none of
its own, `managed` is managed and has one queue, `empty` is managed and has none. Shared queues: `open` is for team and
managed, `closed` for other, `theirs` for all, but it charges quota theirs. Quotas: `ours` is team's, `below` hangs on
it, `theirs` is other's, `free` is nobody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from usher.webhooks import words

Object = dict[str, Any]
GROUP = "scheduling.x-k8s.io"
QUEUE = f"{GROUP}/queue-name"
QUOTA = f"{GROUP}/quota-name"
MANAGED = f"{GROUP}/managed"
DRAWN = f"{GROUP}/queue-job"
PAUSED = f"{GROUP}/paused"
USHER = "system:serviceaccount:usher-system:usher"
TENANT = "tenant"
OPERATOR = "system:serviceaccount:operators:jobset"
RUNNING: Object = {"spec": {"suspend": False}}
LABELS = ("metadata", "labels")
NOTES = ("metadata", "annotations")
OWNED: Object = {
    "ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "above", "uid": "0f0f0f0f-1234", "controller": True}
    ]
}


def job(labels: Mapping[str, str] | None = None, *, meta: Object | None = None, **spec: Any) -> Object:
    """A batch Job that says nothing about suspension."""
    template = {
        "metadata": {"annotations": {"sim.usher.dev/runs-for": "1h"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "10m"}}}],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"labels": dict(labels or {}), **(meta or {})},
        "spec": {"template": template, **spec},
    }


def labelled(**labels: str | None) -> Object:
    """A change of labels; `queue` and `quota` stand for their keys."""
    keys = {"queue": QUEUE, "quota": QUOTA, "managed": MANAGED}
    return {"metadata": {"labels": {keys.get(key, key): value for key, value in labels.items()}}}


@dataclass(frozen=True)
class Case:
    """A job is created or changed by somebody; what comes of it."""

    create: Object
    namespace: str = "team"
    user: str = TENANT
    first: tuple[Object, ...] = ()
    """What Usher did to it, as merge patches, before `change`."""
    change: Object | None = None
    """What the user does to it; None: creating it is what the user does."""
    refused: str = ""
    gaps: Mapping[str, str] = field(default_factory=dict)
    want: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    """Fields of the result; None: not there."""
    warned: str = ""

    @property
    def text(self) -> str:
        return words.say(self.refused, **self.gaps)


MAIN = {QUEUE: "main"}
IN_MAIN = {"place": "queue main"}
HELD = {("spec", "suspend"): True}
RUNS = {("spec", "suspend"): False}

ALONE: dict[str, Case] = {
    "a job that names a queue is created suspended": Case(job(MAIN), want=HELD),
    "a job that asks to run at once is created suspended": Case(job(MAIN, suspend=False), want=HELD),
    "a job that names a queue by an alias is created suspended": Case(
        job({"kueue.x-k8s.io/queue-name": "main"}), want=HELD
    ),
    "a job that names a queue in an annotation is created suspended": Case(
        job(meta={"annotations": {"koord-queue/queue-name": "main"}}), want=HELD
    ),
    "a job that names only a quota is created suspended": Case(job({QUOTA: "ours"}), want=HELD),
    "a job that names nothing runs": Case(job(), want={("spec", "suspend"): False, (*LABELS, MANAGED): None}),
    "an empty name of a queue is none": Case(job({QUEUE: ""}), want=RUNS),
    "a job that claims an owner is held all the same": Case(
        job(MAIN, meta=OWNED), want=HELD
    ),
    "what an operator makes for a queued job is left to it": Case(
        job(MAIN, meta=OWNED), user=OPERATOR, want=RUNS
    ),
    "what the cluster's own controllers make for a queued job is left to them": Case(
        job(MAIN, meta=OWNED), user="system:serviceaccount:kube-system:job-controller", want=RUNS
    ),
    "an account of a namespace that has no operators is not believed to be one": Case(
        job(MAIN, meta=OWNED), user="system:serviceaccount:others:robot", want=HELD
    ),
    "an account of a namespace whose name begins like that of operators is not believed to be one": Case(
        job(MAIN, meta=OWNED), user="system:serviceaccount:operators-2:robot", want=HELD
    ),
    "every job of a managed namespace is held and marked": Case(
        job(), namespace="managed", want={("spec", "suspend"): True, (*LABELS, MANAGED): "true"}
    ),
    "a job of a managed namespace without a queue is held and marked": Case(
        job(), namespace="empty", want={("spec", "suspend"): True, (*LABELS, MANAGED): "true"}
    ),
    "a job of before its namespace was managed is queued when it is started": Case(
        job(suspend=True), namespace="empty", first=(labelled(managed=None),), change=RUNNING,
        want={("spec", "suspend"): True, (*LABELS, MANAGED): "true"},
    ),
    "a job that ran before its namespace was managed goes on": Case(
        job(), namespace="empty", first=({**labelled(managed=None), **RUNNING},), change=labelled(x="y"),
        want={("spec", "suspend"): False, (*LABELS, MANAGED): None},
    ),
    "a job that ran before its namespace was managed is its owner's to suspend": Case(
        job(), namespace="empty", first=({**labelled(managed=None), **RUNNING},), change={"spec": {"suspend": True}},
        want={("spec", "suspend"): True, (*NOTES, PAUSED): None, (*LABELS, MANAGED): None},
    ),
    "a job that draws on a QueueJob is created suspended": Case(job({DRAWN: "big"}), want=HELD),
    "nobody starts a job that draws on a QueueJob by hand": Case(
        job({DRAWN: "big"}), change=RUNNING, refused=words.UNSUSPENDED, gaps={"place": "QueueJob big"}
    ),
    "a running job does not draw on another QueueJob": Case(
        job({DRAWN: "big"}), first=(RUNNING,), change={"metadata": {"labels": {DRAWN: "bigger"}}}, refused=words.MOVED,
        gaps={"place": "QueueJob big"},
    ),
    "nobody starts a waiting job by hand": Case(job(MAIN), change=RUNNING, refused=words.UNSUSPENDED, gaps=IN_MAIN),
    "nobody starts a waiting job of a quota by hand": Case(
        job({QUOTA: "ours"}), change=RUNNING, refused=words.UNSUSPENDED, gaps={"place": "quota ours"}
    ),
    "Usher starts it": Case(job(MAIN), first=(RUNNING,), change=labelled(x="y"), want=RUNS),
    "a label is not taken off to start the job with the same stroke": Case(
        job(MAIN), change={**labelled(queue=None), **RUNNING}, refused=words.UNSUSPENDED, gaps=IN_MAIN
    ),
    "a label is not taken off a waiting job": Case(
        job(MAIN), change=labelled(queue=None), refused=words.LABEL_REMOVED, gaps=IN_MAIN
    ),
    "a label is not emptied": Case(job(MAIN), change=labelled(queue=""), refused=words.LABEL_REMOVED, gaps=IN_MAIN),
    "a label is not taken off a running job": Case(
        job(MAIN), first=(RUNNING,), change=labelled(queue=None), refused=words.LABEL_REMOVED, gaps=IN_MAIN
    ),
    "the mark of a managed namespace is not taken off": Case(
        job(), namespace="empty", change=labelled(managed=None), refused=words.LABEL_REMOVED,
        gaps={"place": "the managed namespace {namespace}"},
    ),
    "a label that names a queue is not added to a job that is started with the same stroke": Case(
        job(suspend=True), change={**labelled(queue="main"), **RUNNING}, refused=words.UNSUSPENDED, gaps=IN_MAIN
    ),
    "a waiting job may move to another queue": Case(
        job(MAIN), change=labelled(queue="second"), want={(*LABELS, QUEUE): "second", ("spec", "suspend"): True}
    ),
    "an alias may take the place of the label": Case(
        job(MAIN), change=labelled(queue=None, **{"kueue.x-k8s.io/queue-name": "main"}),
        want={(*LABELS, QUEUE): None, ("spec", "suspend"): True},
    ),
    "a running job stays in its queue": Case(
        job(MAIN), first=(RUNNING,), change=labelled(queue="second"), refused=words.MOVED, gaps=IN_MAIN
    ),
    "a running job stays in its quota": Case(
        job({**MAIN, QUOTA: "ours"}), first=(RUNNING,), change=labelled(quota="free"), refused=words.MOVED, gaps=IN_MAIN
    ),
    "a running job that is suspended may move with the same stroke": Case(
        job(MAIN), first=(RUNNING,), change={**labelled(queue="second"), "spec": {"suspend": True}},
        want={(*LABELS, QUEUE): "second", ("spec", "suspend"): True},
    ),
    "a running job does not grow": Case(
        job(MAIN, parallelism=2), first=(RUNNING,), change={"spec": {"parallelism": 3}}, refused=words.GROWN,
        gaps={**IN_MAIN, "few": "2", "many": "3"},
    ),
    "a running job that has few completions left to ask for may raise parallelism": Case(
        job(MAIN, parallelism=2, completions=2), first=(RUNNING,), change={"spec": {"parallelism": 3}},
        want={("spec", "parallelism"): 3},
    ),
    "a running job may shrink": Case(
        job(MAIN, parallelism=2), first=(RUNNING,), change={"spec": {"parallelism": 1}},
        want={("spec", "parallelism"): 1},
    ),
    "a waiting job may grow": Case(
        job(MAIN, parallelism=2), change={"spec": {"parallelism": 3}}, want={("spec", "parallelism"): 3}
    ),
    "an elastic job may grow while it runs": Case(
        job({**MAIN, f"{GROUP}/elastic": "true"}, parallelism=2), first=(RUNNING,), change={"spec": {"parallelism": 3}},
        want={("spec", "parallelism"): 3},
    ),
    "a running job does not become elastic to grow": Case(
        job(MAIN, parallelism=2), first=(RUNNING,),
        change={**labelled(**{f"{GROUP}/elastic": "true"}), "spec": {"parallelism": 3}}, refused=words.GROWN,
        gaps={**IN_MAIN, "few": "2", "many": "3"},
    ),
    "a running job that its owner suspends is marked as paused": Case(
        job(MAIN), first=(RUNNING,), change={"spec": {"suspend": True}},
        want={(*NOTES, PAUSED): "true", ("spec", "suspend"): True},
    ),
    "a paused job that its owner resumes is queued, not started": Case(
        job(MAIN), first=(RUNNING, {"metadata": {"annotations": {PAUSED: "true"}}, "spec": {"suspend": True}}),
        change=RUNNING, want={(*NOTES, PAUSED): "false", ("spec", "suspend"): True},
    ),
    "a resumed job that waits is not started by hand": Case(
        job(MAIN), first=({"metadata": {"annotations": {PAUSED: "false"}}},), change=RUNNING,
        refused=words.UNSUSPENDED, gaps=IN_MAIN,
    ),
    "nobody else writes what Usher notes on a job": Case(
        job(MAIN), change={"metadata": {"annotations": {f"{GROUP}/admission": "1.x"}}}, refused=words.MARKS
    ),
    "nobody else takes off what Usher noted on a job": Case(
        job(MAIN), first=({"metadata": {"annotations": {f"{GROUP}/reduced": "main=1/2"}}},),
        change={"metadata": {"annotations": {f"{GROUP}/reduced": None}}}, refused=words.MARKS,
    ),
    "other changes to a waiting job are its owner's": Case(
        job(MAIN), change=labelled(x="y"), want={(*LABELS, "x"): "y", ("spec", "suspend"): True}
    ),
    "a job that is not queued is its owner's": Case(job(suspend=True), change=RUNNING, want=RUNS),
}  # fmt: skip
"""What one object shows: policies and webhook alike."""


@dataclass(frozen=True)
class Lock:
    """Somebody touches the ResourceQuota that Usher made for queue main; whether he may."""

    user: str = TENANT
    change: Object | None = None
    """A merge patch; None: he deletes it."""
    refused: bool = False


MORE: Object = {"spec": {"hard": {"requests.cpu": "9"}}}
MADE_FOR = f"{GROUP}/made-for-queue"
ADMINISTRATOR = "administrator"
"""Who may change Queues; the API server does not ask the webhook about him."""
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
LOCKS: dict[str, Lock] = {
    "a tenant does not change what it says": Lock(change=MORE, refused=True),
    "a tenant does not take the mark off": Lock(change={"metadata": {"labels": {MADE_FOR: None}}}, refused=True),
    "a tenant does not delete it": Lock(refused=True),
    "an account of the namespace does not delete it": Lock("system:serviceaccount:team:robot", refused=True),
    "a tenant may write a note on it": Lock(change={"metadata": {"annotations": {"note": "mine"}}}),
    "an administrator changes what it says": Lock(ADMINISTRATOR, MORE),
    "an administrator deletes it": Lock(ADMINISTRATOR),
    "Usher changes what it says": Lock(USHER, MORE),
    "Usher deletes it": Lock(USHER),
    "the garbage collector deletes it with its queue": Lock(COLLECTOR),
}
"""The lock of a ResourceQuota that was made: policies and webhook alike."""


def made_quota(name: str) -> Object:
    """As Usher makes one for queue main."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "labels": {MADE_FOR: "main"}},
        "spec": {"hard": {"requests.cpu": "3"}},
    }


FORBIDDEN = {"namespace": "{namespace}", "queue": "closed", "usable": "main, second, open, theirs"}
WITH_OTHERS: dict[str, Case] = {
    "a job of a managed namespace gets its only queue": Case(
        job(), namespace="managed", want={(*LABELS, QUEUE): "only", ("spec", "suspend"): True}
    ),
    "a job that names a queue of a managed namespace keeps it": Case(
        job({QUEUE: "later"}), namespace="managed", want={(*LABELS, QUEUE): "later"},
        warned=words.say(words.QUEUE_MISSING, queue="later"),
    ),
    "a job of a managed namespace without a queue waits": Case(
        job(), namespace="empty", want={(*LABELS, QUEUE): None},
        warned=words.say(words.NO_QUEUE_YET, namespace="{namespace}"),
    ),
    "a job in a shared queue gets the quota of its namespace": Case(
        job({QUEUE: "open"}), want={(*LABELS, QUOTA): "ours"}
    ),
    "a job in a tenant's own queue gets no quota": Case(job(MAIN), want={(*LABELS, QUOTA): None}),
    "a queue that is for others is refused": Case(
        job({QUEUE: "closed"}), refused=words.QUEUE_FORBIDDEN, gaps=FORBIDDEN
    ),
    "a move to a queue that is for others is refused": Case(
        job(MAIN), change=labelled(queue="closed"), refused=words.QUEUE_FORBIDDEN, gaps=FORBIDDEN
    ),
    "a queue that charges others is refused to who has no quota": Case(
        job({QUEUE: "theirs"}), namespace="managed", refused=words.PURSE_FORBIDDEN,
        gaps={"namespace": "{namespace}", "queue": "theirs", "quota": "theirs", "usable": "only, open"},
    ),
    "a queue that charges others is open to who names a quota of his own": Case(
        job({QUEUE: "theirs", QUOTA: "free"}), namespace="managed", want=HELD
    ),
    "a queue that does not exist yet is waited for": Case(
        job({QUEUE: "later"}), want={(*LABELS, QUEUE): "later"}, warned=words.say(words.QUEUE_MISSING, queue="later")
    ),
    "a quota of others is refused": Case(
        job({**MAIN, QUOTA: "theirs"}), refused=words.QUOTA_FORBIDDEN,
        gaps={"namespace": "{namespace}", "quota": "theirs"},
    ),
    "a quota below one's own may be used": Case(job({**MAIN, QUOTA: "below"}), want={(*LABELS, QUOTA): "below"}),
    "a quota that is nobody's may be used": Case(job({**MAIN, QUOTA: "free"}), want={(*LABELS, QUOTA): "free"}),
    "a quota that does not exist yet is waited for": Case(
        job({**MAIN, QUOTA: "later"}), want=HELD, warned=words.say(words.QUOTA_MISSING, quota="later")
    ),
    "a priority above that of the queue is refused": Case(
        job({**MAIN, f"{GROUP}/priority": "101"}), refused=words.PRIORITY,
        gaps={"priority": "101", "most": "100", "queue": "main"},
    ),
    "the highest priority of the queue is allowed": Case(
        job({**MAIN, f"{GROUP}/priority": "100"}), want=HELD
    ),
    "a priority is not raised above that of the queue": Case(
        job({**MAIN, f"{GROUP}/priority": "100"}), change=labelled(**{f"{GROUP}/priority": "101"}),
        refused=words.PRIORITY, gaps={"priority": "101", "most": "100", "queue": "main"},
    ),
}  # fmt: skip
"""What needs a second object: the webhook in both ways."""


def inside(found: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The field at a path; None: not there."""
    here: Any = found
    for part in path:
        here = here.get(part) if isinstance(here, Mapping) else None
    return here
