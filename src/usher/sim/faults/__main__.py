"""Run seeds: `python -m usher.sim.faults --seeds 1:20000`, or one with its trace: `--seed 1234`."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor

import click

from usher.sim.faults.scenario import Failure, run

CHUNK = 50


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last or first) + 1)


@click.command()
@click.option("--seeds", metavar="FIRST:LAST", help="Run all of these, both ends included.")
@click.option("--seed", type=int, help="Replay one, and print everything that happens.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="How many processes.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first ten failures.")
def main(seeds: str | None, seed: int | None, jobs: int, keep_going: bool) -> None:
    """Drive the engine through a fake cluster in which everything goes wrong that can."""
    if seed is not None:
        failure = run(seed, click.echo)
        click.echo(f"seed {seed}: {failure.why if failure else 'nothing found'}")
        sys.exit(failure is not None)
    if seeds is None:
        raise click.UsageError("say which seeds: --seeds 1:1000, or --seed 17")
    sys.exit(bool(_many(_seeds(seeds), jobs, keep_going)))


def _many(seeds: range, jobs: int, keep_going: bool) -> list[Failure]:
    began, failures, done = time.monotonic(), list[Failure](), 0
    with ProcessPoolExecutor(jobs) as pool:
        for failure in pool.map(run, seeds, chunksize=CHUNK):
            done += 1
            if failure is not None:
                failures.append(failure)
                click.echo(f"seed {failure.seed} at {failure.at_ms} ms: {failure.why}\n  replay: {failure.replay}")
                if len(failures) >= 10 and not keep_going:
                    pool.shutdown(cancel_futures=True)
                    break
    took = time.monotonic() - began
    click.echo(f"{done:,} seeds in {took:.1f} s, {len(failures)} failures")
    return failures


if __name__ == "__main__":
    main()
