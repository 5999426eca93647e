"""How tenants fare with queues: completion times, Jain's index, room had back.

Two; four; and three that need different resources most.

    python -m tools.benchmarks.allocator.queues [--workloads 4] [--output FOLDER]

Runs recorded workloads whose jobs belong to tenants by turns, without queues and with them; prints
means over the workloads and draws the first one.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from di_simulator.application import load_applications
from di_simulator.fairness import jain_by_round, reclaim_seconds
from di_simulator.hardware import GPU, Group
from di_simulator.main import RECORDED
from di_simulator.plots import draw_queues
from di_simulator.results import Result
from di_simulator.simulation import Setting, run

NODES = 16
GPUS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Whose the jobs are, by turns, and what is set for each tenant."""

    tenants: Sequence[str]
    weights: Mapping[str, float]
    guarantees: Mapping[str, int] = field(default_factory=dict)
    quotas: Mapping[str, int] = field(default_factory=dict)
    room: Mapping[str, int] = field(default_factory=dict)
    """What each node has beside GPUs."""
    requests: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """What a replica of a tenant asks for beside its GPU."""

    @property
    def parts(self) -> dict[str, float]:
        """Return the dominant share of one replica, by tenant; empty if all request only GPUs."""
        return {
            tenant: max([1 / GPUS, *(amount / self.room[name] for name, amount in asked.items())])
            / NODES
            for tenant, asked in self.requests.items()
        }

    @property
    def queues(self) -> dict[str, dict[str, Any]]:
        """The argument of a policy."""
        found: dict[str, dict[str, Any]] = {n: {"weight": w} for n, w in self.weights.items()}
        for key, amounts in (("guarantee", self.guarantees), ("quota", self.quotas)):
            for name, gpus in amounts.items():
                found[name][key] = {GPU: gpus}
        return found


CASES = {
    "two": Case(
        tenants=("team-a", "team-b", "team-b"),
        weights={"team-a": 3, "team-b": 1},
        guarantees={"team-a": 32},
        quotas={"team-b": 48},
    ),
    "four": Case(
        tenants=(
            *("team-a",),
            *("team-b", "team-b"),
            *("team-c", "team-c", "team-c"),
            *("team-d", "team-d", "team-d", "team-d"),
        ),
        weights={"team-a": 1, "team-b": 1, "team-c": 1, "team-d": 1},
        guarantees={"team-a": 16, "team-b": 8},
        quotas={"team-d": 32},
    ),
    "three": Case(
        tenants=("team-a", "team-b", "team-c"),
        weights={"team-a": 1, "team-b": 1, "team-c": 1},
        # Of CPUs or memory two fit on a node, of GPUs four.
        room={"cpu": 64, "memory": 256},
        requests={
            "team-a": {"cpu": 4, "memory": 16},
            "team-b": {"cpu": 24, "memory": 16},
            "team-c": {"cpu": 4, "memory": 96},
        },
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, print, and write JSON and PNG."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=4, help="how many of load 1")
    parser.add_argument("--output", type=Path, default=Path("out/allocator"))
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    applications = load_applications(RECORDED / "traces")
    paths = sorted((RECORDED / "workloads").glob("*.csv"))[: options.workloads]
    found: list[dict[str, Any]] = []
    for name, case in CASES.items():
        for policy in ("goodput", "fit"):
            drawn: dict[str, Result] = {}
            for given in ({}, {"queues": case.queues}):
                settings = [
                    Setting(
                        workload=path,
                        policy=policy,
                        arguments=given,
                        groups=(Group(nodes=NODES, gpus=GPUS),),
                        tenants=case.tenants,
                        room=case.room,
                        requests=case.requests,
                    )
                    for path in paths
                ]
                results = [
                    run(each, applications, stopwatch=time.process_time) for each in settings
                ]
                title = f"{policy}, {'with' if given else 'without'} queues"
                drawn[title] = results[0]
                found.append({"tenants": name, "title": title} | _figures(results, case))
                print(found[-1], flush=True)
            path = options.output / f"queues-{name}-{policy}.png"
            draw_queues(drawn, case.weights, path, parts=case.parts)
    (options.output / "queues.json").write_text(json.dumps(found, indent=1) + "\n")


def _figures(results: Sequence[Result], case: Case) -> dict[str, Any]:
    """Means over the workloads; of what was had back, over all such jobs, and the longest."""
    index = [
        level
        for result in results
        for level in jain_by_round(result, case.weights, case.parts)
        if level is not None
    ]
    waits = [seconds for result in results for seconds in reclaim_seconds(result, case.guarantees)]
    return {
        **{
            name: round(mean(result.by_tenant[name] for result in results)) for name in case.weights
        },
        "all": round(mean(result.summary.average for result in results)),
        "jain": round(mean(index), 3),
        "reclaimed": len(waits),
        **(
            {"reclaim_mean": round(mean(waits)), "reclaim_most": round(max(waits))} if waits else {}
        ),
    }


if __name__ == "__main__":
    main()
