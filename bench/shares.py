"""How long one split takes, by policy and number of children, and how long it takes to see that nothing moved.

    python bench/shares.py [--children 30 1000 10000] [--policy drf koordinator proportion] [--json FILE]

The children want about twice what there is, no two alike, with weights from 1 to 5. "guarantees": every second child
has one. "signatures 3": each has units of cpu and memory, of those with a gpu, and of cpu only; with 1, only the first
kind. Times are the fastest of several runs in CPU time, so that a busy machine shows less; the yardstick (a dict of two
built in a loop) says how fast the machine was meanwhile.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from provenance import provenance, write

from usher.core.amounts import Amounts, Signature
from usher.core.share import SharePolicy, Sharer
from usher.policies.share import Drf, Koordinator, Proportion

GI = 2**30
KINDS: tuple[dict[str, tuple[int, int]], ...] = (
    {"cpu": (100, 4000), "memory": (GI // 4, 8 * GI)},
    {"cpu": (1000, 8000), "gpu": (1, 4), "memory": (GI, 32 * GI)},
    {"cpu": (100, 1000)},
)


def children(count: int, signatures: int, guarantees: bool) -> tuple[dict[str, int], list[Sharer]]:
    """An amount and those who share it, the same in every run."""
    chance = random.Random(count)
    found = []
    wanted: dict[str, int] = {}
    for number in range(count):
        demand: dict[Signature, Amounts] = {}
        for kind in KINDS[:signatures]:
            jobs = chance.randint(5, 50)
            demand[tuple(kind)] = {r: jobs * chance.randint(*between) for r, between in kind.items()}
        total: dict[str, int] = {}
        for vector in demand.values():
            for r, q in vector.items():
                total[r] = total.get(r, 0) + q
                wanted[r] = wanted.get(r, 0) + q
        least = {r: q * chance.randint(1, 9) // 30 for r, q in total.items()} if guarantees and number % 2 else {}
        weight = chance.randint(1, 5)
        found.append(Sharer(f"q{number:05}", weight=weight, min=least, guarantee=least, demand=demand))
    return {r: q // 2 for r, q in wanted.items()}, found


def fastest(work: Callable[[], object], seconds: float = 0.5) -> float:
    """Seconds of CPU time of the fastest run."""
    best = float("inf")
    spent = 0.0
    runs = 0
    while runs < 3 or (spent < seconds and runs < 200):
        started = time.process_time()
        work()
        took = time.process_time() - started
        best, spent, runs = min(best, took), spent + took, runs + 1
    return best


def yardstick() -> float:
    """Nanoseconds to build a dict of two, now."""
    pair = {"cpu": 1, "memory": 2}
    return fastest(lambda: [{r: q * 3 for r, q in pair.items()} for _ in range(2000)], 0.1) / 2000 * 1e9


def unmoved_us(policy: SharePolicy, amount: Amounts, among: list[Sharer]) -> float:
    """Microseconds to see that one more job of the same kind in a long backlog moves nobody."""
    shares = policy.split(amount, among)
    place = next(
        p for p, s in enumerate(among) if all(q > shares[p][r] for v in s.demand.values() for r, q in v.items())
    )
    before, deserved = among[place], shares[place]
    longer = {signature: {r: q * 2 for r, q in vector.items()} for signature, vector in before.demand.items()}
    after = Sharer(before.name, before.weight, demand=longer)
    assert policy.unmoved(before, after, deserved)

    def often() -> None:
        for _ in range(1000):
            policy.unmoved(before, after, deserved)

    return fastest(often, 0.2) * 1000


def main() -> None:
    """Print one line for each combination; with --json, write them down with where they come from."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--children", type=int, nargs="+", default=[30, 1000, 10_000])
    parser.add_argument("--policy", nargs="+", default=["drf", "koordinator", "proportion"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    origin = provenance()
    policies: list[SharePolicy] = [p for p in (Drf(), Koordinator(), Proportion()) if p.name in options.policy]
    rows: list[dict[str, Any]] = []
    print(f"{'policy':12} {'children':>8} {'signatures':>10} {'guarantees':>10} {'split ms':>9} {'yardstick ns':>12}")
    for policy in policies:
        for count in options.children:
            for signatures in (1, 3):
                for guarantees in (False, True):
                    amount, among = children(count, signatures, guarantees)
                    ms = fastest(lambda a=amount, c=among: policy.split(a, c)) * 1000  # type: ignore[misc]  # noqa: B023
                    unit_ns = yardstick()
                    shown = "yes" if guarantees else "no"
                    line = f"{policy.name:12} {count:8} {signatures:10} {shown:>10} {ms:9.3f} {unit_ns:12.0f}"
                    print(line, flush=True)
                    rows.append(
                        {
                            "policy": policy.name,
                            "children": count,
                            "signatures": signatures,
                            "guarantees": guarantees,
                            "split_ms": round(ms, 3),
                            "yardstick_ns": round(unit_ns),
                        }
                    )
    unmoved = {policy.name: round(unmoved_us(policy, *children(30, 1, False)), 2) for policy in policies}
    for name, us in unmoved.items():
        print(f"{name:12} unmoved: {us:.2f} µs")
    if options.json:
        result = {
            "what": "time of one split by policy and number of children, and time to see that nothing moved",
            "how": "fastest of several runs in CPU time; the yardstick is a dict of two built in a loop at that moment",
            "provenance": origin,
            "rows": rows,
            "unmoved_us": unmoved,
        }
        print(f"recorded in {write(options.json, result)}")


if __name__ == "__main__":
    main()
