"""Benchmarks of the operator and its services; they print a table and keep JSON in out/bench.

    python -m tools.benchmarks [--quick] [--only PHASE,PHASE] [--scale 0.1]

A run of full scale also updates docs/explanation/performance.md, in the parts whose phases ran.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import time
from pathlib import Path

from tools.benchmarks import page, phases, report
from tools.benchmarks.operator import throughput
from tools.benchmarks.processes import ROOT
from tools.benchmarks.testbed import OPERATOR, RIVAL, control_plane
from tools.benchmarks.workloads import Workload

OUT = ROOT / "out/bench"
# A quick run leaves its last part out if that would end later than this.
QUICK_SECONDS = 100
QUICK = Workload(jobs=60, replicas=phases.FOUR.replicas)


async def quick(out: Path) -> str:
    """Sixty jobs of four pods, ours and the rival's by turns; one line."""
    until = time.monotonic() + QUICK_SECONDS
    async with control_plane(out / "logs/quick", quiet=True) as testbed, testbed.kubelet():
        order = throughput.turns(OPERATOR, RIVAL, rounds=3)
        runs = await throughput.compare(testbed, QUICK, order=order, until=until)
    _save(out / "quick.json", {"runs": list(map(dataclasses.asdict, runs))})
    return report.quick_line(runs)


def whole(out: Path, names: list[str], scale: float) -> str:
    """Run phases; phases not run keep their earlier results."""
    full = scale == 1.0
    path = out / ("results.json" if full else "trial.json")
    results = phases.load(path)
    results["machine"] = phases.machine()
    bench = phases.Bench(logs=out / "logs", scale=scale)
    asyncio.run(phases.run(bench, names, results, lambda: _save(path, results)))
    if full:
        is_whole = all(name in results for name in phases.PHASES)
        page.write(results, ROOT / "docs", is_whole=is_whole)
    return report.everything(results)


def _save(path: Path, results: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="one workload, one line, 2 minutes")
    parser.add_argument("--only", help=f"phases, with commas: {', '.join(phases.PHASES)}")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers, to try it out")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(phases.PHASES)
    if unknown := set(names) - set(phases.PHASES):
        parser.error(f"no such phase: {', '.join(sorted(unknown))}")
    if options.quick:
        print(asyncio.run(quick(OUT)))
    else:
        print(whole(OUT, names, options.scale))


if __name__ == "__main__":
    main()
