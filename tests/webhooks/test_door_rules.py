"""The rules in Python, by the table that the real API server is held to as well; and what the table leaves out."""

from __future__ import annotations

from typing import Any

import pytest
from doorcases import (
    ADMINISTRATOR,
    ALONE,
    GROUP,
    LOCKS,
    MADE_FOR,
    QUEUE,
    QUOTA,
    TENANT,
    USHER,
    WITH_OTHERS,
    Case,
    inside,
    job,
    made_quota,
)
from doorworld import TERMS, World, merged, patched

from usher.core.model import Quota
from usher.webhooks import words
from usher.webhooks.known import may_charge
from usher.webhooks.review import Allowed, Asked, Refused, Verdict
from usher.webhooks.rules import Rules

RULES = Rules(TERMS, World())


def through(asked: Asked) -> tuple[dict[str, Any], Verdict]:
    """An object after both doors."""
    verdict = RULES.mutate(asked)
    assert isinstance(verdict, Allowed)
    assert asked.new is not None
    stored = patched(asked.new, verdict.patch)
    return stored, RULES.validate(Asked(**{**_fields(asked), "new": stored}))


def _fields(asked: Asked) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in Asked.__dataclass_fields__}


def jobs(case: Case, operation: str, new: Any, old: Any = None, user: str = "") -> Asked:
    return Asked(operation, "batch", "jobs", "", case.namespace, "a-job", user or case.user, (), new, old)


@pytest.mark.parametrize("name", [*ALONE, *WITH_OTHERS])
def test_the_rules_do_what_the_table_says(name: str) -> None:
    case = {**ALONE, **WITH_OTHERS}[name]
    new = merged({"spec": {"suspend": False}}, case.create)  # the API server fills this in before it asks
    stored, verdict = through(jobs(case, "CREATE", new))
    if case.change is not None:
        assert isinstance(verdict, Allowed)
        for patch in case.first:
            changed = merged(stored, patch)
            stored, verdict = through(jobs(case, "UPDATE", changed, stored, USHER))
            assert isinstance(verdict, Allowed)
        stored, verdict = through(jobs(case, "UPDATE", merged(stored, case.change), stored))
    if case.refused:
        assert verdict == Refused(case.text.format(namespace=case.namespace))
        return
    assert isinstance(verdict, Allowed)
    assert {path: inside(stored, path) for path in case.want} == dict(case.want)
    if case.warned:
        assert verdict.warnings == (case.warned.format(namespace=case.namespace),)


def test_a_finished_job_may_leave_its_queue() -> None:
    old = {"metadata": {"labels": {f"{GROUP}/queue-name": "main"}}, "spec": {"suspend": False}}
    done = merged(old, {"status": {"conditions": [{"type": "Complete", "status": "True"}]}})
    case = Case({})
    without = merged(done, {"metadata": {"labels": {f"{GROUP}/queue-name": None}}})

    assert through(jobs(case, "UPDATE", without, done))[1] == Allowed()


def test_a_later_change_to_a_queue_stops_no_unrelated_write() -> None:
    """It names a queue that has been closed to its namespace since, and a priority that has been capped since."""
    said = {f"{GROUP}/queue-name": "closed", f"{GROUP}/quota-name": "theirs", f"{GROUP}/priority": "900"}
    old = merged({"metadata": {"labels": said}}, {"spec": {"suspend": True, "template": {"spec": {"containers": []}}}})

    assert through(jobs(Case({}), "UPDATE", merged(old, {"metadata": {"labels": {"x": "y"}}}), old))[1] == Allowed()


def test_a_job_that_an_elastic_quota_pays_for_goes_to_the_scheduler_that_keeps_its_books() -> None:
    class Koordinated(World):
        def scheduler(self, quota: str) -> str:
            return "koord-scheduler" if quota == "ours" else ""

    rules = Rules(TERMS, Koordinated())

    def scheduler(labels: dict[str, str], named: str | None = None) -> Any:
        body = job(labels)
        if named is not None:
            body["spec"]["template"]["spec"]["schedulerName"] = named
        verdict = rules.mutate(jobs(Case({}), "CREATE", body))
        assert isinstance(verdict, Allowed)
        return inside(patched(body, verdict.patch), ("spec", "template", "spec", "schedulerName"))

    assert scheduler({QUEUE: "main"}) == "koord-scheduler"
    assert scheduler({QUEUE: "open"}, "default-scheduler") == "koord-scheduler"
    assert scheduler({QUEUE: "main", QUOTA: "ours"}) == "koord-scheduler"
    assert scheduler({QUEUE: "main"}, "mine") == "mine"
    assert scheduler({QUEUE: "main", QUOTA: "free"}) is None


