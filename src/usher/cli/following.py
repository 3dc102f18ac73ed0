"""What becomes of jobs that were just created: their changes of state, the logs of their pods, and how they end.

`usher submit --wait` and `--follow` call it. States are read from units, which the manager keeps; a job that draws on
a QueueJob has none, and ends by its own word. Logs come from the kubelets, so where nodes are simulated there are none,
and that is said once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from usher.api.names import GROUP, QUEUE_JOB
from usher.cli.connecting import Session
from usher.cli.discovery import resource_for
from usher.cli.kinds import UNITS, Object
from usher.cli.printing import emit, note, plain
from usher.cli.units import FINISHED, at, phase
from usher.core.durations import format_ms
from usher.kube.errors import KubeError
from usher.kube.informer import Informer
from usher.kube.resource import untyped
from usher.kube.store import Deleted, Delta

PODS: Final = untyped("", "v1", "pods", "Pod", namespaced=True)
UNIT_ANNOTATION: Final = f"{GROUP}/queue-unit"
JOB_LABEL: Final = "batch.kubernetes.io/job-name"
LOGS_END_S: Final = 5.0
"""How long logs may take to end once their job has."""
UNSEEN_S: Final = 10.0
"""After how long it is said that no manager has taken up a job."""
GONE: Final = "deleted"
SUCCEEDED: Final = "Succeed"
OWN_WORDS: Final = {"Complete": SUCCEEDED, "Failed": "Failed"}
"""What a Job says of its end, as a unit would."""


async def follow(session: Session, jobs: Sequence[Object], *, show: bool, timeout_s: float | None) -> int:
    """Wait until all have ended; the exit code. `show`: say what happens on the way."""
    for namespace in {job["metadata"]["namespace"] for job in jobs}:
        await session.client.list(
            UNITS.resource, namespace, limit=1
        )  # who may not see units is told, and need not wait
    followers = [_Follower(session, job, show) for job in jobs]
    try:
        async with asyncio.timeout(timeout_s):
            async with asyncio.TaskGroup() as group:
                for each in followers:
                    group.create_task(each.run())
    except TimeoutError:
        for each in followers:
            if not each.ended:
                limit = format_ms(int((timeout_s or 0) * 1000))
                note(f"Error: {each.name} has not ended within {limit}: {each.state()}")
        return 1
    except asyncio.CancelledError:
        names = ", ".join(each.name for each in followers if not each.ended)
        note(f"note: no longer watched, not stopped: {names}")
        raise
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return 0 if all(each.ended == SUCCEEDED for each in followers) else 1


class _Follower:
    """One job."""

    def __init__(self, session: Session, job: Object, show: bool) -> None:
        self.name: str = job["metadata"]["name"]
        self.ended = ""
        self._session = session
        self._job = job
        self._show = show
        meta = job["metadata"]
        self._draws_on = next(
            (said for where in ("labels", "annotations") if (said := (meta.get(where) or {}).get(QUEUE_JOB))), ""
        )
        self._unit: Object | None = None
        self._said = ""
        self._changed = asyncio.Event()
        self._logs: dict[str, asyncio.Task[None]] = {}
        self._no_logs = False

    async def run(self) -> None:
        """Follow it to its end."""
        client, namespace = self._session.client, self._job["metadata"]["namespace"]
        resource = await resource_for(client, self._job["apiVersion"], self._job["kind"])
        units: Informer[Object] = Informer(client, UNITS.resource, namespace)
        jobs: Informer[Object] = Informer(client, resource, namespace, field_selector=f"metadata.name={self.name}")
        units.listen(self._see_units)
        jobs.listen(lambda _: self._changed.set())
        async with contextlib.AsyncExitStack() as stack:
            for each in (units, jobs):
                await stack.enter_async_context(each)
            if self._show:
                await stack.enter_async_context(self._pods(namespace))
            hint = asyncio.ensure_future(self._hint())
            stack.callback(hint.cancel)
            await units.synced.wait()
            await jobs.synced.wait()
            while not (ended := self._end(jobs.store.get(self.name, namespace))):
                await self._changed.wait()
                self._changed.clear()
            await self._end_logs()
        self.ended = ended
        emit(f"{self.name}: {self.ended}")

    def state(self) -> str:
        """Where it stands."""
        if self._draws_on:
            return f"it draws on QueueJob {self._draws_on}"
        return "no manager has taken it up" if self._unit is None else _state(self._unit)

    def _see_units(self, deltas: Sequence[Delta[Object]]) -> None:
        for delta in deltas:
            unit = delta.object
            if at(unit, "spec.consumerRef.uid") != self._job["metadata"]["uid"]:
                continue
            self._unit = unit
            self._changed.set()
            said = f"{self.name}: {_state(unit)}"
            if self._show and at(unit, "status.phase") and phase(unit) not in FINISHED and said != self._said:
                emit(said)
                self._said = said

    def _end(self, job: Object | None) -> str:
        """How it ended, by its unit or by its own word; empty while it has not."""
        if self._unit is not None and phase(self._unit) in FINISHED:
            return phase(self._unit)
        if job is None or job["metadata"]["uid"] != self._job["metadata"]["uid"]:
            return GONE
        for each in (at(job, "status.conditions") or ()) if self._draws_on else ():
            if each["type"] in OWN_WORDS and each["status"] == "True":
                return OWN_WORDS[each["type"]]
        return ""

    async def _hint(self) -> None:
        await asyncio.sleep(UNSEEN_S)
        if self._unit is None and not self._draws_on:
            note(f"note: no manager has taken up {self.name} yet. Does one run? See: usher version")

    # -- logs ---------------------------------------------------------------------------------------------------------

    def _pods(self, namespace: str) -> Informer[Object]:
        selector = f"{JOB_LABEL}={self.name}" if self._job["kind"] == "Job" else None
        pods: Informer[Object] = Informer(self._session.client, PODS, namespace, label_selector=selector)
        pods.listen(self._see_pods)
        return pods

    def _see_pods(self, deltas: Sequence[Delta[Object]]) -> None:
        for delta in deltas:
            pod = delta.object
            unit = at(pod, "metadata.annotations") or {}
            known = self._unit is not None and unit.get(UNIT_ANNOTATION) == self._unit["metadata"]["name"]
            mine = known or bool(self._draws_on)
            started = at(pod, "status.phase") in ("Running", "Succeeded", "Failed")
            uid = pod["metadata"]["uid"]
            if mine and started and uid not in self._logs and not isinstance(delta, Deleted) and not self._no_logs:
                self._logs[uid] = asyncio.ensure_future(self._log(pod))

    async def _log(self, pod: Object) -> None:
        """Print the log of a pod as it comes."""
        meta = pod["metadata"]
        containers: list[Any] = at(pod, "spec.containers") or [{}]
        query = urlencode({"follow": "true", "container": containers[0].get("name", "")})
        path = f"{PODS.path(meta['namespace'], meta['name'], 'log')}?{query}"
        alone = int(at(self._job, "spec.parallelism") or 1) == 1 and self._job["kind"] == "Job"
        before = "" if alone else f"[{meta['name']}] "
        try:
            stream = await self._session.client.stream(path)
        except KubeError as error:
            if not self._no_logs:
                self._no_logs = True
                note(f"note: there are no logs to show: {error.message}")
            return
        rest = b""
        try:
            while piece := await stream.read():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    emit(before + line.decode(errors="replace"))
            if rest:
                emit(before + rest.decode(errors="replace"))
        except KubeError as error:
            note(f"note: the log of {meta['name']} broke off: {error.message}")
        finally:
            stream.close()

    async def _end_logs(self) -> None:
        tasks = list(self._logs.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=LOGS_END_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _state(unit: Object) -> str:
    message = plain(str(at(unit, "status.message") or ""))
    return f"{phase(unit)}: {message}" if message else phase(unit)
