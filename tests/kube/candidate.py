"""A process that stands for election and, while it leads, changes one object's phase again and again.

    candidate.py KUBECONFIG NAMESPACE PLURAL IDENTITY prudent|reckless

The prudent one lets its writer look at the lease before each send. The reckless one never looks: it goes on writing in
its epoch whatever happens, as a process does that was frozen right after it had looked. What happens is told on
standard output: `leads E`, `began E VERSION`, `done`, `fenced`, `refused`, `lost`.
"""

import asyncio
import contextlib
import sys
from pathlib import Path

from fenced import TIMES, fence_for, things

from usher.kube import Client, load
from usher.kube.election import Election, Term
from usher.kube.fencing import status_probe, wait_until_fenced
from usher.kube.writer import Writer, WriterSettings
from usher.kube.writes import Done, Fenced, Refused, Verb, Write


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def lead(client: Client, term: Term, namespace: str, plural: str, identity: str, reckless: bool) -> None:
    resource, fence = things(plural), fence_for(plural, namespace)
    say("leads", term.epoch)
    probe = status_probe(
        client, resource, "the-thing", namespace, lambda epoch: {"status": {"epoch": epoch, "phase": "probe"}}
    )
    if not await wait_until_fenced(fence, term.epoch, [probe], held=term.held):
        say("lost")
        return
    say("began", term.epoch, (await client.get(resource, "the-thing", namespace)).metadata.resource_version)
    writer = Writer(client, fence=(lambda: True) if reckless else term.held, settings=WriterSettings(patience_s=30))
    number = 0
    while reckless or term.held():
        number += 1
        body = {"status": {"epoch": term.epoch, "phase": f"{identity} {number}"}}
        outcome = await writer.submit(
            Write(
                resource=resource,
                verb=Verb.PATCH,
                name="the-thing",
                namespace=namespace,
                subresource="status",
                body=body,
            )
        )
        match outcome:
            case Done():
                say("done")
            case Fenced():
                say("fenced")
            case Refused(error) if fence.refused(error):
                say("refused")
            case _:
                say("unexpected", outcome)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await asyncio.Event().wait()
    say("lost")


async def main(kubeconfig: Path, namespace: str, plural: str, identity: str, mode: str) -> None:
    def connect() -> Client:
        return Client(load(kubeconfig), user_agent="candidate", field_manager="candidate")

    election = Election(connect, namespace=namespace, name="leader", identity=identity, times=TIMES)
    async with connect() as client, election:
        while True:
            await lead(client, await election.acquired(), namespace, plural, identity, mode == "reckless")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