def test_a_quota_whose_name_is_no_label_is_not_written_into_one() -> None:
    class Odd(World):
        def quota_of(self, namespace: str) -> str:
            return f"resourcequota:{namespace}"

    body = job({QUEUE: "open"})
    verdict = Rules(TERMS, Odd()).mutate(jobs(Case({}), "CREATE", body))
    assert isinstance(verdict, Allowed)
    assert inside(patched(body, verdict.patch), ("metadata", "labels", QUOTA)) is None


# -- pods -------------------------------------------------------------------------------------------------------------

CONTROLLER = "system:serviceaccount:kube-system:job-controller"
NODE = ("system:nodes", "system:authenticated")
MIRRORED = {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}
DAEMON = {"metadata": {"ownerReferences": [{"kind": "DaemonSet", "apiVersion": "apps/v1", "controller": True}]}}
ADMITTED = {"metadata": {"annotations": {f"{GROUP}/queue-unit": "job-x"}}}

PODS: dict[str, tuple[str, str, tuple[str, ...], dict[str, Any], bool]] = {
    "a pod where there is a queue": ("managed", TENANT, (), {}, True),
    "a pod where there is none": ("empty", TENANT, (), {}, False),
    "a pod where nothing is managed": ("other", TENANT, (), {}, True),
    "a pod of a system namespace": ("kube-system", TENANT, (), {}, True),
    "a pod of Usher's namespace": ("usher-system", TENANT, (), {}, True),
    "a mirror pod of a node": ("empty", "system:node:a", NODE, MIRRORED, True),
    "a pod that a tenant calls a mirror": ("empty", TENANT, (), MIRRORED, False),
    "a pod of a DaemonSet": ("empty", "system:serviceaccount:kube-system:daemon-set-controller", (), DAEMON, True),
    "a pod of a DaemonSet where controllers share an account": (
        "empty",
        "system:kube-controller-manager",
        (),
        DAEMON,
        True,
    ),
    "a pod that a tenant hangs on a DaemonSet": ("empty", TENANT, (), DAEMON, False),
    "a pod of a job that was let in": ("empty", CONTROLLER, (), ADMITTED, True),
    "a pod that a tenant marks as let in": ("empty", TENANT, (), ADMITTED, False),
    "a pod of a Deployment": ("empty", "system:serviceaccount:kube-system:replicaset-controller", (), {}, False),
}


@pytest.mark.parametrize("name", PODS)
def test_a_managed_namespace_without_a_queue_gets_no_pods(name: str) -> None:
    namespace, user, groups, pod, allowed = PODS[name]
    asked = Asked("CREATE", "", "pods", "", namespace, "", user, groups, pod, managed=namespace == "empty")

    want = Allowed() if allowed else Refused(words.say(words.NO_QUEUE, namespace="empty"))
    assert RULES.validate(asked) == want


def test_the_api_server_knows_a_managed_namespace_before_the_cache_does() -> None:
    asked = Asked("CREATE", "", "pods", "", "new", "", TENANT, (), {}, managed=True)

    assert isinstance(RULES.validate(asked), Refused)


def test_nobody_but_usher_opens_the_gate_of_a_pod() -> None:
    gated = {"spec": {"schedulingGates": [{"name": f"{GROUP}/granted"}, {"name": "x.dev/y"}]}}
    other = {"spec": {"schedulingGates": [{"name": f"{GROUP}/granted"}]}}
    opened = {"spec": {"schedulingGates": [{"name": "x.dev/y"}]}}

    def ask(new: Any, user: str = TENANT) -> Verdict:
        return RULES.validate(Asked("UPDATE", "", "pods", "", "team", "p", user, (), new, gated))

    assert ask(opened) == Refused(words.GATE)
    assert ask({"spec": {}}) == Refused(words.GATE)
    assert ask(other) == Allowed()
    assert ask(opened, USHER) == Allowed()


# -- ResourceQuotas ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, each in LOCKS.items() if each.user != ADMINISTRATOR])
def test_a_resource_quota_that_was_made_is_locked(name: str) -> None:
    lock, old = LOCKS[name], made_quota("main")
    new, operation = (None, "DELETE") if lock.change is None else (merged(old, lock.change), "UPDATE")
    asked = Asked(operation, "", "resourcequotas", "", "team", "main", lock.user, (), new, old)

    want = Refused(words.say(words.RESOURCE_QUOTA, queue="main")) if lock.refused else Allowed()
    assert RULES.validate(asked) == want


