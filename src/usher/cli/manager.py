"""`usher manager`: the controller itself. One leads, others keep warm; SIGTERM hands over."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from pathlib import Path

import click

from usher.app import logs
from usher.app.process import ManagerProcess
from usher.jobkinds.registry import UnknownKindError
from usher.kube import kubeconfig
from usher.kube.errors import ConfigError
from usher.server.server import CannotListenError
from usher.settings.loader import SettingsError, load_file

GC_THRESHOLDS = (50_000, 20, 100)
"""What stays in the caches is no garbage: collect seldom, and never look at what was there at the start."""


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="A file of settings (docs/settings.md).")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="One setting; wins over the file.")
@click.option("--kubeconfig", "kubeconfig_file", type=click.Path(path_type=Path), help="Which kubeconfig to use.")
@click.option("--context", help="Which context of it.")
def manager(config: Path | None, overrides: tuple[str, ...], kubeconfig_file: Path | None, context: str | None) -> None:
    """Run the manager: queue jobs, let them start, take back what was lent."""
    try:
        settings = load_file(config, overrides)
        process = ManagerProcess(kubeconfig.load(kubeconfig_file, context=context), settings)
    except (SettingsError, UnknownKindError, ConfigError) as error:
        raise click.ClickException(str(error)) from None
    logs.set_up(settings.log)
    try:
        with asyncio.Runner(loop_factory=_loop) as runner:
            runner.run(_until_told(process))
    except CannotListenError as error:
        raise click.ClickException(str(error)) from None


def _loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


async def _until_told(process: ManagerProcess) -> None:
    """Run until SIGTERM or SIGINT: what is under way is written, the lease is given back."""

    def ready() -> None:
        settle_memory()
        click.echo(f"ready: {process.server.url}")

    task = asyncio.ensure_future(process.run(lambda: click.echo("leading"), ready))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        click.echo("stopped")


def settle_memory() -> None:
    """After the first listing: what is there stays, so the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
