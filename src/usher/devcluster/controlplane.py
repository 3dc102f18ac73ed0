"""A real Kubernetes control plane on this machine: etcd, API server, controllers, scheduler, simulated nodes.

    async with ControlPlane(nodes=Nodes(count=4)) as cluster:
        print(await cluster.kubectl("get", "nodes"))

Tests, `usher up` and the benchmarks all come through here. The promises: when `start` returns, jobs can run; when the
owner leaves, or dies in whatever way, no process stays; and a component that dies is named, with the tail of its log.
"""

import asyncio
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType

from usher.devcluster.components import Layout, command_lines, free_ports, write_kubeconfigs
from usher.devcluster.errors import DevClusterError
from usher.devcluster.kubectl import Kubectl
from usher.devcluster.logs import tail
from usher.devcluster.nodes import Nodes, is_usable
from usher.devcluster.parts import Parts, find_parts
from usher.devcluster.pki import Authority, Identity
from usher.devcluster.probe import Probe
from usher.devcluster.processes import Keeper

START_SECONDS = 120.0
POLL_SECONDS = 0.05
LOCK_TRIES = 5
ATTEMPTS = 3
"""How often a start is tried when somebody else took a port that was free a moment before."""

DATA = ("etcd", "pki", "kubeconfig", ".kubectl")
"""What a control plane has in its directory besides its logs."""


