"""`usher down`: stop a local control plane."""

import click

from usher.devcluster.clusters import cluster_dir, is_running, stop_cluster, why_not_running
from usher.devcluster.errors import DevClusterError


@click.command()
@click.option("--name", default="usher", show_default=True, help="Which cluster.")
def down(name: str) -> None:
    """Stop a local control plane. Its data goes, unless it was started with --keep; its logs stay."""
    try:
        directory = cluster_dir(name)
        if not is_running(directory):
            raise DevClusterError(why_not_running(name))
        stop_cluster(directory)
        click.echo(f"{name} has stopped. Its logs: {directory / 'logs'}")
    except DevClusterError as error:
        raise click.ClickException(str(error)) from None
