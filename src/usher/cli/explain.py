"""`usher explain`: why a job waits, where it stands, who holds what it needs, and what would free that.

Who may read everything gets the engine's own answer: all objects are read, the engine is built from them as a new
leader would do it, and asked; nothing is written. Who may not gets what the manager last wrote, as the same kind of
answer, and is told so.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from usher.cli.completing import complete_jobs
from usher.cli.connecting import Connection, Session, connected, guarded, run
from usher.cli.kinds import JOBS, QUEUE_JOBS, UNITS, one_named
from usher.cli.main import INTERRUPTED
from usher.cli.printing import as_text, emit, note, plain
from usher.cli.system import installed_settings, system_namespace
from usher.cli.units import find_unit, queues_beside
from usher.install.settled import SETTINGS
from usher.kube.errors import Forbidden

if TYPE_CHECKING:
    from usher.core.explain import Explanation
    from usher.settings.tree import Settings

STARTS: Final = ("Dequeued", "Reserved")
COMPUTED: Final = "engine"
STORED: Final = "status"


@click.command()
@click.argument("job", nargs=-1, required=True, metavar="JOB", shell_complete=complete_jobs)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="How to print it.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The manager's file of settings; without it, those installed in the cluster.",
)
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="One of its settings.")
@click.option("--stored", is_flag=True, help="Only what the manager last wrote; reads little.")
@connected
def explain(
    connection: Connection,
    job: tuple[str, ...],
    output: str,
    config: Path | None,
    overrides: tuple[str, ...],
    stored: bool,
) -> None:
    """Say why a job waits, who holds what it needs, and what would help.

    JOB is the name of a job or of its unit, as in train-1, job/train-1 or unit/job-train-1-8adca4;
    queuejob/NAME is a QueueJob.
    """
    kind, name = one_named(job, (JOBS, QUEUE_JOBS, UNITS), default=JOBS)
    if kind is QUEUE_JOBS:  # there may be a Job of the same name
        unit = run(connection, lambda session: find_unit(session, name, kind))
        name = str(unit["metadata"]["name"])
    found: Explanation | None = None
    if not stored:
        found, why_not = _computed(connection, name, _settings(connection, config, overrides))
        if why_not:
            note(f"note: {why_not} This is what the manager last wrote.")
    source = COMPUTED if found is not None else STORED
    if found is None:
        found = run(connection, lambda session: _stored(session, name))
    if output == "text":
        emit(_wrapped(plain(found.text())))
    else:
        emit(as_text(document(found, source), output))


def document(found: Explanation, source: str) -> dict[str, Any]:
    """An explanation for programs: as the manager's own server gives it, and where it comes from."""
    plain: dict[str, Any] = asdict(found)
    plain["holders"] = list(plain["holders"])
    plain["pods"] = None if plain["pods"] is None else list(plain["pods"])
    return {**plain, "text": found.text(), "source": source}


def _settings(connection: Connection, config: Path | None, overrides: tuple[str, ...]) -> Settings:
    """Those of the file; without one, those installed in the cluster, if there are any and we may look."""
    from usher.settings.loader import SettingsError, load_file, load_text

    try:
        if config is not None:
            return load_file(config, overrides)
        text = run(connection, installed_settings)
        said = overrides if text else (f"systemNamespace={system_namespace()}", *overrides)
        return load_text(text, f"{system_namespace()}/{SETTINGS}", said)
    except SettingsError as error:
        raise click.ClickException(str(error)) from None


def _computed(connection: Connection, name: str, settings: Settings) -> tuple[Explanation | None, str]:
    """The engine's answer; else, if we may not read what it needs, a sentence about that."""
    from usher.app.looking import Looking
    from usher.jobkinds.registry import UnknownKindError
    from usher.kube.config import Config
    from usher.policies.registry import PluginError
    from usher.runtime.dryrun import explained

    def act(config: Config) -> tuple[Explanation | None, str]:
        import asyncio

        try:
            looking = Looking(config, settings)
            answer = asyncio.run(looking.look(lambda manager: explained(manager, config.namespace, name)))
        except Forbidden as error:
            return None, f"The engine cannot be asked: {error.message}."
        except (UnknownKindError, PluginError) as error:
            raise click.ClickException(str(error)) from None
        if answer is None:
            return None, ""
        explanation, stored = answer
        if explanation.phase != stored and explanation.phase in STARTS:
            note(
                f"note: its status says {stored or 'nothing yet'}: a manager that looks at it now lets it start. "
                "If none does, see: usher version"
            )
        return explanation, ""

    try:
        return guarded(connection, act)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None


async def _stored(session: Session, name: str) -> Explanation:
    """What the status of the unit and of its Queue say."""
    from usher.cli.explaining import from_status

    unit = await find_unit(session, name)
    return from_status(unit, await queues_beside(session, session.namespace) or [])


def _wrapped(text: str) -> str:
    """For a terminal in lines; for anything else in one."""
    if not sys.stdout.isatty():
        return text
    import shutil
    import textwrap

    width = min(shutil.get_terminal_size().columns, 120)
    return textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)
