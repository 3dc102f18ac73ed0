"""A week of tenants coming and going, in virtual time: how near each share policy comes to exact DRF.

Usage: python bench/week.py [--seeds 1 2 3] [--json FILE] [--html FILE]

The week is examples/simulate/week.py. It is run under drf, koordinator, proportion and none; then under each without
room kept for units that were overtaken (reserveAfter=0s); and under drf with the same work in pieces of one CPU or one
GPU. The last two show what of the distance from exact DRF comes from that room, and from jobs that cannot be divided.
All numbers but the seconds are the same on every machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from provenance import ROOT, provenance, write

from usher.sim import records as r
from usher.sim.cluster import Limits
from usher.sim.manifests import Defaults, load
from usher.sim.options import settings_of
from usher.sim.outcome import Outcome
from usher.sim.report import html
from usher.sim.report.document import summary_of, tenant_of
from usher.sim.runs import run_all
from usher.sim.scenario import Scenario

UNTIL = Limits(until_ms=7 * 24 * 3_600_000)
RUNS = (
    ("drf", "", False),
    ("koordinator", "", False),
    ("proportion", "", False),
    ("none", "", False),
    ("drf", "reserveAfter=0s", False),
    ("koordinator", "reserveAfter=0s", False),
    ("proportion", "reserveAfter=0s", False),
    ("none", "reserveAfter=0s", False),
    ("drf", "", True),
)
"""Share policy, setting, whether in pieces."""
KEPT = ("units", "finished", "waiting", "evictions", "evictions_per_hour", "utilisation", "fairness", "wait_s")
SHARES = ("jain", "jain_exact", "drf_gap")


def example() -> ModuleType:
    """The generator of the week."""
    spec = importlib.util.spec_from_file_location("week_example", ROOT / "examples" / "simulate" / "week.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scenario(week: ModuleType, seed: int, small: bool) -> Scenario:
    """The week as manifests, read as `usher simulate` reads them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "week.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": week.manifests(seed, small)}))
        return load([str(path)], Defaults())


def lost(outcome: Outcome) -> float:
    """The part of all that jobs held (dominant share × time) that evictions made worthless."""
    records, offered = outcome.simulation.records, outcome.quotas[0].max
    last = {index: place for place, index in enumerate(records.spells_unit)}
    total = wasted = 0.0
    for place, index in enumerate(records.spells_unit):
        asks = [(name, s.count * q) for s in records.works[index].unit.pod_sets for name, q in s.request.items()]
        size = max(sum(q for other, q in asks if other == name) / offered[name] for name, _ in asks)
        held = size * (records.spells_to[place] - records.spells_from[place])
        kept = last[index] == place and (records.finished[index] != r.NEVER or records.running_since[index] != r.NEVER)
        total, wasted = total + held, wasted + (0.0 if kept else held)
    return wasted / total if total else 0.0


def row(outcome: Outcome, small: bool, seconds: float) -> dict[str, Any]:
    """One run in numbers."""
    summary = summary_of(outcome.summary, outcome.share, outcome.shares)
    tenants = [tenant_of(each, outcome.shares.tenants.get(each.name)) for each in outcome.tenants]
    return {
        "share": outcome.share,
        "set": dict(outcome.settings),
        "jobs": "in pieces" if small else "whole",
        **{key: summary[key] for key in (*KEPT, *SHARES)},
        "lost_to_evictions": round(lost(outcome), 4),
        "moments": len(outcome.shares.moments),
        "tenants": {
            each["name"]: {
                **each["dominant_share"],
                "evictions": each["evictions"],
                "wait_mean_s": each["wait_s"]["mean"],
            }
            for each in tenants
        },
        "seconds": round(seconds, 1),
    }


def shown(rows: list[dict[str, Any]]) -> str:
    """The runs beside each other."""
    lines = [f"{'':28}" + "".join(f"{name:>14}" for name in (*SHARES, "lost", "evicted/h", "wait mean", "used cpu"))]
    for each in rows:
        label = " ".join([each["share"], *(f"{k}={v}" for k, v in each["set"].items())])
        values = [f"{each[key]:.3f}" for key in (*SHARES, "lost_to_evictions")]
        values += [f"{each['evictions_per_hour']:.2f}", f"{each['wait_s']['mean'] / 3600:.1f}h"]
        values.append(f"{each['utilisation']['cpu']:.1%}")
        name = f"{label}{' in pieces' if each['jobs'] != 'whole' else ''}"
        lines.append(f"{name:28}" + "".join(f"{value:>14}" for value in values))
    return "\n".join(lines)


def main() -> None:
    """Run them all, print them beside each other, and record them if told where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="weeks; the page is of the first")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--html", type=Path, help="the four policies as a page")
    options = parser.parse_args()
    origin, week = provenance(), example()
    rows, outcomes = [], []
    for seed in options.seeds:
        weeks = {small: scenario(week, seed, small) for small in (False, True)}
        here = []
        for share, text, small in RUNS:
            began = time.process_time()
            outcome = run_all(weeks[small], [share], settings_of([text] if text else []), UNTIL)[0]
            here.append({"seed": seed, **row(outcome, small, time.process_time() - began)})
            outcomes += [outcome] if options.html and seed == options.seeds[0] and not text and not small else []
        print(f"week {seed}\n{shown(here)}", flush=True)
        rows += here
    if options.html:
        options.html.write_text(html.render(outcomes), encoding="utf-8")
    if options.json:
        result = {
            "what": "a simulated week of seven tenants: fairness against exact DRF, evictions, utilisation, by policy",
            "how": "examples/simulate/week.py through usher.sim; numbers as `usher simulate -o json` has them "
            "(docs/simulate.md); lost_to_evictions is dominant share × time of what evictions interrupted",
            "provenance": origin,
            "rows": rows,
        }
        print(f"recorded in {write(options.json, result)}")


if __name__ == "__main__":
    main()