def test_a_resource_quota_of_somebody_else_is_not_locked() -> None:
    old = merged(made_quota("theirs"), {"metadata": {"labels": {MADE_FOR: None}}})

    assert RULES.validate(Asked("DELETE", "", "resourcequotas", "", "team", "x", TENANT, (), None, old)) == Allowed()


# -- our kinds --------------------------------------------------------------------------------------------------------


def quota(name: str, parent: str, old_parent: str | None = None) -> Verdict:
    def said(above: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"parent": above}}

    old = None if old_parent is None else said(old_parent)
    operation = "CREATE" if old is None else "UPDATE"
    return RULES.validate(Asked(operation, GROUP, "queuequotas", "", "", name, TENANT, (), said(parent), old))


def test_a_quota_does_not_become_its_own_ancestor() -> None:
    want = words.say(words.CYCLE, parent="below", circle="below → ours → below")

    assert quota("ours", "below", "") == Refused(want)
    assert quota("ours", "free", "") == Allowed()
    assert quota("new", "below") == Allowed()
    assert quota("new", "later") == Allowed()


def unit(spec: dict[str, Any], old: dict[str, Any] | None = None, kind: str = "queueunits") -> Verdict:
    before = None if old is None else {"spec": old}
    return RULES.validate(
        Asked("CREATE" if old is None else "UPDATE", GROUP, kind, "", "team", "u", TENANT, (), {"spec": spec}, before)
    )


@pytest.mark.parametrize("kind", ["queueunits", "queuejobs"])
def test_units_and_queue_jobs_keep_to_their_queue(kind: str) -> None:
    above = words.say(words.PRIORITY, priority=101, most=100, queue="main")

    assert unit({"queue": "main", "priority": 101}, kind=kind) == Refused(above)
    assert unit({"queue": "main", "priority": 100}, kind=kind) == Allowed()
    assert unit({"queue": "second", "priority": 101}, kind=kind) == Allowed()
    assert unit({"queue": "later", "priority": 101}, kind=kind) == Allowed()
    assert isinstance(unit({"queue": "closed"}, kind=kind), Refused)
    assert unit({"queue": "closed", "x": 1}, {"queue": "closed"}, kind=kind) == Allowed()


def test_a_queue_job_that_has_something_stays_in_its_queue() -> None:
    old = {"spec": {"queue": "main"}, "status": {"allocatedno": 1}}
    new = {"spec": {"queue": "second"}, "status": {"allocatedno": 1}}
    asked = Asked("UPDATE", GROUP, "queuejobs", "", "team", "j", TENANT, (), new, old)

    assert RULES.validate(asked) == Refused(words.ALLOCATED)
    assert RULES.validate(Asked(**{**_fields(asked), "old": {**old, "status": {}}})) == Allowed()


def test_the_status_of_a_unit_is_ushers_but_for_the_answers_of_checks() -> None:
    old = {"status": {"phase": "Enqueued", "admissionChecks": []}}

    def ask(status: dict[str, Any], user: str = TENANT, kind: str = "queueunits") -> Verdict:
        new = {"status": {**old["status"], **status}}
        return RULES.validate(Asked("UPDATE", GROUP, kind, "status", "team", "u", user, (), new, old))

    assert ask({"phase": "Dequeued"}) == Refused(words.say(words.STATUS, kind="QueueUnit"))
    assert ask({"epoch": 7}) == Refused(words.say(words.STATUS, kind="QueueUnit"))
    assert ask({"admissionChecks": [{"name": "a", "state": "Ready"}]}) == Allowed()
    assert ask({"phase": "Dequeued"}, USHER) == Allowed()
    assert ask({"used": {}}, kind="queues") == Refused(words.say(words.STATUS, kind="Queue"))
    assert ask({"x": {}}, kind="admissionchecks") == Allowed()


def test_who_may_charge_a_quota_follows_the_tree_upwards() -> None:
    class Circle(World):
        def __init__(self) -> None:
            super().__init__()
            self._quotas = {"a": Quota("a", "b"), "b": Quota("b", "a"), "c": Quota("c", "gone")}

    assert may_charge(World(), "team", "below")
    assert not may_charge(World(), "other", "below")
    assert may_charge(World(), "other", "free")
    assert may_charge(Circle(), "team", "a")
    assert may_charge(Circle(), "team", "c")


def test_what_nobody_here_knows_is_let_through() -> None:
    asked = Asked("CREATE", "apps", "deployments", "", "team", "d", TENANT, (), {"spec": {}})

    assert RULES.validate(asked) == Allowed()
    assert RULES.mutate(asked) == Allowed()
