"""What a manager answers over HTTP, how it stops, and how the next takes over, on a real control plane."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import urllib.error
import urllib.request
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from living import QUICK, Live
from prometheus_client.parser import text_string_to_metric_families

from usher.app.process import ManagerProcess
from usher.testing.waits import eventually

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def _read(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def ask(process: ManagerProcess, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(_read, f"{process.server.url}{path}")


async def scrape(url: str) -> Samples:
    text = (await asyncio.to_thread(_read, f"{url}/metrics"))[1]
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, metric: str, **labels: str) -> float:
    """The sum of the samples with these labels."""
    wanted = set(labels.items())
    return sum(number for (name, given), number in samples.items() if name == metric and wanted <= given)


async def test_a_leader_and_a_standby_are_live_and_ready(live: Live) -> None:
    leader = await live.start()
    standby = await live.start(wait=False)

    async def warm() -> bool:
        return standby.synced

    await live.wait("the standby's caches are warm", warm)
    for process in (leader, standby):
        assert await ask(process, "/livez") == (200, "ok")
        assert await ask(process, "/readyz") == (200, "ok")
        metrics = await scrape(process.server.url)
        assert value(metrics, "leader_election_master_status", name="usher-manager") == float(process is leader)
    status, text = await ask(leader, "/livez?verbose")
    assert (status, "[+]lease ok" in text, "[+]loop ok" in text) == (200, True, True)


async def test_the_numbers_are_those_of_what_happened(live: Live) -> None:
    await live.quota("a")
    await live.quota("b")
    await live.queue("lender", quota="a")
    await live.queue("borrower", quota="b")
    process = await live.start()
    borrower, lender = f"{live.namespace}/borrower", f"{live.namespace}/lender"
    for number in range(2):
        await live.job(f"borrows-{number}", cpu="3", queue="borrower")
        await live.until(f"borrows-{number}", "Running")
    await live.job("owner", cpu="3", queue="lender")
    await live.until("owner", "Running")
    await live.job("short", cpu="500m", queue="lender", runs="1s")
    await live.until("short", "Succeed")

    found = await scrape(process.server.url)

    assert value(found, "usher_admissions_total", queue=borrower) == 2
    assert value(found, "usher_admissions_total", queue=lender) == 2
    assert value(found, "usher_evictions_total") == 1
    assert value(found, "usher_evictions_total", queue=borrower, cause="Reclaimed") == 1
    assert value(found, "usher_finished_total", queue=lender, phase="Succeed") == 1
    assert value(found, "usher_admission_wait_seconds_count", queue=borrower) == 2
    assert value(found, "usher_start_wait_seconds_count", queue=borrower) == 2
    assert value(found, "usher_queue_waiting_units", queue=borrower) == 1
    assert value(found, "usher_queue_holding_units", queue=lender) == 1
    assert value(found, "usher_quota_used", quota="a", resource="cpu") == 3
    assert value(found, "usher_quota_max", quota="root", resource="cpu") == 8
    assert value(found, "usher_quota_deserved", quota="b", resource="cpu") > 0
    assert value(found, "rest_client_requests_total", method="POST", resource="queueunits", code="201") == 4
    assert value(found, "rest_client_requests_total", method="PATCH", resource="jobs", code="200") == 5
    assert value(found, "rest_client_requests_total", method="PUT", resource="leases", code="200") >= 1
    assert value(found, "usher_commands_total", command="Admit") == 4
    assert value(found, "usher_decision_duration_seconds_count") == value(found, "usher_decision_events_count") > 4
    assert value(found, "usher_loop_lag_seconds_count") > 0
    assert value(found, "usher_watch_age_seconds", resource="queueunits") < 120
    assert value(found, "usher_watch_problems_total") == 0
    assert value(found, "leader_election_master_status", name="usher-manager") == 1


async def test_a_short_job_that_starts_at_once_costs_five_writes(live: Live) -> None:
    await live.queue()
    process = await live.start("events.enabled=false")
    await live.job("one", runs="2s")
    await live.until("one", "Succeed")

    found = await scrape(process.server.url)

    writes = {
        (dict(labels)["method"], dict(labels)["resource"]): count
        for (name, labels), count in found.items()
        if name == "rest_client_requests_total"
        and dict(labels)["resource"] in ("jobs", "queueunits", "queueunits/status")
        if dict(labels)["method"] in ("POST", "PATCH", "PUT", "DELETE")
    }
    assert writes[("POST", "queueunits")] == 1
    assert writes[("PATCH", "jobs")] == 1
    assert writes[("PATCH", "queueunits/status")] <= 3
    assert sum(writes.values()) <= 5


@asynccontextmanager
async def manager_command(live: Live, *options: str) -> AsyncIterator[Process]:
    """`usher manager` as a person starts it."""
    sets = [part for each in QUICK for part in ("--set", each)]
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("usher")),
        "manager",
        "--kubeconfig",
        str(live.admin.kubeconfig),
        *sets,
        *options,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(process: Process, word: str) -> str:
    """The line that begins with this word."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while line := (await process.stdout.readline()).decode():
            if line.startswith(word):
                return line.strip()
    assert process.stderr is not None
    raise AssertionError(f"it never said {word}: {(await process.stderr.read()).decode()[-2000:]}")


async def test_sigterm_hands_over_at_once_and_loses_nothing(live: Live) -> None:
    await live.queue()
    await live.stop(await live.start())  # whoever was killed in an earlier test holds the lease no more
    # A lease that nobody could wait out in this test: only giving it back lets the next one lead.
    long = ("--set", "election.leaseDuration=120s", "--set", "election.renewDeadline=100s")
    async with manager_command(live, "--set", "log.format=json", *long) as first:
        url = (await said(first, "ready:")).removeprefix("ready: ")
        await said(first, "leading")
        assert value(await scrape(url), "leader_election_master_status") == 1
        second = await live.start("election.leaseDuration=120s", "election.renewDeadline=100s", wait=False)

        async def warm() -> bool:
            return second.synced and second.election is not None

        await live.wait("the second is warm", warm)
        await live.job("one", cpu="1")
        first.send_signal(signal.SIGTERM)
        out, err = await asyncio.wait_for(first.communicate(), 60)
        assert first.returncode == 0
        assert out.decode().strip().endswith("stopped")
        for line in err.decode().splitlines():
            assert {"time", "level", "logger", "message"} <= set(json.loads(line))

    async def leads() -> bool:
        return second.manager is not None and second.manager.begun

    try:
        await eventually(leads, why="the second leads", within=60)
        await live.until("one", "Running")
    finally:
        await live.stop(second)


async def test_an_address_that_is_taken_is_said_in_one_line(live: Live) -> None:
    process = await live.start()
    async with manager_command(live, "--set", f"server.port={process.server.port}") as other:
        _, err = await asyncio.wait_for(other.communicate(), 60)
        assert other.returncode == 1
        assert err.decode().startswith("Error: cannot listen on")
        assert len(err.decode().strip().splitlines()) == 1
