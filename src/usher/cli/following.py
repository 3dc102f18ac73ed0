"""What becomes of jobs that were just created: their changes of state, the logs of their pods, and how they end.

`usher submit --wait` and `--follow` call it. States are read from units, which the manager keeps; logs come from the
kubelets, so where nodes are simulated there are none, and that is said once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from usher.api.names import GROUP
from usher.cli.connecting import Session
from usher.cli.kinds import JOBS, UNITS, Object
from usher.cli.printing import emit, note
from usher.cli.units import FINISHED, at, phase
from usher.core.durations import format_ms
from usher.kube.errors import KubeError, NotFound
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


async def follow(session: Session, jobs: Sequence[Object], *, show: bool, timeout_s: float | None) -> int:
    """Wait until all have ended; the exit code. `show`: say what happens on the way."""
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
        self._unit: Object | None = None
        self._said = ""
        self._logs: dict[str, asyncio.Task[None]] = {}
        self._no_logs = False

    async def run(self) -> None:
        """Follow it to its end."""
        namespace = self._job["metadata"]["namespace"]
        units: Informer[Object] = Informer(self._session.client, UNITS.resource, namespace)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(units)
            if self._show:
                await stack.enter_async_context(self._pods(namespace))
            hint = asyncio.ensure_future(self._hint())
            stack.callback(hint.cancel)
            async for batch in units.subscribe():
                for delta in batch:
                    await self._take(delta)
                if self.ended:
                    break
            await self._end_logs()
        emit(f"{self.name}: {self.ended}")

    def state(self) -> str:
        """Where it stands."""
        return "no manager has taken it up" if self._unit is None else _state(self._unit)

    async def _take(self, delta: Delta[Object]) -> None:
        unit = delta.object
        if at(unit, "spec.consumerRef.uid") != self._job["metadata"]["uid"]:
            return
        self._unit = unit
        if isinstance(delta, Deleted):
            self.ended = await self._fate()
        elif phase(unit) in FINISHED:
            self.ended = phase(unit)
        elif self._show and at(unit, "status.phase"):
            said = f"{self.name}: {_state(unit)}"
            if said != self._said:
                emit(said)
                self._said = said

    async def _fate(self) -> str:
        """Its unit is gone: how it ended, by its own word."""
        try:
            job = await self._session.client.get(JOBS.resource, self.name, self._job["metadata"]["namespace"])
        except (NotFound, KeyError):
            return GONE
        ended = {each["type"] for each in at(job, "status.conditions") or () if each["status"] == "True"}
        return SUCCEEDED if "Complete" in ended else "Failed" if "Failed" in ended else GONE

    async def _hint(self) -> None:
        await asyncio.sleep(UNSEEN_S)
        if self._unit is None:
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
            mine = self._unit is not None and unit.get(UNIT_ANNOTATION) == self._unit["metadata"]["name"]
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
    message = str(at(unit, "status.message") or "")
    return f"{phase(unit)}: {message}" if message else phase(unit)
