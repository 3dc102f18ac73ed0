"""Everything that can be set, as one frozen tree; `Settings()` is what an administrator gets who sets nothing.

Names in YAML are those of the fields in camelCase, without the unit (`lease_duration_ms` is `leaseDuration`). Who needs
settings is handed its group by the wiring and never looks anything up. `conflicts` of a group says which of its values
do not go together; the loader asks it once every value by itself is good.
"""

# ruff: noqa: RUF009  (`setting` and `group` make fields, which ruff cannot know)

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from usher.core import model
from usher.core.durations import exact_text
from usher.settings import keys
from usher.settings.values import (
    ADDRESS,
    FLAG,
    IDENTITY,
    LABEL_KEY,
    LEASE_NAME,
    NAME,
    NAMES,
    NAMESPACE,
    NAMESPACES,
    OPTIONAL_NAMESPACE,
    PATH,
    RATE,
    choice,
    duration,
    group,
    integer,
    key_of,
    setting,
    several,
)

Conflicts = list[tuple[str, str]]
"""The field that is wrong, and why."""

_CORE: Final = model.Settings()
_KEYS: Final = several(LABEL_KEY)
_QUEUE_KEYS: Final = several(LABEL_KEY, least=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """How the engine decides."""

    oversell: Fraction = setting(Fraction(1), "What may be admitted is capacity times this; exact: 1.2 is 6/5.", RATE)
    reserve_after_ms: int = setting(
        _CORE.reserve_after_ms,
        "A unit that was overtaken for this long gets room kept for it; 0: never. A Queue may say otherwise.",
        duration(),
    )
    protected_time_ms: int = setting(
        _CORE.protected_ms, "Nobody is evicted for others in this time after its start.", duration()
    )
    start_timeout_ms: int = setting(
        _CORE.start_timeout_ms,
        "An admitted unit whose pods are not ready by then backs off; 0: it may wait.",
        duration(),
    )
    recovery_timeout_ms: int = setting(
        _CORE.recovery_timeout_ms,
        "A running unit whose pods stay unready for this long backs off; 0: never.",
        duration(),
    )
    check_timeout_ms: int = setting(
        _CORE.check_timeout_ms,
        "An admission check that has not answered by then counts as Retry; 0: never.",
        duration(),
    )
    backoff_base_ms: int = setting(
        _CORE.backoff_base_ms, "The first back-off of a unit; each further one is twice as long.", duration(1)
    )
    backoff_max_ms: int = setting(_CORE.backoff_max_ms, "No back-off is longer.", duration(1))
    refused_base_ms: int = setting(
        _CORE.refused_base_ms,
        "The first pause after a write for a unit failed; each further one is doubled.",
        duration(1),
    )
    refused_max_ms: int = setting(_CORE.refused_max_ms, "No such pause is longer.", duration(1))
    default_policy: str = setting(_CORE.default_policy, "The policy of a Queue whose own is not installed.", NAME)

    def core(self) -> model.Settings:
        """What the engine is given."""
        return model.Settings(
            oversell=self.oversell.as_integer_ratio(),
            reserve_after_ms=self.reserve_after_ms,
            protected_ms=self.protected_time_ms,
            start_timeout_ms=self.start_timeout_ms,
            recovery_timeout_ms=self.recovery_timeout_ms,
            check_timeout_ms=self.check_timeout_ms,
            backoff_base_ms=self.backoff_base_ms,
            backoff_max_ms=self.backoff_max_ms,
            refused_base_ms=self.refused_base_ms,
            refused_max_ms=self.refused_max_ms,
            default_policy=self.default_policy,
        )

    def conflicts(self) -> Conflicts:
        found: Conflicts = []
        if self.backoff_base_ms > self.backoff_max_ms:
            found.append(("backoff_base_ms", f"is longer than backoffMax, {exact_text(self.backoff_max_ms)}"))
        if self.refused_base_ms > self.refused_max_ms:
            found.append(("refused_base_ms", f"is longer than refusedMax, {exact_text(self.refused_max_ms)}"))
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Plugins:
    """What decides, by name: built in, or installed as a Python entry point of the group `usher.plugins`."""

    share: str = setting("drf", "The share policy: `drf`, `koordinator`, `proportion`, `none`, or a plug-in.", NAME)
    victims: str = setting("lowest-priority-latest-start", "Who gives back first inside a quota.", NAME)
    mappings: tuple[str, ...] = setting((), "Plug-ins that choose queue and quota of units that name none.", NAMES)
    filters: tuple[str, ...] = setting((), "Plug-ins that may refuse a start.", NAMES)
    scores: tuple[str, ...] = setting((), "Plug-ins with a say in the order between queues.", NAMES)
    reservers: tuple[str, ...] = setting((), "Plug-ins that keep books of their own.", NAMES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """The labels and annotations by which jobs say what they want; of each list, the first that is there counts."""

    queue: tuple[str, ...] = setting(keys.QUEUE, "The name of its queue.", _QUEUE_KEYS)
    quota: tuple[str, ...] = setting(keys.QUOTA, "The name of its quota.", _KEYS)
    priority: tuple[str, ...] = setting(keys.PRIORITY, "Its priority, a whole number.", _KEYS)
    preemptible: tuple[str, ...] = setting(keys.PREEMPTIBLE, "`false`: it is never taken back.", _KEYS)
    min_count: tuple[str, ...] = setting(keys.MIN_COUNT, "The fewest pods with which it can start.", _KEYS)
    elastic: tuple[str, ...] = setting(keys.ELASTIC, "`true`: its pods may become more or fewer while it runs.", _KEYS)
    max_execution_time: tuple[str, ...] = setting(keys.MAX_EXECUTION_TIME, "For how many seconds it may run.", _KEYS)

    def conflicts(self) -> Conflicts:
        seen: dict[str, str] = {}
        found: Conflicts = []
        for name in self.__dataclass_fields__:
            for key in getattr(self, name):
                if key in seen:
                    found.append((name, f"{key} is in {seen[key]} already"))
                seen.setdefault(key, key_of(name))
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Jobs:
    """Which jobs are queued, and how they are treated."""

    kinds: tuple[str, ...] = setting(("jobs.batch",), "Kinds that are queued, as kubectl names resources.", NAMES)
    adopt: str = setting(
        "charge",
        "Jobs that name a queue and run when Usher first sees them: `charge` counts them as admitted, `leave` does not "
        "manage them.",
        choice("charge", "leave"),
    )
    terminating_grace_ms: int = setting(
        300_000,
        "A pod that should have ended this long ago (its node does not answer) no longer holds quota; 0: it does until "
        "it or its node is gone.",
        duration(),
    )
    finished_units_age_ms: int = setting(
        86_400_000, "A QueueUnit is deleted this long after its job ended, if the job still exists.", duration()
    )
    finished_units_max: int = setting(
        1000, "How many QueueUnits of ended jobs are kept; the oldest go first.", integer(0, 1_000_000)
    )
    pause_settle_ms: int = setting(
        3_000,
        "A job that is suspended before its controller was seen to start it counts as stopped after this long: pods "
        "may still come.",
        duration(),
    )
    queue_job_notice_ms: int = setting(
        30_000,
        "Units of a QueueJob are taken back this long after its status said so; 0: at once.",
        duration(),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Quotas:
    """Where quotas come from, and what is charged to them besides jobs."""

    sources: tuple[str, ...] = setting(
        ("queuequotas", "elasticquotas", "elasticquotatrees", "resourcequotas"),
        "Kinds whose objects are quotas; one whose CRD is not installed comes on when it is.",
        several(choice("queuequotas", "elasticquotas", "elasticquotatrees", "resourcequotas"), least=1),
    )
    default_queues: bool = setting(
        True, "Whether a shared Queue is made for each quota that has none of its name, and removed with it.", FLAG
    )
    resource_quota_pairs: bool = setting(
        True,
        "Whether, in managed namespaces, a lone ResourceQuota gets a Queue and a lone Queue gets a ResourceQuota.",
        FLAG,
    )
    outside_pods: str = setting(
        "count",
        "Whether what pods outside Usher use is taken off what the nodes offer.",
        choice("count", "ignore"),
    )
    outside_quota: str = setting(
        "", "The quota that is charged with what pods outside Usher use; empty: none but the whole cluster.", IDENTITY
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Reports:
    """What is written for people to read, and how often at most."""

    queue_status_interval_ms: int = setting(
        1_000, "The status of one Queue or QueueQuota is written at most this often.", duration(100)
    )
    resource_report_interval_ms: int = setting(
        30_000, "What the pods of one unit really hold is written at most this often.", duration(1_000)
    )
    queue_items_max: int = setting(
        1000, "How many waiting units `queueItemDetails` of a Queue lists; the rest is counted.", integer(0, 10_000)
    )
    other_tenants_names: bool = setting(
        False, "Whether the list of a shared Queue names units of every namespace; else it gives positions only.", FLAG
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """Writes to the API server."""

    concurrency: int = setting(16, "How many requests are under way at a time.", integer(1, 1000))
    request_timeout_ms: int = setting(10_000, "When a request is given up and tried again.", duration(100))


@dataclass(frozen=True, kw_only=True, slots=True)
class Election:
    """One manager leads; the others keep warm."""

    lease_name: str = setting("usher-manager", "The Lease that the leader holds.", LEASE_NAME)
    namespace: str = setting("", "Where the Lease is; empty: in `systemNamespace`.", OPTIONAL_NAMESPACE)
    lease_duration_ms: int = setting(
        15_000, "Without a renewal for this long, others may take the Lease. Whole seconds.", duration(1_000)
    )
    renew_deadline_ms: int = setting(
        10_000, "A leader that could not renew for this long stops writing and steps down.", duration(1)
    )
    retry_period_ms: int = setting(2_000, "The pause between attempts to renew or to take the Lease.", duration(1))
    identity: str = setting("", "The holder's name in the Lease; empty: host name and a random part.", IDENTITY)

    def conflicts(self) -> Conflicts:
        found: Conflicts = []
        if self.lease_duration_ms % 1000:
            found.append(("lease_duration_ms", f"{exact_text(self.lease_duration_ms)} is not in whole seconds"))
        if self.renew_deadline_ms >= self.lease_duration_ms:
            found.append(
                ("renew_deadline_ms", f"must be shorter than leaseDuration, {exact_text(self.lease_duration_ms)}")
            )
        if self.retry_period_ms * 6 >= self.renew_deadline_ms * 5:  # attempts are spread by up to a fifth
            found.append(
                (
                    "retry_period_ms",
                    f"must be shorter than five sixths of renewDeadline, {exact_text(self.renew_deadline_ms)}",
                )
            )
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """Health and metrics over HTTP."""

    address: str = setting(
        "127.0.0.1", "The address to listen on; `0.0.0.0` for probes and scrapes from outside the pod.", ADDRESS
    )
    port: int = setting(8080, "The port; 0: any that is free.", integer(0, 65535))
    debug: bool = setting(
        False, "Whether `/debug/…` answers; it shows units of every tenant to whoever can reach the port.", FLAG
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """The doors: what the API server asks Usher, or decides by our policies, before it stores an object."""

    mode: str = setting(
        "auto",
        "`auto`: policies of the API server decide what one object shows, where it has them (Kubernetes 1.36), and "
        "Usher is asked for the rest; `webhook`: Usher is asked for everything; `off`: nothing is asked.",
        choice("auto", "webhook", "off"),
    )
    address: str = setting("0.0.0.0", "The address to listen on for reviews.", ADDRESS)  # noqa: S104 - in a pod
    port: int = setting(9443, "The port for reviews; 0: any that is free.", integer(0, 65535))
    service: str = setting("usher-webhook", "The Service in `systemNamespace` that leads to this port.", LEASE_NAME)
    host: str = setting(
        "",
        "Where Usher runs outside of the cluster: the name or address by which the API server reaches it; empty: by "
        "the Service.",
        IDENTITY,
    )
    account: str = setting("usher", "The manager's own service account: it is not asked about itself.", LEASE_NAME)
    operator_namespaces: tuple[str, ...] = setting(
        ("kube-system",),
        "Where the service accounts of operators are: a job that one of them makes for a job which is queued itself is "
        "left to it. Nobody else is believed who claims such an owner.",
        NAMESPACES,
    )
    elastic_quota_scheduler: str = setting(
        "koord-scheduler",
        "The scheduler of jobs that are charged to an ElasticQuota and name none: it keeps books of its own; empty: "
        "whichever they would have.",
        IDENTITY,
    )
    timeout_ms: int = setting(
        5_000, "How long the API server waits for an answer; whole seconds, at most 30.", duration(1_000)
    )
    secret: str = setting(
        "usher-webhook-tls", "The Secret in `systemNamespace` in which replicas share their certificates.", LEASE_NAME
    )
    certificate_dir: str = setting(
        "",
        "A folder with `tls.crt`, `tls.key` and `ca.crt` that somebody else renews (cert-manager); empty: Usher makes "
        "its own.",
        PATH,
    )
    certificate_lifetime_ms: int = setting(
        90 * 86_400_000, "For how long a certificate that Usher makes is valid.", duration(1_000)
    )
    authority_lifetime_ms: int = setting(
        3650 * 86_400_000, "For how long the authority that signs them is valid.", duration(1_000)
    )
    renew_before_ms: int = setting(
        30 * 86_400_000, "Certificate and authority are renewed this long before they expire.", duration(100)
    )
    trust_delay_ms: int = setting(
        10_000, "A certificate of a new authority is used this long after the API server was told of it.", duration()
    )
    look_interval_ms: int = setting(
        10_000, "How often Secret, files and webhook configurations are looked at.", duration(100)
    )

    def conflicts(self) -> Conflicts:
        found: Conflicts = []
        if self.timeout_ms % 1000 or self.timeout_ms > 30_000:
            found.append(("timeout_ms", f"{exact_text(self.timeout_ms)} is not in whole seconds up to 30s"))
        if self.renew_before_ms >= self.certificate_lifetime_ms:
            found.append(
                (
                    "renew_before_ms",
                    f"must be shorter than certificateLifetime, {exact_text(self.certificate_lifetime_ms)}",
                )
            )
        if self.certificate_lifetime_ms > self.authority_lifetime_ms:
            found.append(
                (
                    "certificate_lifetime_ms",
                    f"must not be longer than authorityLifetime, {exact_text(self.authority_lifetime_ms)}",
                )
            )
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Events:
    """Kubernetes Events about units and queues; under pressure they are dropped before anything else is late."""

    enabled: bool = setting(True, "Whether Events are written.", FLAG)
    per_second: int = setting(20, "How many are written in the long run.", integer(1, 10_000))
    burst: int = setting(100, "How many may be written at once after a quiet time.", integer(1, 100_000))
    waiting_max: int = setting(
        1000, "How many may wait to be written; more are dropped and counted.", integer(1, 100_000)
    )

    def conflicts(self) -> Conflicts:
        return [("burst", f"is less than perSecond, {self.per_second}")] if self.burst < self.per_second else []


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """What the process says on standard error."""

    level: str = setting("info", "The least that is said.", choice("debug", "info", "warning", "error"))
    format: str = setting("text", "For people or for machines.", choice("text", "json"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The whole configuration."""

    mode: str = setting(
        "enforce",
        "`audit`: decide and report, and hold nothing: no job, unit or pod is written, so that Usher can be tried on a "
        "live cluster. At the doors are only policies that warn, and none if `admission.mode` is `off`.",
        choice("enforce", "audit"),
    )
    system_namespace: str = setting(
        "usher-system", "Where Usher lives; Queues here are shared between namespaces.", NAMESPACE
    )
    managed_namespaces: tuple[str, ...] = setting(
        (),
        "Namespaces in which every pod must belong to a queue; elsewhere only jobs that name one are queued.",
        NAMESPACES,
    )
    capacity_loss_grace_ms: int = setting(
        300_000, "For how long a lost or cordoned node still counts for shares, so that it may come back.", duration()
    )
    engine: Engine = group(Engine, "How the engine decides.")
    plugins: Plugins = group(Plugins, "What decides, by name.")
    labels: Labels = group(Labels, "How jobs say what they want.")
    jobs: Jobs = group(Jobs, "Which jobs are queued.")
    quotas: Quotas = group(Quotas, "Where quotas come from.")
    reports: Reports = group(Reports, "What is written for people to read.")
    writer: Writer = group(Writer, "Writes to the API server.")
    election: Election = group(Election, "One manager leads.")
    server: Server = group(Server, "Health and metrics over HTTP.")
    admission: Admission = group(Admission, "The doors: admission.")
    events: Events = group(Events, "Kubernetes Events.")
    log: Log = group(Log, "What the process says.")

    @property
    def lease_namespace(self) -> str:
        return self.election.namespace or self.system_namespace

    def conflicts(self) -> Conflicts:
        if self.system_namespace in self.managed_namespaces:
            return [("managed_namespaces", f"{self.system_namespace} is systemNamespace: Usher itself could not start")]
        system = [each for each in self.managed_namespaces if each.startswith("kube-")]
        return [("managed_namespaces", f"{each} is Kubernetes' own: such are never managed") for each in system]
