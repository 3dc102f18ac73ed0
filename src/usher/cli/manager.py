"""`usher manager`: the controller itself. One leads, others keep warm; SIGTERM hands over."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
import yaml
from msgspec import structs

from usher.app import logs
from usher.app.process import ManagerProcess
from usher.cli.connecting import told
from usher.jobkinds.registry import UnknownKindError
from usher.kube import kubeconfig
from usher.kube.errors import ConfigError, KubeError
from usher.policies.registry import PluginError
from usher.runtime.dryrun import Intent
from usher.server.listening import CannotListenError
from usher.settings.loader import SettingsError, load_file
from usher.settings.loader import shown as as_yaml

GC_THRESHOLDS = (50_000, 20, 100)
"""What stays in the caches is no garbage: collect seldom, and never look at what was there at the start."""


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="A file of settings (docs/settings.md).")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="One setting; wins over the file.")
@click.option("--kubeconfig", "kubeconfig_file", type=click.Path(path_type=Path), help="Which kubeconfig to use.")
@click.option("--context", help="Which context of it.")
@click.option(
    "--dry-run", is_flag=True, help="Say what would be done first with the jobs that are there, and write nothing."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How a dry run is printed.")
@click.option("--print-config", is_flag=True, help="Print all settings as they would be, defaults included, and end.")
def manager(
    config: Path | None,
    overrides: tuple[str, ...],
    kubeconfig_file: Path | None,
    context: str | None,
    dry_run: bool,
    output: str,
    print_config: bool,
) -> None:
    """Run the manager: queue jobs, let them start, take back what was lent."""
    try:
        settings = load_file(config, overrides)
        if print_config:
            click.echo(yaml.safe_dump(as_yaml(settings), sort_keys=False, width=120), nl=False)
            return
        where = kubeconfig.load(kubeconfig_file, context=context)
        process = ManagerProcess(where, settings)
    except (SettingsError, UnknownKindError, PluginError, ConfigError) as error:
        raise click.ClickException(str(error)) from None
    logs.set_up(settings.log)
    try:
        with asyncio.Runner(loop_factory=_loop) as runner:
            if dry_run:
                click.echo(shown(runner.run(process.dry_run()), output))
            else:
                runner.run(_until_told(process))
    except CannotListenError as error:
        raise click.ClickException(str(error)) from None
    except Exception as error:
        if dry_run and isinstance(error, KubeError):  # a manager goes on trying, a dry run does not
            raise click.ClickException(told(error, where)) from None
        logging.getLogger("usher.manager").exception("stopped by a bug; another manager, or a restart, goes on")
        sys.exit(1)


def shown(intents: Sequence[Intent], output: str) -> str:
    """What a dry run has found, for people or for programs."""
    if output == "json":
        return json.dumps([structs.asdict(intent) for intent in intents], indent=2)
    lines = [f"{intent.action:8} {intent.job}  {intent.detail}" for intent in intents]
    counts = ", ".join(f"{count} {action}" for action, count in sorted(Counter(i.action for i in intents).items()))
    return "\n".join([*lines, f"{len(intents)} jobs{': ' if counts else ''}{counts}. Nothing was written."])


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