class ControlPlane:
    """One control plane. Without a directory it is temporary, and everything of it goes when it stops.

    With a directory, logs stay there; data stays too if `keep_data`, and the next control plane on that directory goes
    on with it. `extra_args` adds flags to components, by name.
    """

    def __init__(
        self,
        *,
        nodes: Nodes | None = None,
        directory: Path | None = None,
        keep_data: bool = False,
        parts: Parts | None = None,
        extra_args: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._nodes = nodes or Nodes()
        self._temporary = directory is None
        self._keep_data = keep_data
        self._parts = parts
        self._extra_args = extra_args or {}
        self._lock: int | None = None
        self._keeper: Keeper | None = None
        self._layout: Layout | None = None
        self.directory = directory.absolute() if directory else Path()
        self.seconds: dict[str, float] = {}

    @property
    def layout(self) -> Layout:
        """Directory, ports and certificates."""
        assert self._layout is not None, "not started"
        return self._layout

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig file."""
        return self.layout.kubeconfig("admin")

    @property
    def kubectl(self) -> Kubectl:
        """kubectl, as the admin."""
        assert self._parts is not None, "not started"
        return Kubectl(self._parts.path("kubectl"), self.kubeconfig)

    @property
    def pids(self) -> dict[str, int]:
        """Process ids: every component by name, and the keeper; none when nothing runs."""
        return {"keeper": self._keeper.pid, **self._keeper.pids} if self._keeper else {}

    async def __aenter__(self) -> "ControlPlane":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self, on_locked: Callable[[], None] = lambda: None) -> None:
        """Bring everything up; returns when nodes are ready and pods can be created.

        `on_locked` is called once the directory is ours.
        """
        if self._parts is None:
            self._parts = await asyncio.to_thread(find_parts)
        try:
            self._take_directory()
            on_locked()
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    await self._start_once(self._parts)
                    return
                except _PortTakenError:
                    if attempt == ATTEMPTS:
                        raise
                    await self._clear_for_retry()
        except asyncio.CancelledError:
            await self.stop()
            raise
        except BaseException:
            await self._fail()
            raise

    async def stop(self) -> None:
        """Stop everything and wait until it is gone."""
        await self._drop_keeper()
        self._release()

    async def watch(self) -> None:
        """Wait until a component dies, which raises its name and the tail of its log. Does not return otherwise."""
        assert self._keeper is not None, "not started"
        name = await asyncio.shield(self._keeper.died)
        await self._fail()
        raise self._death(name)

    async def _start_once(self, parts: Parts) -> None:
        began = time.monotonic()
        authority = Authority(self.directory / "pki")
        server = authority.identity("server", "kube-apiserver")
        layout = self._layout = Layout(self.directory, free_ports(), authority, server, self._keep_data)
        shutil.rmtree(self.directory / "logs", ignore_errors=True)
        (self.directory / "logs").mkdir()
        write_kubeconfigs(layout)
        keeper = self._keeper = await Keeper.launch(self._lock)
        keeper.remove_at_end(self._remains(failed=False))
        admin = Identity(authority.directory / "admin.crt", authority.directory / "admin.key")
        with (
            closing(Probe(layout.ports.apiserver, authority, admin)) as api,
            closing(Probe(layout.ports.scheduler, authority, admin)) as scheduler,
        ):
            await self._bring_up(command_lines(layout, parts), api, scheduler, began)

    async def _bring_up(self, commands: Mapping[str, list[str]], api: Probe, scheduler: Probe, began: float) -> None:
        early = ("etcd", "kube-apiserver")
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._launch(early, commands)
        await self._until("the API server is ready", lambda: api.answers("/readyz"))
        self.seconds["API ready"] = time.monotonic() - began
        self._launch([name for name in commands if name not in early], commands)
        await self._until("the nodes are created", lambda: self._create_nodes(api))
        await self._until("the controllers work", lambda: api.answers(account))
        await self._until("the scheduler is ready", lambda: scheduler.answers("/readyz"))
        await self._until("the nodes are ready", lambda: self._nodes_are_usable(api))
        self.seconds["all ready"] = time.monotonic() - began

    def _launch(self, names: Sequence[str], commands: Mapping[str, list[str]]) -> None:
        assert self._keeper is not None
        for name in names:
            self._keeper.start(name, [*commands[name], *self._extra_args.get(name, ())], self.layout.log(name))

    async def _until(self, what: str, check: Callable[[], bool]) -> None:
        """Wait for a condition; a component that dies meanwhile, or too long a wait, is an error."""
        assert self._keeper is not None
        deadline = time.monotonic() + START_SECONDS
        while not await asyncio.to_thread(_holds, check):
            if self._keeper.died.done():
                raise self._death(self._keeper.died.result())
            if time.monotonic() > deadline:
                raise DevClusterError(
                    f"Waited {START_SECONDS:.0f} s in vain until {what}. Logs: {self.directory / 'logs'}"
                )
            await asyncio.sleep(POLL_SECONDS)

    def _create_nodes(self, api: Probe) -> bool:
        for node in self._nodes.objects():
            status, answer = api.request("POST", "/api/v1/nodes", node)
            if status not in (201, 409):  # a node that is there already is as good
                raise DevClusterError(f"A node could not be created: {answer['message']}")
        return True

    def _nodes_are_usable(self, api: Probe) -> bool:
        status, answer = api.request("GET", "/api/v1/nodes")
        return status == 200 and all(is_usable(node) for node in answer["items"])

    def _death(self, name: str) -> DevClusterError:
        log = self.layout.log(name)
        last = tail(log)
        kind = _PortTakenError if "address already in use" in last else DevClusterError
        return kind(f"{name} stopped by itself. The end of its log:\n{last}\nLogs: {log.parent}")

    def _take_directory(self) -> None:
        if self._temporary:
            self.directory = Path(tempfile.mkdtemp(prefix="usher-"))
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = lock_directory(self.directory)
        kept = self.directory / ".kept"
        if self._keep_data:
            kept.touch()
        elif kept.exists():
            raise DevClusterError(
                f"{self.directory} has the data of a control plane that was to be kept.\n"
                "Go on with it (--keep), use another name, or delete that directory."
            )
        else:
            for name in DATA:
                shutil.rmtree(self.directory / name, ignore_errors=True)

    def _remains(self, *, failed: bool) -> list[Path]:
        """What goes when everything has stopped. After a failure the logs stay, wherever they are."""
        if self._temporary and not failed:
            return [self.directory]
        return [] if self._keep_data else [self.directory / name for name in DATA]

    async def _clear_for_retry(self) -> None:
        assert self._keeper is not None
        self._keeper.remove_at_end([] if self._keep_data else [self.directory / "etcd"])
        await self._drop_keeper()

    async def _fail(self) -> None:
        if self._keeper is not None:
            self._keeper.remove_at_end(self._remains(failed=True))
        await self.stop()

    async def _drop_keeper(self) -> None:
        if self._keeper is not None:
            keeper, self._keeper = self._keeper, None
            await keeper.stop()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _holds(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except OSError:  # nobody answers yet, or no more; who died is asked elsewhere
        return False


class _PortTakenError(DevClusterError):
    """A component found its port in use."""


def lock_directory(directory: Path, tries: int = LOCK_TRIES) -> int:
    """Lock a directory for one control plane: the open file, to be closed at the end. Raises if it is in use.

    More than one try, because whoever looks whether a cluster runs holds the lock for a moment.
    """
    lock = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for left in reversed(range(tries)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if not left:
                os.close(lock)
                raise DevClusterError(f"A control plane is running in {directory} already.") from None
            time.sleep(POLL_SECONDS)
    return lock
