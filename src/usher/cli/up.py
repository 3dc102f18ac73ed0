"""`usher up`: a local control plane, in the foreground or detached."""

import asyncio
import shlex
import time
from pathlib import Path

import click

from usher.devcluster.clusters import Cluster, cluster_dir, is_running, stop_cluster
from usher.devcluster.errors import DevClusterError
from usher.devcluster.holding import Plan, hold, in_background
from usher.devcluster.nodes import NODES_MAX, Nodes
from usher.devcluster.parts import find_parts


@click.command()
@click.option("--name", default="usher", show_default=True, help="What to call the cluster.")
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(0, NODES_MAX), help="Number of nodes.")
@click.option("--cpu", default="8", show_default=True, help="CPU of each node.")
@click.option("--memory", default="32Gi", show_default=True, help="Memory of each node.")
@click.option("--gpus", default=0, show_default=True, type=click.IntRange(0), help="nvidia.com/gpu of each node.")
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
    name: str, nodes: int, cpu: str, memory: str, gpus: int, manifests: tuple[Path, ...], keep: bool, detach: bool
) -> None:
    """Start a local control plane with simulated nodes.

    The parts are the real ones: etcd, kube-apiserver, kube-controller-manager, kube-scheduler. The nodes are simulated
    (KWOK): pods are scheduled and "run", but no container does. The first time, the parts are built from source.
    """
    try:
        directory = cluster_dir(name)
        if is_running(directory):
            raise DevClusterError(f"A cluster named {name} is running already. Stop it with: usher down --name {name}")
        plan = Plan(directory, Nodes(nodes, cpu, memory, gpus), keep)
        find_parts()
        click.echo("Starting the control plane ...", err=True)
        began = time.monotonic()

        async def ready(cluster: Cluster) -> None:
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
            asyncio.run(hold(plan, ready))
            click.echo(f"{name} has stopped.", err=True)
    except DevClusterError as error:
        raise click.ClickException(str(error)) from None


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
