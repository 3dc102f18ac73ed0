"""`usher completion`: what makes a shell complete usher's commands; and the same for `kubectl usher`.

kubectl asks a program called `kubectl_complete-usher` what could come next: it is given the words so far, the last one
incomplete, and answers with a line for each and, at the end, a number: 4 means that no file names belong here.
"""

from __future__ import annotations

import sys
from typing import Final

import click
from click.shell_completion import ShellComplete, get_completion_class

SHELLS: Final = ("bash", "zsh", "fish")
NO_FILES: Final = ":4"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes a shell complete usher's commands.

    \b
    bash: source <(usher completion bash)
    zsh:  source <(usher completion zsh)
    fish: usher completion fish | source

    `kubectl usher` is completed by kubectl itself, if kubectl_complete-usher is on the path.
    """
    found = get_completion_class(shell)
    assert found is not None
    made = found(click.Command("usher"), {}, "usher", "_USHER_COMPLETE")
    click.echo(made.source_template % made.source_vars())


def for_kubectl() -> None:
    """Answer kubectl: never an error, at worst nothing."""
    from usher.cli.main import usher

    *words, incomplete = sys.argv[1:] or [""]
    try:
        items = ShellComplete(usher, {}, "kubectl usher", "").get_completions(words, incomplete)
    except Exception:  # whatever it is, TAB must not show it
        items = []
    for item in items:
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(NO_FILES)
