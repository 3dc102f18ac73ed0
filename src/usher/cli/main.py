"""The `usher` command: a table of subcommands, each imported only when it is used.

To add one, write a click command in a module of its own and add a line to `COMMANDS`. `usher --help` is made from the
table alone, which is what keeps it under 150 ms.
"""

import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING

try:
    import click

    from usher import __version__
except KeyboardInterrupt:  # it takes long enough for somebody to change his mind
    raise SystemExit(130) from None

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "submit": ("usher.cli.submit:submit", "Put a job into a queue."),
    "get": ("usher.cli.get:get", "Show queues, units, quotas or jobs."),
    "describe": ("usher.cli.describe:describe", "Show one of them in full."),
    "explain": ("usher.cli.explain:explain", "Say why a job waits and what would help."),
    "top": ("usher.cli.top:top", "Watch quotas, queues and jobs, live."),
    "stop": ("usher.cli.stopping:stop", "Stop a queue or a job."),
    "resume": ("usher.cli.stopping:resume", "Let a stopped queue or job go on."),
    "move": ("usher.cli.move:move", "Move a job to another queue."),
    "set": ("usher.cli.setting:set_", "Change a queue: its weight, priority or policy."),
    "version": ("usher.cli.version:version", "Show the versions of usher, the server and the manager."),
    "completion": ("usher.cli.completion:completion", "Print what makes a shell complete usher's commands."),
    "up": ("usher.cli.up:up", "Start a local control plane with simulated nodes."),
    "down": ("usher.cli.down:down", "Stop a local control plane."),
    "manager": ("usher.cli.manager:manager", "Run the manager: queue jobs and let them start."),
    "install": ("usher.cli.install:install", "Install Usher into a cluster, or bring it up to date."),
    "uninstall": ("usher.cli.uninstall:uninstall", "Remove Usher from a cluster."),
    "simulate": ("usher.cli.simulate:simulate", "Run manifests or a trace through the engine in virtual time."),
}
"""Name to where the command is, and the line that `usher --help` shows for it."""

GC_THRESHOLD = 50_000
"""So many objects more before garbage is looked for: what is imported is none."""
INTERRUPTED = 130
"""What a shell makes of Ctrl-C."""
VALUED = (
    "--kubeconfig", "--context", "--cluster", "--user", "-n", "--namespace", "--as", "--as-group", "--as-uid",
    "--request-timeout",
)  # fmt: skip
"""The flags of `usher.cli.connecting`, each with a value: they may stand before the command's name."""


class LazyGroup(click.Group):
    """A group whose commands come from a table."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Flags of the connection may stand before the command, too, as kubectl has it: they are moved behind it."""
        before = _leading(args)
        if before and before < len(args):
            args = [args[before], *args[:before], *args[before + 1 :]]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Names from the table: none of them is imported."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]

    def invoke(self, ctx: click.Context) -> object:
        """Ctrl-C ends any command in silence, also while it is imported."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None

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


def _leading(args: list[str]) -> int:
    """How many of the words are flags of the connection with their values."""
    count = 0
    while count < len(args):
        word = args[count]
        if word in VALUED:
            count += 2
        elif word.partition("=")[0] in VALUED and "=" in word:
            count += 1
        else:
            break
    return count


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="usher %(version)s")
def usher() -> None:
    """Usher: a fair job queue for Kubernetes."""


def kubectl() -> None:
    """The same as a plug-in of kubectl, which runs the program `kubectl-usher` for `kubectl usher`."""
    main("kubectl usher")


def main(name: str = "usher") -> None:
    """Run the command line; nobody is shown a traceback unless they ask for it."""
    gc.set_threshold(GC_THRESHOLD)
    try:
        usher.main(prog_name=name)
    except Exception as error:
        if os.environ.get("USHER_DEBUG"):
            raise
        click.echo(f"Error: {type(error).__name__}: {error}\n(this is a bug; USHER_DEBUG=1 shows where)", err=True)
        sys.exit(1)
    finally:
        gc.freeze()  # the process ends: to look for garbage in all that was imported takes longer than many a command
