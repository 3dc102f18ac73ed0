"""The command line as people use it, for tests: a process of its own against the control plane of the test."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass

from living import Live

COMMAND = (sys.executable, "-m", "usher.cli")
AGE = re.compile(r"(?<=\s)(?:\d+[smhd](?:\d+[smh])?)(?=\s|$)")
MARK = re.compile(r"(?<=-)[0-9a-f]{6}(?![\w-])")


@dataclass(frozen=True)
class Done:
    """What a command has said, and its exit code."""

    code: int
    out: str
    err: str


def environment(live: Live, **more: str) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": str(live.admin.kubeconfig), "COLUMNS": "200", **more}


async def started(live: Live, *args: str, env: Mapping[str, str] | None = None) -> Process:
    """Start `usher` in the namespace of the test. It hears Ctrl-C, also where whoever runs the tests does not."""
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        "-n",
        live.namespace,
        *args,
        stdout=PIPE,
        stderr=PIPE,
        env=env or environment(live),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


async def usher(live: Live, *args: str) -> Done:
    """Run `usher` in the namespace of the test to its end."""
    process = await started(live, *args)
    out, err = await process.communicate()
    assert process.returncode is not None
    done = Done(process.returncode, out.decode(), err.decode())
    assert "Traceback" not in done.err, done.err
    return done


async def shown(live: Live, *args: str) -> str:
    """What a command that succeeds prints, without what differs from run to run."""
    done = await usher(live, *args)
    assert (done.code, done.err) == (0, ""), done
    return normal(live, done.out)


def normal(live: Live, text: str) -> str:
    """Text without names of this run and ages; columns are two spaces apart, however wide they were."""
    text = text.replace(live.namespace, "NS")
    text = AGE.sub("AGE", MARK.sub("HASH", text))
    return "\n".join(re.sub(r"(?<=\S) {2,}", "  ", line) for line in text.splitlines())


def lines(text: str) -> str:
    """A golden text: without the first newline, and without the indentation of the test."""
    body = text.strip("\n").splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    return "\n".join(line[margin:].rstrip() for line in body).rstrip()
