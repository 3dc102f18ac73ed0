"""Those who use QueueJobs, on a real control plane: the sample client, and `usher submit --queuejob`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from acts import until_no_unit
from commands import started, usher
from living import Live
from queuejobs import queue_job, until_allocated

EXAMPLE = Path(__file__).parents[2] / "examples" / "queuejob-client" / "client.py"
BRIEF = "sim.usher.dev/runs-for"


def sample() -> ModuleType:
    spec = importlib.util.spec_from_file_location("queuejob_client", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_the_sample_client_starts_as_many_pods_as_it_has_units(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("other", cpu="3", pods=2)
    await live.until("other", "Running")
    client, said = sample(), list[str]()
    wish = client.Wish("asks", live.namespace, "main", "none", units=5, annotations={BRIEF: "1s"})

    assert await client.run(live.client, wish, said.append)

    assert said == ["asked for 5 units", "2 units are allocated: {'cpu': '2'}", "the work is done"]
    job = await live.get("job", "asks")
    assert (job["spec"]["parallelism"], job["status"]["succeeded"]) == (2, 2)
    await until_no_unit(live, "asks")


async def test_usher_submit_draws_on_a_queue_job(live: Live) -> None:
    await live.queue()
    await live.start()
    flags = ("--image", "none", "--cpu", "1", "--annotation", f"{BRIEF}=1s")
    waits = await started(live, "submit", "--queuejob", "mine", "--name", "draws", "--wait", *flags)
    await queue_job(live, "mine", resourceno=1)
    await until_allocated(live, "mine", 1)

    out, err = await waits.communicate()

    assert (waits.returncode, err.decode()) == (0, "")
    assert out.decode() == "job.batch/draws created\ndraws: Succeed\n"
    assert await live.unit("draws") is None
    both = await usher(live, "submit", "--queuejob", "mine", "--queue", "main", *flags)
    assert both.code == 2
    assert "leave out" in both.err
    rows = [line.split() for line in (await usher(live, "get", "queuejobs")).out.splitlines()]
    assert rows[1][:5] == ["mine", "main", "0", "1", "1"]
