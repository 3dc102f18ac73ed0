"""`usher install` and `usher uninstall` on a real control plane: in order, again and again, and nothing is lost."""

from __future__ import annotations

import pytest
from installing import NAMESPACE, Installing, foreign, ran
from living import job

from usher.install import applying, removal
from usher.install.census import Held
from usher.install.values import read_values
from usher.jobkinds.registry import BUILT_IN
from usher.kube import kubeconfig
from usher.kube.client import Client
from usher.testing.waits import eventually

pytestmark = pytest.mark.controlplane

OFF = ("--set", "config.admission.mode=off")
"""Without doors: no manager runs in these tests that would answer at them."""


async def test_it_installs_waits_and_changes_only_what_is_said(installing: Installing) -> None:
    first = await installing.installed(*OFF)

    assert "CustomResourceDefinition queues.scheduling.x-k8s.io" in first.out
    assert first.out.rstrip().endswith("label a Job with it: docs/live.md.")
    deployment = await installing.kubectl.within(NAMESPACE).get("deployment", "usher")
    assert deployment["status"]["availableReplicas"] == 2

    again = await installing.installed(*OFF, "--set", "podDisruptionBudget.enabled=false", "--set", "replicas=1")

    assert "PodDisruptionBudget usher deleted: it is not wanted any more" in again.out
    changed = await installing.kubectl.within(NAMESPACE).get("deployment", "usher")
    assert changed["spec"]["replicas"] == 1
    assert changed["metadata"]["uid"] == deployment["metadata"]["uid"]
    assert await installing.names("pdb") == set()
    assert "usher" in await installing.names("networkpolicy")


@pytest.mark.since136
async def test_the_server_takes_every_object_also_the_doors(installing: Installing) -> None:
    done = await installing.installed("--no-wait")

    assert "usher-hold.jobs.batch" in await installing.names("mutatingadmissionpolicies")
    assert "usher" in await installing.names("validatingwebhookconfigurations")
    assert "waiting for" not in done.out

    await installing.installed("--no-wait", "--set", "config.mode=audit")

    assert await installing.names("mutatingadmissionpolicies") == set()
    assert await installing.names("validatingwebhookconfigurations") == set()
    binding = await installing.kubectl.get("validatingadmissionpolicybinding", "usher-jobs.jobs.batch")
    assert binding["spec"]["validationActions"] == ["Warn", "Audit"]


async def test_the_replicas_run_where_only_restricted_pods_may(installing: Installing) -> None:
    strict = {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "latest",
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": strict}}
    await installing.kubectl.apply(space)

    await installing.installed(*OFF)

    deployment = await installing.kubectl.within(NAMESPACE).get("deployment", "usher")
    assert deployment["status"]["availableReplicas"] == 2
    assert (await installing.kubectl.get("namespace", NAMESPACE))["metadata"]["labels"].items() >= strict.items()


async def test_requests_of_the_manager_do_not_wait_behind_those_of_tenants(installing: Installing) -> None:
    await installing.installed(*OFF, "--no-wait")
    token = (await installing.kubectl("create", "token", "usher", "-n", NAMESPACE)).strip()
    server = (await installing.account()).server
    ours = (await installing.kubectl.get("flowschema", "usher"))["metadata"]["uid"]

    async def classified() -> bool:
        """The API server goes by a FlowSchema a moment after it is there."""
        done = await ran(
            installing.kubectl.program, "--kubeconfig=/dev/null", f"--server={server}", "--insecure-skip-tls-verify",
            f"--token={token}", "-v=8", "get", "--raw", "/api/v1/namespaces",
        )  # fmt: skip
        return ours in done.err

    await eventually(classified, why="requests are classified")


async def test_a_dry_run_stores_nothing(installing: Installing) -> None:
    await installing.installed(*OFF)
    before = await installing.kubectl.within(NAMESPACE).get("deployment", "usher")

    done = await installing.installed(*OFF, "--dry-run=server", "--set", "replicas=5")

    assert "Deployment usher (dry run)" in done.out
    assert await installing.kubectl.within(NAMESPACE).get("deployment", "usher") == before


async def test_what_is_printed_can_be_applied_by_kubectl(installing: Installing) -> None:
    done = await installing.usher("install", "--print", "--set", "config.admission.mode=off")

    await installing.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=done.out)
    assert "usher" in await installing.names("deployments")


