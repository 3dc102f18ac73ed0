"""The logs of a job that is followed, from a server that has them (simulated nodes have none)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from usher.cli import following
from usher.cli.connecting import Connection, Session
from usher.kube.client import Client
from usher.kube.config import Config
from usher.kube.plain import for_commands

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}".encode() + b"\r\n" + data + b"\r\n"


def pod(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"containers": [{"name": "main"}, {"name": "side"}]},
    }


def job(parallelism: int) -> dict[str, Any]:
    return {"kind": "Job", "metadata": {"name": "train", "namespace": "ns"}, "spec": {"parallelism": parallelism}}


async def logged(parallelism: int, answer: bytes) -> bytes:
    """Follow the log of one pod, which a server answers so; what the server was asked."""
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).splitlines()[0])
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        config = Config(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with Client(config, user_agent="t", field_manager="t", transport=for_commands(config)) as client:
            follower = following._Follower(Session(client, config, Connection()), job(parallelism), True)
            await follower._log(pod("train-0"))
    return asked[0]


LOGS = {
    "lines that come in pieces": (1, HEAD + chunk(b"on") + chunk(b"e\ntwo\n") + chunk(b""), "one\ntwo\n", ""),
    "a last line without its end": (1, HEAD + chunk(b"one\ntw") + chunk(b""), "one\ntw\n", ""),
    "one of several pods": (2, HEAD + chunk(b"one\n") + chunk(b""), "[train-0] one\n", ""),
    "bytes that are no text": (1, HEAD + chunk(b"\xff\n") + chunk(b""), "�\n", ""),
    "a log that breaks off": (1, HEAD + chunk(b"one\n") + b"5\r\ntw", "one\n", "note: the log of train-0 broke off: "),
    "no log": (
        1,
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nno node",
        "",
        "note: there are no logs to show: no node\n",
    ),
}


@pytest.mark.parametrize("given", LOGS)
async def test_a_log_is_shown_line_by_line(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    parallelism, answer, out, err = LOGS[given]

    asked = await logged(parallelism, answer)

    shown = capsys.readouterr()
    assert asked == b"GET /api/v1/namespaces/ns/pods/train-0/log?follow=true&container=main HTTP/1.1"
    assert shown.out == out
    assert shown.err.startswith(err)
    assert bool(shown.err) == bool(err)
