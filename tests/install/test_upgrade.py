"""Upgrades over a running Usher, by Helm and by `usher install`: every unit stays, jobs go on, trust is kept."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from installing import CHART, NAMESPACE, OVER, Installing, foreign
from living import Live

pytestmark = pytest.mark.controlplane


@pytest.fixture
async def live(installing: Installing) -> AsyncIterator[Live]:
    await installing.kubectl("create", "namespace", "tenant")
    found = Live(installing.kubectl.within("tenant"), installing.kubectl)
    yield found
    await found.close()
    await installing.forget("tenant")


def newer_chart(place: Path) -> Path:
    """The chart as a later version may be: another version, another kind of column in a definition."""
    chart = place / "usher"
    shutil.copytree(CHART, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**about, "version": "9.9.9", "appVersion": "9.9.9"}))
    queues = chart / "templates" / "kind-queues.yaml"
    column = "    additionalPrinterColumns:\n    - name: Newer\n      type: string\n      jsonPath: .spec.quota\n"
    queues.write_text(queues.read_text().replace("    additionalPrinterColumns:\n", column))
    return chart


async def queued(live: Live) -> dict[str, dict[str, Any]]:
    """One job that runs and one that waits; their units."""
    await live.queue()
    await live.job("runs", cpu="3", pods=2, suspend=False)
    await live.until("runs", "Running")
    await live.job("waits", cpu="3", suspend=False)
    await live.until("waits", "Enqueued")
    return await units(live)


async def units(live: Live) -> dict[str, dict[str, Any]]:
    found = {name: await live.unit(name) for name in ("runs", "waits")}
    return {name: {"uid": unit["metadata"]["uid"], **unit["status"]} for name, unit in found.items() if unit}


async def test_helm_upgrades_keep_all_units_and_what_the_manager_wrote(
    installing: Installing, live: Live, helm: str, tmp_path: Path
) -> None:
    wait = ("--wait", "--timeout", "3m", "--set-string", "resources.requests.cpu=0")
    install = ("install", "usher", str(CHART), "-n", NAMESPACE, "--create-namespace", *OVER, *wait)
    done = await installing.helm(helm, *install)
    assert done.code == 0, done.err
    old = await installing.manages(live, *await installing.at_service())
    before = await queued(live)

    async def trusted() -> bool:
        found = await installing.kubectl.get("validatingwebhookconfiguration", "usher")
        return all(each["clientConfig"].get("caBundle") for each in found["webhooks"])

    await live.wait("the API server trusts the manager", trusted)

    more = ("--set", "config.log.level=debug", "--set", "replicas=3")
    done = await installing.helm(helm, "upgrade", "usher", str(newer_chart(tmp_path)), "-n", NAMESPACE, *wait, *more)

    assert done.code == 0, done.err
    assert await units(live) == before
    assert await trusted()
    crd = await installing.kubectl.get("crd", "queues.scheduling.x-k8s.io")
    assert "Newer" in [each["name"] for each in crd["spec"]["versions"][0]["additionalPrinterColumns"]]
    deployment = await installing.kubectl.within(NAMESPACE).get("deployment", "usher")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "usher:9.9.9"
    await installing.manages(live)
    await live.stop(old)
    await live.kubectl("delete", "job", "runs")
    running = await live.until("waits", "Running")
    assert running["metadata"]["uid"] == before["waits"]["uid"]

    done = await installing.helm(helm, "uninstall", "usher", "-n", NAMESPACE, "--wait")

    assert done.code == 0, done.err
    assert (await live.unit("waits") or {})["metadata"]["uid"] == before["waits"]["uid"], "kinds are kept"
    done = await installing.helm(helm, "install", "usher", str(CHART), "-n", NAMESPACE, *wait)
    assert done.code == 0, done.err
    assert await installing.helm(helm, "uninstall", "usher", "-n", NAMESPACE)


async def test_usher_install_over_itself_keeps_all_units(installing: Installing, live: Live) -> None:
    await installing.installed("--no-wait")
    await installing.manages(live, *await installing.at_service())
    before = await queued(live)

    done = await installing.installed("--no-wait", "--set", "config.log.level=debug", "--set", "image.tag=9.9.9")

    assert "deleted" not in done.out
    assert await units(live) == before
    await live.kubectl("delete", "job", "runs")
    await live.until("waits", "Running")


async def test_helm_refuses_definitions_of_somebody_else(installing: Installing, helm: str) -> None:
    await installing.kubectl.apply(foreign())

    install = ("install", "usher", str(CHART), "-n", NAMESPACE, "--create-namespace")
    done = await installing.helm(helm, *install)

    assert done.code != 0
    assert "queues.scheduling.x-k8s.io: this cluster has a definition of this name that is not Usher's" in done.err

    done = await installing.helm(helm, *install, "--set", "crds.adopt=true", *OVER)

    assert done.code == 0, done.err
    found = await installing.kubectl.get("crd", "queues.scheduling.x-k8s.io")
    assert found["metadata"]["labels"]["app.kubernetes.io/part-of"] == "usher"
    refused = await installing.usher("install")
    assert "is a release of Helm: upgrade it with helm upgrade" in refused.err
    refused = await installing.usher("uninstall", "--yes")
    assert "is a release of Helm: run helm uninstall first" in refused.err
    done = await installing.helm(helm, "uninstall", "usher", "-n", NAMESPACE, "--wait")
    assert done.code == 0, done.err
