"""How fast the engine decides, and how much it remembers.

Usage: python bench/engine.py [--waiting 1000,10000,100000,1000000] [--queues 30,1000] [--sizes equal,three]
       [--share drf] [--json FILE]

A cluster that is full: every queue is a tenant with its own quota (weight 1) and a backlog. In each round units
complete and as many arrive, in batches of 100 events as a busy loop sees them; every admission is confirmed and marked
ready. An operation is one admission or one completion. Beside it the latency of calls with a single event, and the
memory per waiting unit beyond its decoded object (RSS is too coarse: tracemalloc of a second, smaller run). Times are
CPU times of the process, because the machine may be shared; operations are measured in nine slices, of which the
median and the best are shown, and the yardstick (a dict of two, built) says how fast the machine was meanwhile.

Sizes: `equal` units of one core; `three` sizes (1, 5 and 20 cores, 70:20:10), where idle room is lent to whoever fits
and taken back as soon as its owner can use it, so that units are evicted all the time; `askew`, three sizes whose cpu
and memory are not in proportion.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import tracemalloc
from collections import deque
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from provenance import provenance, write
from shares import yardstick

from usher.core import engine
from usher.core.commands import Admit, Evict
from usher.core.engine import Engine
from usher.core.events import (
    CapacityChanged,
    Confirmed,
    Event,
    QueueChanged,
    Synced,
    UnitChanged,
    UnitFinished,
    UnitGone,
    UnitReady,
    UnitStopped,
)
from usher.core.model import PodSet, Queue, Settings, Unit
from usher.policies.registry import plugins

GIB = 1 << 30
SIZES = {
    "equal": ((1_000, GIB),) * 3,
    "three": ((1_000, GIB), (5_000, 5 * GIB), (20_000, 20 * GIB)),
    "askew": ((1_000, 4 * GIB), (4_000, 5 * GIB), (16_000, 40 * GIB)),
}
SIZES["timed"] = SIZES["three"]
LIMITS = 300
"""How many different maximum execution times the units of `timed` have."""
WEIGHTS = (70, 20, 10)
BATCH = 100
SLICES = 9
MEMORY_AT = (10_000, 100_000)


class Load:
    """Makes units, and keeps a full cluster turning over."""

    def __init__(self, queues: int, waiting: int, share: str, sizes: str) -> None:
        self.random = random.Random(1)
        self.queues = queues
        self.shapes = SIZES[sizes]
        self.timed = sizes == "timed"
        self.engine = Engine(Settings(), plugins(share=share))
        self.serial = 0
        self.now_ms = 0
        self.running: deque[str] = deque()
        self.admissions = 0
        self.evictions = 0
        self.last_s = 0.0
        per_queue = max(20, 4_000 // queues)
        capacity = {"cpu": queues * per_queue * 4_000, "memory": queues * per_queue * 4 * GIB}
        events: list[Event] = [CapacityChanged(capacity), Synced()]
        events += [QueueChanged(Queue(f"t{number}", "main")) for number in range(queues)]
        self.settle(events)
        mean = sum(weight * cpu for weight, (cpu, _) in zip(WEIGHTS, self.shapes, strict=True)) // sum(WEIGHTS)
        self.units = list(self.make(waiting + capacity["cpu"] // mean))
        for start in range(0, len(self.units), 5_000):
            self.settle([UnitChanged(unit) for unit in self.units[start : start + 5_000]])

    def make(self, count: int) -> Iterator[Unit]:
        for _ in range(count):
            self.serial += 1
            cpu, memory = self.random.choices(self.shapes, WEIGHTS)[0]
            pods = PodSet("main", 1, {"cpu": cpu, "memory": memory})
            namespace = f"t{self.random.randrange(self.queues)}"
            most_ms = 60_000 * self.random.randint(1, LIMITS) if self.timed else None
            name, made = f"j{self.serial}", self.serial
            yield Unit(namespace, name, (pods,), "main", max_execution_ms=most_ms, created_ms=made, seq=made)

    def step(self, events: list[Event]) -> list[Event]:
        """One call; what must be answered."""
        self.now_ms += 1
        answers: list[Event] = []
        begin = time.process_time()
        commands = self.engine.handle(events, self.now_ms)
        self.last_s = time.process_time() - begin
        for command in commands:
            if isinstance(command, Admit):
                self.admissions += 1
                self.running.append(command.key)
                answers.append(Confirmed(command.key, command.generation))
                answers.append(UnitReady(command.key))
            elif isinstance(command, Evict):
                self.evictions += 1
                answers.append(UnitStopped(command.key, command.generation))
        return answers

    def settle(self, events: list[Event]) -> None:
        while events := self.step(events):
            pass

    def turn_over(self, operations: int) -> float:
        """Seconds for so many admissions and completions."""
        done = 0
        pending: deque[Event] = deque()
        spent = 0.0
        while done < operations:
            batch: list[Event] = [pending.popleft() for _ in range(min(len(pending), BATCH // 2))]
            while len(batch) < BATCH and self.running:
                key = self.running.popleft()
                batch += [UnitFinished(key, True), UnitGone(key)]
                batch += [UnitChanged(unit) for unit in self.make(1)]
                done += 1
            before = self.admissions
            answers = self.step(batch)
            spent += self.last_s
            pending.extend(answers)
            done += self.admissions - before
        return spent / done

    def single(self, count: int) -> list[float]:
        """Latency of calls with one event each."""
        times: list[float] = []
        pending: deque[Event] = deque()
        turn = 0
        while len(times) < count:
            if pending:
                event = pending.popleft()
            else:
                turn += 1
                if turn % 2 and self.running:
                    key = self.running.popleft()
                    pending.append(UnitGone(key))
                    event = UnitFinished(key, True)
                else:
                    event = UnitChanged(next(self.make(1)))
            answers = self.step([event])
            times.append(self.last_s)
            pending.extend(answers)
        return sorted(times)


def memory_per_unit(queues: int, share: str) -> dict[str, int]:
    """Bytes per waiting unit beyond its decoded object, at several backlogs; what queues and running units cost by
    themselves is among them, and not in what each further unit costs."""
    load = Load(queues, 1_000, share, "equal")
    units = list(load.make(MEMORY_AT[-1]))
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    used: list[int] = []
    for start in range(0, len(units), 1_000):
        load.step([UnitChanged(unit) for unit in units[start : start + 1_000]])
        if start + 1_000 in MEMORY_AT:
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()
    found = {str(count): round(much / count) for count, much in zip(MEMORY_AT, used, strict=True)}
    return {**found, "each further": round((used[-1] - used[0]) / (MEMORY_AT[-1] - MEMORY_AT[0]))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", default="1000,10000,100000,1000000")
    parser.add_argument("--queues", default="30,1000")
    parser.add_argument("--share", default="drf")
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--sizes", default="equal,three,timed")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    origin = provenance()
    rows = []
    header = (
        "sizes",
        "queues",
        "waiting",
        "ops/s",
        "best",
        "µs/op",
        "p50 ms",
        "p99 ms",
        "max ms",
        "evicted",
        "yard ns",
    )
    print(("{:>9}" * len(header)).format(*header), flush=True)
    for sizes, queues, waiting in product(
        options.sizes.split(","), map(int, options.queues.split(",")), map(int, options.waiting.split(","))
    ):
        load = Load(queues, waiting, options.share, sizes)
        gc.collect()
        gc.freeze()
        before = load.evictions
        slices = sorted(load.turn_over(options.operations // SLICES) for _ in range(SLICES))
        times = load.single(2_000)
        gc.unfreeze()
        row = {
            "sizes": sizes,
            "queues": queues,
            "waiting": waiting,
            "operations_per_s": round(1 / slices[SLICES // 2]),
            "best_per_s": round(1 / slices[0]),
            "us_per_operation": round(slices[SLICES // 2] * 1e6, 1),
            "single_p50_ms": round(times[len(times) // 2] * 1e3, 3),
            "single_p99_ms": round(times[len(times) * 99 // 100] * 1e3, 3),
            "single_max_ms": round(times[-1] * 1e3, 3),
            "evictions": load.evictions - before,
            "yardstick_ns": round(yardstick()),
        }
        rows.append(row)
        print(("{:>9}" * len(row)).format(*row.values()), flush=True)
    memory = {queues: memory_per_unit(queues, options.share) for queues in map(int, options.queues.split(","))}
    for queues, found in memory.items():
        print(f"bytes per waiting unit beyond its decoded object, {queues} queues: {found}")
    if options.json:
        result = {
            "what": "what an admission or a completion costs, how long one event takes, and memory per waiting unit",
            "how": f"{options.operations} operations in batches of {BATCH} events, then 2000 calls with one event; "
            f"CPU time; share {options.share}; tracemalloc",
            "engine": "compiled" if engine.__file__.endswith(".so") else "Python",
            "provenance": origin,
            "rows": rows,
            "bytes_per_waiting_unit": memory,
        }
        print(f"recorded in {write(options.json, result)}")


if __name__ == "__main__":
    main()
