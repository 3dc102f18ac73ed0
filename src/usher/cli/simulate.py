"""`usher simulate`: manifests or a trace through the engine in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from usher.core.amounts import Amounts
from usher.core.durations import DurationError, parse_ms
from usher.sim.capacity import parse_capacity
from usher.sim.cluster import Limits
from usher.sim.manifests import Defaults, load
from usher.sim.options import RUNS_MAX, settings_of
from usher.sim.outcome import Outcome
from usher.sim.problems import BadInputError
from usher.sim.progress import ProgressBar
from usher.sim.report import document, html, text
from usher.sim.runs import run_all
from usher.sim.scenario import Scenario
from usher.sim.traces.files import TIME_LIMITS, load_nodes, load_trace
from usher.sim.traces.tenants import BY

BAD_INPUT = 2

_T = TypeVar("_T")


class Duration(click.ParamType[int]):
    """A duration, in milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else parse_ms(value)
        except DurationError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.argument("files", nargs=-1, metavar="[FILES OR FOLDERS]...")
@click.option("--capacity", metavar="cpu=9,memory=18Gi", help="What the cluster has; stands for the nodes.")
@click.option("--until", type=Duration(), help="Stop at this time and report the state then.")
@click.option("--share", default="drf", show_default=True, help="Share policy; several with commas are compared.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change an engine setting; several values are compared.",
)
@click.option("--runs-for", type=Duration(), default="1m", show_default=True, help="How long jobs run that do not say.")
@click.option("--grace", type=Duration(), default="0s", show_default=True, help="How long evicted pods take to go.")
@click.option("--trace", metavar="FILE", help="A Standard Workload Format log or an Alibaba GPU pod list.")
@click.option("--nodes", metavar="FILE", help="An Alibaba GPU node list: the capacity.")
@click.option("--tenants", type=click.Choice(BY), help="What is a tenant of the trace.")
@click.option(
    "--time-limits",
    type=click.Choice(TIME_LIMITS),
    default="requested",
    show_default=True,
    help="What a job of the trace may run at most: what it requested, just its run time, or without limit.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N jobs of the trace.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
@click.option("--html", "html_file", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML report too.")
@click.option("--timeline", type=click.IntRange(0), default=40, show_default=True, help="Lines of the text timeline.")
@click.option("--check", is_flag=True, help="Check the engine's invariants after every instant (slow).")
def simulate(
    files: tuple[str, ...],
    capacity: str | None,
    until: int | None,
    share: str,
    changes: tuple[str, ...],
    runs_for: int,
    grace: int,
    trace: str | None,
    nodes: str | None,
    tenants: str | None,
    time_limits: str,
    limit: int | None,
    output: str,
    html_file: Path | None,
    timeline: int,
    check: bool,
) -> None:
    """Run manifests, or a trace, through the engine in virtual time.

    FILES are YAML or JSON, or folders of them: Queues, QueueQuotas, Jobs, QueueUnits, QueueJobs, Nodes. When a thing
    appears and how long a job runs are annotations: sim.usher.dev/arrives: 10s, sim.usher.dev/runs-for: 5m.
    """
    try:
        traced = None if trace is None else partial(load_trace, trace, tenants, limit, time_limits)
        scenario = _scenario(files, capacity, runs_for, traced, nodes)
        click.echo(text.lines_of(scenario.notes), err=True, nl=False)
        outcomes = _outcomes(scenario, share, changes, Limits(until, grace), check)
    except BadInputError as error:
        for line in error.errors:
            click.echo(f"Error: {line}", err=True)
        sys.exit(BAD_INPUT)
    click.echo(text.lines_of(_problems(outcomes)), err=True, nl=False)
    if html_file is not None:
        _write(html_file, html.render(outcomes))
    if output == "json":
        for piece in document.render(outcomes):
            click.echo(piece, nl=False)
    elif output == "html":
        click.echo(html.render(outcomes))
    else:
        click.echo(text.render(outcomes, timeline), nl=False)


def _scenario(
    files: Sequence[str],
    capacity: str | None,
    runs_ms: int,
    trace: Callable[[Amounts | None], Scenario] | None,
    nodes: str | None,
) -> Scenario:
    """Everything that is read, with every error of every part."""
    errors: list[str] = []
    if not files and trace is None:
        errors.append("nothing to simulate: name manifests, a folder of them, or --trace FILE")
    if capacity is not None and nodes is not None:
        errors.append("--capacity and --nodes both say what the cluster has: give one")
    offered = None
    if capacity is not None:
        offered = _tried(lambda: parse_capacity(capacity), errors)
    elif nodes is not None:
        offered = _tried(lambda: load_nodes(nodes), errors)
    traced = _tried(lambda: trace(offered), errors) if trace is not None else None
    if errors and not files:
        raise BadInputError(errors)
    scenario = _tried(lambda: load(files, Defaults(runs_ms, offered), traced), errors)
    if errors or scenario is None:
        raise BadInputError(errors)
    return scenario


def _tried(read: Callable[[], _T], errors: list[str]) -> _T | None:
    try:
        return read()
    except BadInputError as error:
        errors.extend(error.errors)
        return None


def _outcomes(scenario: Scenario, share: str, changes: Sequence[str], limits: Limits, check: bool) -> list[Outcome]:
    shares = list(dict.fromkeys(name.strip() for name in share.split(",")))
    settings = settings_of(changes)
    if len(shares) * len(settings) > RUNS_MAX:
        raise BadInputError([f"{len(shares) * len(settings)} runs are more than {RUNS_MAX}: compare fewer"])
    progress = ProgressBar(sys.stderr)
    try:
        return run_all(scenario, shares, settings, limits, progress, check)
    finally:
        progress.clear()


def _problems(outcomes: Sequence[Outcome]) -> list[str]:
    """Plug-ins that were disabled, with the run in which they were if there are several."""
    several = len(outcomes) > 1
    return [f"{each.label}: {why}" if several else why for each in outcomes for why in each.summary.problems]


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{path}: cannot be written: {error.strerror}") from None