@pytest.mark.parametrize("flag", [("--adopt-crds",), ("--set", "crds.adopt=true")], ids=["by a flag", "by a value"])
async def test_definitions_of_somebody_else_are_refused_unless_adopted(
    installing: Installing, flag: tuple[str, ...]
) -> None:
    await installing.kubectl.apply(foreign())
    await installing.kubectl("wait", "--for=condition=Established", "crd/queues.scheduling.x-k8s.io")

    refused = await installing.usher("install", *OFF)

    assert refused.code == 1
    assert "queues.scheduling.x-k8s.io: this cluster has definitions of these names that are not Usher's" in refused.err
    assert "--adopt-crds" in refused.err
    assert NAMESPACE not in await installing.names("namespaces")

    await installing.installed(*OFF, *flag, "--no-wait")
    found = await installing.kubectl.get("crd", "queues.scheduling.x-k8s.io")
    assert found["metadata"]["labels"]["app.kubernetes.io/part-of"] == "usher"
    assert "queuePolicy" in str(found["spec"])


async def test_definitions_that_are_being_deleted_are_not_installed_over(installing: Installing) -> None:
    held = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": "held", "namespace": "default", "finalizers": ["example.com/test"]},
    }
    await installing.kubectl.apply(foreign())
    await installing.kubectl("wait", "--for=condition=Established", "crd/queues.scheduling.x-k8s.io")
    await installing.kubectl.apply(held)
    await installing.kubectl("delete", "crd", "queues.scheduling.x-k8s.io", "--wait=false")

    refused = await installing.usher("install", *OFF, "--adopt-crds")

    await installing.kubectl("patch", "queue", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await installing.kubectl("wait", "--for=delete", "crd/queues.scheduling.x-k8s.io")
    assert refused.code == 1
    assert refused.err.startswith("Error: queues.scheduling.x-k8s.io: these definitions are being deleted")
    assert NAMESPACE not in await installing.names("namespaces")


async def test_mistakes_are_said_before_anything_is_asked(installing: Installing) -> None:
    done = await installing.usher("install", "--set", "replica=3")

    assert done.code == 1
    assert done.err.startswith("Error: replica: there is no such value; there are image, replicas")
    assert NAMESPACE not in await installing.names("namespaces")


@pytest.mark.parametrize(
    ("major", "minor", "want"),
    [("1", "32", (1, 32)), ("1", "32+", (1, 32)), ("1", "9", (1, 9)), ("2", "0", (2, 0)), ("", "", (0, 0))],
)
def test_the_version_of_a_server_is_read_as_providers_write_it(major: str, minor: str, want: tuple[int, int]) -> None:
    assert applying.version_of({"major": major, "minor": minor}) == want


async def test_a_server_that_is_too_old_is_refused_before_anything_is_written(
    installing: Installing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "OLDEST", (1, 99))
    async with Client(
        kubeconfig.load(installing.cluster.kubeconfig), user_agent="usher", field_manager="usher"
    ) as client:
        with pytest.raises(
            applying.InstallError, match=r"This is Kubernetes v1\.\d+.*, and Usher needs 1\.99 or later"
        ):
            await applying.install(client, read_values([], [], NAMESPACE), applying.Plan(), print)

    assert NAMESPACE not in await installing.names("namespaces")


async def test_doors_of_a_manager_outside_are_refused_before_anything_is_written(installing: Installing) -> None:
    await installing.installed("--no-wait")
    at = '[{"op":"replace","path":"/webhooks/0/clientConfig","value":{"url":"https://127.0.0.1:1/mutate"}}]'
    await installing.kubectl("patch", "mutatingwebhookconfiguration", "usher", "--type=json", "-p", at)

    done = await installing.usher("install", "--no-wait", "--set", "replicas=5")

    assert done.code == 1
    assert done.err.startswith("Error: A manager outside of the cluster answers at the doors here (admission.host).")
    deployment = await installing.kubectl.within(NAMESPACE).get("deployment", "usher")
    assert deployment["spec"]["replicas"] == 2
    await installing.kubectl("delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "usher")
    await installing.installed("--no-wait")


async def test_a_manager_outside_is_installed_for_again_as_it_was(installing: Installing) -> None:
    outside = ("--no-wait", "--set", "replicas=0", "--set", "config.admission.host=127.0.0.1")
    await installing.installed(*outside)

    done = await installing.installed(*outside)

    assert "Usher 0.1.0 is installed" in done.out
    found = await installing.kubectl.get("validatingwebhookconfiguration", "usher")
    assert all(each["clientConfig"]["url"].startswith("https://127.0.0.1:") for each in found["webhooks"])


async def test_replicas_that_do_not_come_are_said_with_where_to_look(installing: Installing) -> None:
    done = await installing.usher("install", *OFF, "--set", "nodeSelector.disk=none", "--timeout", "2s")

    assert done.code == 1
    assert f"after 2 s they are not available: see kubectl -n {NAMESPACE} get pods" in done.err


async def test_a_job_that_ran_before_runs_again_when_it_is_released(installing: Installing) -> None:
    await installing.installed(*OFF, "--no-wait")
    inside = installing.kubectl.within("default")
    await inside.apply(job("again", "default", queue="", suspend=False))
    await inside("wait", "--for=jsonpath={.status.ready}=1", "job/again", "--timeout=60s")
    await inside("label", "job", "again", "scheduling.x-k8s.io/queue-name=main")
    await inside("patch", "job", "again", "-p", '{"spec":{"suspend":true}}')
    await inside("wait", "--for=condition=Suspended", "job/again", "--timeout=60s")

    done = await installing.usher("uninstall", "--yes", "--release-jobs")

    assert "default/again released" in done.out
    await inside("wait", "--for=jsonpath={.status.ready}=1", "job/again", "--timeout=60s")


async def test_a_job_that_its_owner_has_let_start_meanwhile_is_no_problem(installing: Installing) -> None:
    inside = installing.kubectl.within("default")
    await inside.apply(job("meanwhile", "default", queue="", suspend=False))
    await inside("wait", "--for=jsonpath={.status.ready}=1", "job/meanwhile", "--timeout=60s")
    found = await inside.get("job", "meanwhile")
    before = {**found, "spec": {**found["spec"], "suspend": True}}  # as it was when jobs were counted
    before["status"] = {**found["status"], "conditions": [{"type": "Suspended", "status": "True"}]}
    said: list[str] = []

    async with Client(
        kubeconfig.load(installing.cluster.kubeconfig), user_agent="usher", field_manager="usher"
    ) as client:
        await removal._release(client, Held(BUILT_IN[0], before, None), said.append)

    assert said == ["default/meanwhile released"]
    assert (await inside.get("job", "meanwhile"))["status"]["startTime"] == found["status"]["startTime"]


async def test_uninstalling_removes_what_was_installed_and_keeps_the_kinds(installing: Installing) -> None:
    before = {kind: await installing.names(kind) for kind in ("clusterroles", "clusterrolebindings", "flowschemas")}
    await installing.installed(*OFF, "--no-wait")
    await installing.kubectl("apply", "-f", "-", stdin=QUEUE)

    done = await installing.usher("uninstall", "--yes")

    assert done.code == 0, done.err
    assert "1 Queue. They stay." in done.out
    assert {kind: await installing.names(kind) for kind in before} == before
    assert await installing.names("deployments") == set()
    assert await installing.names("configmaps", "-l", "app.kubernetes.io/part-of=usher") == set()
    assert "main" in await installing.names("queues.scheduling.x-k8s.io")
    assert await installing.names("validatingadmissionpolicies") == {"usher-lease-anchor"}

    gone = await installing.usher("uninstall", "--yes", "--crds")
    assert "1 Queue. They are deleted with their kinds." in gone.out
    assert "queues.scheduling.x-k8s.io" not in await installing.names("crds")


QUEUE = """\
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: Queue
metadata: {name: main, namespace: default}
"""


async def test_uninstalling_asks_first(installing: Installing) -> None:
    await installing.installed(*OFF, "--no-wait")

    done = await installing.usher("uninstall", stdin="n\n")

    assert done.code == 1
    assert "Remove Usher? [y/N]" in done.out
    assert "usher" in await installing.names("deployments")
