"""The commands that change something, on a real cluster: submit, stop, resume, move, set."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest
from acts import condition, suspend, until_unit
from commands import normal, shown, started, usher
from living import Live, job
from queuejobs import queue_job, until_allocated

from usher.kube.errors import NotFound

QUEUE_NAME = "scheduling.x-k8s.io/queue-name"
RUNS = "sim.usher.dev/runs-for"


async def test_a_job_from_flags_is_followed_to_its_end(live: Live) -> None:
    await live.queue()
    await live.start()

    done = await usher(
        live, "submit", "-q", "main", "--image", "none", "--cpu", "1", "--memory", "1Gi", "--parallelism", "2",
        "--priority", "7", "--max-time", "10m", "--name", "train", "--annotation", f"{RUNS}=1s", "--follow",
        "--", "sleep", "1",
    )  # fmt: skip

    assert done.code == 0, done
    said = done.out.splitlines()
    assert said[0] == "job.batch/train created"
    assert said[-1] == "train: Succeed"
    assert "train: Dequeued: It may start." in said
    assert done.err.count("note: there are no logs to show") == 1  # the nodes are simulated
    unit = await live.unit("train")
    assert unit is not None
    assert (unit["spec"]["priority"], unit["spec"]["maximumExecutionTimeSeconds"]) == (7, 600)
    created = await live.get("job", "train")
    (container,) = created["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["sleep", "1"]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


async def test_the_jobs_of_a_file_are_put_into_a_queue_and_waited_for(live: Live, tmp_path: Path) -> None:
    await live.queue()
    await live.start()
    bodies = [job(name, live.namespace, queue="", runs="1s", suspend=False) for name in ("one", "two")]
    file = tmp_path / "jobs.yaml"
    file.write_text("\n---\n".join(json.dumps(body) for body in bodies))

    done = await usher(live, "submit", "-q", "main", "-f", str(file), "--wait")

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[:2] == ["job.batch/one created", "job.batch/two created"]
    assert sorted(done.out.splitlines()[2:]) == ["one: Succeed", "two: Succeed"]
    stopped, moved = await usher(live, "stop", "job", "one"), await usher(live, "move", "one", "--to", "other")
    assert (stopped.code, moved.code) == (1, 1)
    assert stopped.err == "Error: one has ended (Succeed): there is nothing to stop or resume.\n"
    assert moved.err == "Error: one has ended (Succeed): submit it anew to the other queue.\n"


async def test_a_job_that_fails_gives_exit_code_one(live: Live, tmp_path: Path) -> None:
    await live.queue()
    await live.start()
    file = tmp_path / "job.json"
    fails = {"sim.usher.dev/fails": "true"}
    file.write_text(json.dumps(job("one", live.namespace, runs="1s", template_annotations=fails, backoffLimit=0)))

    done = await usher(live, "submit", "-f", str(file), "--wait")

    assert (done.code, done.out, done.err) == (1, "job.batch/one created\none: Failed\n", "")


async def test_a_job_that_does_not_end_in_time_or_is_deleted_gives_exit_code_one(live: Live) -> None:
    await live.queue(stopPolicy="Hold")
    await live.start()
    flags = ["submit", "-q", "main", "--image", "none", "--cpu", "1"]

    late = await usher(live, *flags, "--name", "late", "--wait", "--timeout", "1s")

    assert late.code == 1
    assert late.err.startswith("Error: late has not ended within 1s: ")
    process = await started(live, *flags, "--name", "gone", "--follow")
    await live.until("gone", "Enqueued")
    await live.kubectl("delete", "job", "gone")
    out, _ = await process.communicate()
    assert process.returncode == 1
    assert out.decode().splitlines()[-1] == "gone: deleted"


async def test_a_job_goes_on_when_its_follower_is_interrupted(live: Live) -> None:
    await live.queue()
    await live.start()
    flags = ["--image", "none", "--name", "one", "--annotation", f"{RUNS}=1h"]
    process = await started(live, "submit", "-q", "main", *flags, "--follow")
    assert process.stdout is not None
    while (line := await process.stdout.readline()) != b"one: Running\n":
        assert line, "it ended before it ran"

    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()

    assert (process.returncode, out) == (130, b"")
    assert err.decode().splitlines()[-1] == "note: no longer watched, not stopped: one"
    assert b"Traceback" not in err
    assert (await live.get("job", "one"))["spec"]["suspend"] is False


async def test_a_dry_run_leaves_nothing_behind(live: Live) -> None:
    await live.queue()
    flags = ["submit", "-q", "main", "--image", "none", "--name", "dry"]

    by_client = await shown(live, *flags, "--dry-run=client")
    by_server = await shown(live, *flags, "--dry-run=server")
    held = await shown(live, "stop", "queue", "main", "--dry-run=server")

    assert by_client == "job.batch/dry created (dry run)"
    assert by_server == "job.batch/dry created (server dry run)"
    assert held.endswith("(server dry run)")
    with pytest.raises(NotFound):
        await live.get("job", "dry")
    assert (await live.get("queue", "main"))["spec"]["stopPolicy"] == "None"


async def test_a_job_without_a_queue_is_refused_and_one_for_a_queue_to_come_is_not(live: Live) -> None:
    await live.queue()
    await live.queue("shared", namespace="usher-system")

    none = await usher(live, "submit", "--image", "none")
    coming = await usher(live, "submit", "--image", "none", "--name", "early", "-q", "later")

    assert none.code == 2
    assert "Error: Name a queue with --queue. There are: main, shared." in none.err
    assert (coming.code, coming.out) == (0, "job.batch/early created\n")
    assert coming.err == (
        "note: there is no queue later here yet, so the job waits until there is. There are: main, shared.\n"
    )


async def test_a_stopped_queue_starts_nothing_until_it_is_resumed(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("before", cpu="1")
    await live.until("before", "Running")

    said = await shown(live, "stop", "queue", "main")
    await live.job("after", cpu="1")
    await live.until("after", "Enqueued")

    assert said == "queue main stopped: nothing more starts; what runs goes on (--drain stops that, too)"
    assert "QueueStopped" in json.loads((await usher(live, "explain", "after", "-o", "json")).out)["blocked"]["check"]
    assert await shown(live, "stop", "q/main") == "queue main is stopped already"
    await shown(live, "stop", "q/main", "--drain")
    await live.until("before", "Enqueued")
    assert await shown(live, "resume", "queue", "main") == "queue main resumed"
    await live.until("before", "Running")
    await live.until("after", "Running")


async def test_a_stopped_job_gives_back_what_it_holds_until_it_is_resumed(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("one", cpu="1")
    await live.until("one", "Running")

    assert await shown(live, "stop", "job", "one") == "job one stopped: it gives back what it holds and takes no part"
    await until_unit(live, "one", "holds nothing", lambda unit: condition(unit, "QuotaReserved")["status"] == "False")
    assert await shown(live, "stop", "job", "one") == "job one is stopped already"
    assert await shown(live, "resume", "job", "one") == "job one resumed: it waits for its turn again"
    await live.until("one", "Running")


async def test_a_job_that_was_set_aside_takes_part_again_when_it_is_resumed(live: Live) -> None:
    await live.queue()
    await live.start()
    await live.job("one", cpu="1")
    await live.until("one", "Running")
    await suspend(live, "one", True)
    await until_unit(live, "one", "is set aside", lambda unit: unit["status"].get("inactive"))

    assert await shown(live, "resume", "job", "one") == "job one resumed: it waits for its turn again"

    unit = await live.until("one", "Running")
    assert "inactive" not in unit["status"]
    assert unit["spec"].get("active") is not False


async def test_a_job_that_waits_is_moved_by_its_label_and_one_that_runs_is_not(live: Live) -> None:
    await live.quota("team", namespaces=[live.namespace])  # one purse for both queues: nobody takes from the other
    await live.queue()
    await live.queue("other")
    await live.start()
    await live.job("runs", cpu="3", pods=2)
    await live.until("runs", "Running")
    await live.job("waits", cpu="3", labels={"kueue.x-k8s.io/queue-name": "main"}, queue="")
    await live.until("waits", "Enqueued")

    moved = await shown(live, "move", "waits", "--to", "other")
    refused = await usher(live, "move", "job", "runs", "--to", "other")
    unknown = await usher(live, "move", "waits", "--to", "nowhere")

    assert moved == "job waits moved: main → other"
    await until_unit(live, "waits", "is in the other queue", lambda unit: unit["spec"]["queue"] == "other")
    labels = (await live.get("job", "waits"))["metadata"]["labels"]
    assert labels == {"kueue.x-k8s.io/queue-name": "other"}
    assert await shown(live, "move", "waits", "--to", "other") == "job waits is in queue other already"
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        "Error: runs is Running and holds quota: it can be moved only when it is stopped. Add --evict to stop it "
        "(it waits again, in queue other), or wait until it has ended.\n"
    )
    assert unknown.code == 1
    assert unknown.err.startswith("Error: There is no queue nowhere here. There are: main, other")
    assert (await live.get("job", "runs"))["metadata"]["labels"] == {QUEUE_NAME: "main"}

    assert await shown(live, "move", "runs", "--to", "other", "--evict") == "job runs moved: main → other"
    unit = await until_unit(live, "runs", "takes part", lambda unit: unit["spec"].get("active") is not False)
    assert unit["spec"]["queue"] == "other"
    await live.until("waits", "Running")
    await live.until("runs", "Enqueued")


async def test_a_queue_job_is_explained_stopped_and_moved_like_a_job(live: Live) -> None:
    await live.queue()
    await live.queue("late")
    await live.start("jobs.queueJobNotice=0s")
    await live.job("same", cpu="1")
    await live.until("same", "Running")
    await queue_job(live, "same", resourceno=1, resourceunit={"cpu": "99"})
    await queue_job(live, "has", resourceno=1)
    await until_allocated(live, "has", 1)

    waits = await shown(live, "explain", "queuejob/same")
    moved = await shown(live, "move", "qj/same", "--to", "late")
    refused = await usher(live, "move", "qj/has", "--to", "late")
    evicted = await shown(live, "move", "qj/has", "--to", "late", "--evict")
    stopped = await shown(live, "stop", "queuejob", "has")
    nobody = await usher(live, "stop", "queuejob", "nope")

    assert waits.startswith("NS/queuejob-same-HASH is number 1 of 1 in queue NS/main. It asks for 99 cpu")
    assert moved == "job same moved: main → late"
    assert "has is Running and holds quota" in refused.err
    assert evicted == "job has moved: main → late"
    assert stopped.startswith("job has stopped: ")
    assert nobody.err == f"Error: There is no QueueJob nope in the queues of namespace {live.namespace}.\n"
    assert {(await live.get("queuejob", name))["spec"]["queue"] for name in ("same", "has")} == {"late"}
    assert (await live.get("job", "same"))["spec"]["suspend"] is False


async def test_a_queue_is_changed_by_words_and_the_server_checks_the_values(live: Live) -> None:
    await live.queue(maxUnits=3)

    said = await shown(live, "set", "queue", "main", "weight=3", "policy=FIFO", "max-units=")
    again = await shown(live, "set", "queue/main", "weight=3")
    refused = await usher(live, "set", "queue", "main", "weight=-1")
    elsewhere = await usher(live, "set", "queue", "nope", "weight=1")

    assert said == "queue main changed: weight 1 → 3, policy Priority → FIFO, max-units 3 → -"
    assert again == "queue main unchanged"
    spec = (await live.get("queue", "main"))["spec"]
    assert (spec["weight"], spec["queuePolicy"], "maxUnits" in spec) == (3, "FIFO", False)
    assert refused.code == 1
    assert "spec.weight in body should be greater than or equal to 0" in refused.err
    assert (await live.get("queue", "main"))["spec"]["weight"] == 3
    assert normal(live, elsewhere.err) == "Error: There is no Queue nope in namespace NS. See: usher get queues -A"


async def test_watching_goes_on_with_changes_until_it_is_interrupted(live: Live) -> None:
    await live.queue()
    process = await started(live, "get", "queues", "-w", "--no-headers")
    assert process.stdout is not None
    first = normal(live, (await process.stdout.readline()).decode())

    await shown(live, "set", "queue", "main", "weight=5")
    second = normal(live, (await asyncio.wait_for(process.stdout.readline(), 60)).decode())
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()

    assert first == "main  Priority  1  0  0  -  -  -  AGE"
    assert second == "main  Priority  5  0  0  -  -  -  AGE"
    assert (process.returncode, out, err) == (130, b"", b"")


async def test_a_reader_that_goes_away_ends_a_command_quietly(live: Live) -> None:
    await live.queue()
    await live.queue("other")
    process = await started(live, "get", "queues", "-w")
    assert process.stdout is not None
    await process.stdout.readline()
    process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]

    await shown(live, "set", "queue", "main", "weight=5")
    await shown(live, "set", "queue", "main", "weight=6")
    assert process.stderr is not None
    err = await asyncio.wait_for(process.stderr.read(), 60)

    assert await process.wait() == 1
    assert err == b""
