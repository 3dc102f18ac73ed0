"""`usher up`: a local control plane, in the foreground or detached."""

import asyncio
import json
import shlex
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from usher.devcluster.clusters import Cluster, cluster_dir, is_running, stop_cluster
from usher.devcluster.errors import DevClusterError
from usher.devcluster.holding import Plan, hold, in_background
from usher.devcluster.kubectl import KubectlError
from usher.devcluster.nodes import NODES_MAX, Nodes
from usher.devcluster.parts import find_parts

if TYPE_CHECKING:
    from usher.install.values import Values

TOKEN_HOURS = 24 * 365
OUTSIDE = {"host": "127.0.0.1", "address": "127.0.0.1", "port": 0}
"""How the API server finds a manager that is no pod."""
ASK_TIMES, ASK_SECONDS = 100, 0.2
Ready = Callable[[Cluster], Awaitable[None]]


@click.command()
@click.option("--name", default="usher", show_default=True, help="What to call the cluster.")
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(0, NODES_MAX), help="Number of nodes.")
@click.option("--cpu", default="8", show_default=True, help="CPU of each node.")
@click.option("--memory", default="32Gi", show_default=True, help="Memory of each node.")
@click.option("--gpus", default=0, show_default=True, type=click.IntRange(0), help="nvidia.com/gpu of each node.")
@click.option("--manager", is_flag=True, help="Install Usher's kinds and run a manager beside it (not with --detach).")
@click.option(
    "--apply",
    "manifests",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Apply this file or folder once the cluster is up. Repeatable.",
)
@click.option("--keep", is_flag=True, help="Keep the data when it stops, and go on with what was kept before.")
@click.option("--detach", is_flag=True, help="Return once it is up; `usher down` stops it.")
def up(
    name: str,
    nodes: int,
    cpu: str,
    memory: str,
    gpus: int,
    manager: bool,
    manifests: tuple[Path, ...],
    keep: bool,
    detach: bool,
) -> None:
    """Start a local control plane with simulated nodes.

    The parts are the real ones: etcd, kube-apiserver, kube-controller-manager, kube-scheduler. The nodes are simulated
    (KWOK): pods are scheduled and "run", but no container does. The first time, the parts are built from source.
    """
    if manager and detach:
        raise click.UsageError("--manager runs in the foreground: with --detach, run `usher manager` yourself")
    running: list[asyncio.subprocess.Process] = []
    try:
        directory = cluster_dir(name)
        if is_running(directory):
            raise DevClusterError(f"A cluster named {name} is running already. Stop it with: usher down --name {name}")
        plan = Plan(directory, Nodes(nodes, cpu, memory, gpus), keep)
        find_parts()
        click.echo("Starting the control plane ...", err=True)
        began = time.monotonic()

        async def ready(cluster: Cluster) -> None:
            if manager:
                running.append(await _start_manager(cluster))
            for manifest in manifests:
                click.echo((await cluster.kubectl("apply", "-f", str(manifest))).rstrip())
            _show(cluster, name, plan.nodes, time.monotonic() - began, detach)

        if detach:
            try:
                asyncio.run(ready(in_background(plan)))
            except DevClusterError:
                stop_cluster(directory)  # the same as in the foreground: it is up with its manifests, or not at all
                raise
        else:
            asyncio.run(_hold(plan, ready, running))
            click.echo(f"{name} has stopped.", err=True)
    except DevClusterError as error:
        raise click.ClickException(str(error)) from None


async def _hold(plan: Plan, ready: Ready, running: list[asyncio.subprocess.Process]) -> None:
    try:
        await hold(plan, ready)
    finally:
        for process in running:
            if process.returncode is None:
                process.kill()  # its control plane is gone: there is nothing left to hand over
                await process.wait()


async def _start_manager(cluster: Cluster) -> asyncio.subprocess.Process:
    """Usher as it is installed anywhere, with a manager that is no pod (no container runs here) but has the rights of
    one, and leads."""
    from usher.install.doors import doors
    from usher.install.rights import rights
    from usher.install.values import Values
    from usher.install.whole import kinds, namespace

    served = await cluster.kubectl("get", "--raw", "/apis/admissionregistration.k8s.io/v1")
    policies = '"MutatingAdmissionPolicy"' in served  # parts that were given may be older than 1.36
    values = Values({"config": {"admission": OUTSIDE}}, policies=policies)
    found = [namespace(values), *(part.object for part in (*kinds(), *rights(values), *doors(values)))]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": found})
    await cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=listed)
    await cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    log = (cluster.logs / "manager.log").open("ab")
    settings = [word for key, value in OUTSIDE.items() for word in ("--set", f"admission.{key}={value}")]
    with log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "usher.cli", "manager", "--kubeconfig", str(await _as_manager(cluster, values)),
            "--set", "server.port=0", *settings,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log,
        )  # fmt: skip
    assert process.stdout is not None
    async for line in process.stdout:
        if line.startswith(b"leading"):
            await _until_asked(cluster)
            return process
    raise DevClusterError(f"The manager did not start; see {cluster.logs / 'manager.log'}")


async def _until_asked(cluster: Cluster) -> None:
    """Until the API server has learnt where the manager is: what comes before that would be refused."""
    quota = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "QueueQuota", "metadata": {"name": "asked"}}
    for left in reversed(range(ASK_TIMES)):
        try:
            await cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(quota))
            return
        except KubectlError:
            if not left:
                raise
            await asyncio.sleep(ASK_SECONDS)


async def _as_manager(cluster: Cluster, values: "Values") -> Path:
    """A kubeconfig for the manager's own account; its token is valid for as long as such a cluster may live."""
    inside = cluster.kubectl.within(values.namespace)
    token = (await inside("create", "token", values.account, f"--duration={TOKEN_HOURS}h")).strip()
    config = json.loads(cluster.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    path = cluster.directory / "pki" / "manager.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path


def _show(cluster: Cluster, name: str, nodes: Nodes, seconds: float, detached: bool) -> None:
    gpus = f", {nodes.gpus} GPUs" if nodes.gpus else ""
    shape = f"{nodes.count} simulated nodes of {nodes.cpu} cpu, {nodes.memory}{gpus}"
    stop = f"usher down --name {name}" if detached else "Ctrl-C"
    click.echo(
        f"{name} is up after {seconds:.1f} s: {shape}\n"
        f"  export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}\n"
        f"  {shlex.quote(cluster.kubectl.program)} get nodes,jobs,pods --all-namespaces\n"
        f"  logs: {cluster.logs}\n"
        f"  stop: {stop}"
    )
