"""What the command line says when it cannot do what was asked, word by word, on a real cluster."""

from __future__ import annotations

import json
from pathlib import Path

from commands import normal, usher
from living import Live, job

QUEUE_NAME = "scheduling.x-k8s.io/queue-name"

ERRORS = {
    "a job that names no queue": (
        ["explain", "plain"],
        f"Job plain is not queued: it names no queue. Name one with: kubectl label job plain {QUEUE_NAME}=QUEUE",
    ),
    "a job that nobody has taken up": (
        ["stop", "job", "queued"],
        "Job queued names a queue but has no unit yet. Does a manager run? See: usher version",
    ),
    "a job that is not there": (
        ["move", "nope", "--to", "main"],
        "There is no job nope in namespace NS. Nothing is queued there. Another namespace is chosen by -n.",
    ),
    "a job that is not there, by get": (["get", "job", "nope"], "No job nope is queued in namespace NS."),
    "a shared queue": (
        ["stop", "queue", "shared"],
        "There is no Queue shared in namespace NS. There is a shared one: add -n usher-system.",
    ),
    "no such queue": (
        ["resume", "queue", "nope"],
        "There is no Queue nope in namespace NS. See: usher get queues -A",
    ),
    "a quota that is not there": (
        ["describe", "quota", "nope"],
        'queuequotas.scheduling.x-k8s.io "nope" not found.',
    ),
    "a value that the server refuses": (
        ["set", "queue", "main", "policy=no policy"],
        'Queue.scheduling.x-k8s.io "main" is invalid: spec.queuePolicy: Invalid value: "no policy": this is not the '
        "name of a queue policy: FIFO, Priority, PriorityBlocking, Block or a plug-in.",
    ),
    "a job that is there already": (
        ["submit", "-q", "main", "--image", "x", "--name", "plain"],
        'jobs.batch "plain" already exists.',
    ),
    "a selector that is none": (
        ["get", "queues", "-l", "a b"],
        "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt.",
    ),
    "a file that is not there": (["submit", "-f", "nope.yaml"], "nope.yaml cannot be read: No such file or directory."),
}


async def test_every_refusal_is_one_sentence_with_what_to_do(live: Live, tmp_path: Path) -> None:
    await live.queue()
    await live.queue("shared", namespace="usher-system")
    await live.job("plain", queue="")
    await live.job("queued")

    said = {name: await usher(live, *args) for name, (args, _) in ERRORS.items()}

    assert {name: (done.code, done.out, len(done.err.splitlines())) for name, done in said.items()} == dict.fromkeys(
        ERRORS, (1, "", 1)
    )
    errors = {name: normal(live, done.err) for name, done in said.items()}
    assert {name: text for name, text in errors.items() if f"Error: {ERRORS[name][1]}" not in text} == {}
    typo = tmp_path / "typo.json"
    typo.write_text(json.dumps({**(body := job("one", live.namespace)), "spec": {**body["spec"], "parallelsm": 2}}))
    done = await usher(live, "submit", "-f", str(typo))
    assert done.code == 1
    assert 'unknown field "spec.parallelsm"' in done.err
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(json.dumps(job("one", "other-namespace")))
    done = await usher(live, "submit", "-f", str(elsewhere))
    assert normal(live, done.err) == (
        "Error: one says namespace other-namespace, and --namespace is NS: leave one of them out."
    )
