"""The `usher` command: a table of subcommands, each imported only when it is used.

To add one, write a click command in a module of its own and add a line to `COMMANDS`. `usher --help` is made from the
table alone, which is what keeps it under 150 ms.
"""

import importlib
import os
import sys

import click

from usher import __version__

COMMANDS = {
    "up": ("usher.cli.up:up", "Start a local control plane with simulated nodes."),
    "down": ("usher.cli.down:down", "Stop a local control plane."),
    "manager": ("usher.cli.manager:manager", "Run the manager: queue jobs and let them start."),
    "simulate": ("usher.cli.simulate:simulate", "Run manifests or a trace through the engine in virtual time."),
}
"""Name to where the command is, and the line that `usher --help` shows for it."""


class LazyGroup(click.Group):
    """A group whose commands come from a table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="usher %(version)s")
def usher() -> None:
    """Usher: a fair job queue for Kubernetes."""


def main() -> None:
    """Run the command line; nobody is shown a traceback unless they ask for it."""
    try:
        usher.main(prog_name="usher")
    except Exception as error:
        if os.environ.get("USHER_DEBUG"):
            raise
        click.echo(f"Error: {type(error).__name__}: {error}\n(this is a bug; USHER_DEBUG=1 shows where)", err=True)
        sys.exit(1)
