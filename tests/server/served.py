"""An engine and numbers for the server to show."""

from __future__ import annotations

from usher.core.engine import Engine
from usher.core.events import CapacityChanged, QueueChanged, QuotaChanged, Synced, UnitChanged
from usher.core.model import PodSet, Queue, Quota, Settings, Unit
from usher.policies.registry import plugins
from usher.runtime.numbers import Numbers
from usher.server.metrics import Watched


def engine() -> Engine:
    """9 CPU; quota red (min 4) with one unit that runs and one too large; quota lost without its parent."""
    made = Engine(Settings(), plugins())
    made.handle(
        [
            Synced(),
            CapacityChanged({"cpu": 9000, "memory": 2**30}),
            QuotaChanged(Quota("red", min={"cpu": 4000}, max={"cpu": 5000}, weight=3)),
            QuotaChanged(Quota("lost", "nowhere")),
            QueueChanged(Queue("team", "jobs", quota="red")),
            *(
                UnitChanged(Unit("team", name, (PodSet("main", 1, {"cpu": cpu}),), queue="jobs", seq=seq))
                for seq, name, cpu in ((1, "small", 1500), (2, "large", 4000))
            ),
        ],
        0,
    )
    return made


def counted() -> Numbers:
    numbers = Numbers()
    numbers.admitted("team/jobs", 3_000)
    numbers.admitted("team/jobs", 50_000_000)
    numbers.started("team/jobs", 500)
    numbers.evicted("team/jobs", "Reclaimed")
    numbers.ended("team/jobs", "Succeed")
    numbers.decided(0.002, 12, {"Admit": 2})
    numbers.requested("PATCH", "queueunits/status", 200, 0.02)
    numbers.requested("PATCH", "queueunits/status", 0, 10.0)
    numbers.reviewed("validate", "jobs", "refused", 0.25)
    numbers.lagged(0.001)
    numbers.events_dropped += 2
    return numbers


def watched(numbers: Numbers | None = None) -> Watched:
    made = engine()
    return Watched(
        numbers=counted() if numbers is None else numbers,
        quotas=made.quotas,
        queues=made.queues,
        leading=lambda: True,
        lease="usher-manager",
        watch_ages=lambda: {"jobs.batch": 1.5},
        writes_waiting=lambda: {"DECISION": 4},
        writes_in_flight=lambda: 3,
        problems=lambda: ["plug-in x is disabled"],
        info={"version": "1.2.3", "share": "drf"},
    )
