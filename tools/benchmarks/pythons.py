"""What a job costs the operator under one Python or another, by turns on one control plane.

    python -m tools.benchmarks.pythons NAME=COMMAND NAME=COMMAND ... [--jobs 60] [--rounds 3]

A COMMAND starts the operator, as `di-operator` does, and becomes its process (`exec`). Results
go to `out/bench/pythons.json` too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from tools.benchmarks.processes import ROOT
from tools.benchmarks.session import session
from tools.benchmarks.testbed import OPERATOR, Testbed, control_plane
from tools.benchmarks.throughput import CANDIDATE, measure
from tools.benchmarks.workloads import Workload

_REPLICAS = 4
OUT = ROOT / "out/bench"


class Cost(TypedDict):
    """Of one run: processor time of the operator a job in milliseconds, jobs a second, p50 from
    create to all pods and from the last ready one to Running in milliseconds, its peak memory in
    MiB, and what part of the machine others used meanwhile."""

    cpu_ms: float
    jobs_per_second: float
    create_to_pods_ms: float
    ready_to_running_ms: float
    peak_mib: float
    strangers: float


async def compare(
    testbed: Testbed, commands: Mapping[str, Sequence[str]], workload: Workload, rounds: int
) -> dict[str, list[Cost]]:
    """Run the workload under each, in turns whose order turns round each time."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    order = list(commands)
    for _ in range(rounds):
        for name in order:
            async with session(
                testbed, OPERATOR, replicas=workload.replicas, operator=commands[name]
            ) as trial:
                run = await measure(trial, workload)
            cost = Cost(
                cpu_ms=run.cpu_ms_per_job[CANDIDATE],
                jobs_per_second=run.jobs_per_second,
                create_to_pods_ms=run.create_to_pods_ms["p50"],
                ready_to_running_ms=run.ready_to_running_ms["p50"],
                peak_mib=run.peak_memory_mib,
                strangers=run.strangers,
            )
            costs[name].append(cost)
            print(f"{name}: {cost}", flush=True)
        order.reverse()
    return costs


def table(costs: Mapping[str, Sequence[Cost]]) -> str:
    """A row for each, with the ratio to the first."""
    medians = {
        name: statistics.median([each["cpu_ms"] for each in found]) for name, found in costs.items()
    }
    first = next(iter(medians.values()))
    rows = ["| | CPU ms a job | of the first | jobs/s | peak MiB |", "|---|---|---|---|---|"]
    for name, found in costs.items():
        each = ", ".join(f"{cost['cpu_ms']:.1f}" for cost in found)
        rate = statistics.median([cost["jobs_per_second"] for cost in found])
        peak = max(cost["peak_mib"] for cost in found)
        ratio = medians[name] / first
        rows.append(f"| {name} | {each} | {ratio:.2f} | {rate:.1f} | {peak:.0f} |")
    return "\n".join(rows)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("operator", nargs="+", metavar="NAME=COMMAND")
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    commands = {
        name: shlex.split(command)
        for name, _, command in (each.partition("=") for each in options.operator)
    }
    if not all(commands.values()):
        parser.error("each has the form NAME=COMMAND")
    workload = Workload(jobs=options.jobs, replicas=_REPLICAS)

    async def run(logs: Path) -> dict[str, list[Cost]]:
        async with control_plane(logs) as testbed, testbed.kubelet():
            return await compare(testbed, commands, workload, options.rounds)

    costs = asyncio.run(run(OUT / "logs/pythons"))
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "pythons.json").write_text(json.dumps(costs, indent=2) + "\n")
    print(table(costs))


if __name__ == "__main__":
    main()
